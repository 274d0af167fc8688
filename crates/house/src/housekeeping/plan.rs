//! Chooses what housekeeping removes. All functions are pure.
//!
//! They choose among the candidates only, which are ended processes that nobody needs.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::processes::{Candidate, ProcessId, Retention, Survey};

/// Above this share of the quota, ended output is removed.
const ROOM_NEEDED_PERCENT: u64 = 85;
/// Down to this share.
const ROOM_MADE_PERCENT: u64 = 70;
/// Removing also begins when less than this many times the floor is free.
const FREE_FLOORS: u64 = 2;
const GIB: u64 = 1 << 30;

/// The limits that make pressure.
#[derive(Clone, Copy, Debug)]
pub struct Pressure {
    /// All journals together.
    pub quota: u64,
    /// Free space that must remain, 0 for the keeper's own rule.
    pub floor: u64,
}

/// Processes to forget in order to make room.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct RoomPlan {
    pub(super) chosen: Vec<ProcessId>,
    /// More would have to go than may.
    pub(super) is_short: bool,
}

/// Chooses what goes when the quota is nearly used up or the disk nearly full: journals whose events are stored first, each
/// kind oldest first.
pub(super) fn for_room(survey: &Survey, pressure: Pressure) -> RoomPlan {
    let share = |percent: u64| pressure.quota / 100 * percent + pressure.quota % 100 * percent / 100;
    let over_quota = match survey.used_bytes > share(ROOM_NEEDED_PERCENT) {
        true => survey.used_bytes - share(ROOM_MADE_PERCENT),
        false => 0,
    };
    // The keeper's rule: a gigabyte, or the twentieth part of a small file system.
    let floor = if pressure.floor == 0 { GIB.min(survey.disk_bytes / 20) } else { pressure.floor };
    let too_little_free = floor.saturating_mul(FREE_FLOORS).saturating_sub(survey.free_bytes);
    let wanted = over_quota.max(too_little_free);
    if wanted == 0 {
        return RoomPlan::default();
    }
    let mut by_worth: Vec<&Candidate> = survey.candidates().iter().filter(|one| one.file.bytes_on_disk > 0).collect();
    by_worth.sort_unstable_by_key(|one| (!one.is_stored, one.file.modified_ns, one.file.id));
    let mut plan = RoomPlan::default();
    let mut freed = 0_u64;
    for candidate in by_worth {
        if freed >= wanted {
            break;
        }
        freed = freed.saturating_add(candidate.file.bytes_on_disk);
        plan.chosen.push(candidate.file.id);
    }
    plan.is_short = freed < wanted;
    plan
}

/// Chooses processes beyond the limits of count and size, oldest first. Journals of sessions do not count: they live as long as
/// their session.
pub(super) fn surplus(survey: &Survey, retention: Retention) -> Vec<ProcessId> {
    let counted: Vec<_> = survey.candidates().iter().filter(|one| !one.is_stored).map(|one| one.file).collect();
    Retention { max_age: Duration::MAX, ..retention }.expired(&counted, 0)
}

/// Chooses processes whose journal last changed longer ago than `max_age`.
pub(super) fn past_age(candidates: &[Candidate], max_age: Duration, now_ns: u64) -> Vec<ProcessId> {
    let max_age_ns = u64::try_from(max_age.as_nanos()).unwrap_or(u64::MAX);
    let is_old = |one: &&Candidate| !one.is_stored && now_ns.saturating_sub(one.file.modified_ns) > max_age_ns;
    candidates.iter().filter(is_old).map(|one| one.file.id).collect()
}

/// Changes to the tombstones of one kind.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Tombstones {
    /// Ids that get a tombstone now.
    pub(super) placed: Vec<String>,
    /// Ids that lose their tombstone.
    pub(super) lifted: Vec<String>,
    /// Ids whose tombstone is old enough: to be removed now.
    pub(super) due: Vec<String>,
}

pub(super) fn tombstones(
    old: &HashSet<String>,
    known: &HashMap<String, u64>,
    now_ns: u64,
    delay: Duration,
) -> Tombstones {
    let delay_ns = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
    let mut verdicts = Tombstones::default();
    for id in old {
        match known.get(id) {
            // Placed by a clock that was ahead: it begins anew.
            Some(since) if *since > now_ns => verdicts.placed.push(id.clone()),
            Some(since) if now_ns - since >= delay_ns => verdicts.due.push(id.clone()),
            Some(_) => {}
            None => verdicts.placed.push(id.clone()),
        }
    }
    verdicts.lifted = known.keys().filter(|id| !old.contains(*id)).cloned().collect();
    verdicts
}

#[cfg(test)]
mod tests {
    use hostel_journal::FileInfo;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn candidate(byte: u8, mib: u64, is_stored: bool) -> Candidate {
        let file = FileInfo { id: ProcessId([byte; 16]), bytes_on_disk: mib * MIB, modified_ns: u64::from(byte) };
        Candidate { file, is_stored }
    }

    fn chosen(used_mib: u64, free_mib: u64, candidates: Vec<Candidate>) -> (Vec<u8>, bool) {
        let survey = Survey::of(used_mib * MIB, free_mib * MIB, 1 << 40, candidates);
        let plan = for_room(&survey, Pressure { quota: 100 * MIB, floor: 10 * MIB });
        (plan.chosen.iter().map(|id| id.0[0]).collect(), plan.is_short)
    }

    #[test]
    fn room_is_made_before_the_quota_is_used_up_oldest_first_and_stored_ones_before_all() {
        let all =
            || vec![candidate(3, 10, false), candidate(1, 10, false), candidate(5, 2, true), candidate(4, 2, true)];
        assert_eq!(chosen(85, 1000, all()), (vec![], false), "not before");
        assert_eq!(chosen(86, 1000, all()), (vec![4, 5, 1, 3], false));
        assert_eq!(chosen(86, 1000, all()[..2].to_vec()), (vec![1, 3], false));
        assert_eq!(chosen(99, 1000, all()), (vec![4, 5, 1, 3], true), "the rest is needed");
        assert_eq!(chosen(50, 19, all()), (vec![4], false), "the disk is nearly full");
        assert_eq!(chosen(50, 20, all()), (vec![], false));
    }

    #[test]
    fn a_tombstone_stands_for_a_day_and_goes_when_its_cause_does() {
        let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<HashSet<_>>();
        let known = HashMap::from([
            ("due".to_owned(), 100),
            ("waits".to_owned(), 101),
            ("young".to_owned(), 1),
            ("ahead".to_owned(), 900),
        ]);
        let found = tombstones(&set(&["due", "waits", "ahead", "new"]), &known, 200, Duration::from_nanos(100));
        assert_eq!(found.due, ["due"]);
        assert_eq!(found.lifted, ["young"]);
        assert_eq!(found.placed.iter().cloned().collect::<HashSet<_>>(), set(&["ahead", "new"]));
    }
}
