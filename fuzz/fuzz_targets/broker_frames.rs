//! Whatever a member's daemon says after its hello, one frame per line: the broker says only what a daemon can read, is
//! there afterwards, and answers under the id of what was asked. `$ME` in a line is the member's own id.
#![no_main]

use std::cell::RefCell;

use hostel_fuzz::broker::{Member, World};
use hostel_wire::frames::server::ServerFrame;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Frames of one run at most.
const MOST: usize = 32;

/// Asked last.
const LAST: &str = "the last one";

thread_local! {
    static WORLD: RefCell<Option<(World, Member)>> = const { RefCell::new(None) };
}

fn open() -> (World, Member) {
    let world = World::new("broker-frames", 1_000_000);
    let alice = world.enrol();
    (world, alice)
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    WORLD.with_borrow_mut(|place| {
        let (world, mut alice) = place.take().unwrap_or_else(open);
        let going = world.runtime.block_on(play(&world, &alice, text));
        if !going {
            // She has left, or was sent away by herself: the next run is about somebody new.
            alice = world.enrol();
        }
        *place = Some((world, alice));
    });
});

/// Whether the member is let in.
async fn play(world: &World, alice: &Member, text: &str) -> bool {
    let Some(mut link) = world.link(alice).await else { return false };
    for line in text.lines().take(MOST) {
        link.tell(&line.replace("$ME", &alice.id)).await;
    }
    link.tell(&format!(r#"{{"type":"list_peers","_reqId":"{LAST}"}}"#)).await;
    while let Some(frame) = link.hear().await {
        let written = frame.to_string();
        let read = ServerFrame::decode(&written);
        assert!(read.is_ok(), "no daemon reads {written}: {read:?}");
        if let Ok(ServerFrame::Error(error)) = read {
            assert!(!error.code.is_empty() && error.code != "unavailable", "{written}");
        }
        if frame["_reqId"] == LAST && frame["type"] != Value::Null {
            break;
        }
    }
    link.end().await;
    true
}
