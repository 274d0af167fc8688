//! The files of a host, of any content: `config.json`, `keypair.json`, `host_fingerprint.json`, `keypair-archive.json`,
//! `keypair.next.json`, `keypair-lineage.json`. What is read can be written and read again, what is not understood is kept or set aside and never
//! lost, and nothing is taken for a key that is none. The first byte says which file.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use hostel_mesh::home::archive::Archive;
use hostel_mesh::home::lineage::{self, Lineage};
use hostel_mesh::home::next::{Found, Next};
use hostel_mesh::home::{ClonePolicy, Membership, Memberships, MeshDir, Places, fingerprint, identity};
use hostel_wire::keys::SecretKey;
use hostel_wire::topic::is_mesh_slug;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("mesh-home-{}", std::process::id()));
    fs::create_dir_all(&path).expect("a directory");
    path
});

const NOW: u64 = 1_800_000_000_000;

fn membership() -> Membership {
    Membership {
        mesh_id: "mesh".into(),
        member_id: "member".into(),
        slug: "added".into(),
        name: "added".into(),
        key: SecretKey::from_seed(&[7; 32]),
        broker_urls: vec!["ws://127.0.0.1:1/ws".into()],
        joined_at: String::new(),
        root_key: None,
        owner_key: None,
        cert: None,
        display_name: None,
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 6 {
        0 => config(bytes),
        1 => keypair(bytes),
        2 => host(bytes),
        3 => archive(bytes),
        4 => next(bytes),
        _ => lineage(bytes),
    }
});

fn config(bytes: &[u8]) {
    let places = Places::at(SCRATCH.join("config"), SCRATCH.join("daemons"));
    fs::create_dir_all(places.config_dir()).expect("a directory");
    fs::write(places.config_file(), bytes).expect("a file");
    let before = match Memberships::load(&places) {
        Ok(loaded) => loaded,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            // What cannot be read is not written over.
            assert!(Memberships::put(&places, &membership()).is_err());
            assert_eq!(fs::read(places.config_file()).expect("it is there"), bytes);
            return;
        }
    };
    for one in before.all() {
        assert!(is_mesh_slug(&one.slug), "a slug is a directory's name");
        assert!(!one.broker_urls.is_empty() && !one.mesh_id.is_empty() && !one.member_id.is_empty());
        assert_eq!(before.all().iter().filter(|other| other.slug == one.slug).count(), 1);
    }
    let secret = |loaded: &Memberships| -> Vec<(String, String)> {
        let others = loaded.all().iter().filter(|one| one.slug != "added");
        others.map(|one| (one.slug.clone(), one.key.to_hex().to_string())).collect()
    };
    Memberships::put(&places, &membership()).expect("it was readable");
    let after = Memberships::load(&places).expect("our own writing");
    assert_eq!(secret(&after), secret(&before));
    assert!(after.find("added").is_some_and(|one| one.key == membership().key));
    // Keys nobody knows here stay where they are.
    let (old, new): (Value, Value) = (
        serde_json::from_slice(bytes).unwrap_or_default(),
        serde_json::from_slice(&fs::read(places.config_file()).expect("it is there")).expect("JSON"),
    );
    for (key, value) in old.as_object().into_iter().flatten().filter(|(key, _)| *key != "meshes" && *key != "version") {
        assert_eq!(new.get(key), Some(value), "{key}");
    }
    assert!(Memberships::remove(&places, "added").expect("it is readable"));
    assert_eq!(secret(&Memberships::load(&places).expect("our own writing")), secret(&before));
}

fn keypair(bytes: &[u8]) {
    let dir = MeshDir::at(SCRATCH.join("mesh"));
    fs::remove_dir_all(dir.path()).ok();
    dir.create().expect("a directory");
    fs::write(dir.keypair(), bytes).expect("a file");
    let kept = identity::of_membership(&dir, &membership(), 1).expect("a directory of our own");
    assert!(kept.key == membership().key, "the membership says whose key it is");
    if let Some(aside) = kept.set_aside {
        assert_eq!(fs::read(aside).expect("nothing is thrown away"), bytes);
    }
    let written = fs::read(dir.keypair()).expect("there is one now");
    let again = identity::of_membership(&dir, &membership(), 2).expect("our own writing");
    assert!(again.set_aside.is_none());
    assert_eq!(fs::read(dir.keypair()).expect("it is there"), written, "once right it is left alone");
}

fn archive(bytes: &[u8]) {
    let dir = MeshDir::at(SCRATCH.join("archive"));
    fs::remove_dir_all(dir.path()).ok();
    dir.create().expect("a directory");
    let path = dir.keypair_archive();
    fs::write(&path, bytes).expect("a file");
    let read = Archive::open(&path, NOW).expect("a directory of our own");
    if let Some(aside) = &read.set_aside {
        assert_eq!(fs::read(aside).expect("nothing is thrown away"), bytes);
    }
    for key in read.archive.keys() {
        assert_eq!(key.public.x25519().as_ref(), Ok(key.key.public()), "both halves belong together");
        assert!(key.expires_ms <= NOW + 31 * 24 * 3_600_000, "none is kept for ever");
    }
    read.archive.write(&path).expect("a directory of our own");
    let again = Archive::open(&path, NOW).expect("our own writing");
    assert_eq!((again.archive, again.set_aside), (read.archive, None));
}

fn next(bytes: &[u8]) {
    let Found::Change(change) = Next::parse(bytes) else { return };
    assert_ne!(change.key.public(), change.old);
    let path = SCRATCH.join("keypair.next.json");
    change.write(&path, NOW).expect("a directory of our own");
    assert_eq!(Next::read(&path).expect("our own writing"), Found::Change(change));
}

fn lineage(bytes: &[u8]) {
    let path = SCRATCH.join("keypair-lineage.json");
    fs::write(&path, bytes).expect("a file");
    let current = membership().key.public();
    let (lineage, aside) = Lineage::open(&path, &current, NOW).expect("a directory of our own");
    if let Some(aside) = aside {
        assert_eq!(fs::read(&aside).expect("nothing is thrown away"), bytes);
        fs::remove_file(aside).expect("it is there");
    }
    let steps = lineage.steps();
    assert!(steps.len() <= lineage::MOST && steps.last().is_none_or(|last| last.new_pubkey == current.hex()));
    assert!(steps.windows(2).all(|pair| pair[0].new_pubkey == pair[1].old_pubkey), "each follows the one before");
    lineage.write(&path).expect("a directory of our own");
    assert_eq!(Lineage::open(&path, &current, NOW).expect("our own writing"), (lineage, None));
}

fn host(bytes: &[u8]) {
    let path = SCRATCH.join("host_fingerprint.json");
    fs::write(&path, bytes).expect("a file");
    let here =
        fingerprint::Host { id: Some(format!("linux:{}", "ab".repeat(16))), macs: vec!["00:16:3e:00:00:01".into()] };
    for policy in [ClonePolicy::Refuse, ClonePolicy::Warn] {
        let check = fingerprint::check(&path, &here, policy, false, 1).expect("a file of our own");
        assert!(check.fingerprint.is_some());
        if let fingerprint::Verdict::Clone { .. } = check.verdict {
            assert_eq!(fs::read(&path).expect("it is there"), bytes, "a record that is not ours is left alone");
        }
    }
    fingerprint::check(&path, &here, ClonePolicy::Refuse, true, 2).expect("a file of our own");
    let settled = fingerprint::check(&path, &here, ClonePolicy::Refuse, false, 3).expect("a file of our own");
    assert_eq!(settled.verdict, fingerprint::Verdict::Same, "what was accepted is accepted");
}
