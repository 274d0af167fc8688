//! Command pipelines that somebody approved: what they are, exactly, and running them once.
//!
//! Invariant: what runs is what was shown (words, files, environment, place), it runs at most once whatever dies in
//! between, and it leaves nothing running behind without saying so.
//!
//! It decides nothing: whether a pipeline may run is the business of [`crate::approvals`].

mod account;
mod arguments;
mod conduct;
mod digests;
mod elf;
mod interpreters;
mod outcome;
mod output;
mod password;
mod plan;
mod resolve;
mod run;
mod verify;
mod wrap;
pub(crate) mod writers;

pub(crate) use account::{is_home_of_root, is_known_home};
pub use arguments::NamedFile;
pub use outcome::{End, Outcome, StageEnd};
pub use output::Output;
pub use password::{Password, PasswordDesk, PasswordWanted};
pub use plan::{
    Interpreter, LibraryPath, MOST_STAGES, Pipeline, PlanRequest, Privilege, Resolved, Stage, hex_of, plan,
};
pub use resolve::{EXECUTION_PATH, resolve};
pub use run::{PipelineLimits, Pipelines, Run, RunError};
pub use writers::Writers;
