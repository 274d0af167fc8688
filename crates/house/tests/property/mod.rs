//! What the property tests of approvals are made of: the real house with a small door of its own, and the states in
//! which the model says it may be.

pub(crate) mod daemon;
pub(crate) mod visit;
