//! What the fuzz targets share: second opinions to compare with, and places where nothing may leak out of.
//!
//! Invariant: a helper panics exactly where the code under test broke a promise; it never panics because of its input.

pub mod agents;
pub mod broker;
pub mod events;
pub mod fields;
pub mod journal;
pub mod json;
pub mod mesh;
pub mod messages;
pub mod sandbox;
pub mod tarball;
