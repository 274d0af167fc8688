//! The guard around agents: a process takes things away from itself and then becomes the agent.
//!
//! The guard has two layers. The *view* is a mount namespace in which the house, the mesh keys and other people's control
//! sockets do not exist. The *scopes* are a Landlock domain: signals, abstract sockets and tracing stay among the processes
//! of one guard. Every process that a guarded process starts is in the same guard, and none can leave it.
//!
//! [`Guard`] is what the settings ask for, [`Plan`] is what the launcher does for one process, [`launcher`] does it, and
//! [`Guards`] is what a house knows: what it hides, and which layers this machine allows, found out by trying.
//!
//! Guarantees: a launcher enforces every layer of its plan or starts nothing. Combining two guards ([`Guard::at_least`])
//! never gives more rights than either has.
//!
//! This crate does not know sessions or doors, takes from the keeper only its filters of system calls, and has no threads
//! of its own.

#![deny(unsafe_code)]

mod guards;
mod held;
mod known;
pub mod launcher;
mod layers;
mod nested;
mod plan;
mod probe;
mod scopes;
mod setting;
mod sys;
mod variables;
mod view;

pub use guards::{ClosedPlaces, Confinement, GuardRefusal, GuardStatus, Guards, Request};
pub use held::{Identity, Pinned};
pub use known::{Names, is_grant};
pub use layers::{Availability, Layers};
pub use plan::{HouseView, Plan, Shown};
pub use setting::{Guard, OwnPrograms, Setting};
