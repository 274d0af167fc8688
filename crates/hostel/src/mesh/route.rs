//! The way a verb goes: through the daemon if its socket answers, else over a connection of its own.
//!
//! Invariant: `CLAUDEMESH_NO_DAEMON` never asks a daemon, `CLAUDEMESH_STRICT_DAEMON` never goes without one. A connection
//! of one's own has an identity of its own, vouched for by the member; it says one thing and leaves. A session has its
//! identity with the daemon, so it goes through that or not at all.

use std::sync::Arc;

use hostel_mesh::InviteRequest;
use hostel_mesh::Refusal;
use hostel_mesh::SendRequest;
use hostel_mesh::cold;
use hostel_mesh::enrol::Enrol;
use hostel_mesh::home::Membership;
use hostel_mesh::home::Settings;
use hostel_mesh::link::dial::NetDial;
use hostel_wire::Clock;
use hostel_wire::frames::client::Call;
use hostel_wire::invite::CertPin;
use serde::Serialize;
use serde_json::Value;

use super::Desk;
use super::client::Client;
use super::client::Met;
use super::client::Version;
use super::failure::Code;
use super::failure::Failure;
use super::host::Host;
use super::speaker::Speaker;
use crate::broker;
use crate::broker::place::Place;
use crate::text;

/// How a verb reaches its mesh.
pub(super) enum Route {
    Daemon(Client),
    Cold(Box<Cold>),
}

/// Whether a variable says yes.
pub(crate) fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The daemon of the mesh, else a connection of our own.
pub(super) async fn choose(desk: &Desk<'_>) -> Result<Route, Failure> {
    let joined = match desk.host.joined(desk.mesh.as_deref()) {
        // A guarded agent has no keys with which it could connect on its own.
        Err(_) if desk.host.is_guarded() => return daemon(desk, "a guarded agent").await.map(Route::Daemon),
        joined => joined?,
    };
    match find(&desk.host, &joined.slug).await {
        Found::Daemon(client, version) => {
            compare(desk, &joined.slug, &version);
            return Ok(Route::Daemon(client));
        }
        Found::Other(version) => desk.ui.note(&other_major(&joined.slug, &version, "going without it")),
        Found::Nobody => {}
    }
    if is_set("CLAUDEMESH_STRICT_DAEMON") {
        return Err(no_daemon(&joined.slug).hint("CLAUDEMESH_STRICT_DAEMON forbids going without one"));
    }
    if !is_set("CLAUDEMESH_NO_DAEMON") && Speaker::of_environment().token.is_some() {
        return Err(no_daemon(&joined.slug).hint(format!(
            "this is a session of that daemon, and speaks through it; start it with `claudemesh daemon up --mesh {}`",
            joined.slug
        )));
    }
    Ok(Route::Cold(Box::new(Cold::connect(desk, &joined).await?)))
}

/// The daemon of the mesh; an error that says how to start it if there is none.
pub(super) async fn daemon(desk: &Desk<'_>, what: &str) -> Result<Client, Failure> {
    let mesh = slug(&desk.host, desk.mesh.as_deref())?;
    let (client, version) = reach(&desk.host, &mesh, what).await?;
    compare(desk, &mesh, &version);
    Ok(client)
}

/// Says so where the daemon is of another version than this program: after an upgrade it runs on until it is restarted.
fn compare(desk: &Desk<'_>, mesh: &str, daemon: &Version) {
    let (ours, theirs) = (env!("CARGO_PKG_VERSION"), daemon.text("daemon_version"));
    if !theirs.is_empty() && theirs != ours {
        desk.ui.note(&format!(
            "the daemon of `{mesh}` runs version {}, this is {ours}: `{} daemon restart --mesh {mesh}` makes them the same",
            text::printable(theirs),
            desk.called
        ));
    }
}

/// The mesh whose daemon is meant.
pub(crate) fn slug(host: &Host, asked: Option<&str>) -> Result<String, Failure> {
    match host.joined(asked) {
        Ok(joined) => Ok(joined.slug),
        // A mesh that was left may still have a daemon, and a directory to look at.
        Err(failure) => host.slug(asked).map_err(|_| failure),
    }
}

/// The daemon of that mesh; an error that says what needs it and how to start it if there is none.
pub(crate) async fn reach(host: &Host, mesh: &str, what: &str) -> Result<(Client, Version), Failure> {
    match find(host, mesh).await {
        Found::Daemon(client, version) => Ok((client, version)),
        Found::Other(version) => {
            Err(Failure::new(Code::Network, "other_version", other_major(mesh, &version, "it cannot be asked")).hint(
                format!(
                    "{what} needs one of this version: `claudemesh daemon restart --mesh {mesh}` makes it the same"
                ),
            ))
        }
        Found::Nobody => {
            Err(no_daemon(mesh).hint(format!("{what} needs one; start it with `claudemesh daemon up --mesh {mesh}`")))
        }
    }
}

fn no_daemon(mesh: &str) -> Failure {
    Failure::new(Code::Network, "daemon_not_running", format!("no daemon is up for mesh `{mesh}`"))
}

/// Who was found.
enum Found {
    Daemon(Client, Version),
    Other(Version),
    Nobody,
}

async fn find(host: &Host, mesh: &str) -> Found {
    if is_set("CLAUDEMESH_NO_DAEMON") {
        return Found::Nobody;
    }
    let mut other = Found::Nobody;
    for socket in host.sockets(mesh) {
        let client = Client::new(socket);
        match client.meet(mesh).await {
            Met::Ours(version) => return Found::Daemon(client, version),
            Met::Other(version) => other = Found::Other(version),
            Met::Nobody => {}
        }
    }
    other
}

/// A daemon that speaks another major version, and what comes of it.
fn other_major(mesh: &str, version: &Version, so: &str) -> String {
    format!(
        "the daemon of `{mesh}` ({}) speaks {} of the local interface and this program v1: {so}",
        text::printable(version.text("daemon_version")),
        text::printable(version.text("ipc_api"))
    )
}

/// A connection of our own to the broker, for one request.
pub(super) struct Cold {
    link: cold::Cold,
}

impl Cold {
    pub(super) async fn connect(desk: &Desk<'_>, joined: &Membership) -> Result<Self, Failure> {
        let config = desk.host.dir(&joined.slug).config();
        let (settings, _) =
            Settings::load(&config).map_err(|error| Failure::io(format!("{}: {error}", config.display())))?;
        let certificate = pin(desk, joined);
        let dial = dial(&settings, certificate)?;
        let options = cold::ColdOptions {
            slug: joined.slug.clone(),
            mesh_id: joined.mesh_id.clone(),
            member_id: joined.member_id.clone(),
            member_key: joined.key.clone(),
            root_key: joined.root_key.clone(),
            owner_key: joined.owner_key.clone(),
            certificate,
            display_name: joined.display_name.clone().unwrap_or_else(|| joined.slug.clone()),
            broker_urls: chosen_urls(&settings, joined),
            dial: Arc::new(dial),
            clock: Clock::system(),
            dir: Some(desk.host.dir(&joined.slug).path().to_owned()),
        };
        let link = cold::Cold::connect(options).await.map_err(|refusal| refused(&refusal))?;
        Ok(Cold { link })
    }

    /// Where the broker's log ends now.
    pub(super) async fn end_of_log(self) -> hostel_mesh::inbox::Cursor {
        let place = self.link.end_of_log();
        self.link.leave().await;
        place
    }

    pub(super) async fn send(mut self: Box<Self>, request: SendRequest) -> Result<Value, Failure> {
        let sent = self.link.send(request).await;
        self.finish(sent).await
    }

    pub(super) async fn ask(self: Box<Self>, call: Call) -> Result<Value, Failure> {
        let answer = self.link.ask(call).await;
        self.finish(answer).await
    }

    /// Who is there, with `all` also who is not.
    pub(super) async fn peers(self: Box<Self>, all: bool) -> Result<Value, Failure> {
        let listed = self.link.peers(all).await;
        self.finish(listed).await
    }

    pub(super) async fn topics(self: Box<Self>) -> Result<Value, Failure> {
        let listed = self.link.topics().await;
        self.finish(listed).await
    }

    pub(super) async fn invites(self: Box<Self>) -> Result<Value, Failure> {
        let listed = self.link.invites().await;
        self.finish(listed).await
    }

    /// Sets what a peer may do to us.
    pub(super) async fn grant(
        self: Box<Self>,
        peer: &str,
        capabilities: Option<Vec<String>>,
    ) -> Result<Value, Failure> {
        let set = self.link.grant(peer, capabilities).await;
        self.finish(set).await
    }

    pub(super) async fn grants(self: Box<Self>) -> Result<Value, Failure> {
        let listed = self.link.grants().await;
        self.finish(listed).await
    }

    pub(super) async fn invite(self: Box<Self>, request: InviteRequest) -> Result<Value, Failure> {
        let invited = self.link.invite_create(request).await;
        self.finish(invited).await
    }

    async fn finish<T: Serialize>(self, answer: Result<T, Refusal>) -> Result<Value, Failure> {
        self.link.leave().await;
        let answer = answer.map_err(|refusal| refused(&refusal))?;
        serde_json::to_value(answer).map_err(|error| Failure::internal(error.to_string()))
    }
}

/// By what a mesh's broker is known. On the broker's own host that is the certificate it has now, which may be another than
/// when the mesh was made: invites have to name it.
pub(crate) fn pin(desk: &Desk<'_>, joined: &Membership) -> Option<CertPin> {
    let place = Place::of(&desk.home);
    let (certificate, key) = place.certificate();
    let ours = || place.listening().url.is_some_and(|url| joined.broker_urls.contains(&url));
    match joined.cert.is_some() && certificate.exists() && key.exists() && ours() {
        true => broker::certificate(&place).ok().or(joined.cert),
        false => joined.cert,
    }
}

/// How brokers are reached: by the certificate of the invite, else by authorities that the settings name.
pub(crate) fn dial(settings: &Settings, pin: Option<CertPin>) -> Result<NetDial, Failure> {
    let failed = |error: std::io::Error| Failure::internal(format!("cannot prepare a connection: {error}"));
    match &settings.broker.ca_file {
        None => NetDial::new(pin).map_err(failed),
        Some(file) => {
            let pem = std::fs::read(file)
                .map_err(|error| Failure::io(format!("cannot read `{}`: {error}", file.display())))?;
            NetDial::with_authorities(pin, &pem).map_err(failed)
        }
    }
}

/// Where a mesh's brokers are: where its settings say, else where the membership does.
pub(crate) fn chosen_urls(settings: &Settings, joined: &Membership) -> Vec<String> {
    match settings.broker.urls.is_empty() {
        true => broker_urls(joined),
        false => settings.broker.urls.clone(),
    }
}

/// What asks a member's brokers for what needs no connection: leaving, another identity.
pub(crate) fn enrol(desk: &Desk<'_>, joined: &Membership, clock: Clock) -> Enrol {
    // Settings that cannot be read are no reason to stay a member.
    let urls = match Settings::load(&desk.host.dir(&joined.slug).config()) {
        Ok((settings, _)) => chosen_urls(&settings, joined),
        Err(_) => broker_urls(joined),
    };
    Enrol::new(desk.host.places().clone(), clock).at(urls)
}

/// Where a mesh's brokers are; a variable may say otherwise.
pub(crate) fn broker_urls(joined: &Membership) -> Vec<String> {
    match std::env::var("CLAUDEMESH_BROKER_URL") {
        Ok(url) if !url.trim().is_empty() => vec![url.trim().to_owned()],
        _ => joined.broker_urls.clone(),
    }
}

/// What the mesh refused, in the words of the command line.
pub(super) fn refused(refusal: &Refusal) -> Failure {
    let status = match refusal.code() {
        "peer_not_found" | "topic_not_found" | "file_not_found" | "not_found" | "recipient_unknown"
        | "invite_not_found" => 404,
        "ambiguous_target" | "idempotency_key_reused" | "recipient_revoked" => 409,
        "member_revoked" | "degraded" | "broker_unavailable" => 503,
        // A key that is not there yet comes when somebody who has it, or may make it, is there.
        "topic_key_missing" | "key_not_sealed_for_member" | "stale_key_epoch" => 503,
        "forbidden" | "blocked" | "not_owner" => 403,
        "invalid" | "invalid_argument" | "message_too_large" => 400,
        "revoked" | "bad_signature" | "unauthorized" | "timestamp_skew" => 401,
        _ => 500,
    };
    Failure::refused(status, &refusal.body())
}
