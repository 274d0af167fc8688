//! The order of what is under way on one connection: a number for each message of a lane, and what happens when one of
//! them is refused for now.
//!
//! Invariant: nothing is ever in the log before an earlier message of its lane. When the broker refuses number k for
//! now it refuses all later ones too; the lane stays shut until each of them is answered, and then goes on with k, with
//! whatever message comes first then.

use std::collections::{HashMap, HashSet};

/// A lane on this connection.
#[derive(Debug, Default)]
struct Lane {
    /// The last number that was used.
    last: u64,
    /// Messages under way.
    flying: u32,
    /// The first number that was refused for now.
    refused: Option<u64>,
}

/// All lanes of a connection.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: HashMap<String, Lane>,
}

impl Lanes {
    /// The number of the next message of a lane, which is under way from now on.
    pub(super) fn send(&mut self, lane: &str) -> u64 {
        let lane = self.lanes.entry(lane.to_owned()).or_default();
        lane.last += 1;
        lane.flying += 1;
        lane.last
    }

    /// A message was answered. `later`: refused for now.
    pub(super) fn answered(&mut self, lane: &str, number: u64, later: bool) {
        let Some(lane) = self.lanes.get_mut(lane) else { return };
        lane.flying = lane.flying.saturating_sub(1);
        if later {
            lane.refused = Some(lane.refused.map_or(number, |first| first.min(number)));
        }
        if lane.flying == 0
            && let Some(first) = lane.refused.take()
        {
            lane.last = first - 1;
        }
    }

    /// Lanes that are shut.
    pub(super) fn shut(&self) -> HashSet<String> {
        self.lanes.iter().filter(|(_, lane)| lane.refused.is_some()).map(|(text, _)| text.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_by_one_in_each_lane() {
        let mut lanes = Lanes::default();
        assert_eq!((lanes.send("a"), lanes.send("a"), lanes.send("b")), (1, 2, 1));
        lanes.answered("a", 1, false);
        assert_eq!(lanes.send("a"), 3);
        assert!(lanes.shut().is_empty());
    }

    #[test]
    fn a_refused_lane_opens_with_the_refused_number_when_all_are_answered() {
        let mut lanes = Lanes::default();
        for _ in 0..4 {
            lanes.send("a");
        }
        lanes.answered("a", 1, false);
        lanes.answered("a", 2, true);
        assert!(lanes.shut().contains("a"));
        lanes.answered("a", 3, true);
        assert!(lanes.shut().contains("a"), "one is still under way");
        lanes.answered("a", 4, true);
        assert!(lanes.shut().is_empty());
        assert_eq!(lanes.send("a"), 2);
    }
}
