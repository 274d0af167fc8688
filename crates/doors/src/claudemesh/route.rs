//! Which path means what: the surface in one table.
//!
//! Invariant: a path is compared as it was sent, byte for byte; nothing is folded, decoded or shortened first.

use hyper::Method;

/// What may be asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Endpoint {
    Send,
    TopicPost,
    TopicSubscribe,
    TopicUnsubscribe,
    TopicList,
    Inbox,
    InboxDeleteBefore,
    InboxSearch,
    InboxSeen,
    InboxDelete,
    Peers,
    Profile,
    FileShare,
    FileGet,
    FileList,
    Events,
    Health,
    Metrics,
    Version,
    Compat,
    Heartbeat,
    SessionRegister,
    SessionMe,
    SessionList,
    SessionRemove,
    OutboxList,
    OutboxRequeue,
    OutboxPrune,
    MemberList,
    MemberRename,
    MemberRevoke,
    MemberBan,
    MemberUnban,
    MemberKick,
    MemberDisconnect,
    InviteCreate,
    InviteList,
    InviteRevoke,
    GrantSet,
    GrantList,
    Audit,
    TokenRotate,
    KeypairRotate,
    Reload,
    Safety,
    SafetyTrust,
    StateSet,
    StateDelete,
    StateGet,
    StateList,
    StateWatch,
    TaskCreate,
    TaskClaim,
    TaskRelease,
    TaskComplete,
    TaskGet,
    TaskList,
}

impl Endpoint {
    /// Whether its answer is a stream of events.
    pub(super) fn is_stream(self) -> bool {
        matches!(self, Self::Events | Self::StateWatch)
    }

    /// Whether a session of the member may ask for it too. The rest is the member's own.
    pub(super) fn is_for_sessions(self) -> bool {
        matches!(
            self,
            Self::Send
                | Self::TopicPost
                | Self::TopicSubscribe
                | Self::TopicUnsubscribe
                | Self::TopicList
                | Self::Inbox
                | Self::InboxDeleteBefore
                | Self::InboxSearch
                | Self::InboxSeen
                | Self::InboxDelete
                | Self::Peers
                | Self::Profile
                | Self::FileShare
                | Self::FileGet
                | Self::FileList
                | Self::Events
                | Self::Health
                | Self::Version
                | Self::Compat
                | Self::Heartbeat
                | Self::SessionMe
                | Self::SessionRemove
                | Self::Safety
                | Self::StateSet
                | Self::StateDelete
                | Self::StateGet
                | Self::StateList
                | Self::StateWatch
                | Self::TaskCreate
                | Self::TaskClaim
                | Self::TaskRelease
                | Self::TaskComplete
                | Self::TaskGet
                | Self::TaskList
        )
    }

    /// Whether it is answered also by a daemon whose member is revoked: whoever operates it must be able to see that.
    pub(super) fn is_for_operators(self) -> bool {
        matches!(self, Self::Health | Self::Version | Self::Metrics | Self::Compat)
    }
}

/// A path of the surface.
struct Path {
    /// As it stands in metrics; a `:` begins a part that may be anything.
    template: &'static str,
    methods: &'static [(Method, Endpoint)],
}

macro_rules! paths {
    ($($template:literal { $($method:ident $endpoint:ident),+ })+) => {
        &[$(Path { template: $template, methods: &[$((Method::$method, Endpoint::$endpoint)),+] }),+]
    };
}

/// The surface. Where two fit, the first does: paths without a free part stand before those with one.
const PATHS: &[Path] = paths! {
    "/v1/send" { POST Send }
    "/v1/topic/post" { POST TopicPost }
    "/v1/topic/subscribe" { POST TopicSubscribe }
    "/v1/topic/unsubscribe" { POST TopicUnsubscribe }
    "/v1/topic/list" { GET TopicList }
    "/v1/inbox" { GET Inbox, DELETE InboxDeleteBefore }
    "/v1/inbox/search" { GET InboxSearch }
    "/v1/inbox/seen" { POST InboxSeen }
    "/v1/inbox/:id" { DELETE InboxDelete }
    "/v1/peers" { GET Peers }
    "/v1/profile" { POST Profile }
    "/v1/file/share" { POST FileShare }
    "/v1/file/get" { GET FileGet }
    "/v1/file/list" { GET FileList }
    "/v1/events" { GET Events }
    "/v1/health" { GET Health }
    "/v1/metrics" { GET Metrics }
    "/v1/version" { GET Version }
    "/v1/compat" { GET Compat }
    "/v1/heartbeat" { POST Heartbeat }
    "/v1/reload" { POST Reload }
    "/v1/sessions/register" { POST SessionRegister }
    "/v1/sessions/me" { GET SessionMe }
    "/v1/sessions" { GET SessionList }
    "/v1/sessions/:token" { DELETE SessionRemove }
    "/v1/outbox" { GET OutboxList }
    "/v1/outbox/requeue" { POST OutboxRequeue }
    "/v1/outbox/prune" { POST OutboxPrune }
    "/v1/member/list" { GET MemberList }
    "/v1/member/rename" { POST MemberRename }
    "/v1/member/revoke" { POST MemberRevoke }
    "/v1/member/ban" { POST MemberBan }
    "/v1/member/unban" { POST MemberUnban }
    "/v1/member/kick" { POST MemberKick }
    "/v1/member/disconnect" { POST MemberDisconnect }
    "/v1/invite/create" { POST InviteCreate }
    "/v1/invite/list" { GET InviteList }
    "/v1/invite/revoke" { POST InviteRevoke }
    "/v1/grant/set" { POST GrantSet }
    "/v1/grant/list" { GET GrantList }
    "/v1/audit" { GET Audit }
    "/v1/token/rotate" { POST TokenRotate }
    "/v1/rotate-keypair" { POST KeypairRotate }
    "/v1/safety" { GET Safety, POST SafetyTrust }
    "/v1/state" { DELETE StateDelete }
    "/v1/state/set" { POST StateSet }
    "/v1/state/get" { GET StateGet }
    "/v1/state/list" { GET StateList }
    "/v1/state/watch" { GET StateWatch }
    "/v1/task/create" { POST TaskCreate }
    "/v1/task/claim" { POST TaskClaim }
    "/v1/task/release" { POST TaskRelease }
    "/v1/task/complete" { POST TaskComplete }
    "/v1/task/get" { GET TaskGet }
    "/v1/task/list" { GET TaskList }
};

/// Parts of the surface behind a switch: the first word of their paths, and the switch.
const CAPABILITIES: &[(&str, &str)] = &[
    ("state", "state"),
    ("memory", "memory"),
    ("vector", "vector"),
    ("graph", "graph"),
    ("task", "tasks"),
    ("tasks", "tasks"),
    ("scheduling", "scheduling"),
    ("mcp", "mcp_host"),
    ("skill", "skill_share"),
    ("skills", "skill_share"),
];

/// Switches of what this release has.
pub(super) const BUILT: &[&str] = &["state", "tasks"];

/// The switch that a path is behind, if it is behind one.
pub(super) fn switch(path: &str) -> Option<&'static str> {
    let word = path.strip_prefix("/v1/")?.split('/').next();
    CAPABILITIES.iter().find(|(name, _)| Some(*name) == word).map(|(_, switch)| *switch)
}

/// How unknown paths are counted.
pub(super) const OTHER: &str = "other";

/// What a request's path and method come to.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Found<'a> {
    /// An endpoint, with the free part of its path.
    Endpoint(Endpoint, &'a str),
    /// The path is there, the method is not; these are.
    Method(String),
    /// There is no such path, but it would belong to a capability with this switch.
    Capability(&'static str),
    /// There is no such path.
    Nothing,
}

/// Looks a request up; also gives how it is counted.
pub(super) fn find<'a>(method: &Method, path: &'a str) -> (&'static str, Found<'a>) {
    for known in PATHS {
        let Some(part) = free_part(known.template, path) else { continue };
        let endpoint = known.methods.iter().find(|(allowed, _)| allowed == method);
        let found = match endpoint {
            Some((_, endpoint)) => Found::Endpoint(*endpoint, part),
            None => {
                let allowed: Vec<&str> = known.methods.iter().map(|(allowed, _)| allowed.as_str()).collect();
                Found::Method(allowed.join(", "))
            }
        };
        return (known.template, found);
    }
    (OTHER, switch(path).map_or(Found::Nothing, Found::Capability))
}

/// The free part of a path that fits a template; empty where the template has none.
fn free_part<'a>(template: &str, path: &'a str) -> Option<&'a str> {
    match template.split_once(':') {
        None => (template == path).then_some(""),
        Some((fixed, _)) => path.strip_prefix(fixed).filter(|part| !part.is_empty() && !part.contains('/')),
    }
}

/// Every endpoint as the table of what processes inside a house may do calls it.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = (String, Endpoint)> {
    let of = |path: &'static Path| {
        path.methods.iter().map(|(method, endpoint)| (format!("{method} {}", path.template), *endpoint))
    };
    PATHS.iter().flat_map(of)
}

/// Every way a path is counted.
#[cfg(test)]
pub(super) fn templates() -> impl Iterator<Item = &'static str> {
    PATHS.iter().map(|path| path.template)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_methods() {
        let find = |method, path| find(&method, path).1;
        assert_eq!(find(Method::GET, "/v1/inbox"), Found::Endpoint(Endpoint::Inbox, ""));
        assert_eq!(find(Method::DELETE, "/v1/inbox"), Found::Endpoint(Endpoint::InboxDeleteBefore, ""));
        assert_eq!(find(Method::GET, "/v1/inbox/search"), Found::Endpoint(Endpoint::InboxSearch, ""));
        assert_eq!(find(Method::DELETE, "/v1/inbox/abc"), Found::Endpoint(Endpoint::InboxDelete, "abc"));
        assert_eq!(find(Method::DELETE, "/v1/sessions/x"), Found::Endpoint(Endpoint::SessionRemove, "x"));
        assert_eq!(find(Method::PUT, "/v1/inbox"), Found::Method("GET, DELETE".to_owned()));
        for path in
            ["/", "", "/v1", "/v1/", "/v1/send/", "/v1//send", "/V1/send", "/v1/inbox/", "/v1/inbox/a/b", "/v2/send"]
        {
            assert_eq!(find(Method::GET, path), Found::Nothing, "{path}");
        }
    }

    #[test]
    fn switches() {
        let find = |path| find(&Method::POST, path).1;
        assert_eq!(find("/v1/state"), Found::Method("DELETE".to_owned()));
        assert_eq!(find("/v1/state/dance"), Found::Capability("state"));
        assert_eq!(find("/v1/task/create"), Found::Endpoint(Endpoint::TaskCreate, ""));
        assert_eq!(find("/v1/tasks"), Found::Capability("tasks"));
        assert_eq!(
            (switch("/v1/task/create"), switch("/v1/state"), switch("/v1/send")),
            (Some("tasks"), Some("state"), None)
        );
        assert_eq!(find("/v1/mcp/call"), Found::Capability("mcp_host"));
        assert_eq!(find("/v1/states"), Found::Nothing);
        assert_eq!(find("/state"), Found::Nothing);
    }

    #[test]
    fn a_template_stands_once() {
        let mut all: Vec<_> = templates().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
