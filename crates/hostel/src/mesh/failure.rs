//! What can go wrong with a mesh verb, and which exit code says so.
//!
//! Invariant: called as `claudemesh` the exit code is the contract's (0 to 10); `hostel mesh` has 1 and 2 like every
//! other verb. The verbs of `daemon` have codes of their own, the same under both names: supervisors go by them.

use std::fmt;
use std::io;

use serde_json::Value;
use serde_json::json;

use crate::error::CommandError;
use crate::error::Kind;

/// The contract's exit codes. 1 (cancelled) is no failure: a person wanted it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Code {
    /// Not who one has to be.
    Auth = 2,
    /// The command line was wrong.
    Arguments = 3,
    /// Somebody cannot be reached.
    Network = 4,
    /// There is no such thing.
    NotFound = 5,
    /// There is such a thing already.
    Exists = 6,
    /// One may not.
    Denied = 7,
    /// Our own fault.
    Internal = 8,
    /// There is no such agent to launch.
    NoAgent = 9,
    /// A file or a stream.
    Io = 10,
}

/// Why a verb did not work, with what to do about it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: Code,
    /// A code of the verb's own.
    exit: Option<u8>,
    /// A stable word for programs.
    word: String,
    message: String,
    hints: Vec<String>,
    /// What `--json` prints instead of the error, on standard output.
    data: Option<Value>,
    /// Whoever read our output is gone; there is nobody to tell.
    quiet: bool,
}

impl Failure {
    pub(crate) fn new(code: Code, word: impl Into<String>, message: impl Into<String>) -> Self {
        Failure {
            code,
            exit: None,
            word: word.into(),
            message: message.into(),
            hints: Vec::new(),
            data: None,
            quiet: false,
        }
    }

    pub(crate) fn arguments(message: impl Into<String>) -> Self {
        Failure::new(Code::Arguments, "invalid_arguments", message)
    }

    pub(crate) fn network(message: impl Into<String>) -> Self {
        Failure::new(Code::Network, "network", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Failure::new(Code::NotFound, "not_found", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Failure::new(Code::Internal, "internal", message)
    }

    pub(crate) fn io(message: impl Into<String>) -> Self {
        Failure::new(Code::Io, "io", message)
    }

    /// The end of a `daemon` verb, with its own exit code.
    pub(crate) fn daemon(exit: u8, word: &str, message: impl Into<String>) -> Self {
        Failure { exit: Some(exit), ..Failure::new(Code::Internal, word, message) }
    }

    /// Adds what to do next.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// What `--json` prints for it.
    #[must_use]
    pub(crate) fn with_data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// The same, with an exit code of the verb's own.
    #[must_use]
    pub(crate) fn with_exit(mut self, exit: u8) -> Self {
        self.exit = Some(exit);
        self
    }

    /// The exit code of the personality.
    pub(crate) fn exit_code(&self) -> u8 {
        if self.quiet { 0 } else { self.exit.unwrap_or(self.code as u8) }
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The verb's own exit code, if it has one.
    pub(crate) fn own_exit(&self) -> Option<u8> {
        self.exit
    }

    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// For people: what went wrong, and below it what to do.
    pub(crate) fn text(&self) -> String {
        let mut text = self.message.clone();
        for hint in &self.hints {
            text.push_str("\n  ");
            text.push_str(hint);
        }
        text
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> Value {
        self.data
            .clone()
            .unwrap_or_else(|| json!({"ok": false, "error": self.word, "detail": self.message, "hints": self.hints}))
    }

    /// The answer of a daemon or a broker that refused: its word decides.
    pub(crate) fn refused(status: u16, answer: &Value) -> Self {
        let word = answer.get("error").and_then(Value::as_str).unwrap_or("internal").to_owned();
        let detail = answer.get("detail").and_then(Value::as_str).unwrap_or_default();
        let code = match (word.as_str(), status) {
            ("unauthorized" | "member_revoked", _) | (_, 401) => Code::Auth,
            ("broker_unavailable" | "daemon_busy" | "rate_limited" | "too_many_streams" | "degraded", _) => {
                Code::Network
            }
            ("idempotency_key_reused" | "exists", _) => Code::Exists,
            ("ambiguous_target" | "bad_query", _) => Code::Arguments,
            ("not_shared_with_you" | "forbidden" | "blocked" | "capability_disabled", _) | (_, 403) => Code::Denied,
            ("cannot_write" | "insufficient_storage" | "hash_mismatch", _) | (_, 507) => Code::Io,
            (_, 404) => Code::NotFound,
            (_, 409) => Code::Exists,
            (_, 400 | 413) => Code::Arguments,
            (_, 429 | 502 | 503 | 504) => Code::Network,
            _ => Code::Internal,
        };
        let message = if detail.is_empty() { word.replace('_', " ") } else { format!("{detail} ({word})") };
        let failure = Failure::new(code, word.clone(), message);
        match word.as_str() {
            "peer_not_found" => failure.hint("see who is there with `claudemesh peers --all`"),
            "ambiguous_target" => failure.hint("use the whole public key, see `claudemesh peers --all`"),
            "topic_not_found" => failure.hint("make it with `claudemesh subscribe TOPIC`"),
            "version_conflict" => failure.hint("read it again with `claudemesh state get KEY --json`, and name the version it has now"),
            "state_not_found" => failure.hint("see what there is with `claudemesh state list`"),
            "task_not_found" => failure.hint("see what there is with `claudemesh task list`"),
            "file_not_found" => failure.hint("see what there is with `claudemesh file list`"),
            "not_shared_with_you" => failure.hint("ask whoever shared it to share it with you as well"),
            "hash_mismatch" => failure.hint("nothing was written; ask for it to be shared again"),
            "message_too_large" => failure.hint("share it as a file with `claudemesh file share PATH`"),
            "idempotency_key_reused" => failure.hint("take another key for another message"),
            "name_taken" => failure.hint("choose another name; see who is there with `claudemesh peers --all`"),
            "owner_only" => failure.hint("do it on the owner's host; `claudemesh member list` says who owns the mesh"),
            "member_only" => failure.hint("this shell belongs to a session; do it from another one"),
            "daemon_busy" | "rate_limited" | "too_many_streams" => failure.hint("try again in a moment"),
            "not_requeueable" => failure.hint("only what waits or has failed can be sent again, see `claudemesh daemon outbox`"),
            "broker_unavailable" => failure.hint("see the state of the connection with `claudemesh daemon status`"),
            "topic_key_missing" | "key_not_sealed_for_member" | "stale_key_epoch" => {
                failure.hint("with a daemon it is sent as soon as the key is there: start one with `claudemesh daemon up`")
            }
            "member_revoked" => failure.hint("ask the mesh's owner for a new invite"),
            "insufficient_storage" | "degraded" => failure
                .hint("see what waits with `claudemesh daemon outbox`, make room with `claudemesh daemon outbox prune --confirm`"),
            _ => failure,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        for hint in &self.hints {
            write!(formatter, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// For what the rest of the program says: printing, paths, settings.
impl From<CommandError> for Failure {
    fn from(error: CommandError) -> Self {
        match error.kind() {
            Kind::ReaderGone => Failure { quiet: true, ..Failure::io(error.to_string()) },
            Kind::Usage => Failure::arguments(error.to_string()),
            Kind::Failure => Failure::io(error.to_string()),
        }
    }
}

/// Only for writing to our own standard streams.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        CommandError::from(error).into()
    }
}

/// As the rest of `hostel` says it.
impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        if failure.quiet {
            return CommandError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        let mut error = match failure.code {
            Code::Arguments => CommandError::usage(failure.message),
            _ => CommandError::failure(failure.message),
        };
        for hint in failure.hints {
            error = error.hint(rename_hint(&hint));
        }
        error
    }
}

/// Hints name the contract's verbs; `hostel` has them under `mesh`.
pub(super) fn rename_hint(hint: &str) -> String {
    hint.replace("`claudemesh broker ", "`hostel broker ").replace("`claudemesh ", "`hostel mesh ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_decides_about_the_exit_code() {
        for (status, word, code) in [
            (404, "peer_not_found", 5),
            (409, "ambiguous_target", 3),
            (409, "idempotency_key_reused", 6),
            (503, "broker_unavailable", 4),
            (503, "member_revoked", 2),
            (401, "unauthorized", 2),
            (403, "not_shared_with_you", 7),
            (507, "insufficient_storage", 10),
            (413, "message_too_large", 3),
            (500, "internal", 8),
            (418, "teapot", 8),
        ] {
            let failure = Failure::refused(status, &json!({"error": word}));
            assert_eq!(failure.exit_code(), code, "{word}");
        }
    }

    #[test]
    fn hostel_says_it_in_its_own_way() {
        let failure = Failure::refused(404, &json!({"error": "peer_not_found", "detail": "nobody is called `x`"}));
        assert_eq!(
            failure.text(),
            "nobody is called `x` (peer_not_found)\n  see who is there with `claudemesh peers --all`"
        );
        let error = CommandError::from(failure);
        assert_eq!(
            error.to_string(),
            "nobody is called `x` (peer_not_found); see who is there with `hostel mesh peers --all`"
        );
        assert_eq!(error.exit_code(), 1);
        assert_eq!(CommandError::from(Failure::arguments("x")).exit_code(), 2);
        assert_eq!(Failure::daemon(4, "clone", "x").exit_code(), 4);
    }
}
