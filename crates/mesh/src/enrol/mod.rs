//! Becoming a member of a mesh, and ceasing to be one, over HTTP to its broker.
//!
//! Invariant: a key is kept before the broker hears of it, so that a lost answer costs neither the invite nor the member.
//! The root key is opened here with the part of the link that no broker sees. Whatever makes a member can be asked again
//! with the same outcome.
//!
//! It starts no daemon and prints nothing.

mod errors;
mod http;
mod pending;

use std::io;
use std::sync::Arc;

use hostel_wire::invite::{CertPin, InviteError, InviteLink};
use hostel_wire::keys::SecretKey;
use hostel_wire::sealed::RootKey;
use hostel_wire::{Clock, hello, iso, topic};
use serde_json::{Value, json};
use zeroize::Zeroizing;

pub use errors::EnrolError;

use crate::home::{Membership, Memberships, Places, Settings, files};
use crate::link::dial::{BrokerUrl, Dial, NetDial};
use http::Call;
pub(crate) use http::read_date;
use pending::{Pending, PendingKeys};

/// The largest file of certificates.
const AUTHORITIES: u64 = 4 * 1024 * 1024;

/// A mesh to be made.
#[derive(Debug)]
pub struct Create {
    /// Its broker, `ws://…`, `wss://…`, `http://…` or `https://…`.
    pub broker_url: String,
    /// What the broker asks of those who are not on its own machine.
    pub admin_token: Option<Zeroizing<String>>,
    /// The mesh's name.
    pub name: String,
    /// The first member's name.
    pub display_name: String,
    /// The broker's certificate, where no authority vouches for it.
    pub cert: Option<CertPin>,
}

/// A mesh that was joined.
#[derive(Debug)]
pub struct Joined {
    /// As it stands in `config.json` now.
    pub membership: Membership,
    /// One was a member before.
    pub already_member: bool,
}

/// Speaks to brokers for a user.
#[derive(Clone)]
pub struct Enrol {
    places: Places,
    clock: Clock,
    dial: Option<Arc<dyn Dial>>,
    urls: Option<Vec<String>>,
}

impl std::fmt::Debug for Enrol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Enrol")
    }
}

impl Enrol {
    /// For the user whose files are at `places`.
    #[must_use]
    pub fn new(places: Places, clock: Clock) -> Self {
        Self { places, clock, dial: None, urls: None }
    }

    /// Reaches brokers through `dial` instead of over the network: with authorities of its own, or in a test.
    #[must_use]
    pub fn with_dial(mut self, dial: Arc<dyn Dial>) -> Self {
        self.dial = Some(dial);
        self
    }

    /// Asks for members at these brokers, not at those that their entry names: a user may have said where they are now.
    #[must_use]
    pub fn at(mut self, urls: Vec<String>) -> Self {
        self.urls = Some(urls);
        self
    }

    /// Makes a mesh, becomes its first member and its owner, and keeps all three keys.
    pub async fn create(&self, wanted: Create) -> Result<Membership, EnrolError> {
        let nameless = || EnrolError::Name("a mesh's name needs a letter or a digit".into());
        let wanted_slug = topic::mesh_slug(&wanted.name).ok_or_else(nameless)?;
        let url = BrokerUrl::parse(&wanted.broker_url).map_err(|error| EnrolError::Url(error.to_string()))?;
        // A broker that made the mesh and died before it answered recognises these keys when it is asked again.
        let keys = PendingKeys::lock(&self.places)?;
        let purpose = |role: &str| format!("create:{role}:{}:{}", wanted.broker_url, wanted.name);
        let (pending_owner, pending_member) = (keys.key(&purpose("owner"))?, keys.key(&purpose("member"))?);
        let (owner, key) = (pending_owner.key().clone(), pending_member.key().clone());
        let (owner_pubkey, pubkey) = (owner.public().hex(), key.public().hex());
        let display_name = topic::display_slug(&wanted.display_name);
        let body = |timestamp| {
            let signed = hello::mesh_request(&wanted.name, &owner_pubkey, &pubkey, timestamp);
            json!({
                "name": wanted.name,
                "owner_pubkey": owner_pubkey,
                "member": {"pubkey": pubkey, "display_name": display_name},
                "timestamp": timestamp,
                "signature": owner.sign(signed.as_bytes()).hex(),
            })
        };
        let call = Call { path: "/mesh", token: wanted.admin_token.as_deref().map(String::as_str), body: &body };
        let dial = self.dialler(&url, wanted.cert, &wanted_slug)?;
        let answered = http::post(&*dial, &url, &self.clock, &call).await;
        let forget = || [&pending_owner, &pending_member].into_iter().for_each(Pending::forget);
        let answer = answered.inspect_err(|error| {
            if error.is_final() {
                forget();
            }
        })?;
        let slug = text(&answer, "slug")?;
        if !topic::is_mesh_slug(&slug) {
            return Err(EnrolError::Answer("its `slug` is not one".into()));
        }
        let mesh_id = text(&answer, "meshId")?;
        let membership = Membership {
            // A mesh of another broker may have this name here: its keys must stay.
            slug: self.free_slug(&slug, &mesh_id)?,
            mesh_id,
            member_id: text(&answer, "memberId")?,
            name: wanted.name.clone(),
            key: key.clone(),
            broker_urls: vec![websocket(&url)],
            joined_at: iso(self.clock.now_ms()),
            root_key: Some(RootKey::generate()),
            owner_key: Some(owner.clone()),
            cert: wanted.cert,
            display_name: Some(answer["displayName"].as_str().unwrap_or(&display_name).to_owned()),
        };
        Memberships::put(&self.places, &membership)?;
        forget();
        Ok(membership)
    }

    /// Joins the mesh of an invite.
    pub async fn join(&self, link: &str, display_name: &str) -> Result<Joined, EnrolError> {
        let link = InviteLink::parse(link)?;
        let invite = &link.payload;
        let secret = link.secret.as_ref().ok_or(EnrolError::NoSecret)?;
        let url = BrokerUrl::parse(&invite.broker_url).map_err(|error| EnrolError::Url(error.to_string()))?;
        let before = Memberships::load(&self.places)?;
        let before = before.all().iter().find(|known| known.mesh_id == invite.mesh_id).cloned();
        let pending = Pending::of(&self.places, &link.token)?;
        // Whoever is a member joins again as the same one.
        let key = before.as_ref().map_or_else(|| pending.key().clone(), |before| before.key.clone());
        let pubkey = key.public().hex();
        let body = |timestamp| {
            let signed = hello::join_request(&link.token, &pubkey, timestamp);
            json!({
                "invite_token": link.token,
                "invite_payload": invite,
                "peer_pubkey": pubkey,
                "display_name": topic::display_slug(display_name),
                "timestamp": timestamp,
                "signature": key.sign(signed.as_bytes()).hex(),
            })
        };
        let dial = self.dialler(&url, link.cert, &invite.mesh_slug)?;
        let call = Call { path: "/join", token: None, body: &body };
        let answer = match http::post(&*dial, &url, &self.clock, &call).await {
            Ok(answer) => answer,
            // Whether it is over is for the broker's clock to say. Ours is asked where that cannot be.
            Err(EnrolError::Unreachable { .. }) if invite.is_expired(self.clock.now_ms()) => {
                pending.forget();
                return Err(InviteError::Expired.into());
            }
            Err(error) => {
                if error.is_final() {
                    pending.forget();
                }
                return Err(error);
            }
        };
        let root_key = match answer["sealed_root_key"].as_str() {
            Some(sealed) => Some(secret.open_root(sealed).map_err(|_| EnrolError::RootKey)?),
            None => before.as_ref().and_then(|before| before.root_key.clone()),
        };
        let said_name = answer["displayName"].as_str().or_else(|| answer["display_name"].as_str());
        // On the inviter's host the mesh may go by another name than at its broker.
        let slug = answer["slug"].as_str().filter(|slug| topic::is_mesh_slug(slug)).unwrap_or(&invite.mesh_slug);
        let membership = Membership {
            mesh_id: invite.mesh_id.clone(),
            member_id: text(&answer, "memberId")?,
            slug: self.free_slug(slug, &invite.mesh_id)?,
            name: answer["mesh_name"].as_str().unwrap_or(&invite.mesh_slug).to_owned(),
            key: key.clone(),
            broker_urls: brokers(&invite.broker_url, &answer),
            joined_at: before.as_ref().map_or_else(|| iso(self.clock.now_ms()), |before| before.joined_at.clone()),
            root_key: Some(root_key.ok_or(EnrolError::RootKey)?),
            owner_key: before.as_ref().and_then(|before| before.owner_key.clone()),
            cert: link.cert.or_else(|| before.as_ref().and_then(|before| before.cert)),
            display_name: Some(said_name.map_or_else(|| topic::display_slug(display_name), str::to_owned)),
        };
        Memberships::put(&self.places, &membership)?;
        pending.forget();
        Ok(Joined { membership, already_member: answer["alreadyMember"] == true })
    }

    /// Tells the broker that a member leaves for good. The entry in `config.json` stays.
    pub async fn leave(&self, membership: &Membership) -> Result<(), EnrolError> {
        let pubkey = membership.key.public().hex();
        let body = |timestamp| {
            let signed = hello::leave_request(&membership.mesh_id, &pubkey, timestamp);
            let signature = membership.key.sign(signed.as_bytes()).hex();
            json!({"meshId": membership.mesh_id, "timestamp": timestamp, "signature": signature})
        };
        let path = format!("/v1/me/members/{pubkey}/leave");
        self.ask_any(membership, &Call { path: &path, token: None, body: &body }).await?;
        Ok(())
    }

    /// Takes a new key, for a machine that was copied: a new member in the old one's place, which leaves after a day.
    pub async fn remint(&self, membership: &Membership) -> Result<Membership, EnrolError> {
        let pending = Pending::of(&self.places, &format!("remint:{}", membership.key.public()))?;
        let reminted = self.succeed(membership, pending.key(), None, false).await;
        match &reminted {
            Ok(reminted) => {
                Memberships::put(&self.places, reminted)?;
                pending.forget();
            }
            Err(error) if error.is_final() => pending.forget(),
            Err(_) => {}
        }
        reminted
    }

    /// An ephemeral member beside this one, with a key that is written nowhere.
    pub async fn ephemeral(&self, membership: &Membership, display_name: &str) -> Result<Membership, EnrolError> {
        self.succeed(membership, &SecretKey::generate(), Some(display_name), true).await
    }

    async fn succeed(
        &self,
        membership: &Membership,
        key: &SecretKey,
        display_name: Option<&str>,
        ephemeral: bool,
    ) -> Result<Membership, EnrolError> {
        let (old, new) = (membership.key.public().hex(), key.public().hex());
        let body = |timestamp| {
            let signed = hello::remint_request(&membership.mesh_id, &old, &new, ephemeral, timestamp);
            json!({
                "meshId": membership.mesh_id,
                "newPubkey": new,
                "displayName": display_name.map(topic::display_slug),
                "ephemeral": ephemeral,
                "timestamp": timestamp,
                "signature": membership.key.sign(signed.as_bytes()).hex(),
                "proof": key.sign(signed.as_bytes()).hex(),
            })
        };
        let path = format!("/v1/me/members/{old}/remint");
        let answer = self.ask_any(membership, &Call { path: &path, token: None, body: &body }).await?;
        let said_name = answer["displayName"].as_str().or(display_name).map(str::to_owned);
        Ok(Membership {
            member_id: text(&answer, "memberId")?,
            key: key.clone(),
            joined_at: iso(self.clock.now_ms()),
            owner_key: membership.owner_key.clone().filter(|_| !ephemeral),
            display_name: said_name.or_else(|| membership.display_name.clone()),
            ..membership.clone()
        })
    }

    /// Asks the first broker that can be reached.
    async fn ask_any(&self, membership: &Membership, call: &Call<'_>) -> Result<Value, EnrolError> {
        let mut last = EnrolError::Url("the mesh has no broker".into());
        for url in self.urls.as_ref().unwrap_or(&membership.broker_urls) {
            let url = match BrokerUrl::parse(url) {
                Ok(url) => url,
                Err(error) => {
                    last = EnrolError::Url(error.to_string());
                    continue;
                }
            };
            let dial = match self.dialler(&url, membership.cert, &membership.slug) {
                Ok(dial) => dial,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            match http::post(&*dial, &url, &self.clock, call).await {
                Err(error @ EnrolError::Unreachable { .. }) => last = error,
                decided => return decided,
            }
        }
        Err(last)
    }

    /// What reaches a broker: the certificate that the invite named, else the authorities that the mesh's settings name.
    fn dialler(&self, url: &BrokerUrl, cert: Option<CertPin>, slug: &str) -> Result<Arc<dyn Dial>, EnrolError> {
        if let Some(dial) = &self.dial {
            return Ok(Arc::clone(dial));
        }
        if !url.tls || cert.is_some() {
            return Ok(Arc::new(NetDial::new(cert)?));
        }
        let file = self.places.mesh(slug).config();
        let (settings, _) = Settings::load(&file)?;
        let Some(authorities) = settings.broker.ca_file else {
            return Err(EnrolError::NoCertificate { url: url.http_base(), file });
        };
        let pem = files::read_bounded(&authorities, AUTHORITIES)?.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("`{}` is not there", authorities.display()))
        })?;
        Ok(Arc::new(NetDial::with_authorities(None, &pem)?))
    }

    /// The name of the daemon's directory here: another mesh may have the same slug on another broker.
    fn free_slug(&self, slug: &str, mesh_id: &str) -> Result<String, EnrolError> {
        let all = Memberships::load(&self.places)?;
        if let Some(known) = all.all().iter().find(|known| known.mesh_id == mesh_id) {
            return Ok(known.slug.clone());
        }
        let taken = |slug: &str| all.find(slug).is_some();
        let numbered = (2..1000).map(|number| format!("{slug}-{number}"));
        std::iter::once(slug.to_owned())
            .chain(numbered)
            .find(|slug| !taken(slug))
            .ok_or_else(|| EnrolError::Name("too many meshes of this name".into()))
    }
}

fn websocket(url: &BrokerUrl) -> String {
    let path = if url.path == "/" { "/ws" } else { &url.path };
    url.with_path(path).websocket()
}

/// The invite's broker, then the others the answer names. It cannot talk us out of encryption.
fn brokers(first: &str, answer: &Value) -> Vec<String> {
    let mut urls = vec![first.to_owned()];
    let encrypted = BrokerUrl::parse(first).is_ok_and(|url| url.tls);
    for url in answer["brokers"].as_array().into_iter().flatten().filter_map(Value::as_str).take(16) {
        let fits = BrokerUrl::parse(url).is_ok_and(|url| url.tls || !encrypted);
        if fits && !urls.iter().any(|known| known == url) {
            urls.push(url.to_owned());
        }
    }
    urls
}

fn text(answer: &Value, name: &str) -> Result<String, EnrolError> {
    let found = answer[name].as_str().filter(|text| !text.is_empty() && text.len() <= 256);
    found.map(str::to_owned).ok_or_else(|| EnrolError::Answer(format!("it lacks `{name}`")))
}

#[cfg(test)]
mod tests;
