//! The formats against libsodium: what it wrote is read here, what is written here it reads.
//!
//! Recorded vectors are always checked. Fresh ones go both ways through PyNaCl, in the virtual environment that
//! `tests/mesh/pynacl/install` made: the one that `HOSTEL_PYNACL` names, else the one that
//! `scripts/setup` makes. Without it that test is skipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)] // test code

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hostel_wire::backup::{self, Content, Cost, FRAME, FRAME_PREFIX, StreamOpener, StreamSealer, frame_length};
use hostel_wire::encoding::{b64, hex, unb64, unhex_array};
use hostel_wire::fingerprint;
use hostel_wire::frames::Priority;
use hostel_wire::frames::client::{ClientFrame, Hello};
use hostel_wire::hello::{sign_hello, verify_hello_text};
use hostel_wire::invite::InviteSecret;
use hostel_wire::keys::{PublicKey, SecretKey, Signature};
use hostel_wire::sealed::{
    FILE_CHUNK, FileHead, FileKey, FileOpener, FileSealer, PairKey, RootKey, TopicKey, open_anonymous, seal_anonymous,
};
use serde_json::{Value, json};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text<'a>(vector: &'a Value, name: &str) -> &'a str {
    vector[name].as_str().unwrap_or_else(|| panic!("`{name}` of {vector}"))
}

fn bytes(vector: &Value, name: &str) -> Vec<u8> {
    unb64(text(vector, name)).expect("base64")
}

fn key(vector: &Value, name: &str) -> [u8; 32] {
    unhex_array(text(vector, name)).expect("32 bytes of hex")
}

fn secret(vector: &Value, name: &str) -> SecretKey {
    SecretKey::from_hex(text(vector, name)).expect("a secret key")
}

fn check(vector: &Value) {
    match text(vector, "kind") {
        "sign" => {
            let secret = secret(vector, "secret");
            let public = PublicKey::from_hex(text(vector, "public")).unwrap();
            let message = bytes(vector, "message");
            assert_eq!(secret.public(), public);
            assert_eq!(secret.sign(&message).hex(), text(vector, "signature"));
            assert!(public.verify(&message, &Signature::from_hex(text(vector, "signature")).unwrap()));
            assert_eq!(public.x25519(), Ok(key(vector, "x25519_public")));
            assert_eq!(secret.x25519_public(), key(vector, "x25519_public"));
            assert_eq!(*secret.x25519_secret(), key(vector, "x25519_secret"));
        }
        "dm" => {
            let pair = PairKey::new(&secret(vector, "to_secret"), &secret(vector, "from_secret").public()).unwrap();
            let opened = pair.open_parts(text(vector, "nonce"), text(vector, "ciphertext")).unwrap();
            assert_eq!(opened, bytes(vector, "plain"));
        }
        "topic" => {
            let topic = TopicKey::from_bytes(key(vector, "key"));
            let opened = topic.open_parts(text(vector, "nonce"), text(vector, "ciphertext")).unwrap();
            assert_eq!(opened, bytes(vector, "plain"));
        }
        "topic_seal" => {
            let reader = secret(vector, "to_secret");
            let (topic, sealer) = TopicKey::open_seal(text(vector, "blob"), text(vector, "nonce"), &reader).unwrap();
            assert_eq!(topic, TopicKey::from_bytes(key(vector, "key")));
            assert_eq!(sealer, secret(vector, "from_secret").x25519_public());
        }
        "anonymous" => {
            let opened = open_anonymous(text(vector, "text"), &secret(vector, "to_secret")).unwrap();
            assert_eq!(*opened, bytes(vector, "plain"));
        }
        "general" => {
            let root = RootKey::from_b64url(text(vector, "root")).unwrap();
            assert_eq!(TopicKey::derive_general(&root), TopicKey::from_bytes(key(vector, "key")));
        }
        "invite_root" => {
            let secret = InviteSecret::from_b64url(text(vector, "secret")).unwrap();
            assert_eq!(secret.commitment(), text(vector, "commitment"));
            assert_eq!(secret.open_root(text(vector, "sealed")).ok(), RootKey::from_b64url(text(vector, "root")));
        }
        "hello" => {
            let frame = text(vector, "frame");
            let Ok(ClientFrame::Hello(hello)) = ClientFrame::decode(frame) else { panic!("a hello: {frame}") };
            let public = PublicKey::from_hex(&hello.pubkey).unwrap();
            assert_eq!(verify_hello_text(frame, &hello, hello.nonce.as_deref()), Ok(public));
        }
        "fingerprint" => {
            let fields: Vec<String> = serde_json::from_value(vector["fields"].clone()).unwrap();
            let [kind, to, reply, priority] = &fields[..] else { panic!("four fields") };
            let made = fingerprint::request(
                kind,
                to,
                Some(reply),
                Priority::parse(priority).unwrap(),
                Some(&vector["meta"]),
                &bytes(vector, "body"),
            );
            assert_eq!(hex(&made.unwrap()), text(vector, "fingerprint"));
        }
        "file" => {
            let mut opener = FileOpener::new(FileKey::from_bytes(key(vector, "key")));
            let mut plain = Vec::new();
            opener.push(&bytes(vector, "sealed"), &mut plain).unwrap();
            let head = opener.finish(&mut plain).unwrap();
            assert_eq!(head.name, text(vector, "name"));
            assert!(plain == bytes(vector, "plain"));
        }
        "backup" => {
            let opened = backup::open(Content::Mesh, &bytes(vector, "passphrase"), &bytes(vector, "sealed")).unwrap();
            assert_eq!(*opened, bytes(vector, "plain"));
        }
        "backup_stream" => {
            let messages: Vec<String> = serde_json::from_value(vector["messages"].clone()).unwrap();
            let messages: Vec<Vec<u8>> = messages.iter().map(|text| unb64(text).unwrap()).collect();
            assert_eq!(read_stream(&bytes(vector, "passphrase"), &bytes(vector, "sealed")), messages);
        }
        other => panic!("a vector of kind {other}"),
    }
}

/// The messages of a backup that is a stream.
fn read_stream(passphrase: &[u8], sealed: &[u8]) -> Vec<Vec<u8>> {
    let frame = |bytes: &[u8]| FRAME_PREFIX + frame_length(bytes[..FRAME_PREFIX].try_into().unwrap()).unwrap();
    let (header, rest) = sealed.split_first_chunk().unwrap();
    let (first, rest) = rest.split_at(frame(rest));
    let (sum, mut rest) = rest.split_first_chunk().unwrap();
    let (mut opener, plain) = StreamOpener::begin(Content::House, passphrase, header, first, sum).unwrap();
    let mut messages = vec![plain.to_vec()];
    while !rest.is_empty() {
        let (next, later) = rest.split_at(frame(rest));
        messages.push(opener.next(&next[FRAME_PREFIX..]).unwrap().to_vec());
        rest = later;
    }
    assert!(opener.is_over());
    messages
}

/// Backups as this side makes them.
fn backups() -> Vec<Value> {
    let (passphrase, cost) = (b"several words".as_slice(), Cost { passes: 2, memory: 1 << 20 });
    let sealed = backup::seal(Content::Mesh, cost, passphrase, b"what is kept").unwrap();
    let messages = [&b"first"[..], b"", &[7; FRAME], b"last"];
    let (mut sealer, mut stream) = StreamSealer::begin(Content::House, cost, passphrase, messages[0]).unwrap();
    stream.extend(sealer.next(messages[1]));
    stream.extend(sealer.next(messages[2]));
    stream.extend(sealer.finish(messages[3]));
    let messages = messages.map(b64);
    vec![
        json!({"kind": "backup", "passphrase": b64(passphrase), "plain": b64(b"what is kept"), "sealed": b64(&sealed)}),
        json!({"kind": "backup_stream", "passphrase": b64(passphrase), "messages": messages, "sealed": b64(&stream)}),
    ]
}

fn file(plain: &[u8]) -> Value {
    let key = FileKey::generate();
    let sha256 = hex(&fingerprint::sha256(plain));
    let head = FileHead { name: "grüße.txt".into(), size: plain.len() as u64, sha256 };
    let (mut sealer, mut sealed) = FileSealer::new(&key, &head).unwrap();
    let mut pieces: Vec<_> = plain.chunks(FILE_CHUNK).collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        sealed.extend(sealer.chunk(piece, false));
    }
    sealed.extend(sealer.chunk(last, true));
    json!({"kind": "file", "key": hex(key.as_bytes()), "name": head.name, "plain": b64(plain), "sealed": b64(&sealed)})
}

/// Vectors as this side makes them.
fn ours() -> Vec<Value> {
    let mut vectors = Vec::new();
    for plain in [&b""[..], b"hi", &"grüße, ".repeat(20).into_bytes()] {
        let (alice, bob) = (SecretKey::generate(), SecretKey::generate());
        vectors.push(json!({
            "kind": "sign", "secret": *alice.to_hex(), "public": alice.public(), "message": b64(plain),
            "signature": alice.sign(plain).hex(), "x25519_public": hex(&alice.x25519_public()),
            "x25519_secret": hex(&*alice.x25519_secret()),
        }));
        let sealed = PairKey::new(&alice, &bob.public()).unwrap().seal(plain);
        vectors.push(json!({
            "kind": "dm", "from_secret": *alice.to_hex(), "to_secret": *bob.to_hex(), "plain": b64(plain),
            "nonce": sealed.nonce, "ciphertext": sealed.ciphertext,
        }));
        let topic = TopicKey::generate();
        let sealed = topic.seal(plain);
        vectors.push(json!({
            "kind": "topic", "key": hex(topic.as_bytes()), "plain": b64(plain), "nonce": sealed.nonce,
            "ciphertext": sealed.ciphertext,
        }));
        let (blob, nonce) = topic.seal_for(&alice, &bob.public()).unwrap();
        vectors.push(json!({
            "kind": "topic_seal", "from_secret": *alice.to_hex(), "to_secret": *bob.to_hex(),
            "key": hex(topic.as_bytes()), "blob": blob, "nonce": nonce,
        }));
        let boxed = seal_anonymous(plain, &bob.public()).unwrap();
        vectors.push(json!({"kind": "anonymous", "to_secret": *bob.to_hex(), "plain": b64(plain), "text": boxed}));
    }
    let root = RootKey::generate();
    let general = TopicKey::derive_general(&root);
    vectors.push(json!({"kind": "general", "root": *root.to_b64url(), "key": hex(general.as_bytes())}));
    let invite = InviteSecret::generate();
    vectors.push(json!({
        "kind": "invite_root", "secret": *invite.to_b64url(), "commitment": invite.commitment(),
        "root": *root.to_b64url(), "sealed": invite.seal_root(&root),
    }));
    let member = SecretKey::generate();
    let mut hello = Hello {
        protocol_version: 2,
        mesh_id: "m1".into(),
        member_id: "u1".into(),
        pubkey: member.public().hex(),
        display_name: "grüße \"\n".into(),
        timestamp: 1_790_000_000_000,
        nonce: Some("challenge".into()),
        ..Hello::default()
    };
    sign_hello(&mut hello, &member).unwrap();
    vectors.push(json!({"kind": "hello", "frame": ClientFrame::Hello(Box::new(hello)).encode()}));
    for meta in [Value::Null, json!({}), json!({"z": "ü\u{7}", "a": [1, {"y": -3, "b": null}]})] {
        let made = fingerprint::request("dm", "u1", Some("m0"), Priority::Low, Some(&meta), b"hi").unwrap();
        vectors.push(json!({
            "kind": "fingerprint", "fields": ["dm", "u1", "m0", "low"], "meta": meta, "body": b64(b"hi"),
            "fingerprint": hex(&made),
        }));
    }
    for size in [0, 1, FILE_CHUNK, FILE_CHUNK + 100] {
        vectors.push(file(&vec![7; size]));
    }
    vectors.extend(backups());
    vectors
}

fn check_all(text: &str) -> usize {
    let document: Value = serde_json::from_str(text).expect("JSON");
    let vectors = document["vectors"].as_array().expect("vectors");
    vectors.iter().for_each(check);
    vectors.len()
}

#[test]
fn what_libsodium_has_written_is_read() {
    let recorded = std::fs::read_to_string(repository().join("crates/wire/tests/data/libsodium.json")).unwrap();
    assert!(check_all(&recorded) >= 19);
}

#[test]
fn what_is_written_here_is_read_here() {
    ours().iter().for_each(check);
}

/// The Python that has libsodium, if it is installed.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("HOSTEL_PYNACL").map(PathBuf::from);
    let prefix = named.clone().unwrap_or_else(|| {
        let tools = std::env::var_os("HOSTEL_TOOLS").map(PathBuf::from);
        tools
            .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/hostel-tests"))
            .join("pynacl")
    });
    let status = Command::new(repository().join("tests/mesh/pynacl/install"))
        .arg("--check")
        .arg(&prefix)
        .stdin(Stdio::null())
        .status()
        .expect("a script of our own can be run");
    assert!(status.success() || named.is_none(), "HOSTEL_PYNACL={} is not what install makes", prefix.display());
    status.success().then(|| prefix.join("bin/python"))
}

#[test]
fn libsodium_and_we_read_each_other() {
    let Some(python) = python() else {
        eprintln!("skipped: PyNaCl is not installed; scripts/setup installs it");
        return;
    };
    let script = repository().join("tests/mesh/pynacl/vectors.py");
    let made = Command::new(&python).arg(&script).args(["make", "--long"]).output().expect("python can be started");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let count = check_all(&String::from_utf8(made.stdout).unwrap());

    let mut child = Command::new(&python)
        .arg(&script)
        .arg("check")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python can be started");
    let vectors = ours();
    let document = json!({ "vectors": vectors }).to_string();
    child.stdin.take().unwrap().write_all(document.as_bytes()).unwrap();
    let judged = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&judged.stdout);
    assert!(judged.status.success(), "{said}{}", String::from_utf8_lossy(&judged.stderr));
    assert!(said.contains(&format!("{} vectors checked, 0 wrong", vectors.len())), "{said}");
    eprintln!("{count} vectors of libsodium read, {} of ours read by libsodium", vectors.len());
}
