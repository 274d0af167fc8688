//! The daemon killed at the points of a turn, under the traffic of the sessions' storm.

use std::time::Duration;

use hostel_tests::wait;

use super::{has_points, restart_after_death};
use crate::sessions::resident::Resident;
use crate::sessions::storm;

/// The points of turns. `keeper.mark.written` is the keeper's: the daemon dies while the keeper is there.
pub(super) const STORM: &[&str] = &[
    "house.turn.queued",
    "house.turn.started",
    "house.turn.ended",
    "house.events.stored",
    "house.process.started",
    "house.process.ended",
    "house.session.learned",
    "house.door-state.stored",
    "house.events.idle-read",
];

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
            if shared.failure().is_some() {
                break;
            }
            assert!(met.is_some(), "{}", house.points().explain());
            restarts.push(restart_after_death(house, point));
        }
        restarts
    });
}
