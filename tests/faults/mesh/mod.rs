//! The mesh under faults: daemons and the broker killed while messages are on their way, and what the broker, who was
//! sent away, and who has the wrong key can read.

mod callers;
mod check;
mod field;
mod line;
mod needles;
mod privacy;
mod storm;
mod unreadable;
