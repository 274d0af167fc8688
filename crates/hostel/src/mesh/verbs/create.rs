//! Making a mesh: a broker to carry it, the owner's key, the first member, and an invite for the next.

use std::process::ExitCode;

use hostel_mesh::InviteRequest;
use hostel_mesh::enrol::Create as Wanted;
use hostel_mesh::enrol::Enrol;
use hostel_mesh::home::Membership;
use hostel_mesh::home::Memberships;
use hostel_wire::Clock;
use hostel_wire::invite::CertPin;
use serde_json::json;
use zeroize::Zeroizing;

use super::join;
use crate::broker;
use crate::broker::place::Place;
use crate::mesh::Desk;
use crate::mesh::cli::Create;
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;
use crate::mesh::route::Cold;
use crate::mesh::show;
use crate::text;

/// The broker a mesh is to live on.
struct Broker {
    /// How this machine reaches it.
    url: String,
    /// How others do; none if they cannot.
    public_url: Option<String>,
    certificate: Option<CertPin>,
    admin_token: Option<Zeroizing<String>>,
}

pub(crate) async fn run(desk: &Desk<'_>, arguments: &Create) -> Result<ExitCode, Failure> {
    let display_name = join::display_name(arguments.display_name.as_deref())?;
    let starting = join::may_start(arguments.no_start);
    let broker = match &arguments.broker {
        Some(url) => elsewhere(desk, url, arguments)?,
        None => embedded(desk, arguments, starting).await?,
    };
    let enrol = Enrol::new(desk.host.places().clone(), Clock::system());
    let wanted = Wanted {
        broker_url: broker.url.clone(),
        admin_token: broker.admin_token.clone(),
        name: arguments.name.clone(),
        display_name,
        // The embedded one is asked over loopback, where there is no TLS.
        cert: broker.certificate.filter(|_| broker.public_url.is_none()),
    };
    let mut membership = enrol.create(wanted).await.map_err(|error| join::refused(&error))?;
    if let Some(public) = &broker.public_url {
        // Invites carry the first address, so the one that others can use comes first; here loopback serves as well.
        membership.broker_urls = vec![public.clone(), broker.url.clone()];
        membership.cert = broker.certificate;
        Memberships::put(desk.host.places(), &membership).map_err(|error| Failure::io(error.to_string()))?;
    }
    let invite = first_invite(desk, &membership, &broker.url).await;
    let started = join::Daemon::start_if(starting, desk, &membership.slug).await?;
    tell(desk, &membership, &broker, invite, started)
}

fn tell(
    desk: &Desk<'_>,
    membership: &Membership,
    broker: &Broker,
    invite: Result<String, Failure>,
    started: join::Daemon,
) -> Result<ExitCode, Failure> {
    let this_machine = broker.public_url.is_none() && is_loopback(&broker.url);
    if desk.ui.json() {
        desk.ui.data(&json!({
            "ok": true, "mesh": membership.slug, "name": membership.name, "meshId": membership.mesh_id,
            "memberId": membership.member_id, "pubkey": membership.key.public().hex(),
            "displayName": membership.display_name, "brokerUrl": membership.broker_urls.first(),
            "invite": invite.as_ref().ok(), "thisMachineOnly": this_machine, "daemonPid": started.pid,
            "connected": started.connected,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let reach = match this_machine {
        true => "this machine only".to_owned(),
        false => format!("reached at {}", text::printable(broker.public_url.as_deref().unwrap_or(&broker.url))),
    };
    desk.ui.line(&format!("mesh `{}` is made: {reach}", membership.slug))?;
    join::tell_daemon(desk, &membership.slug, started)?;
    desk.ui.line("")?;
    let whom = if this_machine { "another user of this machine" } else { "another machine" };
    match invite {
        // The link is long: what it is for stands before it.
        Ok(link) => {
            desk.ui.line(&format!("Next, for {whom} (good once, for 7 days):"))?;
            desk.ui.line(&format!("  {} join '{link}'", desk.called))?;
        }
        Err(failure) => {
            desk.ui.note(&format!("no invite was made: {}", failure.message()));
            desk.ui.line(&format!("Next, an invite for {whom}:"))?;
            desk.ui.line(&format!("  {} invite create --mesh {}", desk.called, membership.slug))?;
        }
    }
    desk.ui.line("Then:")?;
    desk.ui.line(&format!("  {} send '*' \"hello\"", desk.called))?;
    if this_machine {
        desk.ui.line("A mesh for several machines:")?;
        desk.ui.line(&format!("  {} create NAME --listen 0.0.0.0:7443 --url wss://THIS-HOST:7443/ws", desk.called))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The embedded broker, started if need be.
async fn embedded(desk: &Desk<'_>, arguments: &Create, starting: bool) -> Result<Broker, Failure> {
    let place = Place::of(&desk.home);
    let asked = broker::Asked { listen: arguments.listen.clone(), url: arguments.url.clone() };
    let health = match starting {
        true => broker::start(&desk.home, &asked).await?,
        false => broker::running(&place)
            .await
            .ok_or_else(|| Failure::network("the broker is not up").hint("start it with `claudemesh broker up`"))?,
    };
    let beyond = place.listening();
    let certificate = match beyond.url {
        Some(_) => Some(broker::certificate(&place)?),
        None => None,
    };
    let token = place
        .admin_token()
        .map_err(|error| Failure::io(format!("cannot read `{}`: {error}", place.admin_token_file().display())))?;
    Ok(Broker { url: health.url(), public_url: beyond.url, certificate, admin_token: Some(token) })
}

/// A broker that somebody else looks after.
fn elsewhere(desk: &Desk<'_>, url: &str, arguments: &Create) -> Result<Broker, Failure> {
    let url = match url {
        url if url.starts_with("ws://") || url.starts_with("wss://") => url.to_owned(),
        _ => {
            return Err(Failure::arguments(format!("`{}` is no way to a broker", text::printable(url)))
                .hint("write for example `wss://lab.example.org:7443/ws`"));
        }
    };
    let place = Place::of(&desk.home);
    let file = match &arguments.admin_token_file {
        Some(file) => file.clone(),
        None => place.admin_token_file(),
    };
    let token = match std::fs::read_to_string(&file) {
        Ok(text) => Some(Zeroizing::new(text.trim().to_owned())),
        Err(_) if arguments.admin_token_file.is_none() => None,
        Err(error) => return Err(Failure::io(format!("cannot read `{}`: {error}", file.display()))),
    };
    if url.starts_with("ws://") && !is_loopback(&url) {
        return Err(Failure::new(
            Code::Denied,
            "tls_required",
            format!("`{}` is beyond this machine and has no TLS", text::printable(&url)),
        )
        .hint("other machines are reached by wss:// only"));
    }
    let certificate = match &arguments.cert {
        None => None,
        Some(hex) => {
            let digest = hostel_wire::encoding::unhex_array::<32>(&hex.replace(':', "").to_lowercase());
            Some(CertPin::from(digest.ok_or_else(|| {
                Failure::arguments("`--cert` is not a SHA-256 digest").hint("it has 64 hexadecimal digits")
            })?))
        }
    };
    Ok(Broker { url, public_url: None, certificate, admin_token: token })
}

fn is_loopback(url: &str) -> bool {
    let host = url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An invite for the first peer, over a connection of our own: there is no daemon yet.
async fn first_invite(desk: &Desk<'_>, membership: &Membership, local_url: &str) -> Result<String, Failure> {
    let mut here = membership.clone();
    // The public name may not lead back to this machine; loopback does.
    here.broker_urls = vec![local_url.to_owned()];
    let cold = Box::new(Cold::connect(desk, &here).await?);
    let request = InviteRequest { broker_url: membership.broker_urls.first().cloned(), ..InviteRequest::default() };
    let invited = cold.invite(request).await?;
    Ok(show::field(&invited, "invite").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_its_address() {
        for url in ["ws://127.0.0.1:80/ws", "ws://localhost:80/ws", "ws://[::1]:80/ws", "ws://localhost/ws"] {
            assert!(is_loopback(url), "{url}");
        }
        for url in ["ws://10.0.0.1:80/ws", "wss://lab.example.org/ws", "ws://127.0.0.1.example.org/ws", "x"] {
            assert!(!is_loopback(url), "{url}");
        }
    }
}
