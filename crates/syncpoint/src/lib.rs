//! Sync points: named moments at which something is on disk and whoever asked for it has not been told yet.
//!
//! A test that sets `HOSTEL_SYNC_POINTS` to the path of a unix socket hears of every point that any process of the program
//! reaches, and can hold or kill the process there. Without the variable a point costs one look at an atomic. Without
//! debug assertions, as in release builds, a point has no size, no name and no code.
//!
//! The list in [`points`] is complete. `tests/faults/points` kills the program at each point of the list, and fails if a
//! point is added that it does not kill at.

#![forbid(unsafe_code)]

pub mod points;

#[cfg(debug_assertions)]
mod reach;

use std::process::Command;

/// The environment variable with the path of the socket that hears of every point.
pub const VARIABLE: &str = "HOSTEL_SYNC_POINTS";

/// A named moment between a write and its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct SyncPoint {
    #[cfg(debug_assertions)]
    name: Option<&'static str>,
}

#[cfg(not(debug_assertions))]
const _: () = assert!(size_of::<SyncPoint>() == 0, "a release build carries no points");

impl SyncPoint {
    /// For writes that nobody is told of: they remove what nobody may ask for any more, give room back, or bring an index
    /// up to date. A kill after them is a kill at a random time.
    pub const NONE: Self = Self {
        #[cfg(debug_assertions)]
        name: None,
    };

    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "a release build has no names"))]
    const fn new(name: &'static str) -> Self {
        Self {
            #[cfg(debug_assertions)]
            name: Some(name),
        }
    }

    /// Tells a listening test that the write of this point is done, and waits until the test lets this thread go on.
    /// Blocks the thread: nothing behind the point may happen before the test says so.
    #[inline]
    pub fn reach(self) {
        #[cfg(debug_assertions)]
        if let Some(name) = self.name {
            reach::tell(name);
        }
    }

    /// Reaches the point if the write succeeded.
    #[inline]
    pub fn reach_if_ok<T, E>(self, written: Result<T, E>) -> Result<T, E> {
        if written.is_ok() {
            self.reach();
        }
        written
    }
}

/// Passes the variable on to a process of this program that is otherwise started with an empty environment.
#[inline]
pub fn pass_on(command: &mut Command) {
    #[cfg(debug_assertions)]
    if let Some(path) = std::env::var_os(VARIABLE) {
        command.env(VARIABLE, path);
    }
    #[cfg(not(debug_assertions))]
    let _ = command;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::points;

    #[test]
    fn names_are_unique_and_dotted() {
        let mut names = BTreeSet::new();
        for (name, meaning) in points::ALL {
            assert!(names.insert(*name), "{name} is in the list twice");
            assert!(name.split('.').count() == 3, "{name} is not component.subject.event");
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || b".-".contains(&byte)), "{name}");
            assert!(meaning.trim().ends_with('.'), "{name} does not say what is written: {meaning}");
        }
        assert!(!names.is_empty());
    }

    #[test]
    fn a_point_is_free_without_a_listener() {
        points::TURN_QUEUED.reach();
        super::SyncPoint::NONE.reach();
        assert_eq!(points::TURN_QUEUED.reach_if_ok(Err::<(), i32>(3)), Err(3));
        let size = size_of::<super::SyncPoint>();
        assert_eq!(size == 0, cfg!(not(debug_assertions)), "{size} bytes");
    }
}
