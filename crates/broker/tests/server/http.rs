//! What is asked by HTTP.

use std::sync::Arc;

use hostel_broker::{Limits, PeerInfo, Settings};
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use hostel_wire::keys::SecretKey;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Lab, Peer, TOKEN};

fn signed(peer: &Peer, method: &str, path: &str, body: &[u8], more: &[(&str, &str)]) -> Vec<(String, String)> {
    let digest = hex(&sha256(body));
    let now = hostel_wire::Clock::system().now_ms();
    let text = format!("claudemesh-http-v1|{method}|{path}|{}|{}|{now}|{digest}", peer.mesh, peer.member);
    let mut headers = vec![
        ("X-Mesh-Id".to_owned(), peer.mesh.clone()),
        ("X-Member-Id".to_owned(), peer.member.clone()),
        ("X-Timestamp".to_owned(), now.to_string()),
        ("X-Body-Sha256".to_owned(), digest),
        ("X-Signature".to_owned(), peer.key.sign(text.as_bytes()).hex()),
    ];
    headers.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    headers
}

async fn ask(lab: &Lab, method: &str, path: &str, headers: &[(String, String)], body: &[u8]) -> (u16, Value) {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    lab.host.http(method, path, &headers, body).await
}

#[tokio::test]
async fn health_and_metrics_are_there_from_the_start() {
    let lab = Lab::new().await;
    let (status, health) = lab.host.http("GET", "/health", &[], b"").await;
    assert_eq!((status, &health["ok"]), (200, &json!(true)));
    assert_eq!(lab.host.http("GET", "/health/ready", &[], b"").await.0, 200);
    let (_, head, _) = lab.host.http_bytes("GET", "/metrics", &[], b"").await;
    assert!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"));
    let (status, error) = lab.host.http("GET", "/nowhere", &[], b"").await;
    assert_eq!((status, &error["error"]), (404, &json!("not_found")));
    let (status, error) = lab.host.http("GET", "/join", &[], b"").await;
    assert_eq!((status, &error["error"]), (405, &json!("method_not_allowed")));
    assert_eq!(lab.host.http("GET", "/ws", &[], b"").await.0, 426);
    assert_eq!(lab.host.http("POST", "/ws", &[], b"").await.0, 405);
    let (status, error) = lab.host.http("POST", "/join", &[], b"{").await;
    assert_eq!((status, &error["error"]), (400, &json!("invalid_json")));
    let long = vec![b' '; 300 * 1024];
    let (status, error) = lab.host.http("POST", "/join", &[], &long).await;
    assert_eq!((status, &error["error"]), (413, &json!("payload_too_large")));
}

/// What a connection from an address is answered.
async fn from(lab: &Lab, address: &str, request: &str) -> String {
    let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
    let (broker, address) = (Arc::clone(&lab.host.broker), address.parse().unwrap());
    let serving =
        tokio::spawn(async move { broker.serve_connection(theirs, PeerInfo { address: Some(address) }).await });
    ours.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    ours.read_to_string(&mut answer).await.unwrap();
    serving.await.unwrap();
    answer
}

#[tokio::test]
async fn metrics_are_for_this_machine_and_for_who_has_the_token() {
    let lab = Lab::new().await;
    let request = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: b\r\nConnection: close\r\n{more}\r\n");
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    for address in ["203.0.113.5:1", "[2001:db8::1]:1", "10.0.0.1:1"] {
        let refused = from(&lab, address, &request("/metrics", "")).await;
        assert!(
            refused.starts_with("HTTP/1.1 401 ") && !refused.contains("broker_connections"),
            "{address}: {refused}"
        );
        let wrong = request("/metrics", "Authorization: Bearer another\r\n");
        assert!(from(&lab, address, &wrong).await.starts_with("HTTP/1.1 401 "), "{address}");
        let shown = from(&lab, address, &request("/metrics", &token)).await;
        assert!(shown.starts_with("HTTP/1.1 200 ") && shown.contains("broker_connections_total"), "{address}: {shown}");
        let health = from(&lab, address, &request("/health", "")).await;
        assert!(health.starts_with("HTTP/1.1 200 "), "whether it is there may be known: {health}");
    }
    for address in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(from(&lab, address, &request("/metrics", "")).await.starts_with("HTTP/1.1 200 "), "{address}");
    }
}

#[tokio::test]
async fn meshes_are_made_with_the_token_alone() {
    let lab = Lab::new().await;
    let body = |name: &str| {
        json!({"name": name, "owner_pubkey": SecretKey::generate().public().hex(),
            "member": {"pubkey": SecretKey::generate().public().hex(), "display_name": "x"}})
        .to_string()
    };
    let content = ("Content-Type", "application/json");
    let token = format!("Bearer {TOKEN}");
    let make = async |headers: &[(&str, &str)]| lab.host.http("POST", "/mesh", headers, body("lab").as_bytes()).await;
    let (status, error) = make(&[content]).await;
    assert_eq!((status, &error["error"]), (401, &json!("unauthorized")), "others reach loopback as well");
    for wrong in ["Bearer wrong", "Bearer ", "", TOKEN, "Basic YTpi"] {
        assert_eq!(make(&[content, ("Authorization", wrong)]).await.0, 401, "{wrong}");
    }
    let (status, made) = make(&[content, ("Authorization", &token)]).await;
    assert_eq!((status, &made["slug"]), (200, &json!("lab-2")));
    let headers = [content, ("Authorization", token.as_str())];
    let (status, error) = lab.host.http("POST", "/mesh", &headers, b"{\"name\":1}").await;
    assert_eq!((status, &error["error"]), (400, &json!("invalid_json")));
    // Signed by the owner: then well.
    let owner = SecretKey::generate();
    let member = SecretKey::generate().public().hex();
    let now = hostel_wire::Clock::system().now_ms();
    let text = hostel_wire::hello::mesh_request("own", &owner.public().hex(), &member, now);
    let signed = |key: &SecretKey| {
        json!({"name": "own", "owner_pubkey": owner.public().hex(), "member": {"pubkey": member, "display_name": "x"},
            "timestamp": now, "signature": key.sign(text.as_bytes()).hex()})
    };
    assert_eq!(lab.host.post("/mesh", &signed(&SecretKey::generate())).await.0, 401);
    assert_eq!(lab.host.post("/mesh", &signed(&owner)).await.0, 200);
}

#[tokio::test]
async fn a_file_goes_up_and_down_for_who_it_is_for() {
    let lab = Lab::new().await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let id = hostel_wire::ids::ulid(hostel_wire::Clock::system().now_ms());
    let keys = json!({&bob.member: "sealed"}).to_string();
    let about = [
        ("X-File-Id", id.as_str()),
        ("X-File-Name", "r%C3%A9port.txt"),
        ("X-Target-Spec", bob.member.as_str()),
        ("X-File-Keys", keys.as_str()),
        ("X-Persistent", "true"),
    ];
    let headers = signed(&lab.alice, "POST", "/upload", &bytes, &about);
    let (status, said) = ask(&lab, "POST", "/upload", &headers, &bytes).await;
    assert_eq!((status, &said["fileId"], &said["size"]), (200, &json!(id), &json!(bytes.len())), "{said}");
    // The answer was lost: the same again is the same.
    assert_eq!(ask(&lab, "POST", "/upload", &headers, &bytes).await.1["fileId"], id);
    // Another file under the same id is refused, whatever is different, and the first one stays as it is.
    let mut elsewhere = about;
    elsewhere[2] = ("X-Target-Spec", "*");
    for (body, about) in [(&bytes[1..], about), (&bytes[..], elsewhere)] {
        let (status, error) =
            ask(&lab, "POST", "/upload", &signed(&lab.alice, "POST", "/upload", body, &about), body).await;
        assert_eq!((status, &error["error"]), (409, &json!("idempotency_key_reused")), "{error}");
    }
    let (status, error) =
        ask(&lab, "POST", "/upload", &signed(&carol, "POST", "/upload", &bytes, &about), &bytes).await;
    assert_eq!((status, &error["error"]), (409, &json!("name_taken")), "{error}");
    let mut b = bob.link(&lab.host).await;
    let url = b.ask(json!({"type": "get_file", "fileId": id})).await;
    assert_eq!(
        (&url["name"], &url["sealedKey"], &url["encrypted"]),
        (&json!("réport.txt"), &json!("sealed"), &json!(true))
    );
    let path = url["url"].as_str().unwrap();
    let headers = signed(&bob, "GET", path, b"", &[]);
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (status, _, got) = lab.host.http_bytes("GET", path, &headers, b"").await;
    assert_eq!(status, 200);
    assert!(got == bytes);
    // Not for others, not unsigned, not for another path.
    let (status, error) = ask(&lab, "GET", path, &signed(&carol, "GET", path, b"", &[]), b"").await;
    assert_eq!((status, &error["error"]), (403, &json!("not_shared_with_you")));
    let mut c = carol.link(&lab.host).await;
    assert_eq!(c.ask(json!({"type": "get_file", "fileId": id})).await["code"], "not_shared_with_you");
    assert_eq!(lab.host.http("GET", path, &[], b"").await.0, 401);
    let (status, error) = ask(&lab, "GET", path, &signed(&bob, "GET", "/download/x", b"", &[]), b"").await;
    assert_eq!((status, &error["error"]), (401, &json!("bad_signature")));
    // It is announced like a message, by who has put it there.
    let mut a = lab.alice().await;
    let mut sent = super::peer::dm(&bob, "f1");
    sent["kind"] = "file".into();
    sent["fileId"] = id.clone().into();
    assert_eq!(a.send(sent.clone()).await["queued"], true);
    let push = b.push().await;
    assert_eq!((&push["kind"], &push["fileId"]), (&json!("file"), &json!(id)));
    assert_eq!(c.send(sent).await["code"], "invalid");
    assert_eq!(b.ask(json!({"type": "list_files"})).await["files"][0]["id"], id);
    assert_eq!(c.ask(json!({"type": "list_files"})).await["files"], json!([]));
    a.ask(json!({"type": "grant_file_access", "fileId": id, "memberId": carol.member, "sealedKey": "for carol"})).await;
    assert_eq!(c.ask(json!({"type": "get_file", "fileId": id})).await["sealedKey"], "for carol");
    assert_eq!(b.ask(json!({"type": "delete_file", "fileId": id})).await["code"], "forbidden");
    assert_eq!(a.ask(json!({"type": "delete_file", "fileId": id})).await["type"], "ok");
    assert_eq!(b.ask(json!({"type": "get_file", "fileId": id})).await["code"], "file_not_found");
}

#[tokio::test]
async fn what_was_not_signed_is_not_kept() {
    let limits = Limits { file_bytes: 1000, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let headers = signed(&lab.alice, "POST", "/upload", b"these bytes", &[]);
    let (status, error) = ask(&lab, "POST", "/upload", &headers, b"other bytes").await;
    assert_eq!((status, &error["error"]), (400, &json!("hash_mismatch")));
    let long = vec![0; 1001];
    let (status, error) = ask(&lab, "POST", "/upload", &signed(&lab.alice, "POST", "/upload", &long, &[]), &long).await;
    assert_eq!((status, &error["error"]), (413, &json!("payload_too_large")));
    let mut a = lab.alice().await;
    assert_eq!(a.ask(json!({"type": "list_files"})).await["files"], json!([]));
    let blobs = std::fs::read_dir(lab.directory.path().join("blobs")).unwrap().count();
    assert!(blobs <= 1, "nothing but a place for what is being written");
}

#[tokio::test]
async fn strangers_have_little_time_and_little_room() {
    let limits = Limits { handshake: std::time::Duration::from_secs(1), ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    // Half a request.
    let mut slow = TcpStream::connect(lab.host.address).await.unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nHo").await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(super::hang_limit(), slow.read_to_end(&mut rest)).await.unwrap().ok();
    // A head without end.
    let mut long = TcpStream::connect(lab.host.address).await.unwrap();
    long.write_all(b"GET /health HTTP/1.1\r\n").await.unwrap();
    for _ in 0..2000 {
        if long.write_all(b"x-y: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await.is_err() {
            break;
        }
    }
    let mut rest = Vec::new();
    tokio::time::timeout(super::hang_limit(), long.read_to_end(&mut rest)).await.unwrap().ok();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
    drop((slow, long));
    // More than there is room for are closed at once; those that are there stay for as long as this takes.
    let limits = Limits { handshake: std::time::Duration::from_secs(60), connections: 2, ..Limits::default() };
    let lab = Lab::with(Settings { limits, ..Settings::default() }).await;
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..4 {
        let mut stream = TcpStream::connect(lab.host.address).await.unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").await.ok();
        let mut first = [0; 1];
        match stream.read(&mut first).await {
            Ok(1) => held.push(stream),
            _ => refused += 1,
        }
    }
    assert_eq!((held.len(), refused), (2, 2));
}
