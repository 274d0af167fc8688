//! Databases of a daemon with any bytes changed: what is wrong is found or it does no harm, recovering ends with
//! databases that work, what was damaged is kept as it was, and no message is sent that nobody wrote. The first byte says
//! how to go on and where the damage is, then come places and what is done to the byte there.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use hostel_mesh::inbox::{Arrival, Content, Inbox, InboxOptions, Plain};
use hostel_mesh::outbox::{DestKind, NewMessage, Outbox, OutboxOptions, Payload};
use hostel_mesh::recover::{self, Database, Way};
use hostel_wire::Clock;
use hostel_wire::frames::{Kind, Priority};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::Runtime;

const ROWS: u64 = 8;
const NAMES: [&str; 2] = ["outbox.db", "inbox.db"];

struct World {
    runtime: Runtime,
    directory: PathBuf,
    /// Both databases as they should be.
    sound: [Vec<u8>; 2],
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let runtime = hostel_fuzz::mesh::runtime();
    let directory = std::env::temp_dir().join(format!("mesh-recover-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    runtime.block_on(fill(&directory));
    let sound = NAMES.map(|name| fs::read(directory.join(name)).expect("a database"));
    World { runtime, directory, sound }
});

fn body(number: u64) -> String {
    // One is longer than a page.
    format!("message {number} {}", "y".repeat(if number == 3 { 9000 } else { 70 }))
}

async fn outbox(directory: &Path) -> Outbox {
    let mut options = OutboxOptions::new(directory.join(NAMES[0]), Clock::system());
    options.inline = true;
    Outbox::open(options).await.expect("an outbox that works")
}

async fn inbox(directory: &Path) -> Inbox {
    let mut options = InboxOptions::new(directory.join(NAMES[1]), "lab", Clock::system());
    options.inline = true;
    Inbox::open(options).await.expect("an inbox that works").0
}

async fn fill(directory: &Path) {
    let (queue, arrivals) = (outbox(directory).await, inbox(directory).await);
    for number in 1..=ROWS {
        let message = NewMessage {
            client_message_id: Some(format!("id-{number}")),
            sender_session: None,
            dest_kind: DestKind::Dm,
            dest_ref: "bob".to_owned(),
            priority: Priority::Next,
            payload: Payload { body: body(number), ..Payload::default() },
        };
        queue.accept(message).await.expect("it is accepted");
        let arrival = Arrival {
            sender_member_id: "bob".to_owned(),
            client_message_id: format!("in-{number}"),
            origin: None,
            broker_message_id: format!("broker-{number}"),
            broker_seq: number,
            kind: Kind::Dm,
            topic: None,
            sender_pubkey: "key".to_owned(),
            sender_member_pubkey: None,
            sender_name: "bob".to_owned(),
            priority: Priority::Next,
            created_at: Some(1),
            recipient_pubkey: None,
            recipient_session: None,
            content: Content::Open(Plain { body: body(number), ..Plain::default() }),
        };
        arrivals.store(vec![arrival], Vec::new(), None).await.expect("it is stored");
    }
    drop((queue.close(), arrivals.close()));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, changes)) = bytes.split_first() else { return };
    let world = &*WORLD;
    let dir = &world.directory;
    fs::remove_dir_all(dir).ok();
    fs::create_dir_all(dir).expect("a directory");
    let mut files = world.sound.clone();
    for change in changes.chunks_exact(4) {
        let file = &mut files[usize::from(which >> 4 & 1)];
        let at = usize::from(change[0]) << 16 | usize::from(change[1]) << 8 | usize::from(change[2]);
        // A few of them cut it off.
        match (at < file.len(), change[3]) {
            (true, 0) => file.truncate(at),
            (true, flip) => file[at] ^= flip,
            (false, _) => {}
        }
    }
    for (name, file) in NAMES.iter().zip(&files) {
        fs::write(dir.join(name), file).expect("a file");
    }
    let way = [Way::FromBroker, Way::ReadOnly, Way::Fresh][usize::from(which % 16 % 3)];
    let found = recover::look(dir);
    let done = recover::recover(dir, way, 7, None).expect("there is room");
    for aside in &done.set_aside {
        let kept = fs::read(aside).expect("nothing is thrown away");
        assert!(files.contains(&kept), "what was damaged is kept as it was");
    }
    assert_eq!(done.outbox.is_some(), way == Way::FromBroker && found.outbox.is_damaged());
    let after = recover::look(dir);
    let new = |database: &Database| matches!(database, Database::TooNew(_));
    assert!(!after.inbox.is_damaged() && (way == Way::ReadOnly || !after.outbox.is_damaged()), "{after:?}");
    if way == Way::ReadOnly || new(&after.outbox) || new(&after.inbox) {
        return;
    }
    world.runtime.block_on(async {
        let (queue, arrivals) = (outbox(dir).await, inbox(dir).await);
        let rows = queue.claim(1000, usize::MAX, |_| true).await.expect("it can be read").rows;
        assert!(rows.len() as u64 <= ROWS);
        if done.outbox.is_some() {
            let bodies: Vec<String> = (1..=ROWS).map(body).collect();
            assert!(rows.iter().all(|row| bodies.contains(&row.payload.body)), "nobody wrote this");
        }
        drop((queue.close(), arrivals.close()));
    });
});
