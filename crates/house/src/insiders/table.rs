//! What processes inside the house may do at each door: one table, which every door asks and the documents show.
//!
//! Invariant: a method that is not in the table is denied. The table decides about processes inside the house only: what
//! their owner may do is not its business.
//!
//! It is data. The tests of the doors compare it with the methods there are, `docs/insiders.md` is written from it.

use std::fmt;

/// A way into the house.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Door {
    /// Our own socket. It also serves the methods of the zeroclaw door.
    Native,
    /// The zeroclaw door.
    Zeroclaw,
    /// The claustrum door.
    Claustrum,
    /// The codecast door.
    Codecast,
    /// The tools of the MCP door.
    Mcp,
    /// The sudo-proxy door.
    SudoProxy,
    /// The door of a mesh daemon.
    Claudemesh,
}

impl Door {
    /// Every door, in the order of the documents.
    pub const ALL: [Door; 7] =
        [Door::Native, Door::Zeroclaw, Door::Claustrum, Door::Codecast, Door::Mcp, Door::SudoProxy, Door::Claudemesh];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Door::Native => "native",
            Door::Zeroclaw => "zeroclaw",
            Door::Claustrum => "claustrum",
            Door::Codecast => "codecast",
            Door::Mcp => "mcp",
            Door::SudoProxy => "sudo-proxy",
            Door::Claudemesh => "claudemesh",
        }
    }
}

impl fmt::Display for Door {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What a process inside the house may do with a method.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// All of it.
    Allowed,
    /// What concerns things of its own.
    OwnOnly(Own),
    /// Nothing. The text says how its owner does it from outside the house.
    Denied(&'static str),
}

/// Things of a process's own. "Its origin" is the session or hosted command that the process descends from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Own {
    /// Processes that were started from its origin.
    Started,
    /// The same, and the process it runs in.
    Seen,
    /// A list of those.
    SeenList,
    /// A new process, under a name that is not another one's.
    Name,
    /// Its own session and sessions that were made from it.
    Session,
    /// A list of those.
    SessionList,
    /// Sessions that were made from its origin.
    Made,
    /// A new session, with no more rights than its own has.
    NewSession,
    /// Sessions it may put prompts to.
    Prompted,
    /// The same, and files whose content it sends.
    Content,
    /// Its own session and sessions made from it, without raising a mode or changing what becomes of messages.
    Configured,
    /// Requests of its own session.
    Request,
    /// The mailbox and the voice of its own session in a mesh, with that session's token.
    Mailbox,
}

impl Own {
    /// What it covers, as it is told to whoever is refused, and documented.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Own::Started => "processes that were started from its own session or command",
            Own::Seen | Own::SeenList => "its own process and those that were started from its own session or command",
            Own::Name => "new processes, under names that no process of others has",
            Own::Session | Own::SessionList => "its own session and sessions that were made from it",
            Own::Made => "sessions that were made from its own session or command",
            Own::NewSession => {
                "sessions in at most its own session's mode and mesh policy (`ask` and `off` where it has none)"
            }
            Own::Prompted => "its own session, sessions that were made from it, and sessions whose mesh policy is `on`",
            Own::Content => "files whose content it sends, to sessions it may put prompts to",
            Own::Configured => {
                "its own session and sessions that were made from it, without raising a mode or changing the mesh policy"
            }
            Own::Request => "requests of its own session",
            Own::Mailbox => "its own session in the mesh, with that session's token",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The door.
    pub door: Door,
    /// The method as the door's contract writes it.
    pub method: &'static str,
    /// What a process inside the house may do with it.
    pub rule: Rule,
}

const STARTED: Rule = Rule::OwnOnly(Own::Started);
const SEEN: Rule = Rule::OwnOnly(Own::Seen);
const NAME: Rule = Rule::OwnOnly(Own::Name);
const SESSION: Rule = Rule::OwnOnly(Own::Session);
const SESSION_LIST: Rule = Rule::OwnOnly(Own::SessionList);
const MADE: Rule = Rule::OwnOnly(Own::Made);
const NEW_SESSION: Rule = Rule::OwnOnly(Own::NewSession);
const PROMPTED: Rule = Rule::OwnOnly(Own::Prompted);
const CONFIGURED: Rule = Rule::OwnOnly(Own::Configured);
const REQUEST: Rule = Rule::OwnOnly(Own::Request);
const MAILBOX: Rule = Rule::OwnOnly(Own::Mailbox);
const DECIDE: Rule = Rule::Denied("`hostel approvals`");
const APPROVER: Rule = Rule::Denied("`hostel approver`");
const AUDIT: Rule = Rule::Denied("`hostel audit`");
const LOGS: Rule = Rule::Denied("the daemon's log file");
const FILES: Rule = Rule::Denied("a client outside the house; a process inside uses the file system itself");
const GIT: Rule = Rule::Denied("a client outside the house; a process inside runs git itself");
const MEMBERS: Rule = Rule::Denied("`hostel mesh member`");
const INVITES: Rule = Rule::Denied("`hostel mesh invite`");
const GRANTS: Rule = Rule::Denied("`hostel mesh peer`");
const OUTBOX: Rule = Rule::Denied("`hostel mesh daemon outbox`");
const DAEMON: Rule = Rule::Denied("`hostel mesh daemon`");

macro_rules! table {
    ($($door:ident { $($method:literal => $rule:expr,)+ })+) => {
        &[$($(Entry { door: Door::$door, method: $method, rule: $rule },)+)+]
    };
}

/// The table. A method that is not here is denied.
pub const TABLE: &[Entry] = table! {
    Native {
        "process/spawn" => NAME,
        "process/list" => Rule::OwnOnly(Own::SeenList),
        "process/tree" => SEEN,
        "process/strays" => Rule::Denied("`hostel ps --tree`"),
        "process/attach" => SEEN,
        "process/detach" => Rule::Allowed,
        "process/stdin" => STARTED,
        "process/close_stdin" => STARTED,
        "process/kill" => STARTED,
        "journal/usage" => Rule::Denied("`hostel df`"),
        "journal/gc" => Rule::Denied("`hostel gc`"),
        "house/status" => Rule::Allowed,
        "house/down" => Rule::Denied("`hostel down`"),
        "keeper/upgrade" => Rule::Denied("`hostel keeper upgrade`"),
        "approval/ask" => Rule::Allowed,
        "approval/list" => REQUEST,
        "approval/get" => REQUEST,
        "approval/why" => REQUEST,
        "approval/watch" => DECIDE,
        "approval/shown" => DECIDE,
        "approval/unlock" => DECIDE,
        "approval/lock" => DECIDE,
        "approval/decide" => DECIDE,
        "approval/grants" => DECIDE,
        "approval/revoke" => DECIDE,
        "approver/status" => APPROVER,
        "approver/set" => APPROVER,
        "approver/clear" => APPROVER,
        "approver/confirm" => APPROVER,
        "audit/show" => AUDIT,
        "audit/verify" => AUDIT,
        "audit/last" => AUDIT,
        "session/export" => SESSION,
    }
    Zeroclaw {
        "initialize" => Rule::Allowed,
        "status" => SESSION_LIST,
        "health" => Rule::Allowed,
        "tui/list" => Rule::Denied("a client outside the house"),
        "session/new" => NEW_SESSION,
        "session/prompt" => PROMPTED,
        "session/send" => PROMPTED,
        "session/cancel" => SESSION,
        "session/interrupt" => SESSION,
        "session/close" => MADE,
        "session/kill" => MADE,
        "session/delete" => Rule::Denied("`hostel sessions delete`"),
        "session/attach" => SESSION,
        "session/detach" => Rule::Allowed,
        "session/approve" => DECIDE,
        "session/configure" => CONFIGURED,
        "session/list" => SESSION_LIST,
        "session/messages" => SESSION,
        "session/state" => SESSION,
        "session/git_branch" => GIT,
        "file/attach" => Rule::OwnOnly(Own::Content),
        "fs/list_dir" => FILES,
        "agents/list" => Rule::Allowed,
        "agents/status" => Rule::Allowed,
        "logs/subscribe" => LOGS,
        "logs/query" => LOGS,
        "config/sections" => Rule::Allowed,
        "config/templates" => Rule::Allowed,
    }
    Claustrum {
        "server.ping" => Rule::Allowed,
        "server.version" => Rule::Allowed,
        "server.capabilities" => Rule::Allowed,
        "server.shutdown" => Rule::Denied("a client outside the house"),
        "files.list" => FILES,
        "files.validate" => FILES,
        "files.stat" => FILES,
        "files.read" => FILES,
        "files.extract_tar" => FILES,
        "git.info" => GIT,
        "git.status" => GIT,
        "git.list_branches" => GIT,
        "git.worktree_create" => GIT,
        "git.worktree_remove" => GIT,
        "process.spawn" => NAME,
        "process.stdin" => STARTED,
        "process.kill" => STARTED,
        "process.killAndWait" => STARTED,
        "process.reattach" => SEEN,
    }
    Codecast {
        "health.check" => Rule::Allowed,
        "monitor.sessions" => SESSION_LIST,
        "session.list" => SESSION_LIST,
        "session.create" => NEW_SESSION,
        "session.send" => PROMPTED,
        "session.reconnect" => SESSION,
        "session.resume" => SESSION,
        "session.destroy" => MADE,
        "session.set_mode" => CONFIGURED,
        "session.set_model" => CONFIGURED,
        "session.interrupt" => SESSION,
        "session.queue_stats" => SESSION,
    }
    Mcp {
        "execute" => Rule::Allowed,
        "start_server" => Rule::Allowed,
        "stop_server" => Rule::Denied("`hostel down`, or the same tool of an agent outside the house"),
        "status" => Rule::Allowed,
        "update_host" => Rule::Denied("the same tool of an agent outside the house"),
        "ask_approval" => Rule::Allowed,
        "session_list" => SESSION_LIST,
        "session_send" => PROMPTED,
        "session_read" => SESSION,
        "mesh_send" => Rule::Allowed,
        "mesh_inbox" => MAILBOX,
        "mesh_peers" => Rule::Allowed,
    }
    SudoProxy {
        "exec" => Rule::Allowed,
        "ping" => Rule::Allowed,
        "stop" => Rule::Denied("`hostel down`, or the same request of a client outside the house"),
    }
    Claudemesh {
        "POST /v1/send" => Rule::Allowed,
        "POST /v1/topic/post" => Rule::Allowed,
        "POST /v1/topic/subscribe" => MAILBOX,
        "POST /v1/topic/unsubscribe" => MAILBOX,
        "GET /v1/topic/list" => Rule::Allowed,
        "GET /v1/inbox" => MAILBOX,
        "DELETE /v1/inbox" => MAILBOX,
        "GET /v1/inbox/search" => MAILBOX,
        "POST /v1/inbox/seen" => MAILBOX,
        "DELETE /v1/inbox/:id" => MAILBOX,
        "GET /v1/peers" => Rule::Allowed,
        "POST /v1/profile" => MAILBOX,
        "POST /v1/file/share" => MAILBOX,
        "GET /v1/file/get" => MAILBOX,
        "GET /v1/file/list" => MAILBOX,
        "GET /v1/events" => MAILBOX,
        "GET /v1/health" => Rule::Allowed,
        "GET /v1/metrics" => Rule::Denied("a client outside the house"),
        "GET /v1/version" => Rule::Allowed,
        "GET /v1/compat" => Rule::Allowed,
        "POST /v1/heartbeat" => MAILBOX,
        "POST /v1/reload" => DAEMON,
        "POST /v1/sessions/register" => Rule::Denied("`hostel mesh launch`"),
        "GET /v1/sessions/me" => MAILBOX,
        "GET /v1/sessions" => Rule::Denied("a client outside the house"),
        "DELETE /v1/sessions/:token" => MAILBOX,
        "GET /v1/outbox" => OUTBOX,
        "POST /v1/outbox/requeue" => OUTBOX,
        "POST /v1/outbox/prune" => OUTBOX,
        "GET /v1/member/list" => MEMBERS,
        "POST /v1/member/rename" => MEMBERS,
        "POST /v1/member/revoke" => MEMBERS,
        "POST /v1/member/ban" => MEMBERS,
        "POST /v1/member/unban" => MEMBERS,
        "POST /v1/member/kick" => MEMBERS,
        "POST /v1/member/disconnect" => MEMBERS,
        "POST /v1/invite/create" => INVITES,
        "GET /v1/invite/list" => INVITES,
        "POST /v1/invite/revoke" => INVITES,
        "POST /v1/grant/set" => GRANTS,
        "GET /v1/grant/list" => GRANTS,
        "GET /v1/audit" => Rule::Denied("`hostel mesh audit`"),
        "POST /v1/token/rotate" => DAEMON,
        "POST /v1/rotate-keypair" => DAEMON,
        "GET /v1/safety" => Rule::Allowed,
        "POST /v1/safety" => Rule::Denied("`hostel mesh verify PEER --trust`"),
        "DELETE /v1/state" => MAILBOX,
        "POST /v1/state/set" => MAILBOX,
        "GET /v1/state/get" => MAILBOX,
        "GET /v1/state/list" => MAILBOX,
        "GET /v1/state/watch" => MAILBOX,
        "POST /v1/task/create" => MAILBOX,
        "POST /v1/task/claim" => MAILBOX,
        "POST /v1/task/release" => MAILBOX,
        "POST /v1/task/complete" => MAILBOX,
        "GET /v1/task/get" => MAILBOX,
        "GET /v1/task/list" => MAILBOX,
    }
};

/// What is said of a method that the table does not name.
const UNNAMED: Rule = Rule::Denied("a client outside the house");

/// What a process inside the house may do with a method. Our own socket serves the zeroclaw door's methods as well.
#[must_use]
pub fn rule(door: Door, method: &str) -> Rule {
    let named = |door: Door| TABLE.iter().find(|entry| entry.door == door && entry.method == method);
    let entry = match door {
        Door::Native => named(Door::Native).or_else(|| named(Door::Zeroclaw)),
        door => named(door),
    };
    entry.map_or(UNNAMED, |entry| entry.rule)
}

/// The names of a door's methods in the table.
pub fn methods(door: Door) -> impl Iterator<Item = &'static str> {
    TABLE.iter().filter(move |entry| entry.door == door).map(|entry| entry.method)
}

/// The table as the documents show it.
#[must_use]
pub fn as_markdown() -> String {
    let mut text = String::new();
    for door in Door::ALL {
        text.push_str(&format!(
            "\n### {door}\n\n| method | processes inside | how its owner does it, or for what only |\n|---|---|---|\n"
        ));
        for entry in TABLE.iter().filter(|entry| entry.door == door) {
            let (word, note) = match entry.rule {
                Rule::Allowed => ("allowed", ""),
                Rule::OwnOnly(own) => ("own only", own.words()),
                Rule::Denied(how) => ("denied", how),
            };
            text.push_str(&format!("| `{}` | {word} | {note} |\n", entry.method));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_stands_once_and_what_does_not_stand_is_denied() {
        let mut names: Vec<(Door, &str)> = TABLE.iter().map(|entry| (entry.door, entry.method)).collect();
        names.sort_unstable_by_key(|(door, method)| (door.name(), *method));
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for door in Door::ALL {
            assert!(methods(door).count() > 0, "{door}");
            assert!(matches!(rule(door, "no/such"), Rule::Denied(_)), "{door}");
        }
        assert!(matches!(rule(Door::Native, "session/approve"), Rule::Denied(_)));
        assert_eq!(rule(Door::Native, "initialize"), Rule::Allowed);
        assert!(matches!(rule(Door::Zeroclaw, "process/spawn"), Rule::Denied(_)));
    }

    /// The document says what the code does. `HOSTEL_UPDATE=1` writes it anew.
    #[test]
    fn the_document_has_the_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/insiders.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let (prose, written) = text.split_once("-->\n").unwrap();
        let expected = as_markdown();
        if std::env::var_os("HOSTEL_UPDATE").is_some() {
            std::fs::write(&path, format!("{prose}-->\n{expected}")).unwrap();
            return;
        }
        assert_eq!(written, expected, "run HOSTEL_UPDATE=1 scripts/run-tests -p hostel-house --lib insiders::");
    }

    /// What may never be given to a process inside, whatever else the table says.
    #[test]
    fn nobody_inside_decides_configures_or_ends_the_house() {
        for (door, method) in [
            (Door::Native, "approval/decide"),
            (Door::Native, "approval/unlock"),
            (Door::Native, "approval/revoke"),
            (Door::Native, "approver/set"),
            (Door::Native, "approver/clear"),
            (Door::Native, "approver/confirm"),
            (Door::Native, "keeper/upgrade"),
            (Door::Native, "house/down"),
            (Door::Native, "journal/gc"),
            (Door::Zeroclaw, "session/approve"),
            (Door::Zeroclaw, "session/delete"),
            (Door::Claustrum, "server.shutdown"),
            (Door::Claudemesh, "POST /v1/reload"),
            (Door::Claudemesh, "POST /v1/grant/set"),
            (Door::SudoProxy, "stop"),
        ] {
            assert!(matches!(rule(door, method), Rule::Denied(_)), "{door} {method}");
        }
    }
}
