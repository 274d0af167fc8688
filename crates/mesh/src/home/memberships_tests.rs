//! `config.json`: what is read, what is kept, what is said about the rest.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn place() -> (tempfile::TempDir, Places) {
    let dir = tempfile::tempdir().unwrap();
    let places = Places::at(dir.path().join("config"), dir.path().join("daemon"));
    (dir, places)
}

fn membership(slug: &str) -> Membership {
    Membership {
        mesh_id: format!("id-{slug}"),
        member_id: "m1".into(),
        slug: slug.into(),
        name: slug.to_uppercase(),
        key: SecretKey::generate(),
        broker_urls: vec!["ws://127.0.0.1:1/ws".into()],
        joined_at: "2026-01-01T00:00:00.000Z".into(),
        root_key: Some(RootKey::generate()),
        owner_key: None,
        cert: None,
        display_name: None,
    }
}

#[test]
fn written_and_read_again() {
    let (_dir, places) = place();
    assert!(Memberships::load(&places).unwrap().all().is_empty());
    let mut lab = membership("lab");
    lab.owner_key = Some(SecretKey::generate());
    lab.cert = Some(CertPin { cert: [9; 32], key: Some([8; 32]) });
    lab.display_name = Some("ada".into());
    lab.broker_urls.push("ws://127.0.0.1:2/ws".into());
    Memberships::put(&places, &lab).unwrap();
    Memberships::put(&places, &membership("other")).unwrap();
    assert_eq!(fs::metadata(places.config_file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(places.config_dir()).unwrap().permissions().mode() & 0o777, 0o700);

    let loaded = Memberships::load(&places).unwrap();
    assert_eq!(loaded.all().len(), 2);
    let read = loaded.find("lab").unwrap();
    assert_eq!(read.key, lab.key);
    assert_eq!(read.owner_key, lab.owner_key);
    assert_eq!(read.root_key, lab.root_key);
    assert_eq!((read.cert, &read.display_name, &read.broker_urls), (lab.cert, &lab.display_name, &lab.broker_urls));
    assert_eq!((&read.mesh_id, &read.member_id, &read.name), (&lab.mesh_id, &lab.member_id, &lab.name));
    assert!(loaded.problems().is_empty());
    assert!(!format!("{loaded:?}").contains(&lab.key.to_hex()[..32]), "secrets do not print");

    assert!(Memberships::remove(&places, "lab").unwrap());
    assert!(!Memberships::remove(&places, "lab").unwrap());
    assert_eq!(Memberships::load(&places).unwrap().all().len(), 1);
}

#[test]
fn what_others_wrote_stays() {
    let (_dir, places) = place();
    let lab = membership("lab");
    fs::create_dir_all(places.config_dir()).unwrap();
    let text = json!({
        "version": 1, "accountId": "a1", "displayName": "Ada", "groups": [{"name": "ops", "role": "lead"}],
        "meshes": [
            {"meshId": "id-lab", "slug": "lab", "secretKey": *lab.key.to_hex(), "pubkey": lab.key.public(),
             "memberId": "m0", "brokerUrl": "wss://host/ws", "theirs": [1]},
            {"broken": true}
        ]
    });
    fs::write(places.config_file(), text.to_string()).unwrap();
    let loaded = Memberships::load(&places).unwrap();
    assert_eq!(loaded.display_name(), Some("Ada"));
    assert_eq!(loaded.groups()[0].name, "ops");
    assert_eq!(loaded.problems().len(), 1);
    assert_eq!(loaded.find("lab").unwrap().name, "lab");

    Memberships::put(&places, &lab).unwrap();
    let document: Value = serde_json::from_slice(&fs::read(places.config_file()).unwrap()).unwrap();
    assert_eq!(document["accountId"], "a1");
    assert_eq!(document["meshes"][0]["theirs"], json!([1]));
    assert_eq!(document["meshes"][0]["memberId"], "m1");
    assert_eq!(document["meshes"][1], json!({"broken": true}));
    assert_eq!(document["meshes"].as_array().unwrap().len(), 2);
}

#[test]
fn entries_that_cannot_be_used_say_why() {
    let (_dir, places) = place();
    fs::create_dir_all(places.config_dir()).unwrap();
    let key = SecretKey::generate();
    let good =
        json!({"meshId": "i", "slug": "a", "memberId": "m", "secretKey": *key.to_hex(), "brokerUrl": "ws://h/ws"});
    let with = |name: &str, value: Value| {
        let mut entry = good.clone();
        entry[name] = value;
        entry
    };
    for (entry, reason) in [
        (with("slug", json!("../up")), "slug"),
        (with("secretKey", json!("00")), "secretKey"),
        (with("secretKey", Value::Null), "secretKey"),
        (with("pubkey", json!("11".repeat(32))), "belong together"),
        (with("rootKey", json!("short")), "rootKey"),
        (with("brokerCert", json!("short")), "brokerCert"),
        (with("brokerCertKey", json!("short")), "brokerCertKey"),
        (with("brokerUrl", Value::Null), "brokerUrl"),
        (with("meshId", json!(7)), "meshId"),
    ] {
        fs::write(places.config_file(), json!({"meshes": [entry, good]}).to_string()).unwrap();
        let loaded = Memberships::load(&places).unwrap();
        assert_eq!(loaded.all().len(), 1, "the good one is there");
        assert!(loaded.problems()[0].contains(reason), "{:?} {reason}", loaded.problems());
    }
    fs::write(places.config_file(), json!({"meshes": [good, good]}).to_string()).unwrap();
    assert!(Memberships::load(&places).unwrap().problems()[0].contains("twice"));
}

#[test]
fn a_file_that_is_not_one_is_not_overwritten() {
    let (_dir, places) = place();
    fs::create_dir_all(places.config_dir()).unwrap();
    for text in ["{", "[]", r#"{"meshes":{}}"#, r#"{"version":2,"meshes":[]}"#] {
        fs::write(places.config_file(), text).unwrap();
        assert!(matches!(Memberships::load(&places), Err(ConfigError::Malformed { .. })), "{text}");
        assert!(Memberships::put(&places, &membership("lab")).is_err());
        assert_eq!(fs::read_to_string(places.config_file()).unwrap(), text);
    }
}

#[test]
fn many_writers_lose_nothing() {
    let (_dir, places) = place();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let places = &places;
            scope.spawn(move || Memberships::put(places, &membership(&format!("m{number}"))).unwrap());
        }
    });
    assert_eq!(Memberships::load(&places).unwrap().all().len(), 8);
}

#[test]
fn a_key_is_replaced_and_nothing_else() {
    let (_dir, places) = place();
    let (mut lab, other) = (membership("lab"), membership("other"));
    // Whose own key signs invites keeps it for that.
    lab.owner_key = Some(lab.key.clone());
    Memberships::put(&places, &lab).unwrap();
    Memberships::put(&places, &other).unwrap();
    let new = SecretKey::generate();
    for _ in 0..2 {
        assert!(Memberships::replace_key(&places, &lab.mesh_id, &lab.key.public(), &new).unwrap(), "again too");
    }
    let loaded = Memberships::load(&places).unwrap();
    assert!(loaded.problems().is_empty());
    let read = loaded.find("lab").unwrap();
    assert_eq!((&read.key, &read.owner_key), (&new, &lab.owner_key));
    assert_eq!((&read.member_id, &read.root_key), (&lab.member_id, &lab.root_key));
    assert_eq!(loaded.find("other").unwrap().key, other.key);
    let third = SecretKey::generate();
    assert!(!Memberships::replace_key(&places, &lab.mesh_id, &lab.key.public(), &third).unwrap());
    assert!(!Memberships::replace_key(&places, "nowhere", &lab.key.public(), &third).unwrap());
    assert_eq!(Memberships::load(&places).unwrap().find("lab").unwrap().key, new);
}

#[test]
fn another_name_leaves_a_newer_key_alone() {
    let (_dir, places) = place();
    let lab = membership("lab");
    Memberships::put(&places, &lab).unwrap();
    let newer = SecretKey::generate();
    assert!(Memberships::replace_key(&places, &lab.mesh_id, &lab.key.public(), &newer).unwrap());
    assert!(Memberships::rename(&places, "lab", "gpu-9").unwrap());
    let kept = Memberships::load(&places).unwrap().find("lab").unwrap().clone();
    assert_eq!((kept.display_name.as_deref(), kept.key), (Some("gpu-9"), newer));
    assert!(!Memberships::rename(&places, "other", "gpu-9").unwrap());
    assert!(Memberships::load(&places).unwrap().find("other").is_none());
}
