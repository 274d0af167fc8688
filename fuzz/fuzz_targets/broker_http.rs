//! Whatever is posted to a broker: it answers with a status and JSON that says what is wrong, never with an error of its
//! own; a mesh, a member or a file is made only of what was well formed, and of a file nothing is kept but what was
//! signed. The first byte says what is asked for, a NUL separates headers and body of an upload.
#![no_main]

use std::sync::LazyLock;

use hostel_fuzz::broker::{Member, TOKEN, World};
use hostel_wire::Clock;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use libfuzzer_sys::fuzz_target;

/// The headers of an upload that say something of the file.
const HEADERS: [&str; 6] = ["X-File-Id", "X-File-Name", "X-Tags", "X-Persistent", "X-Target-Spec", "X-File-Keys"];

static WORLD: LazyLock<(World, Member)> = LazyLock::new(|| {
    let world = World::new("broker-http", 20);
    let alice = world.enrol();
    (world, alice)
});

fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else { return };
    let (world, alice) = &*WORLD;
    let bearer = [("Authorization", format!("Bearer {TOKEN}"))];
    let pubkey = alice.key.public().hex();
    let (status, said) = match which % 6 {
        0 => world.ask("POST /mesh", &bearer, rest),
        1 => world.ask("POST /join", &[], rest),
        2 => return upload(world, alice, rest),
        3 => world.ask(&format!("POST /v1/me/members/{pubkey}/leave"), &[], rest),
        4 => world.ask(&format!("POST /v1/me/members/{pubkey}/remint"), &[], rest),
        // Not even HTTP, perhaps.
        _ => {
            let (status, _) = world.say(rest, true);
            assert!(status < 500 || status == 501 || status == 505, "{status}");
            return;
        }
    };
    assert!((200..500).contains(&status) || matches!(status, 503 | 507), "{status} {said}");
    if status == 200 {
        assert_eq!(said["ok"], true, "{said}");
    } else {
        assert!(said["error"].as_str().is_some_and(|word| !word.is_empty()), "{status} {said}");
    }
    // Nothing here is signed by anybody but alice, and she has asked for nothing.
    assert!(status != 200 || which % 6 == 0, "{which} {said}");
});

fn upload(world: &World, alice: &Member, rest: &[u8]) {
    let mut parts = rest.splitn(HEADERS.len() + 1, |byte| *byte == 0);
    let mut headers: Vec<(&str, String)> = Vec::new();
    for name in HEADERS {
        let value = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        // A header of several lines would be several headers.
        if !value.is_empty() && !value.contains(['\r', '\n']) {
            headers.push((name, value));
        }
    }
    let body = parts.next().unwrap_or_default();
    let (now, digest) = (Clock::system().now_ms(), hex(&sha256(body)));
    let signed = format!("claudemesh-http-v1|POST|/upload|{}|{}|{now}|{digest}", alice.mesh, alice.id);
    headers.extend([
        ("X-Mesh-Id", alice.mesh.clone()),
        ("X-Member-Id", alice.id.clone()),
        ("X-Timestamp", now.to_string()),
        ("X-Body-Sha256", digest),
        ("X-Signature", alice.key.sign(signed.as_bytes()).hex()),
    ]);
    let (status, said) = world.ask("POST /upload", &headers, body);
    assert!((200..500).contains(&status) || matches!(status, 503 | 507), "{status} {said}");
    if status == 200 {
        assert_eq!(said["size"], body.len(), "{said}");
        let id = said["fileId"].as_str().expect("an id");
        assert!(hostel_wire::ids::is_ulid(id), "{id}");
    }
}
