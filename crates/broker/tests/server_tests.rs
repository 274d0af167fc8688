//! A broker over real sockets, and small daemons that speak its protocol.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod server;
