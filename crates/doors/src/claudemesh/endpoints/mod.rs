//! What each endpoint does: read the request, ask the mesh, write the answer.
//!
//! Never: looks at tokens, limits or connections.

mod control;
mod files;
pub(super) mod inbox;
pub(super) mod messages;
mod outbox;
pub(super) mod people;
pub(super) mod sessions;
pub(super) mod state;
pub(super) mod tasks;
mod topics;

use hyper::{Response, StatusCode};

use super::answer::Refused;
use super::fields::Fields;
use super::outgoing::Body;
use super::respond::Asked;
use super::route::Endpoint;

type Outcome = Result<Response<Body>, Refused>;

/// Answers a request that passed all checks.
pub(super) async fn answer(asked: &Asked) -> Outcome {
    match asked.endpoint {
        Endpoint::Send => messages::send(asked).await,
        Endpoint::TopicPost => messages::post(asked).await,
        Endpoint::TopicSubscribe => topics::subscribe(asked).await,
        Endpoint::TopicUnsubscribe => topics::unsubscribe(asked).await,
        Endpoint::TopicList => topics::list(asked).await,
        Endpoint::Inbox => inbox::list(asked).await,
        Endpoint::InboxDeleteBefore => inbox::delete_before(asked).await,
        Endpoint::InboxSearch => inbox::search(asked).await,
        Endpoint::InboxSeen => inbox::seen(asked).await,
        Endpoint::InboxDelete => inbox::delete(asked).await,
        Endpoint::Peers => people::peers(asked).await,
        Endpoint::Profile => people::profile(asked).await,
        Endpoint::FileShare => files::share(asked).await,
        Endpoint::FileGet => files::get(asked).await,
        Endpoint::FileList => files::list(asked).await,
        Endpoint::Health => control::health(asked).await,
        Endpoint::Metrics => control::metrics(asked).await,
        Endpoint::Version => control::version(asked),
        Endpoint::Compat => control::compat(asked),
        Endpoint::Heartbeat => control::heartbeat(asked).await,
        Endpoint::TokenRotate => control::rotate(asked).await,
        Endpoint::KeypairRotate => control::rotate_keypair(asked).await,
        Endpoint::Reload => control::reload(asked).await,
        Endpoint::SessionRegister => sessions::register(asked).await,
        Endpoint::SessionMe => sessions::me(asked),
        Endpoint::SessionList => sessions::list(asked),
        Endpoint::SessionRemove => sessions::remove(asked).await,
        Endpoint::OutboxList => outbox::list(asked).await,
        Endpoint::OutboxRequeue => outbox::requeue(asked).await,
        Endpoint::OutboxPrune => outbox::prune(asked).await,
        Endpoint::MemberList => people::members(asked),
        Endpoint::MemberRename => people::rename(asked).await,
        Endpoint::MemberRevoke
        | Endpoint::MemberBan
        | Endpoint::MemberUnban
        | Endpoint::MemberKick
        | Endpoint::MemberDisconnect => people::act(asked).await,
        Endpoint::InviteCreate => people::invite(asked).await,
        Endpoint::InviteList => people::invites(asked).await,
        Endpoint::InviteRevoke => people::revoke_invite(asked).await,
        Endpoint::GrantSet => people::grant(asked).await,
        Endpoint::GrantList => people::grants(asked).await,
        Endpoint::Audit => people::audit(asked).await,
        Endpoint::Safety => people::safety(asked),
        Endpoint::SafetyTrust => people::trust(asked).await,
        Endpoint::StateSet => state::set(asked).await,
        Endpoint::StateDelete => state::delete(asked).await,
        Endpoint::StateGet => state::get(asked).await,
        Endpoint::StateList => state::list(asked).await,
        Endpoint::TaskCreate => tasks::create(asked).await,
        Endpoint::TaskClaim | Endpoint::TaskRelease | Endpoint::TaskComplete => tasks::step(asked).await,
        Endpoint::TaskGet => tasks::get(asked).await,
        Endpoint::TaskList => tasks::list(asked).await,
        // Streams are answered elsewhere.
        Endpoint::Events | Endpoint::StateWatch => {
            Err(Refused::new(StatusCode::NOT_FOUND, "not_found", "there is no such path"))
        }
    }
}

/// Refuses what is meant for another mesh: one daemon serves one.
fn this_mesh(asked: &Asked, named: Option<&str>) -> Result<(), Refused> {
    match named {
        Some(named) if named != asked.door.mesh.slug() => Err(Refused::new(
            StatusCode::NOT_FOUND,
            "mesh_not_found",
            format!("this daemon serves the mesh `{}`", asked.door.mesh.slug()),
        )
        .about("mesh")),
        _ => Ok(()),
    }
}

/// The fields of a request whose body may be left out.
fn optional_fields(asked: &Asked) -> Result<Fields<'_>, Refused> {
    Fields::read(if asked.body.is_empty() { b"{}" } else { &asked.body })
}
