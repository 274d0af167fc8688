//! Nothing: the models are tests. They are a package of their own because millions of states are looked at, which takes
//! ten times as long without optimisation; see `[profile.dev.package.hostel-models]`.
