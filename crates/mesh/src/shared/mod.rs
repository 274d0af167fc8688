//! What the members of a mesh keep together, as this daemon sees it: the shared state and the tasks.
//!
//! Invariant: what the broker stores it cannot read, and what it hands out counts only if its box opens and names the
//! entry it was asked for. Changes are compared and ordered by the broker alone, so there are none without it; each has
//! an id, and is asked for again under the same one when the answer was lost. Events are told from the log, in its order
//! and together with the place in it, so none is lost and none told twice.
//!
//! Names, values, titles, bodies and results carry the signature of who wrote them. An answer says whether that member is
//! proven to have done so. Claims and releases of tasks carry none: who is at a task is the broker's word, as its order is.
//!
//! It keeps no copy: who reads asks the broker.

mod arrive;
mod keys;
mod state;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use hostel_wire::authorship::{RecordContext, RecordPart};
use hostel_wire::canonical::canonical;
use hostel_wire::encoding;
use hostel_wire::frames::client::Call;
use hostel_wire::frames::server::Answer;
use hostel_wire::frames::shared::{Boxed, Link};
use hostel_wire::sealed::{NameKey, RootKey, SharedKey};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::link::calls::Reply;
use crate::mesh::Refusal;
use crate::mesh::core::{Core, Standing};
use crate::topics::GENERAL;

pub(crate) use arrive::{await_keys, event};
pub(crate) use keys::hand_on;
pub use state::{StateChange, StateItem, StateList, StatePage, StateWritten};
pub use tasks::{NewTask, TaskItem, TaskPage, TaskQuery, TaskStepRequest, TaskStepped};

pub use hostel_wire::frames::shared::{Step as TaskStep, TaskStatus};

/// The feature a broker must have.
pub(crate) const FEATURE: &str = "shared_records";

/// How long a change may take in all, and how long a connection that broke under it may take to come back.
const PATIENCE: Duration = Duration::from_secs(20);
const RETURN: Duration = Duration::from_secs(5);

/// The pause before it is asked again, at first and at most.
const AGAIN: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

/// What is kept of all this: keys.
pub(crate) struct Shared {
    names: Option<NameKey>,
    /// Earlier keys by their epochs, as the broker has them.
    links: Mutex<BTreeMap<u64, Link>>,
    /// The epoch under which earlier keys were handed on.
    handed_on: AtomicU64,
    /// Keys that were waited for in vain: what is sealed with them is told as it is.
    missed: Mutex<BTreeSet<u64>>,
}

/// A member that is named in an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemberRef {
    /// Its id.
    pub member_id: String,
    /// Its name; none if nobody remembers it.
    pub name: Option<String>,
}

impl Shared {
    pub(crate) fn new(root: Option<&RootKey>) -> Self {
        Self {
            names: root.map(NameKey::derive),
            links: Mutex::default(),
            handed_on: AtomicU64::new(0),
            missed: Mutex::default(),
        }
    }

    fn names(&self) -> Result<&NameKey, Refusal> {
        self.names.as_ref().ok_or_else(|| keyless("the mesh's root key is not here"))
    }

    /// The digest of a name, hex.
    fn digest(&self, name: &str) -> Result<String, Refusal> {
        Ok(encoding::hex(&self.names()?.name(name)))
    }

    /// What is compared when a request comes again, hex. It has a key: who stores it cannot try contents out.
    fn fingerprint(&self, request: &Value) -> Result<String, Refusal> {
        let text = canonical(request).map_err(|error| Refusal::new("invalid", error.to_string()))?;
        Ok(encoding::hex(&self.names()?.request(&text)))
    }
}

/// Whether a refusal is about one entry: its box is not what it says it is, or nobody who is there has its key. A list
/// leaves such a one out and counts it, or whoever writes one would take the list from everybody.
fn is_of_entry(refusal: &Refusal) -> bool {
    matches!(refusal.code(), "hash_mismatch" | "key_unavailable")
}

fn is_none(count: &usize) -> bool {
    *count == 0
}

fn keyless(detail: &str) -> Refusal {
    Refusal::new("key_unavailable", detail)
}

fn unreadable() -> Refusal {
    Refusal::new("broker_refused", "the broker's answer makes no sense")
}

/// Seals something for all members.
fn seal(epoch: u64, key: &SharedKey, plain: &Value) -> Boxed {
    let sealed = key.seal(plain.to_string().as_bytes());
    Boxed { epoch, nonce: sealed.nonce, ciphertext: sealed.ciphertext }
}

/// Signs an object that is to be sealed.
fn sign(core: &Core, part: RecordPart, record: &str, plain: Value) -> Value {
    let (me, key) = (&core.me, core.key());
    RecordContext { mesh_id: &me.mesh_id, member_id: &me.member_id, part, record }.sign(plain, &key.key)
}

/// Takes the signature out of an opened object; whether it proves that this member wrote it. A signature that does not is
/// worth as much as none: the member may have made it with a key that is not known here.
fn is_by(core: &Core, member_id: &str, part: RecordPart, record: &str, plain: &mut Value) -> bool {
    let own = (member_id == core.me.member_id).then(|| core.keys.publics());
    let keys = own.unwrap_or_else(|| core.authors().keys(member_id));
    let context = RecordContext { mesh_id: &core.me.mesh_id, member_id, part, record };
    context.check(plain, &keys) == Some(true)
}

/// Opens a box that must hold an object.
fn open(key: &SharedKey, boxed: &Boxed) -> Option<Value> {
    let plain = key.open_parts(&boxed.nonce, &boxed.ciphertext).ok()?;
    serde_json::from_slice(&plain).ok().filter(Value::is_object)
}

/// A member by its id.
fn member(core: &Core, id: &str) -> MemberRef {
    MemberRef { member_id: id.to_owned(), name: core.roster.member(id).map(|member| member.name) }
}

/// The id of a request: the caller's, or a new one.
fn client_id(core: &Core, given: Option<String>) -> Result<String, Refusal> {
    let Some(id) = given else { return Ok(hostel_wire::ids::ulid(core.clock.now_ms())) };
    if id.is_empty() || id.len() > 256 || id.chars().any(char::is_control) {
        return Err(Refusal::field("client_message_id", "an id has 1 to 256 bytes and no control characters"));
    }
    Ok(id)
}

/// Asks the broker to read something.
async fn read(core: &Core, call: Call) -> Result<Answer, Refusal> {
    let line = core.line_soon().await?;
    can_share(&line)?;
    answer(line.ask(call).await)
}

/// Asks the broker to change something. Sealed anew when the key has changed, asked again under the same id when the
/// connection broke: the broker knows what it has done.
async fn change(core: &Core, make: impl Fn(u64, &SharedKey) -> Call) -> Result<Answer, Refusal> {
    core.check_sending()?;
    let deadline = Instant::now() + PATIENCE;
    let mut line = core.line_soon().await?;
    can_share(&line)?;
    let mut pause = AGAIN;
    loop {
        let (epoch, key) = keys::sealing(core).await?;
        let refusal = match answer(line.ask(make(epoch, &key)).await) {
            Ok(answer) => return Ok(answer),
            Err(refusal) => refusal,
        };
        match refusal.code() {
            _ if Instant::now() >= deadline => return Err(refusal),
            "stale_key_epoch" => core.topics.stale(GENERAL),
            "broker_unavailable" => {
                // A connection that has just broken may still look open.
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST);
                let mut standing = core.watch_standing();
                let back = standing.wait_for(|standing| *standing == Standing::Open);
                if tokio::time::timeout(RETURN, back).await.is_err() {
                    return Err(refusal);
                }
                line = core.line()?;
            }
            _ => return Err(refusal),
        }
    }
}

fn can_share(line: &crate::link::calls::Line) -> Result<(), Refusal> {
    match line.welcome.features.supported.contains_key(FEATURE) {
        true => Ok(()),
        false => Err(Refusal::new("not_implemented", "the mesh's broker is older and shares neither state nor tasks")),
    }
}

fn answer(reply: Result<Reply, Refusal>) -> Result<Answer, Refusal> {
    match reply {
        Ok(Reply::Answer(answer)) => Ok(answer),
        Ok(Reply::TopicKey(_)) => Err(unreadable()),
        // Its disk, or it is ending.
        Err(refusal) if refusal.code() == "unavailable" => {
            Err(Refusal::new("broker_unavailable", refusal.detail().to_owned()))
        }
        Err(refusal) if refusal.code() == "capacity" => {
            Err(Refusal::new("insufficient_storage", refusal.detail().to_owned()))
        }
        Err(refusal) => Err(refusal),
    }
}
