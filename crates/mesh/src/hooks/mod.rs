//! Hooks: the user's scripts, run when something happens, without being handed the keys to the house.
//!
//! | module | what it is |
//! |---|---|
//! | `name`, `policy`, `files` | which hooks there are, what each may do, and whether its file can be trusted |
//! | `matching`, `payload`, `redact` | which event is for which hook, and what the hook is told of it |
//! | `dispatch` | every event that was stored, once; what a killed daemon owed is made up for |
//! | `invoke`, `run`, `sandbox`, `leftovers` | one run, confined, and its end |
//! | `reply`, `gate` | what a hook says: an answer, or whether something may be sent |
//! | `capability` | what a hook may ask of the daemon, and for how long |
//! | `inspect`, `text` | for people: how it stands, and a file to begin with |
//!
//! Invariant: without `hooks.toml`, or without a section in it, nothing runs. A policy that cannot be read leaves the
//! last good one in force; where a daemon begins with one, events run nothing, and if there is a gate, nothing is sent.

mod capability;
pub(crate) mod dispatch;
mod files;
pub(crate) mod gate;
mod inspect;
mod invoke;
mod leftovers;
mod matching;
mod name;
mod payload;
pub mod policy;
pub mod redact;
pub mod reply;
mod run;
pub mod sandbox;
mod text;

pub use capability::Grant;
pub use inspect::{Found, Inspection, init, inspect};
pub use matching::{HOP, MOST_HOPS};
pub use name::HookName;
pub use policy::{Policy, PolicyError};

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use serde_json::json;
use tokio::sync::{Semaphore, watch};

use crate::home::settings;
use crate::log::Log;
use capability::Grants;
use sandbox::Tools;

/// With what hooks are run; whoever opens the mesh says it, because nothing is read from the environment later.
#[derive(Debug, Clone, Default)]
pub struct HookOptions {
    /// Why none are run, if so: a build server, for one.
    pub off: Option<&'static str>,
    /// The daemon's socket, for hooks that have a token. Empty: there is none, and no hooks of an earlier daemon at it.
    pub socket: PathBuf,
    /// The user's `HOME`.
    pub home: Option<OsString>,
    /// The user's `LANG`.
    pub lang: Option<OsString>,
    /// What there is to confine them with.
    pub tools: Tools,
}

/// What came of reading the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HooksLoaded {
    /// Why nothing runs, if so.
    pub off: Option<String>,
    /// The hooks that may run.
    pub hooks: Vec<String>,
    /// Whether anything is otherwise than before.
    pub changed: bool,
}

/// The hooks of a mesh.
pub(crate) struct Hooks {
    place: Option<Place>,
    off: Option<&'static str>,
    state: RwLock<Arc<State>>,
    changed: watch::Sender<u64>,
    grants: Grants,
    /// The newest event when this process began: what comes after it is news, what is before it is owed.
    began: u64,
    /// The newest event that was told.
    told: watch::Receiver<u64>,
    /// Hooks were switched on when this was the newest event: nothing before it is owed, whatever was kept.
    since: Mutex<Option<u64>>,
}

/// Where hooks live, and what they get.
struct Place {
    mesh: String,
    directory: PathBuf,
    options: HookOptions,
}

/// What is in force.
pub(crate) struct State {
    settings: settings::Hooks,
    standing: Standing,
    /// Hooks of events that run at once.
    pool: Arc<Semaphore>,
    /// Gates that run at once: apart, because a hook may wait for what it sends.
    gates: Arc<Semaphore>,
}

/// How the policy stands.
#[derive(Clone, PartialEq, Eq)]
enum Standing {
    /// Nothing runs, for this reason.
    Off(String),
    /// There is a file, and it cannot be read.
    Broken(PolicyError),
    Ready(Policy),
}

impl Hooks {
    /// Reads the policy of the hooks below a mesh's directory; says in the log how that went.
    pub(crate) fn open(
        dir: Option<&Path>,
        mesh: &str,
        options: HookOptions,
        settings: &settings::Hooks,
        log: &Log,
        told: watch::Receiver<u64>,
    ) -> Self {
        let (off, began) = (options.off, *told.borrow());
        let place = dir
            .map(|dir| Place { mesh: mesh.to_owned(), directory: dir.join("hooks"), options })
            .filter(|_| off.is_none());
        let standing = Standing::Off("nothing was read yet".to_owned());
        let hooks = Self {
            place,
            off,
            state: RwLock::new(Arc::new(State::new(settings.clone(), standing))),
            changed: watch::Sender::new(0),
            grants: Grants::default(),
            began,
            told,
            since: Mutex::new(None),
        };
        match hooks.reload(settings) {
            Ok(HooksLoaded { off: Some(reason), .. }) => log.debug("hooks_off", json!({"reason": reason})),
            Ok(loaded) => log.info("hooks_loaded", json!({"hooks": loaded.hooks})),
            Err(error) => log.error("hooks_policy_refused", json!({"error": error.to_string(), "kept": false})),
        }
        hooks
    }

    /// Reads the policy again. One that cannot be taken leaves the one in force.
    pub(crate) fn reload(&self, settings: &settings::Hooks) -> Result<HooksLoaded, PolicyError> {
        let (standing, outcome) = match (&self.place, settings.enabled) {
            (None, _) => (Standing::Off(self.off.unwrap_or("an ephemeral daemon has none").to_owned()), Ok(())),
            (_, false) => (Standing::Off("`enabled = false` below `[hooks]` in config.toml".to_owned()), Ok(())),
            (Some(place), true) => match Policy::load(&place.directory) {
                Ok(Some(policy)) => (Standing::Ready(policy), Ok(())),
                Ok(None) => (Standing::Off(format!("there is no `{}` in the hooks' directory", policy::FILE)), Ok(())),
                Err(error) => match &self.state().standing {
                    Standing::Broken(_) => (Standing::Broken(error.clone()), Err(error)),
                    // There never was one.
                    _ if *self.changed.borrow() == 0 => (Standing::Broken(error.clone()), Err(error)),
                    last => (last.clone(), Err(error)),
                },
            },
        };
        let state = State::new(settings.clone(), standing).with_places_of(&self.state());
        let loaded = HooksLoaded {
            off: match &state.standing {
                Standing::Off(reason) => Some(reason.clone()),
                Standing::Broken(_) | Standing::Ready(_) => None,
            },
            hooks: state
                .policy()
                .into_iter()
                .flat_map(Policy::rules)
                .filter(|(_, rule)| rule.enabled)
                .map(|(name, _)| name.to_string())
                .collect(),
            changed: self.state().standing != state.standing || self.state().settings != state.settings,
        };
        let before = std::mem::replace(&mut *self.state.write(), Arc::new(state));
        if matches!(before.standing, Standing::Off(_)) && self.changed.borrow().gt(&0) && loaded.off.is_none() {
            *self.since.lock() = Some(*self.told.borrow());
        }
        self.changed.send_modify(|count| *count += 1);
        outcome.map(|()| loaded)
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.read())
    }

    /// What a token stands for, if it is good.
    pub(crate) fn grant(&self, token: &[u8]) -> Option<Arc<Grant>> {
        self.grants.find(token)
    }
}

impl State {
    fn new(settings: settings::Hooks, standing: Standing) -> Self {
        let places = settings.concurrency.clamp(1, Semaphore::MAX_PERMITS);
        let pool = || Arc::new(Semaphore::new(places));
        Self { settings, standing, pool: pool(), gates: pool() }
    }

    /// Keeps the places there were, where their number is the same: what runs already counts after a reload as well.
    fn with_places_of(mut self, before: &Self) -> Self {
        if self.settings.concurrency == before.settings.concurrency {
            self.pool = Arc::clone(&before.pool);
            self.gates = Arc::clone(&before.gates);
        }
        self
    }

    fn policy(&self) -> Option<&Policy> {
        match &self.standing {
            Standing::Ready(policy) => Some(policy),
            Standing::Off(_) | Standing::Broken(_) => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use hostel_wire::frames::{Kind, Priority};

    use super::*;
    use crate::inbox::InboxRow;

    /// A direct message of bob's.
    pub(crate) fn row() -> InboxRow {
        InboxRow {
            id: "row".into(),
            client_message_id: "c1".into(),
            broker_message_id: "b1".into(),
            broker_seq: 1,
            mesh: "lab".into(),
            kind: Kind::Dm,
            topic: None,
            sender_pubkey: "0b".repeat(32),
            sender_member_pubkey: "0b".repeat(32),
            sender_member_id: "bob".into(),
            sender_name: "bob".into(),
            body: Some("hello".into()),
            meta: None,
            priority: Priority::Next,
            mentions: Vec::new(),
            mention: false,
            received_at: 1_000,
            created_at: Some(900),
            reply_to_id: None,
            seen_at: None,
            recipient_pubkey: None,
            recipient_session: None,
            decrypt_error: None,
            verified: true,
            file: None,
        }
    }

    #[test]
    fn the_last_good_policy_stays_in_force() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("hooks");
        let settings = settings::Hooks::default();
        let open = || {
            Hooks::open(Some(dir.path()), "lab", HookOptions::default(), &settings, &Log::silent(), watch::channel(0).1)
        };
        assert!(open().reload(&settings).unwrap().off.unwrap().contains("hooks.toml"));
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        let file = directory.join("hooks.toml");
        fs::write(&file, "[on-dm]\n[on-message]\nenabled = false\n").unwrap();
        let hooks = open();
        let rules = |hooks: &Hooks| hooks.state().policy().is_some_and(|policy| policy.runs(&HookName::Dm));
        assert!(rules(&hooks));
        fs::write(&file, "[on-dm]\nenabled = maybe\n").unwrap();
        let error = hooks.reload(&settings).unwrap_err().to_string();
        assert!(error.contains("hooks.toml: line 2"), "{error}");
        assert!(rules(&hooks), "the last good one");
        assert!(!rules(&open()), "there was none");
        fs::write(&file, "[on-mention]\n").unwrap();
        assert_eq!(hooks.reload(&settings).unwrap().hooks, ["on-mention"]);
        let off = settings::Hooks { enabled: false, ..settings.clone() };
        assert!(hooks.reload(&off).unwrap().off.is_some());
        let ci = HookOptions { off: Some("CI"), ..HookOptions::default() };
        let hooks = Hooks::open(Some(dir.path()), "lab", ci, &settings, &Log::silent(), watch::channel(0).1);
        assert_eq!(hooks.reload(&settings).unwrap().off.as_deref(), Some("CI"));
    }
}
