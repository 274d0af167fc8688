//! What the launcher is to do for one process, made from what a house hides and what a guard grants.
//!
//! Guarantees: a plan holds absolute paths only and travels as one argument. Making one looks at no file: what does not
//! exist is passed over by the launcher.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::held::Pinned;
use crate::known::{self, Names, Surroundings};
use crate::layers::Layers;
use crate::setting::{Guard, OwnPrograms, Setting};

/// A directory of the machine that appears elsewhere in the view.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Shown {
    /// Where it is.
    pub from: PathBuf,
    /// Where it appears: inside a hidden directory.
    pub to: PathBuf,
}

/// What a house keeps from its agents, the same for all of them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HouseView {
    /// Directories and files that do not exist for agents.
    pub hidden: Vec<PathBuf>,
    /// Directories inside hidden ones that agents do see. Only directories: a socket that is shown as a file stops working
    /// when its owner makes it anew.
    pub shown: Vec<Shown>,
    /// Paths that agents see and cannot change.
    pub read_only: Vec<PathBuf>,
    /// Exceptions inside these.
    pub writable: Vec<PathBuf>,
    /// Hidden and read-only paths that a person named. What does not exist when a view is made can neither be hidden nor
    /// held in it later, so a strict guard is refused without them.
    pub required: Vec<PathBuf>,
    /// Where the house looks for the programs that it starts itself.
    pub own_programs: OwnPrograms,
    /// The program that answers as `sudo`.
    pub program: PathBuf,
    /// The directory of commands that come first on the path, as agents see it with and without a view.
    pub commands: Option<Shown>,
    /// Directories in which sessions have a directory each, which their own agents see.
    pub own_roots: Vec<PathBuf>,
    /// Names in the runtime directory that lead to sockets of the house: the name, and what it leads to.
    pub runtime_links: Vec<(String, PathBuf)>,
    /// Environments of the house itself and of its agents. What they lead to vanishes also for a process that has none of
    /// their variables: whoever asks for a process may choose its environment.
    pub environments: Vec<Vec<(OsString, OsString)>>,
}

/// What the launcher does before it becomes the program.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// What has to be enforced.
    pub layers: Layers,
    /// Directories and files that vanish.
    pub hidden: Vec<PathBuf>,
    /// Those of the hidden directories that their owner may remove at any moment: other houses of the user.
    pub may_vanish: Vec<PathBuf>,
    /// Which directories these were when the plan was made.
    pub pinned: Vec<Pinned>,
    /// Paths that cannot be moved away and replaced, with the directories on the way to them.
    pub held: Vec<PathBuf>,
    /// Directories among the hidden ones that are made if they are missing: nobody can make them later and be seen.
    pub claimed: Vec<PathBuf>,
    /// Directories that are replaced by empty ones the program can write to.
    pub emptied: Vec<PathBuf>,
    /// Sockets whose directories are rebuilt without them.
    pub sockets: Vec<PathBuf>,
    /// Directories that appear inside hidden ones.
    pub shown: Vec<Shown>,
    /// Paths inside hidden and emptied directories that stay as they are.
    pub granted: Vec<PathBuf>,
    /// Symbolic links inside emptied directories: where, and what they lead to.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Paths that cannot be changed.
    pub read_only: Vec<PathBuf>,
    /// Exceptions inside these.
    pub writable: Vec<PathBuf>,
    /// Paths that must exist.
    pub required: Vec<PathBuf>,
    /// Whether the program may make user namespaces.
    pub user_namespaces: bool,
    /// The program that takes the place of `sudo`.
    pub sudo: Option<PathBuf>,
    /// Variables that lead nowhere.
    pub unset: Vec<String>,
    /// What comes first on the path.
    pub path_first: Option<PathBuf>,
}

impl HouseView {
    /// Why this house cannot be hidden from agents with this environment.
    pub(crate) fn problem(&self, environment: &[(OsString, OsString)]) -> Option<String> {
        let home = Surroundings { environment, uid: 0 }.home()?;
        let inside = self.hidden.iter().find(|hidden| home.starts_with(hidden))?;
        Some(format!(
            "the home directory `{}` is inside `{}`, which agents must not see",
            home.display(),
            inside.display()
        ))
    }

    /// Whether another house of this user can be hidden: not if that hides what agents need, and not if it is this one.
    pub(crate) fn is_other_house(&self, house: &Path) -> bool {
        let homes = self.environments.iter().filter_map(|environment| Surroundings { environment, uid: 0 }.home());
        let needed = self.hidden.iter().chain([&self.program]).cloned().chain(homes);
        house.is_absolute() && !self.is_of_house(house) && needed.into_iter().all(|path| !path.starts_with(house))
    }

    /// The plan for a process with this environment.
    #[must_use]
    pub fn plan(
        &self,
        guard: &Guard,
        layers: Layers,
        environment: &[(OsString, OsString)],
        own: &[Shown],
        uid: u32,
    ) -> Plan {
        let around = Surroundings { environment, uid };
        let mut plan = Plan { layers, ..Plan::default() };
        let is_granted = |name: &str| guard.grants.contains(name);
        if layers.view {
            plan.user_namespaces = is_granted(Names::USER_NAMESPACES);
            self.plan_house(&mut plan, guard, own);
            let of_house = self.environments.iter().map(|environment| Surroundings { environment, uid });
            for around in of_house.chain([Surroundings { environment, uid }]) {
                self.plan_surroundings(&mut plan, &around, guard);
            }
            plan.hidden = unique(plan.hidden);
            plan.sockets = unique(plan.sockets);
            plan.granted = unique(plan.granted);
            plan.claimed = unique(plan.claimed);
            plan.emptied = unique(plan.emptied);
            plan.held = unique([plan.held, plan.hidden.clone(), plan.emptied.clone()].concat());
        }
        // Without new privileges the real one does not work; root needs none.
        if uid != 0 {
            let commands = self.commands.as_ref();
            plan.path_first = commands.map(|shown| if layers.view { shown.to.clone() } else { shown.from.clone() });
            // A program whose file is gone has no path that could be put anywhere.
            let has_file = !self.program.starts_with("/proc");
            plan.sudo = (layers.view && has_file).then(|| self.program.clone());
        }
        for known in known::all(&around).iter().filter(|known| layers.view && !is_granted(known.name)) {
            let named = |variable: &&&str| around.variable(variable).is_some_and(|value| !is_open(value, guard));
            plan.unset.extend(known.variables.iter().filter(named).map(|&variable| variable.to_owned()));
        }
        plan
    }

    /// Nothing of the house itself can be granted.
    fn is_of_house(&self, path: &Path) -> bool {
        self.hidden.iter().any(|hidden| path.starts_with(hidden))
    }

    /// The paths that a guard grants.
    fn granted_paths(&self, guard: &Guard) -> BTreeSet<PathBuf> {
        let paths = guard.grants.iter().filter(|grant| grant.starts_with('/')).map(PathBuf::from);
        paths.filter(|path| !self.is_of_house(path)).collect()
    }

    fn plan_house(&self, plan: &mut Plan, guard: &Guard, own: &[Shown]) {
        plan.hidden.clone_from(&self.hidden);
        plan.held = [&self.program].into_iter().chain(&self.read_only).cloned().collect();
        plan.shown = self.shown.iter().chain(own).cloned().collect();
        plan.read_only.clone_from(&self.read_only);
        plan.writable.clone_from(&self.writable);
        if guard.setting == Setting::Strict {
            plan.required.clone_from(&self.required);
        }
        plan.granted.extend(self.granted_paths(guard));
    }

    /// What the variables of one environment lead to.
    fn plan_surroundings(&self, plan: &mut Plan, around: &Surroundings<'_>, guard: &Guard) {
        let (runtime, paths) = (around.runtime_directory(), self.granted_paths(guard));
        for known in known::all(around) {
            if guard.grants.contains(known.name) {
                let granted = known.in_runtime.iter().map(|name| runtime.join(name));
                plan.granted.extend(granted.filter(|path| !self.is_of_house(path)));
                continue;
            }
            // A grant of a socket brings its directory: a socket alone would stop working with its owner's next start.
            let opened = |directory: &PathBuf| paths.iter().any(|path| path.starts_with(directory));
            plan.hidden.extend(known.directories.into_iter().filter(|directory| !opened(directory)));
            plan.sockets.extend(known.sockets.into_iter().filter(|socket| !paths.contains(socket)));
        }
        if !guard.grants.contains("tmux") {
            plan.claimed.push(Path::new("/tmp").join(format!("tmux-{}", around.uid)));
        }
        // A home directory that doubles as one is needed, and so is one that was granted.
        let is_home = around.home().is_some_and(|home| home.starts_with(&runtime));
        if !paths.contains(&runtime) && !is_home && runtime.parent() != Some(Path::new("/")) {
            let links = self.runtime_links.iter().map(|(name, to)| (runtime.join(name), to.clone()));
            plan.links.extend(links.filter(|_| !plan.emptied.contains(&runtime)));
            plan.emptied.push(runtime);
        }
    }
}

/// Each of some paths once, in their order.
fn unique(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    paths.into_iter().filter(|path| seen.insert(path.clone())).collect()
}

/// Whether a variable names something that is granted by its path.
fn is_open(value: &std::ffi::OsStr, guard: &Guard) -> bool {
    let text = value.to_string_lossy();
    let path = text.strip_prefix("unix:path=").or_else(|| text.strip_prefix("unix://")).unwrap_or(&text);
    guard.grants.iter().any(|grant| grant.starts_with('/') && Path::new(path).starts_with(grant))
}

impl Plan {
    /// Hides another directory.
    pub(crate) fn hide(&mut self, directory: &Path) {
        for list in [&mut self.hidden, &mut self.held] {
            if !list.iter().any(|known| known == directory) {
                list.push(directory.to_owned());
            }
        }
    }

    /// The plan as one argument. None if a path is no text.
    #[must_use]
    pub fn argument(&self) -> Option<String> {
        serde_json::to_string(self).ok()
    }

    /// The plan in an argument.
    pub(crate) fn parse(argument: &str) -> Option<Plan> {
        serde_json::from_str(argument).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house() -> HouseView {
        HouseView {
            hidden: vec!["/home/ada/.hostel".into()],
            shown: vec![Shown { from: "/home/ada/.hostel/run/agents".into(), to: "/home/ada/.hostel/run".into() }],
            program: "/usr/bin/hostel".into(),
            commands: Some(Shown {
                from: "/home/ada/.hostel/run/agents/bin".into(),
                to: "/home/ada/.hostel/run/bin".into(),
            }),
            runtime_links: vec![("sudo-proxy.sock".to_owned(), "/home/ada/.hostel/run/sudo.sock".into())],
            ..HouseView::default()
        }
    }

    fn environment(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
    }

    fn guard(grants: &[&str]) -> Guard {
        Guard { setting: Setting::Auto, grants: grants.iter().map(|&grant| grant.to_owned()).collect() }
    }

    const ENVIRONMENT: [(&str, &str); 4] = [
        ("HOME", "/home/ada"),
        ("XDG_RUNTIME_DIR", "/run/user/7"),
        ("SSH_AUTH_SOCK", "/run/user/7/gcr/ssh"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/7/bus"),
    ];

    #[test]
    fn what_is_not_granted_vanishes() {
        let plan = house().plan(&guard(&[]), Layers::FULL, &environment(&ENVIRONMENT), &[], 7);
        assert!(plan.hidden.contains(&"/home/ada/.hostel".into()) && plan.hidden.contains(&"/tmp/tmux-7".into()));
        assert_eq!(plan.emptied, [PathBuf::from("/run/user/7")]);
        assert_eq!(plan.sockets, [PathBuf::from("/run/docker.sock")]);
        assert!(plan.granted.is_empty());
        assert_eq!(plan.unset, ["DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK"]);
        assert_eq!(
            plan.links,
            [("/run/user/7/sudo-proxy.sock".into(), PathBuf::from("/home/ada/.hostel/run/sudo.sock"))]
        );
        assert_eq!(plan.path_first.as_deref(), Some(Path::new("/home/ada/.hostel/run/bin")));
        assert_eq!(Plan::parse(&plan.argument().unwrap()), Some(plan));
    }

    /// Somebody inside chooses the variables of what the house starts for them.
    #[test]
    fn what_the_house_knows_vanishes_whatever_variables_a_process_has() {
        let house = HouseView { environments: vec![environment(&ENVIRONMENT)], ..house() };
        let tmux = environment(&[("HOME", "/home/ada"), ("TMUX", "/tmp/other/default,1,0")]);
        let house = HouseView { environments: [house.environments.clone(), vec![tmux]].concat(), ..house };
        let chosen = environment(&[("HOME", "/nowhere"), ("XDG_RUNTIME_DIR", "/nowhere/run")]);
        let plan = house.plan(&guard(&[]), Layers::FULL, &chosen, &[], 7);
        assert!(plan.emptied.contains(&"/run/user/7".into()), "{plan:?}");
        for hidden in ["/tmp/other", "/home/ada/.docker/run", "/home/ada/.hostel"] {
            assert!(plan.hidden.contains(&hidden.into()), "{hidden}");
        }
        // Nor does a grant by name bring something of the house.
        let chosen = environment(&[("XDG_RUNTIME_DIR", "/home/ada/.hostel")]);
        let plan = house.plan(&guard(&["docker"]), Layers::FULL, &chosen, &[], 7);
        assert!(plan.granted.iter().all(|path| !path.starts_with("/home/ada/.hostel")), "{plan:?}");
        // The same variables change nothing.
        let same = house.plan(&guard(&[]), Layers::FULL, &environment(&ENVIRONMENT), &[], 7);
        assert_eq!((same.emptied.len(), same.links.len(), same.sockets.len()), (1, 1, 1), "{same:?}");
    }

    #[test]
    fn a_grant_by_name_or_path_stays() {
        let granted = guard(&["docker", "ssh-agent", "/run/user/7/bus", "/tmp/tmux-7"]);
        let plan = house().plan(&granted, Layers::FULL, &environment(&ENVIRONMENT), &[], 7);
        assert!(plan.sockets.is_empty() && plan.unset.is_empty(), "{plan:?}");
        assert!(!plan.hidden.contains(&"/tmp/tmux-7".into()));
        for path in ["/run/user/7/bus", "/run/user/7/gcr", "/run/user/7/docker.sock"] {
            assert!(plan.granted.contains(&path.into()), "{path}");
        }
        let whole = house().plan(&guard(&["/run/user/7"]), Layers::FULL, &environment(&ENVIRONMENT), &[], 7);
        assert!(whole.emptied.is_empty() && whole.links.is_empty());
        let house_too = guard(&["/home/ada/.hostel", "/home/ada/.hostel/state.db"]);
        let plan = house().plan(&house_too, Layers::FULL, &environment(&ENVIRONMENT), &[], 7);
        assert!(plan.granted.is_empty() && plan.hidden.contains(&"/home/ada/.hostel".into()));
    }

    #[test]
    fn without_a_view_nothing_vanishes_and_sudo_still_asks() {
        let layers = Layers { view: false, scopes: true };
        let plan = house().plan(&guard(&[]), layers, &environment(&ENVIRONMENT), &[], 7);
        let expected = Plan { layers, path_first: Some("/home/ada/.hostel/run/agents/bin".into()), ..Plan::default() };
        assert_eq!(plan, expected);
        let root = house().plan(&guard(&[]), Layers::FULL, &environment(&ENVIRONMENT), &[], 0);
        assert!(root.sudo.is_none() && root.path_first.is_none() && root.hidden.contains(&"/run/dbus".into()));
    }

    #[test]
    fn a_strict_guard_needs_the_paths_that_a_person_named() {
        let house = HouseView { required: vec!["/home/ada/.aws".into()], ..house() };
        let required = |setting| {
            let guard = Guard { setting, ..Guard::default() };
            house.plan(&guard, Layers::FULL, &environment(&ENVIRONMENT), &[], 7).required
        };
        assert_eq!(required(Setting::Strict), house.required);
        assert!(required(Setting::Auto).is_empty());
    }

    #[test]
    fn what_vanishes_cannot_be_moved_and_user_namespaces_are_granted_by_name() {
        let plan = house().plan(&guard(&[]), Layers::FULL, &environment(&ENVIRONMENT), &[], 7);
        assert!(plan.hidden.iter().chain(&plan.emptied).all(|path| plan.held.contains(path)), "{plan:?}");
        assert!(plan.held.contains(&"/usr/bin/hostel".into()) && !plan.user_namespaces);
        let granted = guard(&["user-namespaces"]);
        assert!(house().plan(&granted, Layers::FULL, &environment(&ENVIRONMENT), &[], 7).user_namespaces);
    }

    #[test]
    fn another_house_is_hidden_unless_it_holds_what_agents_need() {
        let house = HouseView { environments: vec![environment(&ENVIRONMENT)], ..house() };
        let other = |path: &str| house.is_other_house(Path::new(path));
        assert!(other("/srv/house") && other("/home/ada/src/app/.hostel"));
        for path in ["/", "/home/ada", "/home", "/usr/bin", "/home/ada/.hostel", "/home/ada/.hostel/as/x", "srv"] {
            assert!(!other(path), "{path}");
        }
    }

    #[test]
    fn a_home_directory_never_vanishes() {
        let both = environment(&[("HOME", "/home/ada"), ("XDG_RUNTIME_DIR", "/home/ada")]);
        assert!(house().plan(&guard(&[]), Layers::FULL, &both, &[], 7).emptied.is_empty());
        assert_eq!(house().problem(&both), None);
        let inside = environment(&[("HOME", "/home/ada/.hostel/user")]);
        let problem = house().problem(&inside).unwrap();
        assert!(problem.contains("`/home/ada/.hostel/user` is inside `/home/ada/.hostel`"), "{problem}");
    }

    #[test]
    fn what_a_launcher_does_not_know_is_no_plan() {
        assert_eq!(Plan::parse("{\"layers\":{\"view\":true,\"scopes\":true},\"walls\":[]}"), None);
        assert_eq!(Plan::parse(""), None);
    }
}
