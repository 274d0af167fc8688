//! The guards of a house: what each process gets, and what the machine allows.
//!
//! Guarantees: what is available was tried on this machine by this daemon. A success counts for the daemon's life unless
//! a launcher reports otherwise; a failure counts for a short time and is tried again.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::held::{Held, Pinned};
use crate::launcher::VERB;
use crate::layers::{Availability, Layers};
use crate::plan::{HouseView, Plan, Shown};
use crate::probe;
use crate::setting::{Guard, OwnPrograms, Setting};
use crate::variables;

/// How long a machine that did not allow everything is not asked again.
const FAILURE_COUNTS: Duration = Duration::from_secs(30);

/// Other houses of the user that are hidden.
const MAX_OTHER_HOUSES: usize = 32;

/// The guard that a process was started with.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Confinement {
    /// What was asked for.
    #[serde(flatten)]
    pub guard: Guard,
    /// What is enforced.
    pub layers: Layers,
}

impl Confinement {
    /// No guard at all.
    #[must_use]
    pub fn none() -> Self {
        Confinement { guard: Guard::off(), layers: Layers::default() }
    }

    /// The guard of somebody inside a house of whom nothing else is known: as much as the machine allows, without grants.
    #[must_use]
    pub fn of_unknown_insider() -> Self {
        Confinement { guard: Guard::of_unknown_insider(), layers: Layers::default() }
    }

    /// Whether nothing is asked for and nothing is enforced.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.guard.setting == Setting::Off && self.layers.is_none()
    }

    /// The weakest confinement that is at least as strict as both.
    #[must_use]
    pub fn at_least(&self, other: &Confinement) -> Confinement {
        Confinement { guard: self.guard.at_least(&other.guard), layers: self.layers.union(other.layers) }
    }
}

/// What people are told about a guard.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GuardStatus {
    /// What was asked for.
    pub setting: Setting,
    /// What is enforced.
    pub active: Layers,
    /// Why there is nothing stronger.
    pub why_not_stronger: Option<String>,
}

/// Why a process gets no guard that it must have.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GuardRefusal {
    /// The settings ask for a complete guard.
    #[error("the guard is `strict` and this machine does not allow it: {0}")]
    Strict(String),
    /// Whoever asked for the process has layers that the process would lack.
    #[error("the process that asks has the guard `{}`, and this machine does not allow it any more: {reason}", .least.name())]
    Weaker {
        /// The layers of whoever asked.
        least: Layers,
        /// What the machine does not allow.
        reason: String,
    },
    /// What a person wants to be hidden or held is not there, so a view cannot protect it when it appears.
    #[error("the guard is `strict` and `{}`, which `guard.hide` or `guard.read_only` names, does not exist: make it, or remove it from the setting", .0.display())]
    Absent(PathBuf),
    /// There are no words for what the launcher has to do.
    #[error("the guard cannot be described: {0}")]
    Words(&'static str),
}

/// A process that is to be started.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file to execute.
    pub program: PathBuf,
    /// Its arguments, the first being its own name.
    pub argv: Vec<OsString>,
    /// Its environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Directories of its own that it sees inside hidden ones.
    pub shown: Vec<Shown>,
}

/// What agents without grants cannot use as they like, for those who open files for them outside of every guard.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClosedPlaces {
    /// Files and directories that they do not see, or see another one of.
    pub hidden: Vec<PathBuf>,
    /// Files and directories that they cannot change.
    pub read_only: Vec<PathBuf>,
    /// Exceptions inside these.
    pub writable: Vec<PathBuf>,
}

/// The guards of a house.
#[derive(Debug)]
pub struct Guards {
    house: HouseView,
    /// The guard of agents that do not say otherwise.
    usual: Guard,
    found: Mutex<Option<(Availability, Instant)>>,
    /// Held by whoever tries.
    trying: Mutex<()>,
    /// The hidden directories that were seen.
    held: Mutex<Held>,
    /// Other houses of this user.
    others: Mutex<BTreeSet<PathBuf>>,
}

impl Guards {
    /// The guards of a house that hides this.
    #[must_use]
    pub fn new(house: HouseView, usual: Guard) -> Self {
        Guards {
            house,
            usual,
            found: Mutex::new(None),
            trying: Mutex::new(()),
            held: Mutex::default(),
            others: Mutex::default(),
        }
    }

    /// A house that guards nobody, for programs that host no agents and for tests.
    #[must_use]
    pub fn none() -> Self {
        let guards = Guards::new(HouseView::default(), Guard::off());
        let nothing = Availability::nothing("this house has no guard");
        *guards.found.lock() = Some((nothing, Instant::now() + Duration::from_secs(u64::from(u32::MAX))));
        guards
    }

    /// The guard of agents that do not say otherwise.
    #[must_use]
    pub fn usual(&self) -> &Guard {
        &self.usual
    }

    /// Hides further houses of this user from everything that is started from now on. Those that have gone make room.
    pub fn notice(&self, houses: impl IntoIterator<Item = PathBuf>) {
        let mut others = self.others.lock();
        others.retain(|house| house.is_dir());
        for house in houses.into_iter().filter(|house| self.house.is_other_house(house)) {
            if others.len() < MAX_OTHER_HOUSES {
                others.insert(house);
            }
        }
    }

    /// The plan for a process. Looks at files.
    fn plan(&self, guard: &Guard, layers: Layers, environment: &[(OsString, OsString)], shown: &[Shown]) -> Plan {
        let uid = rustix::process::geteuid().as_raw();
        let mut plan = self.house.plan(guard, layers, environment, shown, uid);
        if layers.view {
            for house in self.others.lock().iter() {
                plan.hide(house);
                plan.may_vanish.push(house.clone());
            }
            let paths = [plan.hidden.as_slice(), &plan.emptied].concat();
            plan.pinned = self.held.lock().look(&paths);
            let is_elsewhere = |pinned: &&Pinned| pinned.named.canonicalize().ok().as_ref() != Some(&pinned.now);
            for moved in plan.pinned.clone().iter().filter(is_elsewhere) {
                plan.hide(&moved.now);
            }
        }
        plan
    }

    /// The places that are closed to an agent without grants, with those that were moved since they were first seen. Looks
    /// at files.
    #[must_use]
    pub fn closed_places(&self) -> ClosedPlaces {
        let plan = self.plan(&Guard::of_unknown_insider(), Layers::FULL, &[], &[]);
        let mut read_only = plan.read_only;
        read_only.push(self.house.program.clone());
        let hidden = [plan.hidden, plan.emptied, plan.sockets, plan.claimed].concat();
        ClosedPlaces { hidden, read_only, writable: plan.writable }
    }

    /// Where the house looks for the programs that it starts itself.
    #[must_use]
    pub fn own_programs(&self) -> OwnPrograms {
        self.house.own_programs
    }

    /// Whether a directory may belong to one session alone, so that its agent may see it.
    #[must_use]
    pub fn is_own_directory(&self, directory: &Path) -> bool {
        let plain = directory.file_name().is_some() && !directory.components().any(|part| part == Component::ParentDir);
        plain && directory.parent().is_some_and(|parent| self.house.own_roots.iter().any(|root| root == parent))
    }

    /// What was found out last; none if nobody has looked yet.
    #[must_use]
    pub fn known(&self) -> Option<Availability> {
        self.found.lock().as_ref().map(|(found, _)| found.clone())
    }

    /// Which layers the machine allows. Blocks for some milliseconds where that has to be tried.
    pub fn look(&self) -> Availability {
        if let Some(known) = self.counting() {
            return known;
        }
        // Others who ask meanwhile want the same answer.
        let _turn = self.trying.lock();
        if let Some(known) = self.counting() {
            return known;
        }
        let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let plan = self.plan(&Guard::default(), Layers::FULL, &environment, &[]);
        let mut now = probe::ask(&self.house.program, &plan);
        if let Some(problem) = self.house.problem(&environment) {
            now.no_view = Some(problem);
        }
        *self.found.lock() = Some((now.clone(), Instant::now() + FAILURE_COUNTS));
        now
    }

    /// What was found, while it counts.
    fn counting(&self) -> Option<Availability> {
        let found = self.found.lock();
        let (known, until) = found.as_ref()?;
        (known.layers() == Layers::FULL || Instant::now() < *until).then(|| known.clone())
    }

    /// The paths that a person named as hidden or read-only and that do not exist now. A view that is made now does not
    /// protect them when they appear. Looks at files.
    #[must_use]
    pub fn absent(&self) -> Vec<&Path> {
        let paths = self.house.required.iter().map(PathBuf::as_path);
        paths.filter(|path| path.symlink_metadata().is_err()).collect()
    }

    /// Forgets what was found: a launcher could not do what had been found possible.
    pub fn doubt(&self) {
        *self.found.lock() = None;
    }

    /// The layers that a process gets, which are `least` or more. Blocks as [`Guards::look`] does, and a strict guard looks
    /// at files.
    pub fn layers(&self, guard: &Guard, least: Layers) -> Result<Layers, GuardRefusal> {
        if guard.setting == Setting::Off && least.is_none() {
            return Ok(Layers::default());
        }
        let found = self.look();
        match (guard.setting, found.why_not_full()) {
            (Setting::Strict, Some(reason)) => Err(GuardRefusal::Strict(reason)),
            (Setting::Strict, None) => match self.absent().first() {
                Some(path) => Err(GuardRefusal::Absent(path.to_path_buf())),
                None => Ok(found.layers()),
            },
            (_, Some(reason)) if !found.layers().cover(least) => Err(GuardRefusal::Weaker { least, reason }),
            _ => Ok(found.layers()),
        }
    }

    /// What people are told about agents that do not say otherwise.
    #[must_use]
    pub fn usual_status(&self) -> GuardStatus {
        self.status(&self.usual, None)
    }

    /// What people are told about a process that has, or is to have, such a guard.
    #[must_use]
    pub fn status(&self, guard: &Guard, running: Option<&Confinement>) -> GuardStatus {
        let known = self.known();
        let setting = running.map_or(guard.setting, |running| running.guard.setting);
        let active = match (running, setting, &known) {
            (Some(running), ..) => running.layers,
            (None, Setting::Off, _) | (None, _, None) => Layers::default(),
            // A session that is refused enforces nothing, because nothing runs.
            (None, _, Some(found)) => found.layers(),
        };
        let why_not_stronger = match (setting, active == Layers::FULL) {
            (_, true) => None,
            (Setting::Off, false) => Some("the setting is `off`".to_owned()),
            (_, false) => Some(known.map_or_else(
                || "not tried yet".to_owned(),
                |found| found.why_not_full().unwrap_or_else(|| "it was started when less was possible".to_owned()),
            )),
        };
        GuardStatus { setting, active, why_not_stronger }
    }

    /// Puts the launcher before a request. With no layers the request stays as it is. Looks at files.
    pub fn wrap(&self, request: Request, guard: &Guard, layers: Layers) -> Result<Request, GuardRefusal> {
        self.wrap_as(request, guard, layers, |plan| plan)
    }

    /// The same for a program whose search path the house wants to know: nothing of the house comes first on it.
    pub fn wrap_with_own_path(&self, request: Request, guard: &Guard, layers: Layers) -> Result<Request, GuardRefusal> {
        self.wrap_as(request, guard, layers, |plan| Plan { path_first: None, ..plan })
    }

    fn wrap_as(
        &self,
        request: Request,
        guard: &Guard,
        layers: Layers,
        change: impl FnOnce(Plan) -> Plan,
    ) -> Result<Request, GuardRefusal> {
        if layers.is_none() {
            return Ok(request);
        }
        let plan = change(self.plan(guard, layers, &request.environment, &request.shown));
        let argument = plan.argument();
        let argument = argument.ok_or(GuardRefusal::Words("a path of the house is no text"))?;
        let mut argv: Vec<OsString> = vec![name_of(&self.house.program), VERB.into(), argument.into()];
        argv.push(request.program.into_os_string());
        argv.extend(request.argv);
        // Whoever asks may choose the variables, and the launcher runs before there is a guard.
        let environment =
            request.environment.into_iter().map(|(name, value)| (variables::disarmed(name), value)).collect();
        Ok(Request { program: self.house.program.clone(), argv, environment, ..request })
    }
}

/// The name that a program is called by.
fn name_of(program: &Path) -> OsString {
    program.file_name().unwrap_or(program.as_os_str()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guards(found: Availability) -> Guards {
        let house = HouseView { program: "/opt/hostel".into(), ..HouseView::default() };
        let guards = Guards::new(house, Guard::default());
        *guards.found.lock() = Some((found, Instant::now() + FAILURE_COUNTS));
        guards
    }

    fn guard(setting: Setting) -> Guard {
        Guard { setting, ..Guard::default() }
    }

    #[test]
    fn strict_is_refused_where_something_is_missing() {
        let partly = guards(Availability { no_view: Some("not allowed".to_owned()), no_scopes: None });
        let none = Layers::default();
        assert_eq!(partly.layers(&guard(Setting::Auto), none).unwrap().name(), "scopes");
        assert_eq!(partly.layers(&Guard::off(), none).unwrap().name(), "none");
        let refused = partly.layers(&guard(Setting::Strict), none).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the guard is `strict` and this machine does not allow it: no view: not allowed"
        );
        let full = guards(Availability::default());
        assert_eq!(full.layers(&guard(Setting::Strict), none).unwrap(), Layers::FULL);
    }

    #[test]
    fn a_strict_guard_is_refused_for_a_path_that_is_not_there() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("later");
        let mut full = guards(Availability::default());
        full.house.required = vec![scratch.path().to_owned(), path.clone()];
        let (auto, strict) = (guard(Setting::Auto), guard(Setting::Strict));
        assert_eq!(full.layers(&auto, Layers::default()).unwrap(), Layers::FULL);
        assert_eq!(
            (full.layers(&strict, Layers::default()), full.absent()),
            (Err(GuardRefusal::Absent(path.clone())), vec![path.as_path()])
        );
        std::fs::write(&path, "").unwrap();
        assert_eq!(full.layers(&strict, Layers::default()).unwrap(), Layers::FULL);
    }

    #[test]
    fn what_somebody_guarded_starts_is_guarded_as_well_or_refused() {
        let scopes = Layers { view: false, scopes: true };
        let partly = guards(Availability { no_view: Some("not allowed".to_owned()), no_scopes: None });
        assert_eq!(partly.layers(&guard(Setting::Auto), scopes).unwrap(), scopes);
        assert_eq!(partly.layers(&Guard::off(), scopes).unwrap(), scopes, "no setting takes a layer away");
        let refused = partly.layers(&guard(Setting::Auto), Layers::FULL).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the process that asks has the guard `full`, and this machine does not allow it any more: no view: not allowed"
        );
        let nothing = guards(Availability::nothing("it hangs"));
        assert!(nothing.layers(&guard(Setting::Auto), Layers::default()).unwrap().is_none());
        assert!(nothing.layers(&guard(Setting::Auto), scopes).is_err());
    }

    #[test]
    fn confinements_add_up() {
        let grants = |setting, grants: &[&str]| Guard {
            setting,
            grants: grants.iter().map(|&grant| grant.to_owned()).collect(),
        };
        let docker =
            Confinement { guard: grants(Setting::Auto, &["docker"]), layers: Layers { view: true, scopes: false } };
        let strict = Confinement { guard: grants(Setting::Strict, &["docker", "x11"]), layers: Layers::FULL };
        assert_eq!(docker.at_least(&Confinement::none()), docker);
        let both = Confinement { guard: grants(Setting::Strict, &["docker"]), layers: Layers::FULL };
        assert_eq!((docker.at_least(&strict), strict.at_least(&docker)), (both.clone(), both));
        assert!(docker.at_least(&Confinement::of_unknown_insider()).guard.grants.is_empty());
        assert!(Confinement::none().is_none() && !Confinement::of_unknown_insider().is_none());
    }

    #[test]
    fn what_people_are_told() {
        let partly = guards(Availability { no_view: None, no_scopes: Some("old kernel".to_owned()) });
        let told = partly.status(&guard(Setting::Auto), None);
        assert_eq!((told.active.name(), told.why_not_stronger.as_deref()), ("view", Some("no scopes: old kernel")));
        let off = partly.status(&Guard::off(), None);
        assert_eq!((off.active.name(), off.why_not_stronger.as_deref()), ("none", Some("the setting is `off`")));
        // A process keeps what it was started with.
        let running = Confinement { guard: guard(Setting::Strict), layers: Layers::FULL };
        let told = partly.status(&Guard::off(), Some(&running));
        assert_eq!((told.setting, told.active, told.why_not_stronger), (Setting::Strict, Layers::FULL, None));
        let early = Guards::new(HouseView::default(), Guard::default());
        assert_eq!(early.usual_status().why_not_stronger.as_deref(), Some("not tried yet"));
        assert!(Guards::none().look().layers().is_none());
    }

    #[test]
    fn the_launcher_comes_first_and_the_program_keeps_its_words() {
        let full = guards(Availability::default());
        let request = Request {
            program: "/bin/echo".into(),
            argv: vec!["echo".into(), "a b".into()],
            environment: vec![("A".into(), "1".into())],
            shown: Vec::new(),
        };
        let wrapped = full.wrap(request.clone(), &Guard::default(), Layers::FULL).unwrap();
        assert_eq!(wrapped.program, Path::new("/opt/hostel"));
        assert_eq!(wrapped.argv[..2], ["hostel", "guard-launch"]);
        assert_eq!(wrapped.argv[3..], ["/bin/echo", "echo", "a b"]);
        assert_eq!(wrapped.environment, request.environment);
        // What agents find first on their path is nothing that the house wants to hear of.
        let own = full.wrap_with_own_path(request.clone(), &Guard::default(), Layers::FULL).unwrap();
        assert!(own.argv[2].to_string_lossy().contains(r#""path_first":null"#) && own.argv[3..] == wrapped.argv[3..]);
        let plain = full.wrap(request, &Guard::off(), Layers::default()).unwrap();
        assert_eq!(plain.program, Path::new("/bin/echo"));
    }

    #[test]
    fn a_directory_that_was_moved_and_houses_that_were_noticed_are_hidden() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let [hidden, moved, other] = ["hidden", "moved", "other"].map(|name| root.join(name));
        std::fs::create_dir(&hidden).unwrap();
        std::fs::create_dir(&other).unwrap();
        let mut full = guards(Availability::default());
        full.house.hidden = vec![hidden.clone()];
        let plan = || full.plan(&Guard::default(), Layers::FULL, &[], &[]);
        assert!(plan().hidden.contains(&hidden) && plan().pinned.iter().any(|pinned| pinned.now == hidden));
        std::fs::rename(&hidden, &moved).unwrap();
        full.notice([other.clone(), root.clone(), hidden.join("inside")]);
        let made = plan();
        assert!([&hidden, &moved, &other].iter().all(|path| made.hidden.contains(path)), "{made:?}");
        assert!(!made.hidden.contains(&root) && made.held.contains(&moved), "{made:?}");
        std::fs::remove_dir(&other).unwrap();
        full.notice([]);
        assert!(!plan().hidden.contains(&other));
    }

    #[test]
    fn a_confinement_is_a_short_text() {
        let confinement = Confinement { guard: Guard::default(), layers: Layers::FULL };
        let text = serde_json::to_string(&confinement).unwrap();
        assert_eq!(text, r#"{"setting":"auto","layers":{"view":true,"scopes":true}}"#);
        assert_eq!(serde_json::from_str::<Confinement>(&text).unwrap(), confinement);
    }
}
