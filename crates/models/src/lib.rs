//! Models that are explored in every state they can reach, and what explores them; for tests alone.
//!
//! They are a package of their own because millions of states are looked at, which takes ten times as long without
//! optimisation; see `[profile.dev.package.hostel-models]`. The models' own tests are in `tests`; the house is compared
//! with [`approvals`] by its property tests.

#![allow(missing_docs, reason = "the names of states and steps say what they are")]

pub mod approvals;
pub mod explore;
pub mod insider;
