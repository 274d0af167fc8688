//! A model of approvals and of what follows from them, small enough to look at every state it can reach.
//!
//! The world has two requests with ids of their own, up to two connections for the first of them (the second repeats
//! the id, with the same bytes or with others), two people who decide, a daemon that may die between any two of its
//! steps and come back with other rules, and a keeper that may die as well. A request is an agent's question, a plain
//! command or a privileged one. Time is left out: what a clock may do (expiry, the end of the wait for a client that
//! was cut off) may happen at any moment at which it could. So are settings: which rule is in force and whether the
//! daemon is eligible for the session grant is open whenever it is asked, which is more than a daemon can do.
//!
//! Proved of every reachable state and step:
//! - nothing runs without a decision for that very request, by somebody who may decide it;
//! - nothing runs twice, also not for an id that is sent again, after a restart, or on another keeper;
//! - a request is settled once, and of those who race to decide it at most one is told that it was them;
//! - nothing starts after it was withdrawn, refused, expired, or noted as over;
//! - a privileged request runs by a person's decision alone, never by a rule for others or a grant;
//! - the session grant needs both of its barriers and ends with the daemon; a counted grant is used as often as it says;
//! - a restart approves nothing, and nothing stays pending or running that nobody waits for;
//! - with the keeper goes the key that proves what is on disk: what was pending is asked again, and no grant is left;
//! - a client that is told it ran, was refused or did not run is told the truth.
//!
//! Not proved here: that the program does what the model does (the property tests and the fault tests compare them),
//! that what is shown is what runs, who counts as the requester's own tree, and anything about how long something takes.

pub mod allowed;
pub mod faults;
pub mod flaws;
mod possible;
mod requests;
pub mod steps;
pub mod world;
