//! What the consent scenarios are made of: a sudo-proxy on a terminal of its own, and its clients.

pub(crate) mod client;
pub(crate) mod proxy;
pub(crate) mod terminal;
