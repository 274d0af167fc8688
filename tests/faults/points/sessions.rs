//! The daemon killed at the points of a turn, under the traffic of the sessions' storm.

use std::time::Duration;

use hostel_tests::wait;
use serde_json::json;

use super::{has_points, restart_after_death};
use crate::sessions::events;
use crate::sessions::resident::Resident;
use crate::sessions::storm;

/// The points that most turns come to.
pub(super) const STORM: &[&str] = &[
    "house.turn.queued",
    "house.turn.started",
    "house.turn.ended",
    "house.process.started",
    "house.door-state.stored",
];

/// The points of an answer that is too long for one write.
pub(super) const LONG: &[&str] = &["house.events.stored"];

#[test]
fn turns_go_on() {
    if !has_points() {
        return;
    }
    storm::run(Resident::start_with_points(""), |house, shared, random| {
        let mut restarts = Vec::new();
        for point in STORM {
            // Not always at the first time.
            house.points().kill_after(point, random.below(4));
            let met = wait::attempt(wait::LIMIT, || {
                house.points().met_within(Duration::ZERO).map(drop).or(shared.failure().map(drop))
            });
            if met.is_none() {
                // A panic here would leave the others waiting for an end.
                shared.fail(house.points().explain());
            }
            if shared.failure().is_some() {
                break;
            }
            restarts.push(restart_after_death(house, point));
        }
        restarts
    });
}

#[test]
fn a_long_answer_is_kept_whole() {
    if !has_points() {
        return;
    }
    const PIECES: usize = 20_000;
    let mut house = Resident::start_with_points("");
    let work = house.work();
    let session = house.native().make(json!({"agent_alias": "claude", "cwd": work, "mode": "auto"}));
    for point in LONG {
        house.points().kill_next(point);
        house.native().send(&session, &format!("stream {PIECES}"));
        restart_after_death(&mut house, point);
        let turns = events::turns_of(&mut house.native(), &session);
        let turn = turns.last().expect("a turn");
        assert_eq!(turn.outcome, "completed", "{point}: {:?}", turn.errors());
        let expected: Vec<String> = (0..PIECES).map(|number| format!("{number} ")).collect();
        assert!(turn.pieces == expected, "{point}: {} of {PIECES} pieces", turn.pieces.len());
    }
}
