//! One layer of settings as TOML: which keys there are, and where in the text a mistake is.
//!
//! Invariant: every key is optional and every unknown key is refused. The only names that are free are those of
//! agents.

use std::collections::BTreeMap;

use hostel_agents::Kind;
use hostel_agents::Mode;
use hostel_guard::Setting;
use serde::Deserialize;
use toml::Spanned;

use super::consent;
use super::guard;
use super::mesh;
use super::values::Addresses;
use super::values::Host;
use super::values::OnFull;
use super::values::OneOrMany;
use super::values::Percent;
use super::values::Policy;
use super::values::Reattach;
use super::values::Size;
use super::values::Time;
use super::values::Users;

/// A mistake in a layer.
#[derive(Debug)]
pub(super) struct Problem {
    /// Counted from 1.
    pub(super) line: usize,
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Layer {
    pub(super) doors: Doors,
    pub(super) sessions: Sessions,
    pub(super) agents: BTreeMap<String, Spanned<Agent>>,
    pub(super) approvals: consent::Approvals,
    pub(super) mesh: mesh::Mesh,
    pub(super) broker: mesh::Broker,
    pub(super) guard: guard::Guard,
    pub(super) journal: Journal,
    pub(super) limits: Limits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Doors {
    pub(super) claustrum: Claustrum,
    pub(super) codecast: Codecast,
    pub(super) zeroclaw: Zeroclaw,
    #[serde(rename = "sudo-proxy")]
    pub(super) sudo_proxy: consent::SudoProxy,
    pub(super) mcp: consent::Mcp,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Claustrum {
    pub(super) enabled: Option<bool>,
    pub(super) listen: Option<OneOrMany>,
    pub(super) reported_version: Option<String>,
    pub(super) shutdown_needs_auth: Option<bool>,
    pub(super) reattach: Option<Reattach>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Codecast {
    pub(super) enabled: Option<bool>,
    pub(super) listen: Option<Addresses>,
    pub(super) reported_version: Option<String>,
    pub(super) tls_cert: Option<String>,
    pub(super) tls_key: Option<String>,
    pub(super) tokens_file: Option<String>,
    pub(super) mode: Option<Mode>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Zeroclaw {
    pub(super) enabled: Option<bool>,
    pub(super) listen: Option<OneOrMany>,
    pub(super) reported_version: Option<String>,
    pub(super) session_limit: Option<usize>,
    pub(super) approval_wait: Option<Time>,
    pub(super) wss_enabled: Option<bool>,
    pub(super) wss_bind: Option<Host>,
    pub(super) wss_port: Option<u16>,
    pub(super) wss_cert: Option<String>,
    pub(super) wss_key: Option<String>,
    pub(super) wss_token_file: Option<String>,
    pub(super) wss_proxy_users: Option<Users>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Sessions {
    pub(super) queue: Option<usize>,
    pub(super) warm: Option<usize>,
    pub(super) idle: Option<Time>,
    pub(super) turn_limit: Option<Time>,
    pub(super) stop_grace: Option<Time>,
    pub(super) line_limit: Option<Size>,
    pub(super) prompt_limit: Option<Size>,
    pub(super) keep_archived: Option<Time>,
    pub(super) approval_wait: Option<Time>,
    pub(super) mesh: Option<Policy>,
}

/// An agent; its name is the key it stands under.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Agent {
    pub(super) kind: Option<Kind>,
    pub(super) command: Option<OneOrMany>,
    pub(super) env: Option<BTreeMap<String, String>>,
    pub(super) model: Option<String>,
    pub(super) mode: Option<Mode>,
    pub(super) cwd: Option<String>,
    pub(super) memory: Option<Size>,
    pub(super) cpu: Option<Percent>,
    pub(super) guard: Option<Setting>,
    pub(super) grant: Option<OneOrMany>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Journal {
    pub(super) dir: Option<String>,
    pub(super) quota: Option<Size>,
    pub(super) per_process_quota: Option<Size>,
    pub(super) on_full: Option<OnFull>,
    pub(super) floor: Option<Size>,
    pub(super) keep_count: Option<u64>,
    pub(super) keep_age: Option<Time>,
    pub(super) keep_bytes: Option<Size>,
    pub(super) age_delay: Option<Time>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Limits {
    pub(super) connections: Option<usize>,
    pub(super) reconnect: Option<Time>,
    pub(super) start: Option<Time>,
    pub(super) shutdown: Option<Time>,
    pub(super) log: Option<Size>,
}

impl Layer {
    /// Reads a document; the first mistake ends it.
    pub(super) fn read(text: &str) -> Result<Self, Problem> {
        toml::from_str(text).map_err(|error| Problem {
            line: line_at(text, error.span().map_or(0, |span| span.start)),
            message: reword(error.message()),
        })
    }
}

/// The line a position in a text is on, counted from 1.
pub(super) fn line_at(text: &str, position: usize) -> usize {
    let before = text.get(..position.min(text.len())).unwrap_or(text);
    before.matches('\n').count() + 1
}

/// The reader's own words, in ours, on one line.
fn reword(message: &str) -> String {
    let message = message.trim().replace('\n', ", ");
    if let Some((name, known)) = refusal(&message, "unknown field ") {
        return format!("unknown key {name}, the keys here are {known}");
    }
    if let Some((value, known)) = refusal(&message, "unknown variant ") {
        return format!("{value} is not one of {}", known.replace('`', "\""));
    }
    message
}

/// What was refused, and what would have been taken instead.
fn refusal<'a>(message: &'a str, opening: &str) -> Option<(&'a str, &'a str)> {
    let rest = message.strip_prefix(opening)?;
    rest.split_once(", expected one of ").or_else(|| rest.split_once(", expected "))
}
