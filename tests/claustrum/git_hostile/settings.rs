//! Every way known to us by which a repository, or the user's own settings, can name a program for git.

use std::fs;

use crate::git_hostile::scene::Repository;

/// One of these ways.
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) make: fn(&Repository<'_>),
    /// A command of git by which the person would run the program; none where that takes a terminal or a network.
    pub(crate) runs_at: Option<&'static [&'static str]>,
    /// The repository is otherwise whole, so git's answers must not change.
    pub(crate) keeps_answers: bool,
}

const fn setting(name: &'static str, make: fn(&Repository<'_>), runs_at: Option<&'static [&'static str]>) -> Setting {
    Setting { name, make, runs_at, keeps_answers: true }
}

const STATUS: Option<&[&str]> = Some(&["status"]);
const ADD: Option<&[&str]> = Some(&["worktree", "add", "-b", "own", "own-tree"]);
const FETCH: Option<&[&str]> = Some(&["fetch", "origin"]);

pub(crate) const SETTINGS: &[Setting] = &[
    setting("core.fsmonitor", |r| r.config("core.fsmonitor", &r.evil()), STATUS),
    setting("include.path", |r| include(r, "include.path"), STATUS),
    setting("includeIf", |r| include(r, "includeIf.gitdir:**.path"), STATUS),
    setting("config.worktree", worktree_config, STATUS),
    setting("global.fsmonitor", global_config, STATUS),
    setting("hook.post-checkout", |r| r.hook(".git/hooks", "post-checkout"), ADD),
    setting("hook.reference-transaction", |r| r.hook(".git/hooks", "reference-transaction"), Some(&["branch", "own"])),
    setting("hook.post-index-change", |r| r.hook(".git/hooks", "post-index-change"), Some(&["add", "a.txt"])),
    setting("core.hooksPath", hooks_path, ADD),
    setting("filter.clean", |r| filter(r, &["clean"], ".git/info/attributes"), STATUS),
    setting("filter.smudge", |r| filter(r, &["smudge"], ".git/info/attributes"), ADD),
    setting("filter.process", |r| filter(r, &["process"], ".git/info/attributes"), STATUS),
    setting(
        "filter.required",
        |r| filter(r, &["clean", "smudge", "process", "required"], ".git/info/attributes"),
        STATUS,
    ),
    setting("core.attributesFile", attributes_file, STATUS),
    setting("filter.lfs", lfs, STATUS),
    setting("diff.external", |r| r.config("diff.external", &r.evil()), Some(&["diff"])),
    setting("diff.textconv", |r| driver(r, "diff.x.textconv", "diff=x"), Some(&["diff"])),
    setting("diff.command", |r| driver(r, "diff.x.command", "diff=x"), Some(&["diff"])),
    setting("merge.driver", |r| driver(r, "merge.x.driver", "merge=x"), None),
    setting("alias", aliases, Some(&["own-alias"])),
    setting("core.pager", pagers, None),
    setting("core.editor", editors, Some(&["commit", "--allow-empty"])),
    setting("core.askPass", |r| r.config("core.askPass", &r.evil()), None),
    setting("credential.helper", credentials, None),
    setting("gpg.program", signatures, Some(&["commit", "--allow-empty", "-m", "signed"])),
    setting("submodule.update", submodule_update, Some(&["submodule", "update"])).with_other_answers(),
    setting("submodule.config", submodule_config, STATUS).with_other_answers(),
    setting("submodule.filter", submodule_filter, STATUS).with_other_answers(),
    setting("embedded", embedded, Some(&["-C", "embedded.git", "status"])).with_other_answers(),
    setting("core.sshCommand", |r| promisor(r, "ssh://host.invalid/repo", "core.sshCommand"), FETCH)
        .with_other_answers(),
    setting("remote.uploadpack", |r| promisor(r, "/nowhere", "remote.origin.uploadpack"), FETCH).with_other_answers(),
    setting("core.gitProxy", |r| promisor(r, "git://host.invalid/repo", "core.gitProxy"), FETCH).with_other_answers(),
    setting("protocol.ext", external_transport, FETCH).with_other_answers(),
    setting("named.hook", named_hook, None),
];

impl Setting {
    const fn with_other_answers(self) -> Self {
        Self { keeps_answers: false, ..self }
    }
}

fn include(repository: &Repository<'_>, setting: &str) {
    let file = repository.beside("included");
    fs::write(&file, format!("[core]\n\tfsmonitor = {}\n", repository.evil())).unwrap();
    repository.config(setting, &file.display().to_string());
}

fn worktree_config(repository: &Repository<'_>) {
    repository.config("extensions.worktreeConfig", "true");
    repository.write(".git/config.worktree", &format!("[core]\n\tfsmonitor = {}\n", repository.evil()));
}

/// The user's own settings: an insider without a guard can write them.
fn global_config(repository: &Repository<'_>) {
    let text = format!("[core]\n\tfsmonitor = {0}\n[filter \"g\"]\n\tclean = {0}\n\tsmudge = {0}\n", repository.evil());
    fs::write(repository.home().join(".gitconfig"), text).unwrap();
}

fn hooks_path(repository: &Repository<'_>) {
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        repository.hook(".git/other-hooks", hook);
    }
    repository.config("core.hooksPath", &repository.path().join(".git/other-hooks").display().to_string());
}

fn filter(repository: &Repository<'_>, variables: &[&str], attributes: &str) {
    for variable in variables {
        let evil = repository.evil();
        repository.config(&format!("filter.x.{variable}"), if *variable == "required" { "true" } else { &evil });
    }
    repository.write(attributes, "*.txt filter=x\n");
}

fn attributes_file(repository: &Repository<'_>) {
    let file = repository.beside("attributes");
    fs::write(&file, "*.txt filter=x\n").unwrap();
    repository.config("core.attributesFile", &file.display().to_string());
    filter(repository, &["clean", "smudge"], ".git/info/unused");
}

/// As `git lfs install` has it, with another program.
fn lfs(repository: &Repository<'_>) {
    let evil = repository.evil();
    let settings = [
        ("clean", format!("{evil} clean -- %f")),
        ("smudge", format!("{evil} smudge -- %f")),
        ("process", format!("{evil} filter-process")),
        ("required", "true".to_owned()),
    ];
    for (variable, value) in settings {
        repository.config(&format!("filter.lfs.{variable}"), &value);
    }
    repository.write(".git/info/attributes", "*.txt filter=lfs diff=lfs merge=lfs -text\n");
}

fn driver(repository: &Repository<'_>, setting: &str, attribute: &str) {
    repository.config(setting, &repository.evil());
    repository.write(".git/info/attributes", &format!("*.txt {attribute}\n"));
}

fn aliases(repository: &Repository<'_>) {
    for alias in ["own-alias", "status", "config", "rev-parse", "worktree", "branch", "reset"] {
        repository.config(&format!("alias.{alias}"), &format!("!{}", repository.evil()));
    }
}

fn pagers(repository: &Repository<'_>) {
    for setting in ["core.pager", "pager.status", "pager.config", "pager.branch"] {
        repository.config(setting, &repository.evil());
    }
}

fn editors(repository: &Repository<'_>) {
    repository.config("core.editor", &repository.evil());
    repository.config("sequence.editor", &repository.evil());
}

fn credentials(repository: &Repository<'_>) {
    repository.config("credential.helper", &format!("!{}", repository.evil()));
    repository.config("credential.https://example.invalid.helper", &format!("!{}", repository.evil()));
}

fn signatures(repository: &Repository<'_>) {
    repository.config("gpg.program", &repository.evil());
    repository.config("gpg.ssh.program", &repository.evil());
    repository.config("commit.gpgSign", "true");
}

/// Adds a submodule at `sub` with a change inside.
fn submodule(repository: &Repository<'_>) {
    let origin = repository.beside("origin");
    repository.person(&["clone", "--quiet", ".", origin.to_str().unwrap()]);
    repository.person(&["submodule", "--quiet", "add", origin.to_str().unwrap(), "sub"]);
    repository.write("sub/a.txt", "changed\n");
}

fn submodule_update(repository: &Repository<'_>) {
    submodule(repository);
    repository.config("submodule.sub.update", &format!("!{}", repository.evil()));
    repository.person(&["-C", "sub", "commit", "--quiet", "--allow-empty", "-m", "ahead"]);
}

fn submodule_config(repository: &Repository<'_>) {
    submodule(repository);
    repository.person(&["-C", "sub", "config", "core.fsmonitor", &repository.evil()]);
}

fn submodule_filter(repository: &Repository<'_>) {
    submodule(repository);
    for variable in ["clean", "process"] {
        repository.person(&["-C", "sub", "config", &format!("filter.x.{variable}"), &repository.evil()]);
    }
    repository.write("sub/.gitattributes", "*.txt filter=x\n");
}

/// What a clone can bring along: a directory that is a repository in itself.
fn embedded(repository: &Repository<'_>) {
    let bare = repository.path().join("embedded.git");
    repository.person(&["clone", "--quiet", "--bare", ".", "embedded.git"]);
    let configure = |setting, value| repository.person(&["config", "--file", "embedded.git/config", setting, value]);
    configure("core.bare", "false");
    configure("core.worktree", "..");
    repository.person(&["-C", "embedded.git", "reset"]);
    configure("core.fsmonitor", &repository.evil());
    for path in [bare.clone(), bare.join("objects")] {
        for method in ["git.info", "git.status", "git.list_branches"] {
            repository.ask(method, &serde_json::json!({"path": path}));
        }
    }
}

/// A partial clone that misses the content of a file, which git would fetch when it needs it.
fn promisor(repository: &Repository<'_>, address: &str, setting: &str) {
    partial_clone(repository, address);
    repository.config(setting, &repository.evil());
}

fn external_transport(repository: &Repository<'_>) {
    partial_clone(repository, &format!("ext::{}", repository.evil()));
    repository.config("protocol.ext.allow", "always");
    repository.config("protocol.allow", "always");
}

fn partial_clone(repository: &Repository<'_>, address: &str) {
    let name = repository.path().join(".git/objects");
    repository.config("core.repositoryFormatVersion", "1");
    repository.config("extensions.partialClone", "origin");
    repository.config("remote.origin.url", address);
    repository.config("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*");
    repository.config("remote.origin.promisor", "true");
    // The object of "one\n".
    fs::remove_file(name.join("56/26abf0f72e58d7a153368ba57db4c673c0e171")).unwrap();
}

/// Hooks that are named in the configuration, which git knows since 2.54.
fn named_hook(repository: &Repository<'_>) {
    repository.config("hook.x.command", &repository.evil());
    for event in ["reference-transaction", "post-checkout", "post-index-change"] {
        repository.person(&["config", "--add", "hook.x.event", event]);
    }
}
