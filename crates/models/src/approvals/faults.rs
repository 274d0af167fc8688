//! What must not be, in any state.

use super::world::{Ending, Handler, Orphan, Process, Standing, World};

/// What is wrong, if anything is.
pub fn fault(world: &World) -> Option<&'static str> {
    if let Some(fault) = world.seen_fault {
        return Some(fault);
    }
    if world.session_grant && !world.seen_given {
        return Some("a session grant that nobody gave to this daemon");
    }
    for request in &world.requests {
        if request.seen_runs > 1 {
            return Some("it ran twice");
        }
        if request.seen_settled > 1 {
            return Some("it was settled twice");
        }
        if request.seen_credited > 1 {
            return Some("two people were told that their decision counted");
        }
        if request.seen_credited > request.seen_settled {
            return Some("somebody was told of a decision that was not written");
        }
        let serving = request.lines.iter().filter(|line| line.handler.serves()).count();
        if serving > 1 {
            return Some("two connections have the same request");
        }
        if world.daemon_up {
            let awaited = serving > 0 || request.orphan != Orphan::No;
            if request.row.standing == Standing::Pending && !awaited {
                return Some("it is pending, and nobody waits for it");
            }
            if request.processes.contains(&Process::Running) && !awaited {
                return Some("it runs, and nobody waits for it");
            }
        }
        if request.row.ending == Ending::NotRun && request.seen_runs > 0 {
            return Some("it ran, and the record says that it did not");
        }
    }
    None
}

impl Handler {
    /// The request is this connection's.
    pub fn serves(self) -> bool {
        !matches!(self, Handler::None | Handler::Looked | Handler::Answering(_))
    }
}
