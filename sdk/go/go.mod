module hostel/sdk/go

go 1.22
