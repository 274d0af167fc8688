//! The task that gives back disk space and lets go of what is past its time, and what the log says of it.
//!
//! The task runs beside the daemon's main loop, so that a stop or a takeover does not wait for a round to finish.

use std::path::PathBuf;
use std::time::Duration;

use hostel_doors::claustrum::Log;
use hostel_house::housekeeping::Housekeeping;
use hostel_house::housekeeping::HousekeepingOptions;
use hostel_house::housekeeping::Round;
use hostel_house::processes::Collected;
use hostel_house::processes::Retention;
use hostel_house::processes::UnreadableJournal;

use crate::config::Settings;
use crate::text;

/// How often exited processes are looked through.
const INTERVAL: Duration = Duration::from_secs(60);

/// The least time between two rounds that are made because a process is held.
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn options(settings: &Settings) -> HousekeepingOptions {
    let journal = &settings.journal;
    HousekeepingOptions {
        retention: Retention {
            max_count: usize::try_from(journal.keep_count).unwrap_or(usize::MAX),
            max_age: journal.keep_age,
            max_bytes: journal.keep_bytes(),
        },
        quota: journal.quota,
        floor: journal.floor.unwrap_or(0),
        age_delay: journal.age_delay,
    }
}

/// Makes a round now, each minute, and whenever a process is held because there is no room.
pub(super) async fn run(housekeeping: Housekeeping, journal_dir: PathBuf, log: Log) {
    let mut report = Report { journal_dir, log, was_short: false, last_error: String::new() };
    loop {
        if let Some(stalled) = housekeeping.stalled() {
            report.log.error(format_args!(
                "[hostel] {} sessions wait because the database takes nothing: {}; they can be stopped meanwhile",
                stalled.sessions, stalled.error
            ));
        }
        match housekeeping.round().await {
            Ok(round) => report.round(&round),
            Err(error) => report.error(&error.to_string()),
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = housekeeping.room_is_needed() => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Says each thing once, not each minute.
struct Report {
    journal_dir: PathBuf,
    log: Log,
    was_short: bool,
    last_error: String,
}

impl Report {
    fn round(&mut self, round: &Round) {
        self.last_error.clear();
        for start in &round.failed_starts {
            self.log.warn(format_args!(
                "[hostel] `{}` was being started when its daemon ended, and could not be: {}",
                text::printable(&start.name),
                start.reason
            ));
        }
        report_unreadable(&round.unreadable, &self.journal_dir, &self.log);
        self.forgotten(&round.by_rule, "past their time");
        self.forgotten(&round.for_room, "to make room");
        if round.sessions > 0 {
            self.log.info(format_args!("[hostel] forgot {} sessions that were closed long ago", round.sessions));
        }
        if let Some(ahead_ns) = round.doubt_ns {
            let by = text::duration(Duration::from_nanos(u64::try_from(ahead_ns.unsigned_abs()).unwrap_or(u64::MAX)));
            let side = if ahead_ns > 0 { "ahead of" } else { "behind" };
            self.log.warn(format_args!(
                "[hostel] the clock is {by} {side} the time that passed; nothing is removed by it until it has stayed so for a day"
            ));
        }
        if round.is_short && !self.was_short {
            self.log.warn(format_args!(
                "[hostel] the journals need room, and everything that may go is gone; raise `journal.quota`, make room on \
                 the disk, or end processes (`hostel df` shows what is large)"
            ));
        }
        self.was_short = round.is_short;
    }

    fn forgotten(&self, collected: &Collected, why: &str) {
        if !collected.removed.is_empty() {
            let (count, size) = (collected.removed.len(), text::size(collected.freed_bytes));
            self.log.info(format_args!("[hostel] forgot {count} exited processes {why}, {size}"));
        }
    }

    fn error(&mut self, error: &str) {
        if self.last_error != error {
            self.log.warn(format_args!("[hostel] housekeeping: {error}"));
            error.clone_into(&mut self.last_error);
        }
    }
}

pub(super) fn report_unreadable(journals: &[UnreadableJournal], journal_dir: &std::path::Path, log: &Log) {
    for journal in journals {
        let done = if journal.is_set_aside { "it was set aside under this name" } else { "it is tried again" };
        log.error(format_args!(
            "[hostel] the journal `{}` cannot be read ({}); {done}, and nothing of it was removed; `hostel doctor` lists such \
             files",
            journal_dir.join(&journal.file).display(),
            journal.reason
        ));
    }
}
