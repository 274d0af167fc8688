//! The one error of every command: what kind it is, what went wrong, what to do next.
//!
//! Invariant: the exit code follows from the kind alone (usage 2, failure 1, reader gone 0).
//!
//! Library errors are turned into this type at the edge; nothing below this crate knows it.

use std::fmt;
use std::io;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::code;
use hostel_peer::server;
use serde_json::json;

/// What an error means for the exit code.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The command line or the configuration was wrong; nothing was attempted.
    Usage,
    /// The command was understood and did not work.
    Failure,
    /// Whoever read our output went away; there is nobody left to tell.
    ReaderGone,
}

/// An error with what to do about it.
#[derive(Clone, Debug)]
pub(crate) struct CommandError {
    kind: Kind,
    message: String,
    hints: Vec<String>,
}

impl CommandError {
    /// The caller asked for something that cannot be asked.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CommandError { kind: Kind::Usage, message: message.into(), hints: Vec::new() }
    }

    /// The command could not be carried out.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        CommandError { kind: Kind::Failure, message: message.into(), hints: Vec::new() }
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// The kind, from which the exit code follows.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// The exit code for this error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Usage => 2,
            Kind::Failure => 1,
            Kind::ReaderGone => 0,
        }
    }

    /// Says why this process may look like one inside a house, if it does and does not know it.
    pub(crate) fn hint_if_marked(self) -> Self {
        match server::this_process() {
            Ok(()) => self,
            Err(inside) => self.hint(format!("{inside}: {}", inside.advice())),
        }
    }

    /// The error as data, for `--json`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let kind = match self.kind {
            Kind::Usage => "usage",
            Kind::Failure => "failure",
            Kind::ReaderGone => "reader_gone",
        };
        json!({"error": {"kind": kind, "message": self.message, "hints": self.hints}})
    }
}

/// One line: what was wrong, then what to do next.
impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        for hint in &self.hints {
            write!(formatter, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for CommandError {}

/// Only for writing to our own standard streams: a closed reader ends the command quietly.
impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return CommandError {
                kind: Kind::ReaderGone,
                message: "the reader of our output went away".to_owned(),
                hints: Vec::new(),
            };
        }
        CommandError::failure(error.to_string())
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        match &error {
            ClientError::Connect { path, source }
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                CommandError::failure(format!("no house is up, nobody answers on `{}`", path.display()))
                    .hint("start it with `hostel up`")
            }
            ClientError::Connect { .. } => {
                CommandError::failure(error.to_string()).hint("look for the reason with `hostel doctor`")
            }
            ClientError::NotTheDaemon { found, .. } | ClientError::Doubtful(found) => {
                CommandError::failure(error.to_string()).hint(found.advice())
            }
            ClientError::Lost(_) => {
                CommandError::failure(error.to_string()).hint("see whether it still runs with `hostel doctor`")
            }
            ClientError::Reply { code: code::LIMIT, .. } => CommandError::failure(error.to_string())
                .hint("try again later, or raise the limit (`hostel config show`)"),
            ClientError::Reply { .. } => CommandError::failure(error.to_string()).hint_if_marked(),
            ClientError::Protocol(_) => CommandError::failure(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_and_what_next_on_one_line() {
        let error = CommandError::failure("no process matches `x`").hint("list them with `hostel ps -a`");
        assert_eq!(error.to_string(), "no process matches `x`; list them with `hostel ps -a`");
        assert_eq!(error.exit_code(), 1);
        assert_eq!(CommandError::usage("x").exit_code(), 2);
    }

    #[test]
    fn closed_reader_is_no_failure() {
        let error = CommandError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.kind(), Kind::ReaderGone);
        assert_eq!(error.exit_code(), 0);
    }
}
