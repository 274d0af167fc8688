//! What can happen, one indivisible step at a time.

use super::flaws::{Flaw, GUESSED, LOOSENED, LOST, OTHER_DIGEST, REUSED, TWICE, UNASKED};
use super::world::{
    APPROVED, Contents, Daemon, Deposit, Effect, LOCKED, LOOSE, PENDING, Phase, Row, Thing, UNPROVED, World,
};
use crate::explore::Model;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The daemon begins a write.
    Begin(Effect),
    Commit,
    /// The keeper hears that the commit happened, and whoever waits for it is told.
    Confirm,
    /// The keeper is asked to start what was approved, and starts it if it does not know it.
    Run,
    /// What runs ends by itself.
    Ends,
    /// A row gets content that nobody sealed.
    Forge(Thing, u8),
    /// A row of an earlier time is put back.
    PutBack(Thing, u8),
    /// The approver's file is replaced.
    ReplaceFile,
    /// The settings are loosened, or made strict again.
    ChangeSettings,
    KillDaemon,
    StartDaemon,
    KillKeeper,
}

/// The model, with at most one deliberate mistake.
pub struct Insider {
    pub flaw: Option<Flaw>,
    /// Nobody interferes: crashes alone.
    pub is_honest: bool,
}

const WRITES: [Effect; 8] = [
    Effect::Asked,
    Effect::Agreed,
    Effect::Granted,
    Effect::Revoked,
    Effect::Finished,
    Effect::Guessed,
    Effect::Shown,
    Effect::Confirmed,
];

impl Model for Insider {
    type State = World;
    type Action = Action;

    fn initial(&self) -> Vec<World> {
        vec![World::new()]
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
        if world.seen_runs > 1 {
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
            if digest != 0 && !world.second_key {
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
            Daemon::Down => actions.push(Action::StartDaemon),
            Daemon::Up(known) => {
                actions.push(Action::KillDaemon);
                let may = |effect: &Effect| self.may_begin(world, known, *effect);
                actions.extend(WRITES.into_iter().filter(may).map(Action::Begin));
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
        if !self.is_honest {
            // A daemon reads rows when it starts, and what was changed before is what was changed last. So it is enough to
            // change them while there is no daemon, unless this one reads rows at other times as well.
            let reads_rows = self.has(Flaw::BelievesRows) || self.has(Flaw::CountsOnDisk);
            let is_read = reads_rows || world.daemon == Daemon::Down;
            // While the keeper remembers anything, a row that nobody sealed is refused whatever it says.
            let is_key_lost = world.deposit == Deposit { confirmed: None, intended: None };
            let is_said = is_key_lost || self.flaw.is_some();
            for thing in Thing::ALL.into_iter().filter(|_| is_read) {
                for says in 0..thing.contents() {
                    if says == 0 || is_said {
                        actions.push(Action::Forge(thing, says));
                    }
                    if world.copies[thing as usize] >> says & 1 == 1 {
                        actions.push(Action::PutBack(thing, says));
                    }
                }
            }
            // Nobody else looks at the file.
            if self.has(Flaw::ReadsTheFile) {
                actions.push(Action::ReplaceFile);
            }
            actions.push(Action::ChangeSettings);
        }
        actions
    }

    /// Whether the daemon would begin such a write, as far as it knows.
    fn may_begin(&self, world: &World, known: Contents, effect: Effect) -> bool {
        let [request, grant, count, _, policy] = known;
        let count = if self.has(Flaw::CountsOnDisk) { world.rows[Thing::Count as usize].says } else { count };
        // One request in all, or the states would have no end.
        let is_new = request == 0 && world.seen_runs == 0 && !world.seen_agreed && world.seen_granted == 0;
        match effect {
            Effect::Start => false,
            Effect::Asked => is_new,
            Effect::Agreed => request == PENDING,
            // A grant that is still there approves a further request, which shows that it was used again. Where a person
            // has agreed, that request was the only one: every start beyond the first is one too many.
            Effect::Granted => request == 0 && grant == 1 && !world.seen_agreed,
            Effect::Revoked => grant == 1,
            Effect::Finished => request == APPROVED && world.started && !world.running,
            Effect::Guessed => count < LOCKED && world.seen_guesses <= LOCKED,
            Effect::Shown => count < LOCKED && (count > 0 || policy == UNPROVED),
            Effect::Confirmed => count < LOCKED && policy != LOOSE && world.wanted == LOOSE,
        }
    }

    fn take(&self, world: &mut World, action: Action) {
        let interferes =
            matches!(action, Action::Forge(..) | Action::PutBack(..) | Action::ReplaceFile | Action::ChangeSettings);
        world.seen_interference |= interferes;
        match action {
            Action::Begin(effect) => self.begin(world, effect),
            Action::Commit => self.commit(world),
            Action::Confirm => self.confirm(world),
            Action::Run => run(world),
            Action::Ends => world.running = false,
            Action::Forge(thing, says) => world.rows[thing as usize] = Row { says, sealed: None },
            Action::PutBack(thing, says) => {
                world.rows[thing as usize] = Row { says, sealed: Some(world.second_key) };
            }
            Action::ReplaceFile => world.file ^= 1,
            Action::ChangeSettings => world.wanted ^= 1,
            Action::KillDaemon => {
                if let Daemon::Writing { effect, .. } = world.daemon
                    && effect != Effect::Start
                {
                    world.unheard = Some(effect);
                }
                world.daemon = Daemon::Down;
            }
            Action::StartDaemon => self.start(world),
            Action::KillKeeper => kill_keeper(world),
        }
    }

    fn begin(&self, world: &mut World, effect: Effect) {
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
                    let proved = world.wanted == LOOSE && world.endorsed_loose;
                    next[4] = if proved { LOOSE } else { 0 };
                }
            }
            Effect::Confirmed => (next[2], next[4]) = (0, LOOSE),
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
    fn start(&self, world: &mut World) {
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
                // After a lost key nobody knows better; otherwise the keeper knows whether the file is right.
                Thing::Digest if is_lost => row.says,
                Thing::Digest => 0,
                Thing::Policy if is_lost => UNPROVED,
                Thing::Policy => 0,
            };
        }
        let settles = self.has(Flaw::BelievesSettings) || (self.has(Flaw::BelievesSettingsOnce) && proved.is_none());
        next[4] = match (next[4], world.wanted) {
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
            (world.seen_confirmed, world.endorsed_loose) = (true, true);
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
    let [request, grant, count, _, policy] = known;
    if matches!(effect, Effect::Shown | Effect::Confirmed) && count == 0 {
        world.seen_guesses = 0;
    }
    let is_in_force = match effect {
        Effect::Agreed | Effect::Granted => request == APPROVED,
        Effect::Revoked => grant == 0,
        Effect::Confirmed => policy == LOOSE,
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
