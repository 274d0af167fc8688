//! What can happen, one indivisible step at a time.

use super::flaws::{Flaw, GUESSED, LOOSENED, LOST, OTHER_DIGEST, REUSED, TWICE, UNASKED};
use super::world::{
    APPROVED, CHANGED, Contents, Daemon, Deposit, Effect, LOCKED, LOOSE, PENDING, Phase, Row, THEIRS, Thing, UNPROVED,
    World,
};
use crate::explore::Model;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The daemon begins a write, and `hostel.toml` wants this.
    Begin(Effect, u8),
    Commit,
    /// The keeper hears that the commit happened, and whoever waits for it is told.
    Confirm,
    /// The keeper is asked to start what was approved, and starts it if it does not know it.
    Run,
    /// What runs ends by itself.
    Ends,
    /// A row is changed while the daemon runs.
    Change(Thing, Row),
    /// The approver's file is replaced.
    ReplaceFile,
    KillDaemon,
    /// The daemon starts, finds these rows, and `hostel.toml` wants this. Records that name the insider's passphrase may be
    /// appended to the audit.
    Start([Row; 5], u8, bool),
    KillKeeper,
}

/// The model, with at most one deliberate mistake.
pub struct Insider {
    pub flaw: Option<Flaw>,
    /// Nobody interferes: crashes alone.
    pub is_honest: bool,
}

const WRITES: [Effect; 9] = [
    Effect::Asked,
    Effect::Agreed,
    Effect::Granted,
    Effect::Revoked,
    Effect::Finished,
    Effect::Guessed,
    Effect::Shown,
    Effect::Confirmed,
    Effect::Changed,
];

impl Model for Insider {
    type State = World;
    type Action = Action;

    fn initial(&self) -> Vec<World> {
        vec![self.canonical(World::new())]
    }

    fn steps(&self, world: &World, into: &mut Vec<(Action, World)>) {
        for action in self.possible(world) {
            let mut after = *world;
            self.take(&mut after, action);
            if after != *world {
                into.push((action, after));
            }
        }
    }

    fn fault(&self, world: &World) -> Option<&'static str> {
        if world.seen_fault.is_some() {
            return world.seen_fault;
        }
        if world.seen_runs > u8::from(world.seen_agreed) + world.seen_granted {
            return Some(TWICE);
        }
        if world.seen_granted > 1 {
            return Some(REUSED);
        }
        if world.seen_guesses > LOCKED {
            return Some(GUESSED);
        }
        if let Daemon::Up(known) = world.daemon {
            let digest = if self.has(Flaw::ReadsTheFile) { world.file } else { known[Thing::Digest as usize] };
            if digest == THEIRS || (digest != CHANGED && world.seen_changed) {
                return Some(OTHER_DIGEST);
            }
            if known[Thing::Policy as usize] == LOOSE && !world.seen_confirmed {
                return Some(LOOSENED);
            }
            let is_open = known[Thing::Request as usize] == APPROVED || world.running || world.seen_runs > 0;
            if self.is_honest && world.seen_agreed && !is_open && !world.second_key {
                return Some(LOST);
            }
        }
        None
    }
}

impl Insider {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn possible(&self, world: &World) -> Vec<Action> {
        let mut actions = Vec::with_capacity(48);
        match world.daemon {
            Daemon::Down => self.starts(world, &mut actions),
            Daemon::Up(known) => {
                actions.push(Action::KillDaemon);
                let may = |effect: &Effect| self.may_begin(world, known, *effect);
                for effect in WRITES.into_iter().filter(may) {
                    actions.extend(self.wanted(effect).iter().map(|wanted| Action::Begin(effect, *wanted)));
                }
                let seen = if self.has(Flaw::BelievesRows) { world.rows[0].says } else { known[0] };
                if seen == APPROVED && !world.running {
                    actions.push(Action::Run);
                }
            }
            Daemon::Writing { phase, .. } => {
                actions.push(Action::KillDaemon);
                actions.push(if phase == Phase::Intended { Action::Commit } else { Action::Confirm });
            }
        }
        if world.running {
            actions.push(Action::Ends);
        }
        if !world.second_key {
            actions.push(Action::KillKeeper);
        }
        // What a daemon reads while it runs, which only a mistaken one does.
        let read = match self.flaw {
            Some(Flaw::BelievesRows) => Some(Thing::Request),
            Some(Flaw::CountsOnDisk) => Some(Thing::Count),
            _ => None,
        };
        if let Some(thing) = read {
            let forged = (0..thing.contents()).map(|says| Row { says, sealed: None });
            actions.extend(forged.map(|row| Action::Change(thing, row)));
        }
        if self.has(Flaw::ReadsTheFile) {
            actions.push(Action::ReplaceFile);
        }
        actions
    }

    /// What `hostel.toml` may want at this moment, so far as that matters.
    fn wanted(&self, effect: Effect) -> &'static [u8] {
        match effect {
            _ if self.is_honest => &[0],
            Effect::Confirmed => &[LOOSE],
            Effect::Start | Effect::Shown => &[0, LOOSE],
            _ => &[0],
        }
    }

    /// The state without what is no part of it; see the module.
    fn canonical(&self, mut world: World) -> World {
        if !self.keeps_rows() {
            world.rows = World::UNTOLD;
        }
        if self.flaw.is_none() {
            world.copies = [0; 5];
        }
        world
    }

    /// Whether the rows on disk are part of the state: without an insider, or with a daemon that reads them while it runs.
    fn keeps_rows(&self) -> bool {
        self.is_honest || self.has(Flaw::BelievesRows) || self.has(Flaw::CountsOnDisk)
    }

    /// What the insider can make of a row, as far as a daemon that starts tells one from the other.
    fn writable(&self, world: &World, thing: Thing) -> impl Iterator<Item = Row> + use<> {
        let (at, own) = (thing as usize, Some(world.second_key));
        let Deposit { confirmed, intended } = world.deposit;
        let believes = matches!(self.flaw, Some(Flaw::BelievesSeals | Flaw::BelievesEverything));
        let copies = if self.flaw.is_some() { world.copies[at] } else { u8::MAX };
        let is_told = move |says: &u8| {
            let is_pending = thing == Thing::Request && *says == PENDING;
            believes || is_pending || [confirmed, intended].into_iter().flatten().any(|known| known[at] == *says)
        };
        let sealed = (0..thing.contents()).filter(move |says| copies >> says & 1 == 1).filter(is_told);
        // While the keeper has a confirmed anchor, a row that nobody sealed is refused whatever it says.
        let told_by_the_audit = thing == Thing::Digest
            && !matches!(self.flaw, Some(Flaw::BelievesAppendedTestimony | Flaw::BelievesLostKeys));
        let is_read = confirmed.is_none() && !told_by_the_audit;
        let unsealed = if is_read || believes { thing.contents() } else { 1 };
        sealed.map(move |says| Row { says, sealed: own }).chain((0..unsealed).map(|says| Row { says, sealed: None }))
    }

    /// The daemon starts, and finds what the house has left or what the insider has made of it.
    fn starts(&self, world: &World, actions: &mut Vec<Action>) {
        let mut found = vec![world.rows];
        if !self.keeps_rows() {
            for thing in Thing::ALL {
                let changed = |rows: [Row; 5]| {
                    self.writable(world, thing).map(move |row| {
                        let mut rows = rows;
                        rows[thing as usize] = row;
                        rows
                    })
                };
                found = found.into_iter().flat_map(changed).collect();
            }
        }
        // While the keeper knows the end of the audit, what was appended is told from what the house wrote.
        let is_lost = world.deposit.confirmed.is_none() && !self.is_honest;
        for appended in [false, true].into_iter().filter(|appended| is_lost || !appended) {
            for wanted in self.wanted(Effect::Start) {
                actions.extend(found.iter().map(|rows| Action::Start(*rows, *wanted, appended)));
            }
        }
    }

    /// Whether the daemon would begin such a write, as far as it knows.
    fn may_begin(&self, world: &World, known: Contents, effect: Effect) -> bool {
        let [request, grant, count, digest, policy] = known;
        let count = if self.has(Flaw::CountsOnDisk) { world.rows[Thing::Count as usize].says } else { count };
        // One request in all, or the states would have no end.
        let is_new = request == 0 && world.seen_runs == 0 && !world.seen_agreed && world.seen_granted == 0;
        match effect {
            Effect::Start => false,
            Effect::Asked => is_new,
            // The person agrees once: not again to what somebody has put back.
            Effect::Agreed => request == PENDING && !world.seen_agreed,
            // A grant that is still there approves a further request, which shows that it was used again. Where a person
            // has agreed, that request was the only one: every start beyond the first is one too many.
            Effect::Granted => request == 0 && grant == 1 && !world.seen_agreed,
            Effect::Revoked => grant == 1,
            Effect::Finished => request == APPROVED && world.started && !world.running,
            Effect::Guessed => count < LOCKED && world.seen_guesses <= LOCKED,
            Effect::Shown => count < LOCKED && (count > 0 || policy == UNPROVED),
            Effect::Confirmed => count < LOCKED && policy != LOOSE && !self.is_honest,
            Effect::Changed => count < LOCKED && digest == 0,
        }
    }

    fn take(&self, world: &mut World, action: Action) {
        match action {
            Action::Begin(effect, wanted) => self.begin(world, effect, wanted),
            Action::Commit => self.commit(world),
            Action::Confirm => self.confirm(world),
            Action::Run => run(world),
            Action::Ends => world.running = false,
            Action::Change(thing, row) => world.rows[thing as usize] = row,
            Action::ReplaceFile => world.file ^= 1,
            Action::KillDaemon => {
                if let Daemon::Writing { effect, .. } = world.daemon
                    && effect != Effect::Start
                {
                    world.unheard = Some(effect);
                }
                world.daemon = Daemon::Down;
            }
            Action::Start(rows, wanted, appended) => {
                world.rows = rows;
                self.start(world, wanted, appended);
            }
            Action::KillKeeper => kill_keeper(world),
        }
        *world = self.canonical(*world);
    }

    fn begin(&self, world: &mut World, effect: Effect, wanted: u8) {
        let Daemon::Up(known) = world.daemon else { return };
        let mut next = known;
        match effect {
            Effect::Start => {}
            Effect::Asked => next[0] = PENDING,
            Effect::Agreed => next[0] = APPROVED,
            Effect::Granted => (next[0], next[1]) = (APPROVED, 0),
            Effect::Revoked => next[1] = 0,
            Effect::Finished => next[0] = 0,
            Effect::Guessed => next[2] = (known[2] + 1).min(LOCKED),
            Effect::Shown => {
                next[2] = 0;
                if known[4] == UNPROVED {
                    // What was endorsed with the passphrase applied before; the insider may put back any of it.
                    let proved = wanted == LOOSE && world.seen_confirmed;
                    next[4] = if proved { LOOSE } else { 0 };
                }
            }
            Effect::Confirmed => (next[2], next[4]) = (0, LOOSE),
            Effect::Changed => (next[2], next[3]) = (0, CHANGED),
        }
        self.write(world, known, next, effect);
    }

    fn write(&self, world: &mut World, known: Contents, next: Contents, effect: Effect) {
        world.deposit.intended = Some(next);
        world.daemon = Daemon::Writing { known, next, effect, phase: Phase::Intended };
    }

    fn commit(&self, world: &mut World) {
        let Daemon::Writing { known, next, effect, .. } = world.daemon else { return };
        for (thing, says) in next.into_iter().enumerate() {
            let is_written = says != known[thing] || effect == Effect::Start;
            if is_written {
                world.rows[thing] = Row { says, sealed: Some(world.second_key) };
                world.copies[thing] |= 1 << says;
            }
        }
        world.recorded_change |= effect == Effect::Changed;
        world.daemon = Daemon::Writing { known, next, effect, phase: Phase::Committed };
        if self.has(Flaw::TellsTooEarly) {
            acknowledge(world, effect);
        }
    }

    fn confirm(&self, world: &mut World) {
        let Daemon::Writing { next, effect, .. } = world.daemon else { return };
        if !self.has(Flaw::NeverConfirms) {
            world.deposit = Deposit { confirmed: Some(next), intended: None };
        }
        world.daemon = Daemon::Up(next);
        if !self.has(Flaw::TellsTooEarly) {
            acknowledge(world, effect);
        }
    }

    /// A daemon looks at what it finds.
    fn start(&self, world: &mut World, wanted: u8, appended: bool) {
        let found = world.rows.map(|row| row.says);
        let proved: Option<[bool; 5]> = self.judge(world);
        let mut next = found;
        for thing in Thing::ALL {
            let at = thing as usize;
            let is_proved = proved.is_some_and(|proved| proved[at]);
            if is_proved || self.has(Flaw::BelievesEverything) {
                continue;
            }
            let row = world.rows[at];
            let is_lost = proved.is_none();
            if is_lost && self.has(Flaw::BelievesLostKeys) {
                continue;
            }
            next[at] = match thing {
                // What waits may wait on; what was decided is void.
                Thing::Request if row.says == PENDING && row.sealed == Some(world.second_key) => PENDING,
                Thing::Request | Thing::Grant => 0,
                Thing::Count if is_lost && row.says < LOCKED => row.says,
                Thing::Count => LOCKED,
                Thing::Digest if is_lost && appended && self.has(Flaw::BelievesAppendedTestimony) => row.says,
                // The audit tells, by what the passphrase of before has signed. What was appended without that does not
                // count.
                Thing::Digest if world.recorded_change => CHANGED,
                Thing::Digest => 0,
                Thing::Policy if is_lost => UNPROVED,
                Thing::Policy => 0,
            };
        }
        // The anchor that proves a row covers the end of the audit as well.
        world.recorded_change |= next[3] == CHANGED;
        // Without an approver there is nobody who could confirm anything.
        let has_no_approver = appended && self.has(Flaw::BelievesAppendedTestimony);
        let settles = self.has(Flaw::BelievesSettings)
            || (proved.is_none() && (self.has(Flaw::BelievesSettingsOnce) || has_no_approver));
        next[4] = match (next[4], wanted) {
            (_, wanted) if settles => wanted,
            // Stricter settings apply at once; looser ones wait for the approver.
            (LOOSE, 0) => 0,
            (kept, _) => kept,
        };
        world.deposit.confirmed = match proved {
            Some(_) => self.reference(world),
            None => None,
        };
        // Every row is written, so what was found does not matter any more.
        self.write(world, next, next, Effect::Start);
    }

    /// Which rows are proved; none if the keeper knows nothing.
    fn judge(&self, world: &World) -> Option<[bool; 5]> {
        let own = |row: Row| row.sealed == Some(world.second_key);
        if self.has(Flaw::BelievesSeals) {
            world.deposit.confirmed?;
            return Some(world.rows.map(own));
        }
        let Deposit { confirmed, intended } = world.deposit;
        if self.has(Flaw::MixesCommits) {
            let either = |at: usize| {
                [confirmed, intended].into_iter().flatten().any(|contents| contents[at] == world.rows[at].says)
            };
            confirmed.or(intended)?;
            return Some(std::array::from_fn(|at| own(world.rows[at]) && either(at)));
        }
        let reference = self.reference(world)?;
        Some(std::array::from_fn(|at| own(world.rows[at]) && world.rows[at].says == reference[at]))
    }

    /// What the database should hold: of two possibilities the nearer one.
    fn reference(&self, world: &World) -> Option<Contents> {
        let differences = |contents: Contents| {
            let differs = |at: &usize| {
                let row = world.rows[*at];
                row.sealed != Some(world.second_key) || row.says != contents[*at]
            };
            (0..5).filter(differs).count()
        };
        match (world.deposit.confirmed, world.deposit.intended) {
            (Some(confirmed), Some(intended)) if differences(intended) < differences(confirmed) => Some(intended),
            (Some(confirmed), _) => Some(confirmed),
            (None, Some(intended)) if differences(intended) == 0 => Some(intended),
            (None, _) => None,
        }
    }
}

/// The keeper starts an id once, for as long as it remembers it.
fn run(world: &mut World) {
    if !world.started {
        world.started = true;
        world.running = true;
        world.seen_runs += 1;
        if !world.seen_agreed && world.seen_granted == 0 {
            world.seen_fault = Some(UNASKED);
        }
    }
}

/// Whoever waits for a write hears of it: from now on it is true.
fn acknowledge(world: &mut World, effect: Effect) {
    let unheard = world.unheard.take();
    match effect {
        Effect::Start => hear_of_unheard(world, unheard),
        Effect::Asked => {}
        Effect::Agreed => world.seen_agreed = true,
        Effect::Granted => {
            world.seen_granted += 1;
            if world.seen_revoked {
                world.seen_fault = Some(REUSED);
            }
        }
        Effect::Revoked => world.seen_revoked = true,
        // Its end is on disk: the keeper may forget it.
        Effect::Finished => world.started = false,
        Effect::Guessed => world.seen_guesses += 1,
        Effect::Shown => world.seen_guesses = 0,
        Effect::Confirmed => {
            world.seen_guesses = 0;
            world.seen_confirmed = true;
        }
        Effect::Changed => {
            world.seen_guesses = 0;
            world.seen_changed = true;
        }
    }
}

/// A daemon has started. What somebody did when its predecessor died may count or not: it was done, so far as it is in
/// force.
fn hear_of_unheard(world: &mut World, unheard: Option<Effect>) {
    let known = match world.daemon {
        Daemon::Up(known) | Daemon::Writing { next: known, .. } => known,
        Daemon::Down => return,
    };
    let Some(effect) = unheard else { return };
    let [request, grant, count, digest, policy] = known;
    if matches!(effect, Effect::Shown | Effect::Confirmed | Effect::Changed) && count == 0 {
        world.seen_guesses = 0;
    }
    let is_in_force = match effect {
        Effect::Agreed | Effect::Granted => request == APPROVED,
        Effect::Revoked => grant == 0,
        Effect::Confirmed => policy == LOOSE,
        Effect::Changed => digest == CHANGED,
        Effect::Start | Effect::Asked | Effect::Finished | Effect::Guessed | Effect::Shown => false,
    };
    if is_in_force {
        acknowledge(world, effect);
    }
}

/// Another keeper has another key and knows nothing. A daemon that is up seals everything anew; here it ends as well.
fn kill_keeper(world: &mut World) {
    world.second_key = true;
    world.daemon = Daemon::Down;
    world.deposit = Deposit { confirmed: None, intended: None };
    (world.started, world.running) = (false, false);
    world.copies = [0; 5];
    world.unheard = None;
    world.seen_guesses = 0;
    // What had run is not started again, because everything that was decided is void; what had not run never will be.
    if world.seen_runs == 0 {
        (world.seen_agreed, world.seen_granted) = (false, 0);
    }
}
