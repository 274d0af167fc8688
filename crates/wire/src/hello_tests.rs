//! Hellos: what a signature covers, and what is refused.

use super::*;
use crate::frames::client::ClientFrame;

const NOW: u64 = 1_790_000_000_000;

fn member(key: &SecretKey, protocol: u32) -> Hello {
    let mut hello = Hello {
        protocol_version: protocol,
        mesh_id: "mesh".into(),
        member_id: "member".into(),
        pubkey: key.public().hex(),
        display_name: "alice".into(),
        timestamp: NOW,
        nonce: (protocol >= 2).then(|| "challenge".into()),
        ..Hello::default()
    };
    sign_hello(&mut hello, key).unwrap();
    hello
}

fn session(parent: &SecretKey, key: &SecretKey, protocol: u32) -> SessionHello {
    let mut hello = SessionHello {
        hello: Hello {
            protocol_version: protocol,
            mesh_id: "mesh".into(),
            session_pubkey: Some(key.public().hex()),
            timestamp: NOW,
            nonce: (protocol >= 2).then(|| "challenge".into()),
            ..Hello::default()
        },
        parent_member_id: "member".into(),
        parent_member_pubkey: parent.public().hex(),
        parent_attestation: attest(parent, &key.public(), NOW + 12 * 3_600_000),
    };
    sign_session_hello(&mut hello, key).unwrap();
    hello
}

#[test]
fn the_texts() {
    assert_eq!(hello_v1("m", "u", "k", 7), "m|u|k|7");
    assert_eq!(session_hello("m", "p", "s", 7), "claudemesh-session-hello|m|p|s|7");
    assert_eq!(attestation("p", "s", 7), "claudemesh-session-attest|p|s|7");
    let hello = member(&SecretKey::from_seed(&[1; 32]), 2);
    let text = hello_v2(&hello).unwrap();
    let head = format!("claudemesh-hello-v2|mesh|member|{}|challenge|{NOW}|", hello.pubkey);
    assert_eq!(text.strip_prefix(&head).map(str::len), Some(64), "{text}");
}

#[test]
fn the_first_protocol_covers_four_fields() {
    let key = SecretKey::generate();
    let hello = member(&key, 1);
    assert_eq!(verify_hello(&hello, Some("challenge")), Ok(key.public()));
    let mut other = hello.clone();
    other.display_name = "mallory".into();
    assert!(verify_hello(&other, None).is_ok());
    other.member_id = "x".into();
    assert_eq!(verify_hello(&other, None), Err(HelloError::BadSignature));
}

#[test]
fn the_second_covers_all_of_them_and_the_connection() {
    let key = SecretKey::generate();
    let hello = member(&key, 2);
    assert_eq!(verify_hello(&hello, Some("challenge")), Ok(key.public()));
    assert_eq!(verify_hello(&hello, Some("another")), Err(HelloError::WrongNonce));
    for change in [
        |hello: &mut Hello| hello.display_name = "mallory".into(),
        |hello: &mut Hello| hello.host_fingerprint = Some("00".into()),
        |hello: &mut Hello| hello.timestamp += 1,
        |hello: &mut Hello| hello.capabilities.push("all".into()),
        |hello: &mut Hello| hello.pubkey = SecretKey::from_seed(&[9; 32]).public().hex(),
    ] {
        let mut changed = hello.clone();
        change(&mut changed);
        assert_eq!(verify_hello(&changed, Some("challenge")), Err(HelloError::BadSignature));
    }
    let mut down = hello;
    down.protocol_version = 1;
    assert_eq!(verify_hello(&down, None), Err(HelloError::BadSignature), "no way back to the weaker one");
}

#[test]
fn the_frame_as_it_came_is_what_was_signed() {
    let key = SecretKey::generate();
    let hello = member(&key, 2);
    let text = ClientFrame::Hello(Box::new(hello.clone())).encode();
    assert_eq!(verify_hello_text(&text, &hello, Some("challenge")), Ok(key.public()));

    // A newer daemon: a field we do not know, others left out.
    let mut value: Value = serde_json::from_str(&text).unwrap();
    for absent in ["signature", "groups", "cwd", "model", "pid"] {
        value.as_object_mut().unwrap().remove(absent);
    }
    value["shoeSize"] = 43.into();
    let sum = hex(&sha256(canonical(&value).unwrap().as_bytes()));
    let signed = format!("claudemesh-hello-v2|mesh|member|{}|challenge|{NOW}|{sum}", hello.pubkey);
    value["signature"] = key.sign(signed.as_bytes()).hex().into();
    let text = value.to_string();
    let Ok(ClientFrame::Hello(read)) = ClientFrame::decode(&text) else { panic!("a hello") };
    assert_eq!(verify_hello_text(&text, &read, Some("challenge")), Ok(key.public()));
    let tampered = text.replace("43", "44");
    assert_eq!(verify_hello_text(&tampered, &read, Some("challenge")), Err(HelloError::BadSignature));
}

#[test]
fn sessions_are_vouched_for() {
    let (parent, key) = (SecretKey::generate(), SecretKey::generate());
    for protocol in [1, 2] {
        let hello = session(&parent, &key, protocol);
        let keys = SessionKeys { session: key.public(), parent: parent.public() };
        assert_eq!(verify_session_hello(&hello, Some("challenge"), NOW), Ok(keys));
        let text = ClientFrame::SessionHello(Box::new(hello.clone())).encode();
        let Ok(ClientFrame::SessionHello(read)) = ClientFrame::decode(&text) else { panic!("a session's hello") };
        assert_eq!(verify_session_hello_text(&text, &read, Some("challenge"), NOW), Ok(keys));

        let later = NOW + 13 * 3_600_000;
        assert_eq!(verify_session_hello(&hello, Some("challenge"), later), Err(HelloError::Expired));
        let mut wrong = hello.clone();
        wrong.parent_attestation = attest(&parent, &key.public(), NOW + 25 * 3_600_000);
        assert_eq!(verify_session_hello(&wrong, Some("challenge"), NOW), Err(HelloError::TtlTooLong));
        wrong.parent_attestation = attest(&parent, &SecretKey::generate().public(), NOW + 1000);
        assert_eq!(verify_session_hello(&wrong, Some("challenge"), NOW), Err(HelloError::AttestationMismatch));
        wrong.parent_attestation = attest(&SecretKey::generate(), &key.public(), NOW + 1000);
        assert_eq!(verify_session_hello(&wrong, Some("challenge"), NOW), Err(HelloError::AttestationMismatch));
        wrong.parent_attestation.parent_member_pubkey = parent.public().hex();
        assert_eq!(verify_session_hello(&wrong, Some("challenge"), NOW), Err(HelloError::BadSignature));
        wrong.hello.session_pubkey = None;
        assert_eq!(verify_session_hello(&wrong, Some("challenge"), NOW), Err(HelloError::BadSessionPubkey));
        let mut wrong = hello;
        wrong.parent_member_pubkey = "zz".into();
        assert_eq!(verify_session_hello(&wrong, Some("challenge"), NOW), Err(HelloError::BadParentPubkey));
    }
}

#[test]
fn clocks() {
    assert_eq!(check_time(NOW, NOW + SKEW_MS), Ok(()));
    assert_eq!(check_time(NOW + SKEW_MS, NOW), Ok(()));
    assert_eq!(check_time(NOW, NOW + SKEW_MS + 1), Err(HelloError::TimestampSkew));
    assert_eq!(check_time(u64::MAX, 0).map_err(HelloError::code), Err("timestamp_skew"));
}

#[test]
fn both_keys_say_that_one_follows_the_other() {
    let (old, new) = (SecretKey::generate(), SecretKey::generate());
    let said = succeed("mesh", "member", &old, &new, NOW);
    assert!(is_succession("mesh", "member", &said));
    assert!(!is_succession("mesh", "other", &said) && !is_succession("other", "member", &said));
    let spoiled = [
        Succession { timestamp: NOW + 1, ..said.clone() },
        Succession { signature: said.proof.clone(), ..said.clone() },
        Succession { proof: said.signature.clone(), ..said.clone() },
        Succession { old_pubkey: said.new_pubkey.clone(), new_pubkey: said.old_pubkey.clone(), ..said.clone() },
        Succession { new_pubkey: SecretKey::generate().public().hex(), ..said.clone() },
        Succession::default(),
    ];
    assert!(spoiled.iter().all(|said| !is_succession("mesh", "member", said)));
    // A hello says nothing of it unless there is something to say.
    let hello = serde_json::to_string(&member(&old, 2)).unwrap();
    assert!(!hello.contains("lineage"), "{hello}");
}
