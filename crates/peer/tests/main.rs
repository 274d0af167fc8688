//! Who is at the other end, tried with real processes that do not want to be recognised.

mod helper;
mod recycled;
mod speed;
mod tcp;
mod unix;
