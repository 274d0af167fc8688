//! Appending: what waits is taken together, written in one transaction and told in the order in which it came.
//!
//! Invariant: one batch is in the writer at a time, and the next is begun when it is known what became of it. So a lane
//! whose entry failed is shut before anything behind that entry is looked at. An entry is told to readers (the tail) before
//! its sender is answered.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use hostel_syncpoint::points;
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::super::types::{Append, AppendError, AppendTicket, Appended, EngineError, Entry, Guard, Known, Room};
use super::{Log, State, audience, id_stem, kv, place, recent, room};

/// Appends that are written together at most.
const BATCH: usize = 1024;

/// What stands in line.
pub(super) enum Line {
    Append(Box<Waiting>),
    /// Nothing is taken after it.
    End(oneshot::Sender<()>),
}

pub(super) struct Waiting {
    append: Append,
    log: Arc<Log>,
    stem: String,
    answer: Answer,
    /// Given back when it is written.
    room: OwnedSemaphorePermit,
}

type Answer = oneshot::Sender<Result<Appended, AppendError>>;

impl Line {
    pub(super) fn new(append: Append, log: Arc<Log>, room: OwnedSemaphorePermit) -> (Self, AppendTicket) {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting { append, log, stem: id_stem(), answer, room };
        (Self::Append(Box::new(waiting)), AppendTicket(answered))
    }

    pub(super) fn end() -> (Self, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        (Self::End(end), ended)
    }
}

/// What became of one of a batch.
enum Outcome {
    /// With the revision of the records that were written with it, if there were any.
    New {
        seq: u64,
        id: String,
        revision: u64,
        /// What was stored for its audience besides.
        audience_bytes: u64,
    },
    Duplicate(Known),
    Reused(String),
    Blocked,
    Stale(Guard),
    Full,
}

/// How far a log goes while a batch is written: its last entry, and its bytes.
#[derive(Clone, Copy)]
struct End {
    seq: u64,
    bytes: u64,
}

/// One of a batch, without the way to answer.
struct Job {
    append: Append,
    log: Arc<Log>,
    stem: String,
}

/// Takes what waits and has it written, until the engine is gone or closed.
pub(super) async fn run(state: Arc<State>, mut waiting: mpsc::Receiver<Line>) {
    let mut lines = Vec::with_capacity(BATCH);
    loop {
        if waiting.recv_many(&mut lines, BATCH).await == 0 {
            return;
        }
        let mut end = None;
        let mut jobs = Vec::with_capacity(lines.len());
        let mut answers = Vec::with_capacity(lines.len());
        let mut rooms = Vec::with_capacity(lines.len());
        for line in lines.drain(..) {
            match line {
                Line::Append(one) if end.is_none() => {
                    let Waiting { append, log, stem, answer, room } = *one;
                    answers.push((append.gate.clone(), answer));
                    rooms.push(room);
                    jobs.push(Job { append, log, stem });
                }
                // Too late: the ticket says so when it is dropped.
                Line::Append(_) => {}
                Line::End(told) => end = Some(told),
            }
        }
        if !jobs.is_empty() {
            let most = state.log_bytes;
            let point = match jobs.iter().all(|job| job.append.writes.is_empty()) {
                true => points::BROKER_ENTRIES,
                false => points::BROKER_SHARED,
            };
            let written = state.store.write(point, move |transaction| write(transaction, jobs, most)).await;
            match written {
                Ok(written) => tell(&state, written, answers),
                Err(error) => {
                    let error = AppendError::Engine(EngineError::Store(error));
                    for (gate, answer) in answers {
                        if let Some(gate) = gate {
                            gate.shut();
                        }
                        // Who has left wants no answer.
                        answer.send(Err(error.clone())).ok();
                    }
                }
            }
        }
        drop(rooms);
        if let Some(told) = end {
            told.send(()).ok();
            return;
        }
    }
}

/// Writes a batch. Nothing here fails but by the disk's fault, and then all of it does.
fn write(transaction: &Transaction<'_>, jobs: Vec<Job>, most: u64) -> rusqlite::Result<Vec<(Job, Outcome)>> {
    let mut ends: HashMap<i64, End> = HashMap::new();
    let mut guards: HashMap<(&'static str, String), u64> = HashMap::new();
    let mut written = Vec::with_capacity(jobs.len());
    for job in jobs {
        let outcome = write_one(transaction, &job, &mut ends, &mut guards, most)?;
        if let (Some(gate), Outcome::Stale(_) | Outcome::Full) = (&job.append.gate, &outcome) {
            gate.shut();
        }
        written.push((job, outcome));
    }
    let mut update =
        transaction.prepare_cached("UPDATE logs SET last_seq = ?, bytes = ? WHERE no = ? AND last_seq <> ?1")?;
    for (log, end) in ends {
        update.execute(params![end.seq as i64, end.bytes as i64, log])?;
    }
    Ok(written)
}

fn write_one(
    transaction: &Transaction<'_>,
    job: &Job,
    ends: &mut HashMap<i64, End>,
    guards: &mut HashMap<(&'static str, String), u64>,
    most: u64,
) -> rusqlite::Result<Outcome> {
    let Job { append, log, stem } = job;
    if append.gate.as_ref().is_some_and(|gate| !gate.pass()) {
        return Ok(Outcome::Blocked);
    }
    let deduplicated = !append.client_id.is_empty();
    if let Some(guard) = stale(transaction, &append.guards, guards)? {
        // An entry that is there is there, whatever has changed since.
        let known = if deduplicated { known(transaction, log.no, append.whose(), &append.client_id)? } else { None };
        return Ok(known.map_or_else(|| Outcome::Stale(guard), |known| compare(known, append)));
    }
    let end = match ends.get(&log.no) {
        Some(end) => *end,
        None => {
            let mut end = transaction.prepare_cached("SELECT last_seq, bytes FROM logs WHERE no = ?")?;
            let number = |row: &rusqlite::Row<'_>, index| row.get::<_, i64>(index).map(|number| number as u64);
            end.query_row([log.no], |row| Ok(End { seq: number(row, 0)?, bytes: number(row, 1)? }))?
        }
    };
    let bytes = end.bytes.saturating_add(room::of(append));
    // What the broker itself has to say is little, and is said.
    if most > 0 && bytes > most && !append.sender.is_empty() {
        let known = if deduplicated { known(transaction, log.no, append.whose(), &append.client_id)? } else { None };
        return Ok(known.map_or(Outcome::Full, |known| compare(known, append)));
    }
    let seq = end.seq + 1;
    let place = place::of(log.no, seq);
    let id = place::id(stem, seq);
    let ms = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    if deduplicated {
        let mut insert = transaction.prepare_cached(
            "INSERT INTO dedupe (place, log, sender, client_id, fingerprint, id, ts_ms, forget_ms)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (log, sender, client_id) DO NOTHING",
        )?;
        let (sender, client_id) = (append.whose(), &append.client_id);
        let forget = ms(append.forget_ms.max(append.expires_ms));
        let now = ms(append.now_ms);
        if insert.execute(params![place, log.no, sender, client_id, append.fingerprint, id, now, forget])? == 0 {
            let known = known(transaction, log.no, sender, client_id)?;
            return known.map(|known| compare(known, append)).ok_or(rusqlite::Error::QueryReturnedNoRows);
        }
    }
    let (audience, audience_bytes) = audience::store(transaction, log.no, place, &append.audience)?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO log (place, id, ts_ms, kind, dest, sender, client_id, fingerprint, priority, audience, expires_ms, body)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    insert.execute(params![
        place,
        id,
        ms(append.now_ms),
        append.kind.as_str(),
        append.dest,
        append.sender,
        append.client_id,
        append.fingerprint,
        append.priority as i64,
        audience,
        ms(append.expires_ms),
        &append.bytes[..],
    ])?;
    ends.insert(log.no, End { seq, bytes: bytes.saturating_add(audience_bytes) });
    let revision = if append.writes.is_empty() { 0 } else { kv::write(transaction, &append.writes)? };
    Ok(Outcome::New { seq, id, revision, audience_bytes })
}

/// The first guard that has changed. No record that guards are about is written while a batch is, so each is looked up
/// once.
fn stale(
    transaction: &Transaction<'_>,
    wanted: &[Guard],
    seen: &mut HashMap<(&'static str, String), u64>,
) -> rusqlite::Result<Option<Guard>> {
    for guard in wanted {
        let key = (guard.bucket, guard.key.clone());
        let found = match seen.get(&key) {
            Some(revision) => *revision,
            None => {
                let mut select = transaction.prepare_cached("SELECT revision FROM kv WHERE bucket = ? AND key = ?")?;
                let found =
                    select.query_row(params![guard.bucket, guard.key], |row| row.get::<_, i64>(0)).optional()?;
                *seen.entry(key).or_insert(found.unwrap_or(0) as u64)
            }
        };
        if found != guard.revision {
            return Ok(Some(guard.clone()));
        }
    }
    Ok(None)
}

fn compare(known: Known, append: &Append) -> Outcome {
    match known.fingerprint == append.fingerprint {
        true => Outcome::Duplicate(known),
        false => Outcome::Reused(known.id),
    }
}

/// What became of an id; whether the entry is still kept is for the caller to say.
pub(super) fn known(
    connection: &Connection,
    log: i64,
    sender: &str,
    client_id: &str,
) -> rusqlite::Result<Option<Known>> {
    let mut select = connection.prepare_cached(
        "SELECT place, fingerprint, id, ts_ms FROM dedupe WHERE log = ? AND sender = ? AND client_id = ?",
    )?;
    let known = select.query_row(params![log, sender, client_id], |row| {
        Ok(Known {
            seq: place::seq(row.get(0)?),
            fingerprint: row.get(1)?,
            id: row.get(2)?,
            ts_ms: row.get::<_, i64>(3)? as u64,
            history_available: true,
        })
    });
    known.optional()
}

/// Lets memory follow what was written, then tells readers, then senders.
fn tell(state: &State, written: Vec<(Job, Outcome)>, answers: Vec<(Option<super::super::types::Gate>, Answer)>) {
    let share = state.recent_bytes / state.logs.read().len().max(1);
    let mut results = Vec::with_capacity(written.len());
    let mut tails: HashMap<i64, (Arc<Log>, u64)> = HashMap::new();
    let mut recent = state.recent.lock();
    for (Job { mut append, log, .. }, outcome) in written {
        results.push(match outcome {
            Outcome::Blocked => Err(AppendError::Blocked),
            Outcome::Stale(guard) => Err(AppendError::Stale(guard)),
            Outcome::Full => {
                state.pressed.notify_one();
                Err(AppendError::Full)
            }
            Outcome::Reused(id) => Err(AppendError::Reused { id }),
            Outcome::Duplicate(known) => {
                let history_available = log.keeps(known.seq);
                Ok(Appended { seq: known.seq, id: known.id, ts_ms: known.ts_ms, duplicate: true, history_available })
            }
            Outcome::New { seq, id, revision, audience_bytes } => {
                kv::tell(state, std::mem::take(&mut append.writes), revision);
                if !append.client_id.is_empty() {
                    let key = recent::key(log.no, append.whose(), &append.client_id);
                    let (fingerprint, ts_ms) = (append.fingerprint, append.now_ms);
                    recent.put(key, Known { fingerprint, seq, id: id.clone(), ts_ms, history_available: true });
                }
                let ts_ms = append.now_ms;
                let used = room::of(&append) + audience_bytes;
                let used = log.bytes.fetch_add(used, Ordering::Relaxed) + used;
                if (Room { used, limit: state.log_bytes }).is_short() {
                    state.pressed.notify_one();
                }
                log.ring.lock().push(Arc::new(entry(append, seq, id.clone())), share);
                tails.insert(log.no, (log, seq));
                Ok(Appended { seq, id, ts_ms, duplicate: false, history_available: true })
            }
        });
    }
    drop(recent);
    for (log, seq) in tails.into_values() {
        log.tail.send_replace(seq);
    }
    for (result, (_, answer)) in results.into_iter().zip(answers) {
        // Who has left wants no answer.
        answer.send(result).ok();
    }
}

fn entry(append: Append, seq: u64, id: String) -> Entry {
    Entry {
        seq,
        id,
        ts_ms: append.now_ms,
        kind: append.kind,
        dest: append.dest,
        sender: append.sender,
        client_id: append.client_id,
        fingerprint: append.fingerprint,
        priority: append.priority,
        audience: append.audience,
        bytes: append.bytes,
        frame: OnceLock::new(),
    }
}
