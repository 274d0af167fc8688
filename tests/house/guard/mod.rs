//! The guard around agents, judged by effect: what a guarded agent tries against the house and against other programs of
//! its user, what it can still do, and what a house says and does where there is no guard.
//!
//! The agent is `fakecli`, whose prompt `tool COMMAND` really runs a command. Run by root, the tests use another user.

mod attacks;
mod escapes;
mod grants;
mod inherit;
mod launcher;
mod missing;
mod place;
mod restart;
mod work;
