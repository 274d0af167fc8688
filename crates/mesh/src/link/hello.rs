//! The first words of a connection: the broker's challenge, our hello, its welcome.
//!
//! Invariant: every connection signs a fresh challenge, and a session's connection carries an attestation made for it
//! alone; none is ever used again. Features we require and do not get end the connection before anything is sent.

use std::time::Duration;

use hostel_wire::frames::Group;
use hostel_wire::frames::client::{ClientFrame, Features, Hello, Resume, SessionHello, Succession};
use hostel_wire::frames::server::{HelloAck, HelloChallenge, ServerFrame};
use hostel_wire::hello::{attest, sign_hello, sign_session_hello};
use hostel_wire::keys::SecretKey;

use super::End;
use super::socket::{Ear, Heard, Mouth};

/// How long the broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an attestation is good for; the next connection gets its own.
const ATTESTED_MS: u64 = 12 * 3_600_000;

/// What this program cannot do without.
pub(crate) const REQUIRED: [&str; 7] =
    ["client_message_id_dedupe", "log_cursor", "lanes", "client_ack_cumulative", "caught_up", "roster", "topic_keys"];

/// What it would use.
pub(crate) const WELCOME: [&str; 8] = [
    "files",
    "sessions",
    "history",
    "priority_ahead",
    crate::shared::FEATURE,
    super::greet::STATEMENTS,
    super::receive::ACK_SYNCED,
    super::news::PRESENCE_BATCHES,
];

/// Who speaks.
pub(crate) struct Introduction<'a> {
    pub(crate) mesh_id: &'a str,
    pub(crate) member_id: &'a str,
    pub(crate) member: &'a SecretKey,
    /// The session's key, on a session's connection.
    pub(crate) session: Option<&'a SecretKey>,
    pub(crate) display_name: String,
    pub(crate) session_id: String,
    pub(crate) pid: u32,
    pub(crate) cwd: String,
    pub(crate) hostname: String,
    pub(crate) peer_type: &'static str,
    pub(crate) channel: &'static str,
    pub(crate) groups: Vec<Group>,
    pub(crate) host_fingerprint: Option<String>,
    pub(crate) features: Features,
    pub(crate) resume: Option<Resume>,
    /// What the broker calls the roster that we have.
    pub(crate) roster_mark: Option<String>,
    /// How the key came after earlier ones, for a broker that does not know it.
    pub(crate) lineage: Vec<Succession>,
    /// Our clock, for a broker that does not say its own.
    pub(crate) now_ms: u64,
}

impl Introduction<'_> {
    fn frame(&self, challenge: &HelloChallenge) -> Result<ClientFrame, End> {
        let timestamp = if challenge.time == 0 { self.now_ms } else { challenge.time };
        let role = if self.session.is_some() { "session" } else { "service" };
        // The member's connection gets everything; a session's needs none of it twice.
        let capabilities = self.session.map(|_| "no_push".to_owned()).into_iter().collect();
        let member = self.member.public();
        let mut hello = Hello {
            protocol_version: 2,
            capabilities,
            mesh_id: self.mesh_id.to_owned(),
            member_id: self.member_id.to_owned(),
            pubkey: member.hex(),
            display_name: self.display_name.clone(),
            session_id: self.session_id.clone(),
            pid: self.pid,
            cwd: self.cwd.clone(),
            hostname: self.hostname.clone(),
            peer_type: self.peer_type.to_owned(),
            channel: self.channel.to_owned(),
            groups: self.groups.clone(),
            timestamp,
            nonce: Some(challenge.nonce.clone()),
            host_fingerprint: self.host_fingerprint.clone(),
            features: Some(self.features.clone()),
            resume: self.resume.clone(),
            role: Some(role.to_owned()),
            roster_mark: self.roster_mark.clone(),
            lineage: self.lineage.clone(),
            ..Hello::default()
        };
        let unsigned = |error| End::lost("hello", format!("the hello cannot be signed: {error}"));
        let Some(session) = self.session else {
            sign_hello(&mut hello, self.member).map_err(unsigned)?;
            return Ok(ClientFrame::Hello(Box::new(hello)));
        };
        hello.session_pubkey = Some(session.public().hex());
        let mut hello = SessionHello {
            hello,
            parent_member_id: self.member_id.to_owned(),
            parent_member_pubkey: member.hex(),
            parent_attestation: attest(self.member, &session.public(), timestamp.saturating_add(ATTESTED_MS)),
        };
        sign_session_hello(&mut hello, session).map_err(unsigned)?;
        Ok(ClientFrame::SessionHello(Box::new(hello)))
    }
}

/// Says hello and waits for the welcome. Also says what the broker's clock showed.
pub(crate) async fn introduce(
    ear: &mut Ear,
    mouth: &mut Mouth,
    who: &Introduction<'_>,
) -> Result<(HelloAck, Option<u64>), End> {
    let talk = async {
        let challenge = match next(ear).await? {
            ServerFrame::HelloChallenge(challenge) => challenge,
            ServerFrame::Error(error) => return Err(End::of_code(&error.code, &error.message)),
            _ => return Err(End::lost("hello", "the broker does not begin with a challenge")),
        };
        if !challenge.protocol.contains(&2) || challenge.nonce.is_empty() || challenge.nonce.len() > 128 {
            return Err(End::Features("the broker does not speak the second protocol".to_owned()));
        }
        mouth.say(who.frame(&challenge)?.encode()).await?;
        let welcome = match next(ear).await? {
            ServerFrame::HelloAck(welcome) => *welcome,
            ServerFrame::Error(error) => return Err(refused(ear, &error.code, &error.message).await),
            _ => return Err(End::lost("hello", "the broker answers the hello with something else")),
        };
        let lacking = missing(&who.features, &welcome);
        match lacking.is_empty() {
            true => Ok((welcome, Some(challenge.time).filter(|time| *time != 0))),
            false => Err(End::Features(lacking.join(", "))),
        }
    };
    match tokio::time::timeout(PATIENCE, talk).await {
        Ok(result) => result,
        Err(_) => Err(End::lost("hello", "the broker did not answer the hello")),
    }
}

/// After an error the broker closes, and its close may say more than the error.
async fn refused(ear: &mut Ear, code: &str, text: &str) -> End {
    let told = End::of_code(code, text);
    if !matches!(told, End::Lost(..)) {
        return told;
    }
    let closing = async {
        loop {
            if let Err(end) = ear.hear().await {
                return end;
            }
        }
    };
    match tokio::time::timeout(Duration::from_secs(1), closing).await {
        Ok(end @ (End::Revoked | End::Features(_) | End::Replaced | End::Kicked)) => end,
        _ => told,
    }
}

/// The next frame that is one of ours to understand.
async fn next(ear: &mut Ear) -> Result<ServerFrame, End> {
    loop {
        if let Heard::Text(text) = ear.hear().await? {
            match ServerFrame::decode(&text) {
                Ok(frame) => return Ok(frame),
                Err(hostel_wire::frames::FrameError::UnknownType(_)) => {}
                Err(error) => return Err(End::lost("hello", error)),
            }
        }
    }
}

/// What we require and the broker has not; a broker that says so itself is believed.
fn missing(features: &Features, welcome: &HelloAck) -> Vec<String> {
    let lacks = |name: &&String| !welcome.features.supported.contains_key(*name);
    let mut missing: Vec<String> = features.require.iter().filter(lacks).cloned().collect();
    missing.extend(welcome.features.missing_required.iter().filter(|name| features.require.contains(name)).cloned());
    missing.sort();
    missing.dedup();
    missing
}
