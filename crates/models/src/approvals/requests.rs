//! What a request's row and processes say about it.

use super::world::{Answer, Ending, Handler, Process, Request, Row, Source, Standing, World};

impl World {
    /// Whether the keeper, as far as the daemon knows, is the one that was there when the request was approved.
    pub(crate) fn has_keeper_of(&self, number: usize) -> bool {
        self.requests[number].row.by_second_keeper == self.keeper_noticed
    }
}

impl Request {
    /// Where the handler of a request that is on disk begins.
    pub(crate) fn resumed(&self) -> Handler {
        match (self.row.standing, self.row.ending) {
            (Standing::Pending, _) => Handler::Waiting,
            (Standing::Approved, Ending::Open) => Handler::Approved,
            _ => Handler::Answering(self.answer()),
        }
    }

    /// It is over, and on disk. What it came from does not matter any more: fewer states to look at.
    pub(crate) fn end(&mut self, ending: Ending) {
        self.row = Row { ending, by: Source::Nobody, by_second_keeper: false, ..self.row };
        self.processes = self.processes.map(|process| match process {
            Process::Running => Process::Running,
            Process::Ended | Process::Lost | Process::Heard | Process::Unknown => Process::Unknown,
        });
    }

    /// Something is still to be done about it.
    pub(crate) fn is_open(&self) -> bool {
        match self.row.standing {
            Standing::Pending => true,
            Standing::Approved => self.row.ending == Ending::Open,
            _ => false,
        }
    }

    /// Ends what runs; what is true of it then. `same` keeper as that of the approval.
    pub(crate) fn stopped(&mut self, same: bool) -> Ending {
        for process in self.processes.iter_mut().filter(|process| **process == Process::Running) {
            *process = Process::Ended;
        }
        match self.processes {
            [Process::Ended | Process::Heard, _] | [_, Process::Ended | Process::Heard] => Ending::Ran,
            [Process::Unknown, Process::Unknown] if same => Ending::NotRun,
            _ => Ending::Lost,
        }
    }

    /// What the disk says to a client.
    pub(crate) fn answer(&self) -> Answer {
        match (self.row.standing, self.row.ending) {
            (Standing::Approved, Ending::Ran) => Answer::Ran,
            (Standing::Approved, Ending::Lost) => Answer::Lost,
            (Standing::Approved, _) => Answer::NotRun,
            (Standing::Expired, _) => Answer::Expired,
            (Standing::Withdrawn, _) => Answer::Withdrawn,
            _ => Answer::Denied,
        }
    }
}
