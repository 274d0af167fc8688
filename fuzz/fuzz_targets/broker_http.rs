//! Whatever is posted to a broker: it answers with a status and JSON that says what is wrong, never with an error of its
//! own; a mesh, a member or a file is made only of what was well formed, and of a file nothing is kept but what was
//! signed. The first byte says what is asked for, a NUL separates headers and body of an upload.
#![no_main]

use std::sync::{Arc, LazyLock};

use hostel_broker::engine::{EngineOptions, SqliteEngine};
use hostel_broker::registry::RegistrySettings;
use hostel_broker::{AdminToken, Broker, Log, PeerInfo, Settings};
use hostel_wire::Clock;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use hostel_wire::keys::SecretKey;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

const TOKEN: &str = "a token of some length";

/// The headers of an upload that say something of the file.
const HEADERS: [&str; 6] = ["X-File-Id", "X-File-Name", "X-Tags", "X-Persistent", "X-Target-Spec", "X-File-Keys"];

struct World {
    runtime: Runtime,
    broker: Arc<Broker<SqliteEngine>>,
    mesh: String,
    member: String,
    key: SecretKey,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let scratch = std::env::temp_dir().join(format!("broker-http-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a directory");
    let broker = runtime.block_on(async {
        let options =
            EngineOptions { inline: true, ..EngineOptions::at(scratch.join("broker.db"), scratch.join("blobs")) };
        let engine = SqliteEngine::open(options).await.expect("an engine");
        let settings = Settings { admin_token: AdminToken::new(TOKEN), ..Settings::default() };
        // Few of everything: what a run leaves behind must not slow down the next.
        let few = RegistrySettings { meshes: 20, members: 50, files: 20, ..RegistrySettings::default() };
        Broker::open(engine, settings, few, Clock::system(), Log::silent()).await.expect("a broker")
    });
    let key = SecretKey::from_seed(&[5; 32]);
    let body = json!({"name": "lab", "owner_pubkey": SecretKey::from_seed(&[6; 32]).public().hex(),
        "member": {"pubkey": key.public().hex(), "display_name": "alice"}});
    let mut world = World { runtime, broker, mesh: String::new(), member: String::new(), key };
    let (status, made) =
        world.ask("POST /mesh", &[("Authorization", format!("Bearer {TOKEN}"))], body.to_string().as_bytes());
    assert_eq!(status, 200, "{made}");
    world.mesh = made["meshId"].as_str().expect("an id").to_owned();
    world.member = made["memberId"].as_str().expect("an id").to_owned();
    world
});

impl World {
    /// One request on a connection of its own.
    fn ask(&self, line: &str, headers: &[(&str, String)], body: &[u8]) -> (u16, Value) {
        let mut request =
            format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let bytes = [request.as_bytes(), body].concat();
        self.say(&bytes, false)
    }

    /// Says something; who hangs up at once may get no answer.
    fn say(&self, bytes: &[u8], hang_up: bool) -> (u16, Value) {
        let answer = self.runtime.block_on(async {
            let (mut ours, theirs) = tokio::io::duplex(bytes.len() + (1 << 20));
            let broker = Arc::clone(&self.broker);
            let serving = tokio::spawn(async move {
                broker.serve_connection(theirs, PeerInfo { address: None }).await;
            });
            ours.write_all(bytes).await.ok();
            if hang_up {
                ours.shutdown().await.ok();
            }
            let mut answer = Vec::new();
            ours.read_to_end(&mut answer).await.expect("a pipe");
            serving.await.expect("a broker that panics is a finding");
            answer
        });
        let text = String::from_utf8_lossy(&answer);
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        (status, serde_json::from_str(body).unwrap_or_default())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, rest)) = bytes.split_first() else { return };
    let world = &*WORLD;
    let bearer = [("Authorization", format!("Bearer {TOKEN}"))];
    let pubkey = world.key.public().hex();
    let (status, said) = match which % 6 {
        0 => world.ask("POST /mesh", &bearer, rest),
        1 => world.ask("POST /join", &[], rest),
        2 => return upload(world, rest),
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

fn upload(world: &World, rest: &[u8]) {
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
    let signed = format!("claudemesh-http-v1|POST|/upload|{}|{}|{now}|{digest}", world.mesh, world.member);
    headers.extend([
        ("X-Mesh-Id", world.mesh.clone()),
        ("X-Member-Id", world.member.clone()),
        ("X-Timestamp", now.to_string()),
        ("X-Body-Sha256", digest),
        ("X-Signature", world.key.sign(signed.as_bytes()).hex()),
    ]);
    let (status, said) = world.ask("POST /upload", &headers, body);
    assert!((200..500).contains(&status) || matches!(status, 503 | 507), "{status} {said}");
    if status == 200 {
        assert_eq!(said["size"], body.len(), "{said}");
        let id = said["fileId"].as_str().expect("an id");
        assert!(hostel_wire::ids::is_ulid(id), "{id}");
    }
}
