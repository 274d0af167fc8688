//! A client and a mesh daemon that comes and goes, both of the test's making.

use std::collections::VecDeque;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::mpsc;

use super::super::MeshAnswer;
use super::super::MeshEvent;
use super::super::MeshEvents;
use super::super::MeshFollowed;
use super::super::MeshQuestion;
use super::*;

/// Streams and pages that come one after the other; a stream without an end stays open.
#[derive(Default)]
struct Daemon {
    session: bool,
    streams: Mutex<VecDeque<Vec<MeshEvent>>>,
    pages: Mutex<VecDeque<Vec<Value>>>,
    /// After which events streams were asked for, and since when pages were.
    asked: Mutex<Vec<Option<String>>>,
    since: Mutex<Vec<String>>,
}

struct Stream {
    events: VecDeque<MeshEvent>,
    open: bool,
}

impl MeshEvents for Stream {
    fn next(&mut self) -> Later<'_, Option<MeshEvent>> {
        Box::pin(async move {
            match self.events.pop_front() {
                None if self.open => std::future::pending().await,
                next => next,
            }
        })
    }
}

impl Mesh for Daemon {
    fn ask<'a>(
        &'a self,
        _: &'a Caller,
        mesh: Option<&'a str>,
        question: MeshQuestion<'a>,
    ) -> Later<'a, Result<MeshAnswer, String>> {
        let value = |name: &str| question.query.iter().find(|(key, _)| *key == name).and_then(|(_, value)| *value);
        assert_eq!((question.path, value("mark_seen"), value("order")), ("/v1/inbox", Some("false"), Some("oldest")));
        self.since.lock().push(value("since").unwrap_or_default().to_owned());
        let items = self.pages.lock().pop_front().unwrap_or_default();
        let answer = MeshAnswer { mesh: mesh.unwrap_or_default().to_owned(), body: json!({"items": items}) };
        Box::pin(async move { Ok(answer) })
    }

    fn meshes<'a>(&'a self, _: &'a Caller) -> Later<'a, Result<Vec<String>, String>> {
        Box::pin(async { Ok(vec!["lab".to_owned()]) })
    }

    fn follow<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a str,
        last: Option<&'a str>,
    ) -> Later<'a, Result<MeshFollowed, String>> {
        self.asked.lock().push(last.map(str::to_owned));
        let mut streams = self.streams.lock();
        let events = streams.pop_front();
        let open = streams.is_empty();
        let session = self.session;
        Box::pin(async move {
            let events = events.ok_or_else(|| "no daemon is up".to_owned())?;
            Ok(MeshFollowed { events: Box::new(Stream { events: events.into(), open }), session })
        })
    }
}

/// A client that can leave.
struct Listener {
    heard: mpsc::Sender<Value>,
}

impl Ear for Listener {
    fn ready(&self) -> Later<'_, bool> {
        Box::pin(async { true })
    }

    fn hear(&self, told: Value) -> Later<'_, bool> {
        Box::pin(async move { self.heard.send(told).await.is_ok() })
    }

    fn gone(&self) -> Later<'_, ()> {
        Box::pin(self.heard.closed())
    }
}

fn message(id: &str, session: Option<&str>) -> Value {
    json!({"id": id, "client_message_id": id, "body": format!("body {id}"), "sender_name": "bob", "cursor": id,
        "ts": "2026-01-01T00:01:00.000Z", "received_at": "2026-01-01T00:01:00.000Z", "recipient_session": session})
}

fn event(n: u32, id: &str) -> MeshEvent {
    MeshEvent { id: format!("boot-{n}"), name: "message".to_owned(), data: message(id, None) }
}

/// What a client hears, that many times.
async fn hear(daemon: Daemon, count: usize) -> (Arc<Daemon>, Vec<String>, mpsc::Receiver<Value>) {
    let daemon = Arc::new(daemon);
    let (heard, mut ears) = mpsc::channel(1);
    let mesh: Arc<dyn Mesh> = Arc::clone(&daemon) as Arc<dyn Mesh>;
    tokio::spawn(run(mesh, Arc::default(), Arc::new(Listener { heard }), 1_767_225_600_000));
    let mut told = Vec::new();
    for _ in 0..count {
        let notice = ears.recv().await.unwrap();
        told.push(notice["meta"]["message_id"].as_str().unwrap().to_owned());
    }
    (daemon, told, ears)
}

#[tokio::test(start_paused = true)]
async fn every_message_is_pushed_once_whatever_happens_to_the_daemon() {
    let daemon = Daemon {
        // It dies twice, then has forgotten where we were.
        streams: Mutex::new(
            [
                vec![event(1, "b"), event(2, "c")],
                vec![event(3, "d")],
                vec![
                    MeshEvent { id: String::new(), name: "gap".to_owned(), data: json!({}) },
                    event(7, "e"),
                    event(8, "f"),
                ],
            ]
            .into(),
        ),
        // One that came before the stream stood, one of the stream's; after the gap those and one more.
        pages: Mutex::new(
            [vec![message("a", None), message("b", None)], vec![], vec![message("d", None), message("e", None)]].into(),
        ),
        ..Daemon::default()
    };
    let (daemon, told, mut ears) = hear(daemon, 6).await;
    assert_eq!(told, ["a", "b", "c", "d", "e", "f"]);
    assert!(tokio::time::timeout(Duration::from_secs(60), ears.recv()).await.is_err(), "nothing twice");
    let asked = daemon.asked.lock().clone();
    let word = |word: &str| Some(word.to_owned());
    assert_eq!(asked, [None, word("boot-2"), word("boot-3")]);
    let since = daemon.since.lock().clone();
    assert_eq!((since[0].as_str(), since.len() >= 3), ("2026-01-01T00:00:00.000Z", true));
    assert_eq!(since[2], "2026-01-01T00:01:00.000Z", "not from the beginning again");
}

#[tokio::test(start_paused = true)]
async fn the_member_is_not_told_what_is_for_its_sessions() {
    let events = || {
        let mut theirs = event(1, "a");
        theirs.data = message("a", Some("review"));
        Mutex::new(VecDeque::from([vec![theirs, event(2, "b")]]))
    };
    let (_, told, _) = hear(Daemon { streams: events(), ..Daemon::default() }, 1).await;
    assert_eq!(told, ["b"]);
    // A session is shown by its daemon what is its own, and that is all it is shown.
    let (_, told, _) = hear(Daemon { session: true, streams: events(), ..Daemon::default() }, 2).await;
    assert_eq!(told, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_not_followed_any_longer() {
    let daemon = Arc::new(Daemon::default());
    let (heard, ears) = mpsc::channel(1);
    let mesh: Arc<dyn Mesh> = Arc::clone(&daemon) as Arc<dyn Mesh>;
    let running = tokio::spawn(run(mesh, Arc::default(), Arc::new(Listener { heard }), 0));
    tokio::time::sleep(Duration::from_secs(60)).await;
    // A daemon that is not there is looked for, not too often.
    let asked = daemon.asked.lock().len();
    assert!((5..40).contains(&asked), "{asked}");
    drop(ears);
    running.await.unwrap();
}
