//! What time does: leases end, old things go.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::json;

use super::Broker;
use super::accept::kept_until;
use super::log::Level;
use super::metrics::Metrics;
use crate::engine::Engine;
use crate::registry::{Reading, Short};

/// How often old things are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// For so long after a start nothing goes because it is old: whoever started the broker with a wrong clock can put it right.
const FIRST_AGING: Duration = Duration::from_secs(5 * 60);

/// How often those who are there are noted as seen, in sweeps.
const SEEN: u64 = 60;

/// How soon claims are looked at again.
const SOON: Duration = Duration::from_millis(5);

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

/// Claims of tasks whose time is over end, and everybody hears of it.
pub(crate) async fn claims<E: Engine>(broker: Weak<Broker<E>>) {
    loop {
        let Some(strong) = broker.upgrade() else { return };
        let (expires_ms, forget_ms) = kept_until(&strong.settings.limits, strong.clock.now_ms());
        // At least once in so long: the machine's clock may be set.
        let mut wait = SWEEP;
        match strong.registry.task_leases(expires_ms, forget_ms).await {
            Ok(None) => {}
            Ok(Some(next)) => {
                let left = Duration::from_millis(next.saturating_sub(strong.registry.leases_ms()));
                wait = left.clamp(SOON, SWEEP);
            }
            Err(error) => strong.log.line(Level::Error, "task_lease_not_told", json!({"error": error.to_string()})),
        }
        let claimed = Arc::clone(&strong.claimed);
        // The broker is not held while this waits: it may go meanwhile.
        drop(strong);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = claimed.notified() => {}
        }
    }
}

/// Old entries, ids, files and members go; idle rooms and buckets are forgotten.
pub(crate) async fn sweeps<E: Engine>(broker: Weak<Broker<E>>) {
    let began = tokio::time::Instant::now();
    let mut doubts = false;
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
        let doubted_ms = broker.registry.doubted_ms();
        if doubted_ms > 0 && !doubts {
            let fields = json!({"clock": hostel_wire::iso(broker.clock.now_ms()), "doubted_ms": doubted_ms,
                "hint": "the clock is more than a day ahead of the last run: nothing goes by age until it has stayed so for a day"});
            broker.log.line(Level::Warn, "clock_doubted", fields);
        }
        doubts = doubted_ms > 0;
        let mut swept = broker.registry.keep_believed_time().await;
        if swept.is_ok() && began.elapsed() >= FIRST_AGING {
            swept = broker.registry.sweep().await.map(drop);
        }
        if let Err(error) = swept {
            broker.log.line(Level::Error, "sweep_failed", json!({"error": error.to_string()}));
        }
    }
}

/// What everybody has goes when a log is nearly full.
pub(crate) async fn relief<E: Engine>(broker: Weak<Broker<E>>) {
    let mut told: Option<tokio::time::Instant> = None;
    loop {
        let Some(pressed) = broker.upgrade().map(|strong| strong.engine.pressed()) else { return };
        tokio::select! {
            () = tokio::time::sleep(SWEEP) => {}
            () = pressed.notified() => {}
        }
        let Some(strong) = broker.upgrade() else { return };
        match strong.registry.relieve(|mesh| strong.reading(mesh)).await {
            Ok(short) if short.is_empty() || told.is_some_and(|at| at.elapsed() < SWEEP) => {}
            Ok(short) => {
                told = Some(tokio::time::Instant::now());
                for Short { mesh, room, waits_for } in short {
                    let fields = json!({"mesh": mesh, "bytes": room.used, "limit": room.limit, "waits_for": waits_for,
                        "hint": "what nobody waits for is gone already: raise `broker.log_size`, or remove a member that does not come back"});
                    strong.log.line(Level::Warn, "log_nearly_full", fields);
                }
            }
            Err(error) => strong.log.line(Level::Error, "relief_failed", json!({"error": error.to_string()})),
        }
        drop(strong);
        // Cursors are told once a second: there is nothing new before that.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

impl<E: Engine> Broker<E> {
    /// How far those who are connected have read, and would have after a power cut: of several connections of one member,
    /// the one that is behind.
    fn reading(&self, mesh: &str) -> Reading {
        let mut reading = Reading::new();
        let rooms = self.rooms.all().into_iter().filter(|(of, _)| of == mesh);
        for connection in rooms.flat_map(|(_, room)| room.connections()).filter(|one| one.wants_entries) {
            let low = connection.window.lock().durable();
            reading.entry(connection.member.clone()).and_modify(|read| *read = low.min(*read)).or_insert(low);
        }
        reading
    }

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
