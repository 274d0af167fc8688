//! A rotation that ends at each of its steps, as if killed there, and what the next start finds.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_wire::hello::is_succession;

use super::*;
use crate::home::{Membership, Memberships, identity};

const NOW: u64 = 1_800_000_000_000;
const DAY: u64 = 24 * 3_600_000;

/// A host with one membership, and a clock that stands still until it is set.
struct Home {
    scratch: tempfile::TempDir,
    time: Arc<AtomicU64>,
    settings: Live<Settings>,
    first: SecretKey,
}

impl Home {
    fn new() -> Self {
        let home = Self {
            scratch: tempfile::tempdir().unwrap(),
            time: Arc::new(AtomicU64::new(NOW)),
            settings: Live::new(Settings::default()),
            first: SecretKey::generate(),
        };
        let membership = Membership {
            mesh_id: "mesh".into(),
            member_id: "me".into(),
            slug: "lab".into(),
            name: "lab".into(),
            key: home.first.clone(),
            broker_urls: vec!["ws://127.0.0.1:1/ws".into()],
            joined_at: String::new(),
            root_key: None,
            owner_key: None,
            cert: None,
            display_name: None,
        };
        Memberships::put(&home.places(), &membership).unwrap();
        home.dir().create().unwrap();
        home
    }

    fn places(&self) -> Places {
        Places::at(self.scratch.path().join("config"), self.scratch.path().join("daemon"))
    }

    fn dir(&self) -> MeshDir {
        self.places().mesh("lab")
    }

    fn clock(&self) -> Clock {
        let time = Arc::clone(&self.time);
        Clock::of(move || time.load(Ordering::Relaxed))
    }

    fn pass(&self, ms: u64) {
        self.time.fetch_add(ms, Ordering::Relaxed);
    }

    fn configured(&self) -> SecretKey {
        Memberships::load(&self.places()).unwrap().find("lab").unwrap().key.clone()
    }

    /// As a daemon starts: with the key of `config.json`.
    fn start(&self) -> Keyring {
        self.start_until(None)
    }

    /// The same, and at this step everything ends.
    fn start_until(&self, last: Option<Step>) -> Keyring {
        let loaded = Memberships::load(&self.places()).unwrap();
        let kept = identity::of_membership(&self.dir(), loaded.find("lab").unwrap(), NOW).unwrap();
        assert_eq!(kept.set_aside, None, "no old key lies around");
        let at_step: Option<AtStep> =
            last.map(|last| -> AtStep { Arc::new(move |step| assert!(step != last, "killed")) });
        let opening = Opening {
            mesh_id: "mesh".into(),
            member_id: "me".into(),
            key: kept.key,
            dir: Some(self.dir()),
            options: KeyOptions { places: Some(self.places()), at_step },
            settings: self.settings.clone(),
            clock: self.clock(),
            ages: self.clock(),
            log: Log::silent(),
        };
        Keyring::open(opening).unwrap()
    }

    /// Rotates once, with a broker that agrees.
    fn rotate(&self, ring: &Keyring) -> Result<Arc<MemberKey>, Refusal> {
        let key = ring.begin()?;
        ring.adopt(&key);
        Ok(key)
    }
}

fn opens(ring: &Keyring, sealed_for: &SecretKey) -> Option<bool> {
    if ring.current().key == *sealed_for {
        return Some(false);
    }
    ring.try_others(|key| (*key == sealed_for.box_key()).then_some(())).map(|((), archived)| archived)
}

#[test]
fn a_key_is_replaced_everywhere_and_the_one_before_opens_boxes_alone() {
    let home = Home::new();
    let ring = home.start();
    assert_eq!((ring.archived(), opens(&ring, &home.first)), (0, Some(false)));
    let next = ring.begin().unwrap();
    assert_eq!((opens(&ring, &next.key), opens(&ring, &home.first)), (Some(false), Some(false)), "either may count");
    assert_eq!(ring.outcome(&next), Outcome::Open);
    assert!(Arc::ptr_eq(&ring.begin().unwrap(), &next), "one at a time");
    assert_eq!(ring.adopt(&next).unwrap().pubkey, home.first.public().hex());
    assert!(ring.adopt(&next).is_none(), "again is nothing new");
    assert_eq!(ring.outcome(&next), Outcome::Done);
    assert_eq!(home.configured(), next.key);
    assert!(!home.dir().keypair_next().exists());
    assert_eq!(opens(&ring, &home.first), Some(true));
    let ring = home.start();
    assert_eq!(ring.current().pubkey, next.pubkey);
    assert_eq!(opens(&ring, &home.first), Some(true), "also after a restart");
    let secret = home.first.to_hex();
    for file in std::fs::read_dir(home.dir().path()).unwrap().flatten().filter(|file| file.path().is_file()) {
        let text = std::fs::read_to_string(file.path()).unwrap_or_default();
        assert!(!text.contains(&secret[..64]), "what signed is gone from {}", file.path().display());
    }
}

#[test]
fn killed_at_any_step_either_key_counts_and_both_open() {
    for step in Step::ALL {
        let home = Home::new();
        let ring = home.start_until(Some(step));
        let killed = catch_unwind(AssertUnwindSafe(|| home.rotate(&ring).map(drop)));
        assert!(killed.is_err(), "{step:?} is reached");
        drop(ring);
        let ring = home.start();
        let current = ring.current();
        match step {
            Step::Drawn => {
                assert_eq!(
                    (current.key.clone(), ring.next().is_none()),
                    (home.first.clone(), true),
                    "it never happened"
                );
                assert!(!home.dir().keypair_next().exists());
                assert_eq!(ring.archived(), 0);
                home.rotate(&ring).unwrap();
            }
            Step::Archived | Step::Told | Step::Linked => {
                assert_eq!(current.key, home.first, "{step:?}");
                let next = ring.next().expect("it is carried out");
                assert_eq!(opens(&ring, &next.key), Some(false));
                // The broker has heard of it, or hears of it now.
                ring.adopt(&next);
                assert_eq!(home.configured(), next.key);
            }
            Step::Configured | Step::Kept => {
                assert_eq!((current.key.clone(), ring.next().is_none()), (home.configured(), true));
                assert!(!home.dir().keypair_next().exists());
            }
        }
        assert_ne!(ring.current().key, home.first);
        assert_eq!((ring.archived(), opens(&ring, &home.first)), (1, Some(true)), "{step:?}");
        let again = home.start();
        let (key, lineage) = again.descent();
        let said: Vec<_> = lineage.iter().map(|said| (said.old_pubkey.clone(), said.new_pubkey.clone())).collect();
        assert_eq!(said, [(home.first.public().hex(), key.pubkey.clone())], "{step:?}");
        assert!(is_succession("mesh", "me", &lineage[0]));
        assert_eq!(again.current().pubkey, ring.current().pubkey);
        assert!(again.next().is_none());
    }
}

#[test]
fn a_key_the_broker_does_not_want_leaves_no_trace() {
    let home = Home::new();
    let ring = home.start();
    let next = ring.begin().unwrap();
    ring.abandon(&next, Refusal::new("forbidden", "no"));
    assert_eq!(ring.outcome(&next), Outcome::Refused(Refusal::new("forbidden", "no")));
    assert_eq!((ring.archived(), opens(&ring, &next.key)), (0, None));
    assert!(!home.dir().keypair_next().exists() && !home.dir().keypair_archive().exists());
    assert_eq!(home.start().current().key, home.first);
    home.rotate(&ring).unwrap();
}

#[test]
fn without_an_archive_there_is_no_rotation() {
    let home = Home::new();
    let ring = home.start();
    std::fs::create_dir(home.dir().keypair_archive()).unwrap();
    let refusal = ring.begin().map(drop).unwrap_err();
    assert_eq!(refusal.code(), "rotation_abandoned");
    assert!(refusal.detail().contains("keypair-archive.json"), "{refusal}");
    assert!(ring.next().is_none() && !home.dir().keypair_next().exists());
    assert_eq!(ring.current().key, home.first);
    std::fs::remove_dir(home.dir().keypair_archive()).unwrap();
    home.rotate(&ring).unwrap();
}

#[test]
fn the_ninth_within_the_grace_is_refused_until_the_first_goes() {
    let home = Home::new();
    let ring = home.start();
    for _ in 0..8 {
        home.rotate(&ring).unwrap();
        home.pass(DAY / 2);
    }
    let refusal = ring.begin().map(drop).unwrap_err();
    assert_eq!(refusal.code(), "too_many_archived_keys");
    assert_eq!(refusal.body()["next_possible_at"], iso(NOW + 7 * DAY), "{refusal}");
    assert!(refusal.detail().contains(&iso(NOW + 7 * DAY)) && refusal.detail().contains("max_archived_keys"));
    // Settings may change while it runs.
    let mut settings = Settings::default();
    settings.crypto.max_archived_keys = 9;
    home.settings.set(settings);
    home.rotate(&ring).unwrap();
    home.settings.set(Settings::default());
    assert_eq!(ring.begin().map(drop).unwrap_err().body()["next_possible_at"], iso(NOW + 7 * DAY + DAY / 2));
    // The first two are over; the third is not.
    home.time.store(NOW + 7 * DAY + DAY / 2, Ordering::Relaxed);
    assert_eq!(opens(&ring, &home.first), None, "its time is over");
    home.rotate(&ring).unwrap();
    assert_eq!(ring.archived(), 8);
    assert_eq!(home.start().archived(), 8);
    home.pass(100 * DAY);
    ring.look_after();
    assert_eq!(ring.archived(), 0);
    assert!(!home.dir().keypair_archive().exists(), "they are let go");
}

#[test]
fn a_malformed_archive_is_set_aside_and_nothing_ends() {
    let home = Home::new();
    home.rotate(&home.start()).unwrap();
    std::fs::write(home.dir().keypair_archive(), "{ not json").unwrap();
    let ring = home.start();
    assert_eq!((ring.archived(), opens(&ring, &home.first)), (0, None));
    let names: Vec<String> = std::fs::read_dir(home.dir().path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().any(|name| name.starts_with("keypair-archive.json.malformed-")), "{names:?}");
    home.rotate(&ring).unwrap();
    assert_eq!(home.start().archived(), 1);
}

#[test]
fn what_belongs_to_no_rotation_of_ours_is_set_aside() {
    for text in ["{", "{}"] {
        let home = Home::new();
        std::fs::write(home.dir().keypair_next(), text).unwrap();
        let ring = home.start();
        assert!(ring.next().is_none() && !home.dir().keypair_next().exists());
        home.rotate(&ring).unwrap();
    }
    // Somebody has joined again meanwhile: the key it would follow is not ours any more.
    let home = Home::new();
    home.start().begin().unwrap();
    Memberships::replace_key(&home.places(), "mesh", &home.first.public(), &SecretKey::generate()).unwrap();
    std::fs::remove_file(home.dir().keypair()).ok();
    let ring = home.start();
    assert!(ring.next().is_none() && !home.dir().keypair_next().exists());
    assert_eq!(opens(&ring, &home.first), Some(true), "what was sealed for it still opens");
}

#[test]
fn who_writes_nothing_has_nothing_to_rotate() {
    let opening = Opening {
        mesh_id: "mesh".into(),
        member_id: "me".into(),
        key: SecretKey::generate(),
        dir: None,
        options: KeyOptions::default(),
        settings: Live::new(Settings::default()),
        clock: Clock::system(),
        ages: Clock::system(),
        log: Log::silent(),
    };
    let ring = Keyring::open(opening).unwrap();
    assert_eq!(ring.begin().map(drop).unwrap_err().code(), "ephemeral_identity");
}

#[test]
fn each_rotation_leads_on_from_the_one_before() {
    let home = Home::new();
    let ring = home.start();
    assert!(ring.descent().1.is_empty());
    for _ in 0..3 {
        home.rotate(&ring).unwrap();
    }
    let next = ring.begin().unwrap();
    ring.abandon(&next, Refusal::new("forbidden", "no"));
    let (key, lineage) = home.start().descent();
    assert_eq!((lineage.len(), &lineage[0].old_pubkey), (3, &home.first.public().hex()));
    assert_eq!(lineage[2].new_pubkey, key.pubkey, "one that was given up is none");
    assert!(lineage.windows(2).all(|pair| pair[0].new_pubkey == pair[1].old_pubkey));
    // They last longer than the keys.
    home.pass(100 * DAY);
    let ring = home.start();
    assert_eq!(opens(&ring, &home.first), None, "its time is over, also while it is there");
    ring.look_after();
    assert_eq!((ring.archived(), home.start().archived(), ring.descent().1), (0, 0, lineage));
    // A file that makes no sense is no reason to end.
    std::fs::write(home.dir().keypair_lineage(), "{").unwrap();
    let ring = home.start();
    assert!(ring.descent().1.is_empty() && !home.dir().keypair_lineage().exists());
    home.rotate(&ring).unwrap();
    assert_eq!(home.start().descent().1.len(), 1);
    // Where it cannot be written the old key stays in the files, and the broker is asked at the next start.
    std::fs::remove_file(home.dir().keypair_lineage()).unwrap();
    std::fs::create_dir(home.dir().keypair_lineage()).unwrap();
    let before = home.configured();
    let next = home.rotate(&ring).unwrap();
    assert_eq!((home.configured(), ring.current().key.clone()), (before, next.key.clone()));
    std::fs::remove_dir(home.dir().keypair_lineage()).unwrap();
    ring.look_after();
    assert_eq!((home.configured(), home.start().descent().1.len()), (next.key.clone(), 2));
}
