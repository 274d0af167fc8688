//! Processes inside the house do at the doors what the table in `docs/insiders.md` allows them, and nothing else.
//!
//! Attacks are judged by their effect: what belongs to others is as it was before. The same calls work for the owner of
//! the house, and what the table allows works for a process inside.

mod allowed;
mod attempts;
mod findings;
mod home;
mod mcp;
mod mesh;
mod modes;
mod ownership;
mod records;
mod refused;
mod restart;
