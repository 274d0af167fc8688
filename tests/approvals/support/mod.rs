//! What the tests of the people's side of consent share: a house that is up, programs on terminals, a screen to read.

#![allow(dead_code)] // each test file uses its own part

pub(crate) mod fake;
pub(crate) mod house;
pub(crate) mod screen;
pub(crate) mod terminal;
