//! How much freed memory a process keeps for itself.
//!
//! A house waits most of the time: what a busy moment needed is given back after it. It changes nothing but that.

use crate::sys;

/// For a process of few threads that is to stay small: its threads share one heap, and large pieces go back at once.
/// Early, before there are threads.
pub fn stay_small() {
    sys::keep_memory_small();
}

/// Gives what is free back to the system, which takes a fraction of a millisecond: for a quiet moment.
pub fn give_back() {
    sys::give_back_memory();
}
