//! What a restart of the broker costs when all members of a large mesh come back at once.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use futures_util::{SinkExt as _, StreamExt as _};
use hostel_broker::registry::JoinRequest;
use hostel_broker::{Limits, PeerInfo, Settings};
use hostel_wire::frames::client::{ClientFrame, Features};
use hostel_wire::hello::sign_hello;
use hostel_wire::keys::SecretKey;
use serde_json::Value;
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message;

use super::{Host, Lab, Peer, hang_limit};

/// What all members have heard together.
#[derive(Default)]
struct Heard {
    frames: AtomicU64,
    bytes: AtomicU64,
    rosters: AtomicU64,
    unchanged: AtomicU64,
}

/// A member whose daemon only listens.
struct Listener {
    mark: watch::Receiver<Option<String>>,
    is_welcome: watch::Receiver<bool>,
    /// Members that it has heard of.
    others: watch::Receiver<usize>,
}

/// Connects a member and counts what it hears until the broker ends.
async fn listen(host: &Host, peer: &Peer, mark: Option<String>, heard: &Arc<Heard>) -> Listener {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let broker = Arc::clone(&host.broker);
    tokio::spawn(async move { broker.serve_connection(far, PeerInfo::default()).await });
    let (mut socket, _) = tokio_tungstenite::client_async("ws://localhost/ws", near).await.unwrap();
    let challenge = socket.next().await.unwrap().unwrap().into_text().unwrap();
    let challenge: Value = serde_json::from_str(&challenge).unwrap();
    let mut hello = peer.hello();
    hello.nonce = Some(challenge["nonce"].as_str().unwrap().to_owned());
    hello.roster_mark = mark;
    hello.features =
        Some(Features { require: vec!["lanes".to_owned()], optional: vec!["presence_batches".to_owned()] });
    sign_hello(&mut hello, &peer.key).unwrap();
    socket.send(Message::text(ClientFrame::Hello(Box::new(hello)).encode())).await.unwrap();
    let (marks, mark) = watch::channel(None);
    let (counts, others) = watch::channel(0);
    let (welcomed, is_welcome) = watch::channel(false);
    let heard = Arc::clone(heard);
    tokio::spawn(async move {
        let mut known = HashSet::new();
        while let Some(Ok(Message::Text(text))) = socket.next().await {
            heard.frames.fetch_add(1, Ordering::Relaxed);
            heard.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
            let is_roster = text.starts_with(r#"{"type":"roster"#);
            if is_roster && !text.contains(r#""mark":"#) {
                // The long parts of a roster cost this test more than the broker.
                heard.rosters.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let frame: Value = serde_json::from_str(&text).unwrap();
            match frame["type"].as_str() {
                Some("hello_ack") => {
                    let is_unchanged = frame["rosterUnchanged"] == true;
                    heard.unchanged.fetch_add(u64::from(is_unchanged), Ordering::Relaxed);
                    welcomed.send_replace(true);
                }
                Some("roster" | "roster_delta") => {
                    heard.rosters.fetch_add(1, Ordering::Relaxed);
                    if let Some(mark) = frame["mark"].as_str() {
                        marks.send_replace(Some(mark.to_owned()));
                    }
                }
                _ => {}
            }
            let single = frame["eventData"]["memberId"].as_str().into_iter();
            let several = frame["eventData"]["items"].as_array().into_iter().flatten();
            known.extend(single.chain(several.filter_map(|item| item["memberId"].as_str())).map(str::to_owned));
            counts.send_replace(known.len());
        }
    });
    Listener { mark, is_welcome, others }
}

/// All members come at once; what they name as the roster's mark afterwards, and how long that took.
async fn all_come(host: &Host, peers: &[Peer], mark: Option<&str>, heard: &Arc<Heard>) -> (Vec<Listener>, f64) {
    let began = Instant::now();
    let mut listeners = Vec::with_capacity(peers.len());
    for peer in peers {
        listeners.push(listen(host, peer, mark.map(str::to_owned), heard).await);
    }
    // Who came first hears of everybody else.
    let mut others = listeners[0].others.clone();
    let all = async {
        others.wait_for(|count| *count >= peers.len() - 1).await.unwrap();
        for listener in &mut listeners {
            listener.is_welcome.wait_for(|is| *is).await.unwrap();
        }
    };
    tokio::time::timeout(hang_limit(), all).await.expect("everybody is welcome and heard of");
    (listeners, began.elapsed().as_secs_f64())
}

/// The frames that a member hears do not become more with the members of the mesh, and nobody gets a roster that it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_costs_each_of_many_members_a_few_frames() {
    let members = if std::env::var_os("HOSTEL_TEST_BIG").is_some() { 2000 } else { 400 };
    let limits = Limits { capacity: 2 * members, ..Limits::default() };
    let settings = Settings { limits, ..Settings::default() };
    let lab = Lab::with(settings.clone()).await;
    let link = lab.invite(members as u32, "member").await;
    let mut peers = Vec::with_capacity(members);
    let began = Instant::now();
    for number in 0..members {
        let key = SecretKey::generate();
        let request = JoinRequest {
            invite_token: link.token.clone(),
            invite_payload: None,
            peer_pubkey: key.public().hex(),
            display_name: format!("member-{number}"),
        };
        let member = lab.host.broker.registry().join(request).await.unwrap().member_id;
        peers.push(Peer { mesh: lab.mesh.clone(), member, key });
    }
    println!("{members} joins: {:.2} s", began.elapsed().as_secs_f64());
    // Nobody is to hear of the joins.
    let lab = lab.restart(settings.clone()).await;
    let first = Arc::new(Heard::default());
    let (mut listeners, seconds) = all_come(&lab.host, &peers, None, &first).await;
    let mark = listeners[0].mark.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    println!("first start: {seconds:.2} s, {} MB", first.bytes.load(Ordering::Relaxed) >> 20);
    drop(listeners);
    let lab = lab.restart(settings).await;
    let again = Arc::new(Heard::default());
    let (_listeners, seconds) = all_come(&lab.host, &peers, Some(&mark), &again).await;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!("restart: {seconds:.2} s, {} frames, {} MB", count(&again.frames), count(&again.bytes) >> 20);
    assert_eq!((count(&again.unchanged), count(&again.rosters)), (members as u64, 0), "nobody gets the roster again");
    // A welcome, and a batch of news every 200 ms for as long as members come.
    let most = 4 + (seconds / 0.2) as u64 * 2 + 20;
    assert!(count(&again.frames) <= most * members as u64, "{} frames", count(&again.frames));
    lab.host.stop().await;
}
