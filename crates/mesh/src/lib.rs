//! The daemon of one mesh: who it is, what it owes and has received, and its link to the broker.
//!
//! The rooms: `home` and `enrol` (what is kept on the host, and how a host joins), `outbox` and `inbox` (what was
//! promised and what came, each in a database of its own), `events` (what happened, for who listens), `link` (the
//! connection to the broker), `topics`, `sessions`, `files`, and `mesh`, the one value that doors and commands use.
//!
//! Invariant: what was accepted is sent until the broker has it or its time is over; what came is stored once. Nothing
//! here knows HTTP servers or terminals, and the broker's code is not known here at all.

#![forbid(unsafe_code)]

mod authors;
pub mod cold;
pub mod disk;
pub mod enrol;
pub mod events;
mod files;
pub mod home;
pub mod hooks;
pub mod inbox;
mod keep;
mod keyring;
pub mod link;
pub mod log;
mod mesh;
mod metrics;
pub mod outbox;
pub mod recover;
mod resolve;
pub mod retention;
mod roster;
pub mod schema;
mod sessions;
mod shared;
mod time;
mod topics;

pub use files::place::FilePlace;
pub use keyring::{AtStep, KeyOptions, Step};
pub use mesh::{
    Caller, Ending, Fetched, FileItem, Health, InboxItem, InboxPage, InboxRequest, InviteRequest, Invited,
    MemberAction, MemberItem, Mesh, MeshOptions, OpenError, OutboxItem, Peer, PostRequest, ProfileApplied,
    ProfileChange, Refusal, RegisterRequest, Registered, ReloadError, Requeued, Rotated, SendRequest, Sent,
    SessionItem, SessionRef, ShareRequest, Shared, State, Subscribed, Topic, Version,
};
pub use metrics::Metrics;
pub use shared::{
    MemberRef, NewTask, StateChange, StateItem, StateList, StatePage, StateWritten, TaskItem, TaskPage, TaskQuery,
    TaskStatus, TaskStep, TaskStepRequest, TaskStepped,
};
