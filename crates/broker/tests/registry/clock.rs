//! A clock that is wrong when the broker starts: nothing goes by age because of it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hostel_broker::engine::{Engine as _, EngineOptions, SqliteEngine};
use hostel_broker::registry::{Registry, RegistrySettings};
use hostel_wire::Clock;
use hostel_wire::keys::SecretKey;

use super::support::{DAY, HOUR, NOW, new_mesh};
use crate::engine::support::dm;

/// A machine whose clock may be set, and in which time passes.
#[derive(Default, Clone)]
struct Machine {
    wall: Arc<AtomicU64>,
    passing: Arc<AtomicU64>,
}

impl Machine {
    fn clock(&self) -> Clock {
        let (wall, passing) = (Arc::clone(&self.wall), Arc::clone(&self.passing));
        Clock::of_both(move || wall.load(Ordering::Acquire), move || passing.load(Ordering::Acquire))
    }

    fn set(&self, ms: u64) {
        self.wall.store(ms, Ordering::Release);
    }

    fn pass(&self, ms: u64) {
        self.wall.fetch_add(ms, Ordering::AcqRel);
        self.passing.fetch_add(ms, Ordering::AcqRel);
    }
}

async fn open(directory: &Path, machine: &Machine) -> (SqliteEngine, Registry<SqliteEngine>) {
    let options = EngineOptions::at(directory.join("broker.db"), directory.join("blobs"));
    let engine = SqliteEngine::open(options).await.unwrap();
    let registry = Registry::open(engine.clone(), machine.clock(), RegistrySettings::default()).await.unwrap();
    (engine, registry)
}

#[tokio::test]
async fn a_start_with_a_clock_that_is_ahead_forgets_nothing_until_it_stayed_so_for_a_day() {
    let (scratch, machine) = (tempfile::tempdir().unwrap(), Machine::default());
    // The second round keeps no believed time, as a broker of an earlier version: the newest entry tells it then.
    for keeps in [true, false] {
        let directory = scratch.path().join(keeps.to_string());
        std::fs::create_dir(&directory).unwrap();
        machine.set(NOW);
        let (engine, registry) = open(&directory, &machine).await;
        let mesh = registry.create_mesh(new_mesh("lab", &SecretKey::generate(), &SecretKey::generate())).await.unwrap();
        engine.append(dm(&mesh.mesh_id, "a")).await.unwrap();
        if keeps {
            registry.keep_believed_time().await.unwrap();
        }
        engine.close().await;
        drop(registry);

        machine.set(NOW + 100 * DAY);
        let (engine, registry) = open(&directory, &machine).await;
        for _ in 0..3 {
            machine.pass(7 * HOUR);
            assert_eq!(registry.sweep().await.unwrap().pruned.entries, 0, "keeps: {keeps}");
            registry.keep_believed_time().await.unwrap();
        }
        assert_eq!(registry.doubted_ms(), 21 * HOUR);
        engine.close().await;
        drop(registry);

        // The doubt outlives a restart, and ends.
        let (engine, registry) = open(&directory, &machine).await;
        assert_eq!(registry.sweep().await.unwrap().pruned.entries, 0, "keeps: {keeps}");
        assert!(engine.lookup(&mesh.mesh_id, "alice", "a").await.unwrap().is_some());
        machine.pass(4 * HOUR);
        let swept = registry.sweep().await.unwrap();
        assert_eq!((swept.pruned.entries, swept.pruned.ids), (1, 1), "keeps: {keeps}");
        engine.close().await;
    }
}

#[tokio::test]
async fn a_clock_that_is_put_right_after_the_start_has_taken_nothing() {
    let (scratch, machine) = (tempfile::tempdir().unwrap(), Machine::default());
    let directory = scratch.path().to_owned();
    machine.set(NOW);
    let (engine, registry) = open(&directory, &machine).await;
    let mesh = registry.create_mesh(new_mesh("lab", &SecretKey::generate(), &SecretKey::generate())).await.unwrap();
    engine.append(dm(&mesh.mesh_id, "a")).await.unwrap();
    registry.keep_believed_time().await.unwrap();
    engine.close().await;
    machine.set(NOW + 40 * DAY);
    let (engine, registry) = open(&directory, &machine).await;
    machine.pass(HOUR);
    registry.sweep().await.unwrap();
    machine.set(NOW + 2 * HOUR);
    registry.sweep().await.unwrap();
    assert_eq!((registry.doubted_ms(), engine.bounds(&mesh.mesh_id).unwrap().first_seq), (0, 1));
    engine.close().await;
}
