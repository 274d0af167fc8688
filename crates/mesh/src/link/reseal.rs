//! Copies of keys that the broker keeps for us, sealed anew once our own key was replaced: those of topics and of files.
//! What was sealed for an earlier key could not be opened any more once that is gone.
//!
//! Invariant: a copy that is done is not done again for the same key, and one that the broker had no time for is asked for
//! again, not the ones before it: however many there are and however often the connection breaks, it comes to an end. One
//! that the broker never has time for, because its record there is damaged, keeps none of the others waiting.
//! Doing one twice changes nothing. It asks slowly, so that what the member asks meanwhile finds room in what the broker
//! allows it, and nobody waits for it. It ends with the connection, and the next one goes on.

use std::collections::HashSet;
use std::time::Duration;

use hostel_wire::frames::client::Call;
use hostel_wire::sealed::FileKey;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::calls::{Line, Reply};
use super::pages;
use crate::files::keys;
use crate::keyring::MemberKey;
use crate::mesh::Refusal;
use crate::mesh::core::Core;

/// Copies of topics' keys that are sealed anew at most. A broker keeps no more files than a list has room for.
const MOST_COPIES: usize = 50_000;

/// So much is asked without a pause; then there is one before each request: half of what a broker allows.
const AT_ONCE: u32 = 200;
const PAUSE: Duration = Duration::from_millis(20);

/// What the broker has no time for is asked for again after this long, and not later than after that long.
const AGAIN: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(30);

/// After so many times the next copy is asked for first: some two minutes.
const TRIES: u32 = 8;

/// A copy that the broker keeps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Copy {
    Topic(String, u64),
    File(String),
}

/// How far it has come, over all connections of this daemon.
#[derive(Default)]
pub(crate) struct Resealed(Mutex<Place>);

#[derive(Default)]
struct Place {
    /// The key that what is done was done for.
    key: String,
    done: HashSet<Copy>,
    /// Nothing is left.
    all: bool,
}

impl Resealed {
    /// Goes on for a key, or begins if it is another one. Says whether there is anything to do.
    fn begin(&self, key: &str) -> bool {
        let mut place = self.0.lock();
        if place.key != key {
            *place = Place { key: key.to_owned(), ..Place::default() };
        }
        !place.all
    }

    /// The broker is not as it was: what it has may be sealed for any earlier key.
    pub(crate) fn forget(&self) {
        *self.0.lock() = Place::default();
    }

    fn is_done(&self, copy: &Copy) -> bool {
        self.0.lock().done.contains(copy)
    }

    /// A copy is done, unless somebody has said meanwhile that all has to be done again.
    fn done(&self, key: &str, copy: Copy) {
        let mut place = self.0.lock();
        if place.key == key {
            place.done.insert(copy);
        }
    }

    fn finish(&self, key: &str) {
        let mut place = self.0.lock();
        if place.key == key {
            *place = Place { key: key.to_owned(), done: HashSet::new(), all: true };
        }
    }
}

/// Seals anew, for the key that counts, what is not done yet. Goes on until it is done or the connection ends.
pub(super) async fn all(core: &Core, line: &Line) {
    let current = core.keys.current();
    // A broker that was set back may know keys that are long gone here.
    let ours = core.roster.member(&core.me.member_id);
    let replaced = core.keys.archived() > 0 || ours.is_some_and(|ours| !ours.retired.is_empty());
    if !replaced || !line.welcome.features.supported.contains_key("rotate_key") {
        return;
    }
    if !core.resealed.begin(&current.pubkey) {
        return;
    }
    let (mut asking, mut said) = (Asking { line, asked: 0 }, false);
    loop {
        let topics = topics(core, &mut asking, &current).await;
        let left = match files(core, &mut asking, &current).await {
            Ok(files) => topics + files,
            Err(refusal) => {
                core.log.warn("keys_not_resealed", json!({"code": refusal.code(), "detail": refusal.detail()}));
                return;
            }
        };
        if left == 0 {
            break;
        }
        if !std::mem::replace(&mut said, true) {
            core.log.warn("keys_not_resealed", json!({"copies": left, "detail": "they are tried again"}));
        }
        tokio::time::sleep(LATEST).await;
    }
    core.resealed.finish(&current.pubkey);
    core.log.info("keys_resealed", json!({"requests": asking.asked}));
}

/// How many are left for later.
async fn topics(core: &Core, asking: &mut Asking<'_>, current: &MemberKey) -> usize {
    let (keys, mut left) = (core.topics.keys(), 0);
    if keys.len() > MOST_COPIES {
        core.log.warn("keys_not_resealed", json!({"copies": keys.len() - MOST_COPIES}));
    }
    for (ring, epoch, key) in keys.into_iter().take(MOST_COPIES) {
        let Some(topic_id) = core.topics.id_of_ring(&ring) else { continue };
        let copy = Copy::Topic(topic_id.clone(), epoch);
        if core.resealed.is_done(&copy) {
            continue;
        }
        if let Ok((blob, nonce)) = key.seal_for(&current.key, &current.public()) {
            // One that the broker does not have need not be replaced.
            if is_later(&asking.ask(Call::TopicKeyReplace { topic_id, epoch, blob, nonce }).await) {
                left += 1;
                continue;
            }
        }
        core.resealed.done(&current.pubkey, copy);
    }
    left
}

/// How many are left for later.
async fn files(core: &Core, asking: &mut Asking<'_>, current: &MemberKey) -> Result<usize, Refusal> {
    let (listed, mut left) = (asking.files().await?, 0);
    // A file for everybody has one copy of its key, which is nobody's own.
    let own = listed.iter().filter(|file| file.get("to").is_some_and(Value::is_string));
    for file_id in own.filter_map(|file| file.get("id").and_then(Value::as_str)) {
        let copy = Copy::File(file_id.to_owned());
        if core.resealed.is_done(&copy) {
            continue;
        }
        let mut answer = asking.ask(Call::GetFile { file_id: file_id.to_owned() }).await;
        if let Some(sealed_key) = answer.as_ref().ok().and_then(|answer| for_current(core, current, answer)) {
            answer = asking.ask(Call::FileKeyReplace { file_id: file_id.to_owned(), sealed_key }).await;
        }
        if is_later(&answer) {
            left += 1;
            continue;
        }
        core.resealed.done(&current.pubkey, copy);
    }
    Ok(left)
}

/// Whether something has to be asked again; every other no is an answer.
fn is_later(answer: &Result<Reply, Refusal>) -> bool {
    answer.as_ref().is_err_and(Refusal::passes)
}

/// The key of a file as it has to be kept, if it is not kept so.
fn for_current(core: &Core, current: &MemberKey, answer: &Reply) -> Option<String> {
    let Reply::Answer(answer) = answer else { return None };
    let sealed = answer.fields.get("sealedKey").and_then(Value::as_str)?;
    if keys::epoch(sealed).is_some() || FileKey::open_seal(sealed, &current.key).is_ok() {
        return None;
    }
    keys::open(core, sealed)?.seal_for(&current.public()).ok()
}

/// Asks one thing after the other, as slowly as is right.
struct Asking<'a> {
    line: &'a Line,
    asked: u32,
}

impl Asking<'_> {
    /// Asks until there is an answer that stays, or it has been asked often enough for now.
    async fn ask(&mut self, call: Call) -> Result<Reply, Refusal> {
        let mut wait = AGAIN;
        for _ in 1..TRIES {
            self.pace().await;
            match self.line.ask(call.clone()).await {
                Err(refusal) if refusal.passes() => tokio::time::sleep(wait).await,
                answer => return answer,
            }
            wait = LATEST.min(wait * 2);
        }
        self.pace().await;
        self.line.ask(call).await
    }

    /// Files that we may read.
    async fn files(&mut self) -> Result<Vec<Value>, Refusal> {
        let mut wait = AGAIN;
        loop {
            self.pace().await;
            match pages::files(self.line).await {
                Err(refusal) if refusal.passes() => tokio::time::sleep(wait).await,
                listed => return listed.map(|listed| listed.items),
            }
            wait = LATEST.min(wait * 2);
        }
    }

    async fn pace(&mut self) {
        self.asked = self.asked.saturating_add(1);
        if self.asked > AT_ONCE {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use hostel_wire::frames::server::{Answer, ErrorFrame, HelloAck};
    use tokio::sync::mpsc;

    use super::*;

    fn topic(epoch: u64) -> Copy {
        Copy::Topic("t1".to_owned(), epoch)
    }

    #[test]
    fn the_place_is_kept_for_one_key_and_lost_with_it() {
        let place = Resealed::default();
        assert!(place.begin("a"));
        place.done("a", topic(1));
        assert!(
            place.begin("a") && place.is_done(&topic(1)) && !place.is_done(&topic(2)),
            "the next connection goes on"
        );
        place.done("before", topic(2));
        assert!(!place.is_done(&topic(2)), "that was for another key");
        place.finish("before");
        assert!(place.begin("a"), "so was that");
        place.finish("a");
        assert!(!place.begin("a"));
        assert!(place.begin("b") && !place.is_done(&topic(1)), "another key has everything before it");
        place.done("b", topic(1));
        place.forget();
        place.done("b", topic(2));
        place.finish("b");
        assert!(place.begin("b") && !place.is_done(&topic(1)) && !place.is_done(&topic(2)), "from the start");
    }

    /// A broker that refuses every third request for now is asked for the same again, and for nothing twice.
    #[tokio::test(start_paused = true)]
    async fn what_the_broker_has_no_time_for_is_asked_for_again() {
        const COPIES: u64 = 300;
        let (out, mut frames) = mpsc::channel(4);
        let line = Line::new(out, HelloAck::default());
        let answering = async {
            let (mut taken, mut heard) = (Vec::new(), 0);
            while taken.len() < COPIES as usize {
                let frame: Value = serde_json::from_str(&frames.recv().await.unwrap()).unwrap();
                let id = frame["_reqId"].as_str().unwrap();
                heard += 1;
                if heard % 3 == 0 {
                    let (code, message) = ("rate_limited".to_owned(), "again in 1 ms".to_owned());
                    line.refused(&ErrorFrame { code, message, req_id: Some(id.to_owned()), id: None });
                } else {
                    taken.push(frame["epoch"].as_u64().unwrap());
                    line.answered(Some(id), Ok(Reply::Answer(Answer::default())));
                }
            }
            taken
        };
        let asking = async {
            let mut asking = Asking { line: &line, asked: 0 };
            for epoch in 0..COPIES {
                let (topic_id, blob, nonce) = ("t1".to_owned(), String::new(), String::new());
                asking.ask(Call::TopicKeyReplace { topic_id, epoch, blob, nonce }).await.unwrap();
            }
            asking.asked
        };
        let (asked, taken) = tokio::join!(asking, answering);
        assert_eq!(taken, (0..COPIES).collect::<Vec<_>>());
        assert_eq!(u64::from(asked), COPIES + (COPIES - 1) / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_broker_never_has_time_for_is_left_for_later() {
        let (out, mut frames) = mpsc::channel(4);
        let line = Line::new(out, HelloAck::default());
        let answering = async {
            for _ in 0..TRIES {
                let frame: Value = serde_json::from_str(&frames.recv().await.unwrap()).unwrap();
                let (code, id) = ("unavailable".to_owned(), frame["_reqId"].as_str().map(str::to_owned));
                line.refused(&ErrorFrame { code, message: String::new(), req_id: id, id: None });
            }
        };
        let mut asking = Asking { line: &line, asked: 0 };
        let (answer, ()) = tokio::join!(asking.ask(Call::GetFile { file_id: "f".to_owned() }), answering);
        assert!(is_later(&answer));
        assert_eq!(asking.asked, TRIES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_no_is_taken_for_an_answer() {
        let (out, mut frames) = mpsc::channel(4);
        let line = Line::new(out, HelloAck::default());
        let answering = async {
            let frame: Value = serde_json::from_str(&frames.recv().await.unwrap()).unwrap();
            let (code, id) = ("not_found".to_owned(), frame["_reqId"].as_str().map(str::to_owned));
            line.refused(&ErrorFrame { code, message: String::new(), req_id: id, id: None });
        };
        let mut asking = Asking { line: &line, asked: 0 };
        let (answer, ()) = tokio::join!(asking.ask(Call::GetFile { file_id: "f".to_owned() }), answering);
        assert!(!is_later(&answer));
        assert_eq!(answer.unwrap_err().code(), "not_found");
    }
}
