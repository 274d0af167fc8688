//! The way without a daemon: connect, do one thing, leave.
//!
//! Invariant: it speaks as a session of its own, with a key made for this one connection and vouched for by the member's
//! key. Nothing is kept and nothing is queued: what the broker does not take at once has failed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::Clock;
use hostel_wire::authorship::{MessageContext, SessionProof};
use hostel_wire::body::{BODY_VERSION, Body};
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint;
use hostel_wire::frames::client::{Call, ClientFrame, Features, Request, Send};
use hostel_wire::frames::server::{Ack, ServerFrame};
use hostel_wire::frames::{Kind, To};
use hostel_wire::ids;
use hostel_wire::invite::CertPin;
use hostel_wire::keys::{PublicKey, SecretKey};
use hostel_wire::sealed::{PairKey, RootKey, Sealed, TopicKey};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::authors::Authors;
use crate::inbox::Cursor;
use crate::keep::Kept;
use crate::link::End;
use crate::link::calls::{Line, Reply};
use crate::link::dial::{BrokerUrl, Dial};
use crate::link::hello::{self, Introduction};
use crate::link::pages;
use crate::link::seal::sealed_len;
use crate::link::socket::{self, Ear, Heard, Mouth};
use crate::log::Log;
use crate::mesh::grants;
use crate::mesh::invite::{self, Inviter};
use crate::mesh::sending::mentioned;
use crate::mesh::{InviteRequest, Invited, Refusal, SendRequest, Sent};
use crate::resolve::{self, Target};
use crate::roster::{Admission, Roster};
use crate::topics::{GENERAL, Known, Topics, talk};

/// How long the broker may take to take a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the member vouches for the key of the connection. Long: the clock of this host may be wrong, and the key is
/// gone with the connection.
const VOUCHED_FOR_MS: u64 = 24 * 3_600_000;

/// With what one connects.
pub struct ColdOptions {
    /// The mesh's short name.
    pub slug: String,
    /// Its id.
    pub mesh_id: String,
    /// Our member's id.
    pub member_id: String,
    /// Our key.
    pub member_key: SecretKey,
    /// The key of epoch 0 of `general`.
    pub root_key: Option<RootKey>,
    /// The mesh owner's key, on the owner's host.
    pub owner_key: Option<SecretKey>,
    /// The digest of the broker's certificate, for invites.
    pub certificate: Option<CertPin>,
    /// Our name.
    pub display_name: String,
    /// Where the brokers are.
    pub broker_urls: Vec<String>,
    /// How they are reached.
    pub dial: Arc<dyn Dial>,
    /// The time of day.
    pub clock: Clock,
    /// The directory of the mesh's daemon: what it knows of other members counts here, too.
    pub dir: Option<PathBuf>,
}

/// A connection for one errand.
pub struct Cold {
    options: ColdOptions,
    key: SecretKey,
    line: Arc<Line>,
    roster: Arc<Roster>,
    topics: Topics,
    acks: mpsc::Receiver<Ack>,
    work: JoinHandle<()>,
}

impl Cold {
    /// Connects to the first broker that can be reached.
    pub async fn connect(options: ColdOptions) -> Result<Self, Refusal> {
        let key = SecretKey::generate();
        let mut last = Refusal::offline();
        for text in &options.broker_urls {
            let url = BrokerUrl::parse(text).map_err(|error| Refusal::new("invalid", error.to_string()))?;
            match reach(&options, &key, &url).await {
                Ok((ear, mouth, line, frames)) => return Self::begin(options, key, ear, mouth, line, frames).await,
                Err(End::Revoked) => return Err(Refusal::revoked()),
                Err(End::Features(missing)) => return Err(Refusal::new("features_missing", missing)),
                Err(End::Lost(_, detail)) => last = Refusal::new("broker_unavailable", detail),
                Err(End::Stranger(detail)) => last = Refusal::new("unauthorized", detail),
                Err(_) => {}
            }
        }
        Err(last)
    }

    async fn begin(
        options: ColdOptions,
        key: SecretKey,
        ear: Ear,
        mouth: Mouth,
        line: Arc<Line>,
        frames: mpsc::Receiver<String>,
    ) -> Result<Self, Refusal> {
        let log = Log::silent();
        let roster = Roster::load(Kept::new(None, ""), log.clone()).map_err(Refusal::internal)?;
        let topics = Topics::load(Kept::new(None, ""), log, options.root_key.as_ref()).map_err(Refusal::internal)?;
        let roster = Arc::new(roster);
        let authors = Authors::default();
        let before = Roster::load(Kept::new(options.dir.as_deref(), "roster.json"), Log::silent());
        before.map_err(Refusal::internal)?.remember(&Admission {
            authors: &authors,
            mesh_id: &options.mesh_id,
            own_id: &options.member_id,
            signs_from: None,
        });
        let own = (options.mesh_id.clone(), options.member_id.clone());
        let (taken, acks) = mpsc::channel(16);
        let (here, mut listed) = watch::channel(false);
        let pump = pump(ear, mouth, Arc::clone(&line), frames, Arc::clone(&roster), authors, own, taken, here);
        let work = hostel_tasks::spawn(pump);
        let cold = Self { options, key, line, roster, topics, acks, work };
        match tokio::time::timeout(PATIENCE, listed.wait_for(|here| *here)).await {
            Ok(Ok(_)) => Ok(cold),
            _ => Err(Refusal::new("broker_unavailable", "the broker sent no roster")),
        }
    }

    /// Where the broker's log ends now.
    #[must_use]
    pub fn end_of_log(&self) -> Cursor {
        let log = &self.line.welcome.log;
        Cursor { epoch: log.epoch.clone(), seq: log.last_seq, ..Cursor::default() }
    }

    /// Sends a message and waits until the broker has it.
    pub async fn send(&mut self, request: SendRequest) -> Result<Sent, Refusal> {
        let target = resolve::target(&self.roster, &request.to)?;
        let (kind, dest_kind, dest_ref, to, session) = self.destination(&target).await?;
        let client_message_id = request.client_message_id.unwrap_or_else(|| ids::ulid(self.options.clock.now_ms()));
        let reply = request.reply_to.as_deref();
        let made = fingerprint::request(
            dest_kind,
            &dest_ref,
            reply,
            request.priority,
            request.meta.as_ref(),
            request.message.as_bytes(),
        );
        let made = made.map_err(|error| Refusal::field("meta", error.to_string()))?;
        let mentions = mentioned(&request.message, &request.mentions)?;
        let body = Body {
            body: request.message,
            meta: request.meta,
            reply_to: request.reply_to,
            mentions,
            client_message_id: Some(client_message_id.clone()),
            fingerprint: Some(made),
            session,
            author: Some(self.name()),
            session_proof: (kind == Kind::Dm).then(|| self.session_proof()),
            ..Body::default()
        };
        let plain = match kind {
            Kind::Dm => body.to_bytes(),
            _ => body.to_signed_bytes(
                &MessageContext {
                    mesh_id: &self.options.mesh_id,
                    member_id: &self.options.member_id,
                    member_key: &self.options.member_key.public(),
                    sender_key: &self.key.public(),
                    kind,
                    destination: &dest_ref,
                    client_message_id: &client_message_id,
                },
                &self.options.member_key,
            ),
        };
        if sealed_len(plain.len()) > self.line.welcome.limits.message_bytes {
            return Err(
                Refusal::new("message_too_large", "the mesh does not allow messages of this size").about("message")
            );
        }
        let mut again = true;
        let ack = loop {
            let (sealed, key_epoch) = self.seal(&target, &to, &plain).await?;
            let frame = Send {
                id: client_message_id.clone(),
                client_message_id: client_message_id.clone(),
                request_fingerprint: hex(&made),
                target_spec: None,
                kind: Some(kind),
                to: Some(to.clone()),
                priority: request.priority,
                nonce: sealed.nonce,
                ciphertext: sealed.ciphertext,
                mentions: Vec::new(),
                reply_to_id: None,
                body_version: BODY_VERSION,
                key_epoch,
                lane: None,
                lane_seq: None,
                origin: None,
                file_id: None,
            };
            self.line.tell(ClientFrame::Send(Box::new(frame)).encode()).await?;
            let ack = self.answer(&client_message_id).await?;
            if !again || ack.code.as_deref() != Some("stale_key_epoch") {
                break ack;
            }
            // The key was replaced between the two: once more, with the one that counts now.
            again = false;
            talk::refresh(&self.topics, &self.line).await?;
        };
        if !ack.queued {
            return Err(Refusal::of_broker(
                ack.code.as_deref().unwrap_or_default(),
                ack.error.as_deref().unwrap_or_default(),
            ));
        }
        let member = match target {
            Target::Member(member, _) => Some(member),
            _ => None,
        };
        Ok(Sent {
            message_id: client_message_id.clone(),
            client_message_id,
            status: "done",
            broker_message_id: Some(ack.message_id),
            duplicate: ack.duplicate,
            topic: None,
            target: Some(member.as_ref().map_or(request.to, |member| member.name.clone())),
            target_pubkey: member.map(|member| member.pubkey),
            recipient_online: None,
        })
    }

    /// The name that we sign: the one this host was given, not the one that the broker says. The mesh's own name stands for
    /// one that is not known.
    fn name(&self) -> String {
        let ColdOptions { display_name, slug, member_id, .. } = &self.options;
        let own = Some(display_name).filter(|name| *name != slug).cloned();
        own.or_else(|| self.roster.name(member_id)).unwrap_or_default()
    }

    /// The member's word for the key of this connection.
    fn session_proof(&self) -> SessionProof {
        let until = self.options.clock.now_ms().saturating_add(VOUCHED_FOR_MS);
        SessionProof::new(&self.options.member_key, &self.key.public(), until)
    }

    async fn destination(&self, target: &Target) -> Result<(Kind, &'static str, String, To, Option<String>), Refusal> {
        Ok(match target {
            Target::Member(member, _) if member.id == self.options.member_id => {
                return Err(Refusal::field(
                    "to",
                    "that is this host itself; for its sessions its daemon must be up, which hands messages over",
                ));
            }
            Target::Member(member, session) => {
                let reference =
                    session.as_ref().map_or_else(|| member.id.clone(), |session| format!("{}/{session}", member.id));
                (Kind::Dm, "dm", reference, To::Member(member.id.clone()), session.clone())
            }
            Target::All => (Kind::All, "all", "*".to_owned(), To::All(true), None),
            Target::Group(name) => (Kind::Group, "group", format!("@{name}"), To::Group(name.clone()), None),
            Target::Topic(name) => {
                let topic = self.topic(name).await?;
                (Kind::Topic, "topic", topic.id.clone(), To::Topic(topic.id), None)
            }
        })
    }

    async fn topic(&self, name: &str) -> Result<Known, Refusal> {
        talk::refresh(&self.topics, &self.line).await?;
        self.topics
            .by_name(name)
            .ok_or_else(|| Refusal::new("topic_not_found", format!("there is no topic `{name}`")).about("to"))
    }

    async fn seal(&self, target: &Target, to: &To, plain: &[u8]) -> Result<(Sealed, Option<u64>), Refusal> {
        if let Target::Member(member, _) = target {
            let bad = || Refusal::new("recipient_unknown", "the member's key is no key");
            let key = PublicKey::from_hex(&member.pubkey).ok_or_else(bad)?;
            return Ok((PairKey::new(&self.key, &key).map_err(|_| bad())?.seal(plain), None));
        }
        let topic = match to {
            To::Topic(id) => self.topics.by_id(id),
            _ => Some(self.topic(GENERAL).await?),
        };
        let topic = topic.ok_or_else(|| Refusal::new("topic_not_found", "the topic is gone"))?;
        let ring = self.topics.ring(&topic.id);
        let key = match self.topics.key(&ring, topic.epoch) {
            Some(key) => key,
            None => self.fetch_key(&topic).await?,
        };
        Ok((key.seal(plain), Some(topic.epoch)))
    }

    async fn fetch_key(&self, topic: &Known) -> Result<TopicKey, Refusal> {
        let missing = || Refusal::new("topic_key_missing", "the topic's key is not sealed for this member yet");
        let call = Call::TopicKeyGet { topic_id: topic.id.clone(), epoch: Some(topic.epoch) };
        let Reply::TopicKey(frame) = self.line.ask(call).await? else { return Err(missing()) };
        let opened = TopicKey::open_seal(&frame.seal.blob, &frame.seal.nonce, &self.options.member_key);
        let (key, sealer) = opened.map_err(|_| missing())?;
        if self.roster.has_x25519(&sealer) { Ok(key) } else { Err(missing()) }
    }

    async fn answer(&mut self, id: &str) -> Result<Ack, Refusal> {
        let waiting = async {
            while let Some(ack) = self.acks.recv().await {
                if ack.id == id {
                    return Ok(ack);
                }
            }
            Err(Refusal::offline())
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(result) => result,
            Err(_) => Err(Refusal::new("broker_unavailable", "the broker did not answer in time")),
        }
    }

    /// Asks the broker something and takes the answer as it is.
    pub async fn ask(&self, call: Call) -> Result<Value, Refusal> {
        self.line.fields(call).await.map(Value::Object)
    }

    /// Who is there, with `all` also who is not, as the broker lists them.
    pub async fn peers(&self, all: bool) -> Result<Value, Refusal> {
        Ok(json!({"peers": pages::peers(&self.line, all).await?.items}))
    }

    /// Topics, as the broker lists them.
    pub async fn topics(&self) -> Result<Value, Refusal> {
        Ok(json!({"topics": pages::topics(&self.line).await?.items}))
    }

    /// Invites, as the broker lists them; owner and administrators only.
    pub async fn invites(&self) -> Result<Value, Refusal> {
        Ok(json!({"invites": pages::invites(&self.line).await?.items}))
    }

    /// Sets what a peer may do to us; see [`Mesh::grant`](crate::Mesh::grant).
    pub async fn grant(&self, peer: &str, capabilities: Option<Vec<String>>) -> Result<Value, Refusal> {
        grants::set(&self.line, &self.roster, peer, capabilities).await
    }

    /// For which peers something was set.
    pub async fn grants(&self) -> Result<Value, Refusal> {
        grants::list(&self.line).await
    }

    /// Makes an invite; only on the owner's host.
    pub async fn invite_create(&self, request: InviteRequest) -> Result<Invited, Refusal> {
        let options = &self.options;
        let owner = invite::signer(options.owner_key.as_ref(), &self.roster, &options.member_id, &options.member_key);
        let who = Inviter {
            slug: &options.slug,
            mesh_id: &options.mesh_id,
            broker_url: options.broker_urls.first().cloned().unwrap_or_default(),
            owner: owner.as_ref(),
            root: options.root_key.as_ref(),
            certificate: options.certificate,
            now_ms: options.clock.now_ms(),
        };
        invite::create(&self.line, who, request).await
    }

    /// Members of the mesh, as the broker listed them.
    #[must_use]
    pub fn members(&self) -> Vec<hostel_wire::frames::server::Member> {
        self.roster.members()
    }

    /// Says goodbye.
    pub async fn leave(self) {
        let bye = ClientFrame::Request(Request { req_id: None, call: Call::Bye {} });
        self.line.tell(bye.encode()).await.ok();
        let Self { line, work, .. } = self;
        // The last sender of frames: the pump writes what is left and closes.
        drop(line);
        let mut work = work;
        if tokio::time::timeout(Duration::from_secs(2), &mut work).await.is_err() {
            work.abort();
        }
    }
}

async fn reach(
    options: &ColdOptions,
    key: &SecretKey,
    url: &BrokerUrl,
) -> Result<(Ear, Mouth, Arc<Line>, mpsc::Receiver<String>), End> {
    let (mut ear, mut mouth) = socket::connect(&*options.dial, url).await?;
    let require = ["client_message_id_dedupe", "roster", "topic_keys"];
    let who = Introduction {
        mesh_id: &options.mesh_id,
        member_id: &options.member_id,
        member: &options.member_key,
        session: Some(key),
        display_name: options.display_name.clone(),
        session_id: format!("cli-{}", std::process::id()),
        pid: std::process::id(),
        cwd: String::new(),
        hostname: String::new(),
        peer_type: "human",
        channel: "claudemesh-cli",
        groups: Vec::new(),
        host_fingerprint: None,
        features: Features { require: require.iter().map(|name| (*name).to_owned()).collect(), optional: Vec::new() },
        resume: None,
        roster_mark: None,
        lineage: Vec::new(),
        now_ms: options.clock.now_ms(),
    };
    let (welcome, _) = hello::introduce(&mut ear, &mut mouth, &who).await?;
    let (out, frames) = mpsc::channel(64);
    Ok((ear, mouth, Arc::new(Line::new(out, welcome)), frames))
}

/// Carries frames until one side ends.
#[expect(clippy::too_many_arguments, reason = "each is one part of this connection")]
async fn pump(
    mut ear: Ear,
    mut mouth: Mouth,
    line: Arc<Line>,
    mut frames: mpsc::Receiver<String>,
    roster: Arc<Roster>,
    authors: Authors,
    (mesh_id, own_id): (String, String),
    acks: mpsc::Sender<Ack>,
    here: watch::Sender<bool>,
) {
    // Only who uses the connection keeps it: once nobody can send any more, it ends.
    let line = {
        let weak = Arc::downgrade(&line);
        drop(line);
        weak
    };
    let take = |list, first| {
        let admission = Admission { authors: &authors, mesh_id: &mesh_id, own_id: &own_id, signs_from: None };
        here.send_modify(|here| *here |= roster.take_part(list, first, &admission).is_whole);
    };
    loop {
        tokio::select! {
            biased;
            frame = frames.recv() => match frame {
                Some(frame) => if mouth.say(frame).await.is_err() { break },
                None => break,
            },
            heard = ear.hear() => match heard {
                Ok(Heard::Text(text)) => {
                    let (Ok(frame), Some(line)) = (ServerFrame::decode(&text), line.upgrade()) else { continue };
                    match frame {
                        ServerFrame::Ack(ack) => drop(acks.send(*ack).await),
                        ServerFrame::Roster(list) => take(list, true),
                        ServerFrame::RosterDelta(list) => take(list, false),
                        ServerFrame::TopicKey(frame) => {
                            let id = frame.req_id.clone();
                            line.answered(id.as_deref(), Ok(Reply::TopicKey(frame)));
                        }
                        ServerFrame::Answer(answer) => {
                            let id = answer.req_id.clone();
                            line.answered(id.as_deref(), Ok(Reply::Answer(answer)));
                        }
                        ServerFrame::Error(error) => drop(line.refused(&error)),
                        _ => {}
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            },
        }
    }
    if let Some(line) = line.upgrade() {
        line.ended();
    }
    mouth.close().await;
}
