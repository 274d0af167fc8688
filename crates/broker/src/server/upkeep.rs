//! What time does: leases end, old things go.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;

use super::Broker;
use super::log::Level;
use super::metrics::Metrics;
use crate::engine::Engine;

/// How often old things are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// How often those who are there are noted as seen, in sweeps.
const SEEN: u64 = 60;

/// Nothing is due sooner than this after nothing was due.
const IDLE: Duration = Duration::from_secs(3600);

/// Members whose lease is over are gone, and the others hear of it.
pub(crate) async fn leases<E: Engine>(broker: Weak<Broker<E>>) {
    loop {
        // The broker is not held while this waits: it may go meanwhile.
        let Some((next, leased)) =
            broker.upgrade().map(|strong| (strong.rooms.next_lease(), Arc::clone(&strong.leased)))
        else {
            return;
        };
        let next = next.unwrap_or_else(|| tokio::time::Instant::now() + IDLE);
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = leased.notified() => {}
        }
        let Some(strong) = broker.upgrade() else { return };
        for (mesh, room) in strong.rooms.all() {
            for member in room.expire() {
                strong.peer_left(&mesh, &member);
            }
        }
    }
}

/// Old entries, ids, files and members go; idle rooms and buckets are forgotten.
pub(crate) async fn sweeps<E: Engine>(broker: Weak<Broker<E>>) {
    for sweep in 1u64.. {
        tokio::time::sleep(SWEEP).await;
        let Some(broker) = broker.upgrade() else { return };
        if sweep.is_multiple_of(SEEN) {
            broker.note_those_who_are_there().await;
        }
        broker.rates.sweep();
        broker.asks.sweep();
        broker.rooms.sweep();
        Metrics::count(&broker.metrics.sweeps);
        if let Err(error) = broker.registry.sweep().await {
            broker.log.line(Level::Error, "sweep_failed", json!({"error": error.to_string()}));
        }
    }
}

impl<E: Engine> Broker<E> {
    /// Whoever is connected for days was seen today.
    async fn note_those_who_are_there(&self) {
        for (mesh, room) in self.rooms.all() {
            let members: BTreeSet<_> = room.connections().iter().map(|one| one.member.clone()).collect();
            for member in members {
                self.note("seen", self.registry.note_presence(&mesh, &member, None, None, None).await);
            }
        }
    }
}
