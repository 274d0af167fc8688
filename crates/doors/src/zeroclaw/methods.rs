//! The methods there are, and the order of their fields.
//!
//! Invariant: one table. What is not in it does not exist, before and after `initialize`.

/// A method of the contract, or one of ours.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// Its fields in order. A method without fields ignores `params` altogether.
    pub(crate) fields: &'static [&'static str],
    /// Served on our own socket only.
    pub(crate) native: bool,
}

const fn method(name: &'static str, fields: &'static [&'static str]) -> Method {
    Method { name, fields, native: false }
}

const fn native(name: &'static str, fields: &'static [&'static str]) -> Method {
    Method { name, fields, native: true }
}

/// All of them.
pub(crate) const METHODS: &[Method] = &[
    method("initialize", &["protocol_version", "tui_id", "tui_sig", "env", "clientCapabilities", "auth_token"]),
    method("status", &[]),
    method("health", &[]),
    method("tui/list", &[]),
    method(
        "session/new",
        &[
            "agent_alias",
            "cwd",
            "session_id",
            "chat_mode",
            "exclude_memory",
            "tui_id",
            "keep_siblings",
            "mode",
            "model",
            "hosting",
            "name",
            "mesh",
        ],
    ),
    method("session/prompt", &["session_id", "prompt", "attachments"]),
    method("session/send", &["session_id", "prompt", "attachments"]),
    method("session/cancel", &["session_id"]),
    method("session/interrupt", &["session_id"]),
    method("session/close", &["session_id"]),
    method("session/kill", &["session_id"]),
    method("session/delete", &["session_id"]),
    method("session/attach", &["session_id", "since_seq", "follow"]),
    method("session/detach", &["session_id"]),
    method("session/approve", &["session_id", "request_id", "decision", "replacement", "answers"]),
    method("session/configure", &["session_id", "overrides", "model", "mode", "name", "mesh", "passphrase"]),
    method("session/list", &["query", "limit", "all"]),
    method("session/messages", &["session_id", "limit", "before_index"]),
    method("session/state", &["session_id"]),
    method("session/git_branch", &["session_id"]),
    method("file/attach", &["session_id", "files"]),
    method("fs/list_dir", &["path", "show_hidden"]),
    method("agents/list", &[]),
    method("agents/status", &[]),
    method("logs/subscribe", &[]),
    method("logs/query", &["since_ts", "until_ts", "until_line_offset", "severity_min", "q", "limit"]),
    method("config/sections", &[]),
    method("config/templates", &[]),
    native("session/export", &["session_id", "format", "after_seq"]),
];

/// The method of that name, if it is served there.
pub(crate) fn named(name: &str, on_native: bool) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name && (on_native || !method.native))
}

/// Every name that is served there.
pub(crate) fn names(on_native: bool) -> impl Iterator<Item = &'static str> {
    METHODS.iter().filter(move |method| on_native || !method.native).map(|method| method.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_ours() {
        assert!(named("session/prompt", false).is_some() && named("session/prompt", true).is_some());
        assert!(named("session/export", false).is_none() && named("session/export", true).is_some());
        assert!(named("session/updat", true).is_none());
        let mut all: Vec<&str> = names(true).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), METHODS.len());
    }
}
