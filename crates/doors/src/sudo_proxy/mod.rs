//! The sudo-proxy door: one JSON line in, one out. A command pipeline runs once a person has agreed to exactly it.
//!
//! Invariant: nothing is shown, run or remembered that did not pass every gate; nothing runs without an approval of the
//! house for that very request; a request whose client has left does not run. An id is used once.
//!
//! It decides nothing and keeps nothing but its connections and the ids it has seen: requests, decisions and processes
//! are the house's.

pub mod characters;
pub mod fuzzing;
pub mod notice;

mod answer;
mod command;
mod connection;
mod dispatch;
mod door;
mod gates;
mod listen;
mod output;
mod replay;
mod request;
mod settings;
mod time;

pub use door::Door;
pub use door::Ended;
pub use door::Leaving;
pub use listen::serve;
pub use listen::serve_stream;
pub use settings::Settings;
pub use settings::Window;

/// The door's name in the house.
pub const NAME: &str = "sudo-proxy";

/// The names of what can be asked.
#[cfg(test)]
pub(crate) fn action_names() -> [&'static str; 3] {
    request::Action::ALL.map(request::Action::name)
}

/// The longest request line, its newline not counted.
pub const LINE_LIMIT: usize = (1 << 20) - 1;
