//! What a backup of one mesh holds, and what becomes of what is in its way.

use hostel_wire::invite::CertPin;

use super::*;

fn joined(places: &Places, key: &SecretKey) -> Membership {
    let membership = Membership {
        mesh_id: "m1".into(),
        member_id: "u1".into(),
        slug: "lab".into(),
        name: "lab".into(),
        key: key.clone(),
        broker_urls: vec!["ws://127.0.0.1:1/ws".into()],
        joined_at: String::new(),
        root_key: None,
        owner_key: Some(SecretKey::generate()),
        cert: Some(CertPin { cert: [7; 32], key: Some([8; 32]) }),
        display_name: Some("ada".into()),
    };
    Memberships::put(places, &membership).unwrap();
    membership
}

fn places(dir: &tempfile::TempDir) -> Places {
    Places::at(dir.path(), dir.path().join("daemon"))
}

#[test]
fn what_was_taken_comes_back_on_another_host() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (old, new) = (places(&old), places(&new));
    let key = SecretKey::generate();
    let membership = joined(&old, &key);
    let dir = old.mesh("lab");
    dir.create().unwrap();
    super::super::identity::of_membership(&dir, &membership, 7).unwrap();
    for (name, text) in
        [("topics.json", "{}"), ("config.toml", "# mine\n"), ("local_token", "secret"), ("inbox.db", "x")]
    {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let plain = collect(&old, "lab", "test", 8).unwrap();
    let kept = Kept::read(&plain).unwrap();
    assert_eq!(kept.membership().key, key);
    kept.restore(&new, false, 9).unwrap();
    assert_eq!(Memberships::entry(&new, "lab").unwrap(), Memberships::entry(&old, "lab").unwrap());
    let dir = new.mesh("lab");
    assert_eq!(fs::read(dir.keypair()).unwrap(), fs::read(old.mesh("lab").keypair()).unwrap());
    assert_eq!(fs::read_to_string(dir.config()).unwrap(), "# mine\n");
    assert!(!dir.local_token().exists() && !dir.inbox().exists() && !dir.host_fingerprint().exists());
    // A second time somebody is here already.
    assert!(matches!(kept.restore(&new, false, 10), Err(BackupFault::Exists { .. })));
    kept.restore(&new, true, 11).unwrap();
}

#[test]
fn keys_of_the_same_member_stay_in_the_archive() {
    let here = tempfile::tempdir().unwrap();
    let here = places(&here);
    let now = 1_800_000_000_000;
    let [first, second, third] = std::array::from_fn(|_| SecretKey::generate());
    let dir = here.mesh("lab");
    dir.create().unwrap();
    let of = |key: &SecretKey, at: u64| ArchivedKey::of(key, now + at, 7);
    joined(&here, &second);
    let mut archive = Archive::default();
    archive.add(of(&first, 1));
    archive.write(&dir.keypair_archive()).unwrap();
    let plain = collect(&here, "lab", "test", now).unwrap();
    let kept = Kept::read(&plain).unwrap();
    // Another rotation since, and the oldest is over by now.
    joined(&here, &third);
    let mut archive = Archive::default();
    archive.add(of(&second, 2));
    archive.write(&dir.keypair_archive()).unwrap();
    let restored = kept.restore(&here, true, now + 3).unwrap();
    assert_eq!(restored.set_aside, Vec::<PathBuf>::new());
    let keys = |dir: &MeshDir| {
        let archive = Archive::open(&dir.keypair_archive(), now).unwrap().archive;
        archive.keys().iter().map(|key| key.public).collect::<Vec<_>>()
    };
    assert_eq!(keys(&dir), [first.public(), third.public()], "all but the one that counts now");
    // The same where a whole directory takes the place of another.
    joined(&here, &third);
    let to = MeshDir::at(here.daemon_root().join(".restoring"));
    to.create().unwrap();
    keep_keys_of(&here, kept.membership(), &to, now + 4).unwrap();
    assert_eq!(keys(&to), [first.public(), third.public()]);
    let other = Membership { member_id: "u2".into(), ..kept.membership().clone() };
    let empty = MeshDir::at(here.daemon_root().join(".other"));
    keep_keys_of(&here, &other, &empty, now + 5).unwrap();
    assert!(!empty.keypair_archive().exists(), "another member's keys are none of its business");
}

#[test]
fn another_identity_is_kept_beside() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (old, new) = (places(&old), places(&new));
    joined(&old, &SecretKey::generate());
    let plain = collect(&old, "lab", "test", 8).unwrap();
    let kept = Kept::read(&plain).unwrap();
    let dir = new.mesh("lab");
    dir.create().unwrap();
    let other = Membership { key: SecretKey::generate(), ..kept.membership().clone() };
    super::super::identity::of_membership(&dir, &other, 8).unwrap();
    fs::write(dir.inbox(), "rows").unwrap();
    assert!(matches!(kept.restore(&new, false, 9), Err(BackupFault::Exists { .. })));
    let lock = PidLock::take(&dir.pid()).unwrap().unwrap();
    assert!(matches!(kept.restore(&new, true, 9), Err(BackupFault::Running { .. })));
    drop(lock);
    let set_aside = kept.restore(&new, true, 9).unwrap().set_aside;
    assert!(set_aside.contains(&dir.path().join("inbox.db.old-9")), "{set_aside:?}");
    assert!(!dir.inbox().exists());
}

type Change<'a> = &'a dyn Fn(&mut Value);

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_written() {
    let here = tempfile::tempdir().unwrap();
    let here = places(&here);
    joined(&here, &SecretKey::generate());
    let plain = collect(&here, "lab", "test", 8).unwrap();
    let good: Value = serde_json::from_slice(&plain).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        Kept::read(value.to_string().as_bytes()).unwrap_err().to_string()
    };
    let cases: [(Change<'_>, &str); 8] = [
        (&|v| v["format"] = 2.into(), "a document of version 2"),
        (&|v| v["slug"] = "../x".into(), "two meshes"),
        (&|v| v["membership"]["slug"] = "../x".into(), "is not a slug"),
        (&|v| v["membership"]["secretKey"] = "00".into(), "`secretKey`"),
        (&|v| v["files"]["../../etc/passwd"] = "eA==".into(), "it holds a file"),
        (&|v| v["files"]["local_token"] = "eA==".into(), "it holds a file"),
        (&|v| v["files"]["topics.json"] = "?".into(), "not base64"),
        (&|v| v["files"]["schema_version"] = "OTk=".into(), "databases of version 99"),
    ];
    for (change, said) in cases {
        let error = with(change);
        assert!(error.contains(said), "{error}");
    }
    assert!(Kept::read(b"{").is_err() && Kept::read(b"").is_err());
}
