//! Repositories whose configuration names programs: none of them runs, and the answers are those of git itself.

#![allow(clippy::unwrap_used, reason = "a test that can not prepare its repositories has failed")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_house::workspace::git::{AddWorktreeError, Git, Limits, NewWorktree, RemovedWorktree};
use tempfile::TempDir;

/// Runs git as a person would who trusts the repository: whatever it names is run.
fn sh(directory: &Path, arguments: &[&str]) -> String {
    let output = person(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn person(directory: &Path, arguments: &[&str]) -> std::process::Output {
    Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap()
}

/// A repository, and a program that leaves a trace when it runs.
struct Scene {
    root: TempDir,
    repository: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let repository = fs::canonicalize(root.path()).unwrap().join("project");
        let scene = Self { root, repository };
        // It copies its input, as filters do, so that a filter that runs does not fail.
        scene.write_program("evil", "cat");
        make_repository(&scene.repository);
        scene
    }

    fn write_program(&self, name: &str, last: &str) {
        let path = self.root.path().join(name);
        fs::write(&path, format!("#!/bin/sh\necho $0 $* >> '{}'\n{last}\n", self.trace().display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn evil(&self) -> String {
        self.root.path().join("evil").display().to_string()
    }

    fn trace(&self) -> PathBuf {
        self.root.path().join("trace")
    }

    fn ran(&self) -> String {
        fs::read_to_string(self.trace()).unwrap_or_default()
    }

    fn worktree(&self, branch: &str) -> NewWorktree {
        NewWorktree {
            base_repo: self.repository.clone(),
            branch: branch.to_owned(),
            path: self.root.path().join(branch),
            source_branch: None,
        }
    }
}

fn make_repository(path: &Path) {
    fs::create_dir_all(path).unwrap();
    sh(path, &["init", "--quiet", "--initial-branch=trunk"]);
    fs::write(path.join("a.txt"), "one\n").unwrap();
    fs::write(path.join("b.txt"), "one\n").unwrap();
    sh(path, &["add", "."]);
    sh(path, &["commit", "--quiet", "-m", "first"]);
}

/// Adds a submodule that is checked out, with a name that git quotes.
fn add_submodule(scene: &Scene, at: &str) -> PathBuf {
    let origin = scene.root.path().join("origin");
    if !origin.exists() {
        make_repository(&origin);
    }
    sh(&scene.repository, &["submodule", "--quiet", "add", origin.to_str().unwrap(), at]);
    sh(&scene.repository, &["commit", "--quiet", "-m", "submodule"]);
    scene.repository.join(at)
}

fn git() -> Git {
    Git::new(Limits::default())
}

async fn status(path: &Path) -> String {
    let lines = git().status(path).await.unwrap().unwrap();
    lines.iter().map(|line| String::from_utf8_lossy(line) + "\n").collect()
}

/// Git's own answer, freed of blanks at its ends as ours is.
fn own_status(path: &Path) -> String {
    let text = sh(path, &["status", "--porcelain"]);
    if text.trim().is_empty() { String::new() } else { format!("{}\n", text.trim()) }
}

#[tokio::test]
async fn filters_do_not_run_and_do_not_change_the_answer() {
    for (kind, required) in [("clean", "false"), ("clean", "true"), ("process", "false"), ("process", "true")] {
        let scene = Scene::new();
        let repository = &scene.repository;
        // A name that would end early on a command line.
        for (setting, value) in [(kind, scene.evil()), ("smudge", scene.evil()), ("required", required.to_owned())] {
            sh(repository, &["config", &format!("filter.odd=name.x.{setting}"), &value]);
        }
        fs::write(repository.join(".git/info/attributes"), "*.txt filter=odd=name.x\n").unwrap();
        fs::write(repository.join("a.txt"), "two\n").unwrap();
        fs::write(repository.join("b.txt"), "one\n").unwrap();
        assert_eq!(status(repository).await, "M a.txt\n", "{kind} {required}");
        git().worktree_create(&scene.worktree("side")).await.unwrap();
        let side = scene.root.path().join("side");
        assert_eq!(fs::read_to_string(side.join("a.txt")).unwrap(), "one\n");
        assert_eq!(status(&side).await, "", "{kind} {required}");
        assert_eq!(git().worktree_remove(repository, &side, &[]).await, Ok(RemovedWorktree::Removed));
        assert_eq!(scene.ran(), "", "{kind} {required}");
        // The program is one that would have run.
        person(repository, &["status"]);
        assert_ne!(scene.ran(), "", "{kind} {required}");
    }
}

#[tokio::test]
async fn a_filter_that_appears_while_git_runs_does_not_run_either() {
    // What git would read had the configuration changed after the daemon looked at it: the filter is not switched off by
    // name, so only the seal is left.
    let scene = Scene::new();
    let repository = &scene.repository;
    let names: Vec<String> = (0..300).map(|number| format!("f{number}")).collect();
    let settings: String =
        names.iter().map(|name| format!("[filter \"{name}\"]\n\tclean = {}\n\trequired\n", scene.evil())).collect();
    let config = repository.join(".git/config");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &settings).unwrap();
    fs::write(repository.join(".git/info/attributes"), "*.txt filter=f299\n").unwrap();
    fs::write(repository.join("a.txt"), "two\n").unwrap();
    let refused = git().status(repository).await.unwrap_err();
    assert_eq!(refused.to_string(), "git configuration names more than 256 filters and hooks");
    assert_eq!(scene.ran(), "");
}

#[tokio::test]
async fn a_git_that_cannot_be_sealed_runs_no_filter_and_no_hook_either() {
    let scene = Scene::new();
    let repository = &scene.repository;
    // Not a program file, so the kernel cannot be told to refuse what it starts.
    scene.write_program("wrapper", "exec git \"$@\"");
    let wrapper = Git::with_program(scene.root.path().join("wrapper"), Limits::default());
    let submodule = add_submodule(&scene, "sub");
    for path in [repository, &submodule] {
        for setting in ["core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process"] {
            sh(path, &["config", setting, &scene.evil()]);
        }
        let directory = sh(path, &["rev-parse", "--absolute-git-dir"]);
        let directory = Path::new(directory.trim());
        fs::create_dir_all(directory.join("info")).unwrap();
        fs::write(directory.join("info/attributes"), "*.txt filter=x\n").unwrap();
        fs::copy(scene.evil(), directory.join("hooks/post-checkout")).unwrap();
        fs::copy(scene.evil(), directory.join("hooks/reference-transaction")).unwrap();
        fs::write(path.join("a.txt"), "two\n").unwrap();
    }
    fs::remove_file(scene.trace()).ok();
    let lines = wrapper.status(repository).await.unwrap().unwrap();
    assert_eq!(lines, [b"M a.txt".to_vec(), b" M sub".to_vec()]);
    wrapper.worktree_create(&scene.worktree("side")).await.unwrap();
    assert_eq!(fs::read_to_string(scene.root.path().join("side/a.txt")).unwrap(), "one\n");
    let ran = scene.ran();
    assert!(ran.contains("/wrapper -C"), "the wrapper was used: {ran}");
    assert!(!ran.contains("/evil") && !ran.contains("/hooks/"), "{ran}");
}

#[tokio::test]
async fn changes_inside_submodules_are_told_as_git_tells_them() {
    let scene = Scene::new();
    let repository = &scene.repository;
    let plain = add_submodule(&scene, "sub");
    let quoted = add_submodule(&scene, "dir with blank/é");
    let inner = {
        let origin = scene.root.path().join("origin");
        sh(&plain, &["submodule", "--quiet", "add", origin.to_str().unwrap(), "inner"]);
        sh(&plain, &["commit", "--quiet", "-m", "inner"]);
        plain.join("inner")
    };
    let agrees = async |what: &str| assert_eq!(status(repository).await, own_status(repository), "{what}");
    assert_eq!(status(repository).await, "M sub\n", "a new commit");
    sh(repository, &["add", "sub"]);
    agrees("a new commit that is staged").await;
    sh(repository, &["commit", "--quiet", "-m", "inner"]);
    assert_eq!(status(repository).await, "", "nothing has changed");

    fs::write(repository.join("b.txt"), "two\n").unwrap();
    fs::write(repository.join("zz"), "").unwrap();
    sh(repository, &["mv", "a.txt", "renamed here"]);
    fs::write(quoted.join("a.txt"), "two\n").unwrap();
    agrees("a change").await;
    assert!(status(repository).await.contains(" M \"dir with blank/\\303\\251\"\n"));
    sh(repository, &["config", "core.quotePath", "false"]);
    agrees("a change, with other quotes").await;
    fs::write(inner.join("new"), "").unwrap();
    agrees("an untracked file in a submodule of a submodule").await;
    sh(&plain, &["commit", "--quiet", "--allow-empty", "-m", "more"]);
    agrees("a commit and a change").await;
    for ignored in ["untracked", "dirty", "all", "none"] {
        sh(repository, &["config", "diff.ignoreSubmodules", ignored]);
        agrees(&format!("diff.ignoreSubmodules={ignored}")).await;
        sh(repository, &["config", "--unset", "diff.ignoreSubmodules"]);
        sh(repository, &["config", "submodule.sub.ignore", ignored]);
        agrees(&format!("ignore={ignored}")).await;
        sh(repository, &["config", "--unset", "submodule.sub.ignore"]);
        sh(repository, &["config", "--file", ".gitmodules", "submodule.sub.ignore", ignored]);
        agrees(&format!("ignore={ignored} in .gitmodules")).await;
        sh(repository, &["config", "--file", ".gitmodules", "--unset", "submodule.sub.ignore"]);
    }
    sh(repository, &["config", "status.showUntrackedFiles", "no"]);
    agrees("without untracked files").await;
    sh(repository, &["submodule", "--quiet", "deinit", "--force", "sub"]);
    agrees("a submodule that is not checked out").await;
}

#[tokio::test]
async fn refusals_have_the_words_of_git_worktree_add() {
    let scene = Scene::new();
    let repository = &scene.repository;
    let taken = scene.root.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("x"), "").unwrap();
    let cases = [("trunk", "free"), ("a..b", "free"), ("new", "taken"), ("new2", "../../../../../dev/null/x")];
    for (branch, path) in cases {
        let path = scene.root.path().join(path);
        let wanted = NewWorktree { path: path.clone(), ..scene.worktree(branch) };
        let Err(AddWorktreeError::Refused { output }) = git().worktree_create(&wanted).await else {
            panic!("{branch} was not refused")
        };
        let left = sh(repository, &["branch", "--list", "--format=%(refname:short)", "new*"]);
        if !left.is_empty() {
            sh(repository, &["branch", "--quiet", "-D", left.trim()]);
        }
        let own = person(repository, &["worktree", "add", "-b", branch, path.to_str().unwrap(), "trunk"]);
        let left_by_git = sh(repository, &["branch", "--list", "--format=%(refname:short)", "new*"]);
        if !left_by_git.is_empty() {
            sh(repository, &["branch", "--quiet", "-D", left_by_git.trim()]);
        }
        let own = String::from_utf8_lossy(&own.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output), own.trim_end(), "{branch} at {path:?}");
        assert_eq!(left, left_by_git, "the branch that stays: {branch}");
    }
}

#[tokio::test]
async fn a_worktree_whose_files_cannot_be_written_is_removed_again() {
    let scene = Scene::new();
    let repository = &scene.repository;
    // The content of a file is gone.
    let object = sh(repository, &["rev-parse", "HEAD:a.txt"]);
    let (directory, file) = object.trim().split_at(2);
    fs::remove_file(repository.join(".git/objects").join(directory).join(file)).unwrap();
    let refused = git().worktree_create(&scene.worktree("side")).await.unwrap_err().to_string();
    assert!(refused.starts_with("git worktree add failed: Preparing worktree (new branch 'side')\n"), "{refused}");
    assert!(!scene.root.path().join("side").exists());
    assert_eq!(sh(repository, &["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn files_of_a_worktree_are_written_nowhere_else() {
    let scene = Scene::new();
    let repository = &scene.repository;
    let elsewhere = scene.root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    sh(repository, &["config", "extensions.worktreeConfig", "true"]);
    sh(repository, &["config", "core.worktree", elsewhere.to_str().unwrap()]);
    let wanted = NewWorktree { base_repo: elsewhere.clone(), ..scene.worktree("side") };
    // Asked from where git finds the repository: the setting does not make `elsewhere` one.
    assert_eq!(git().worktree_create(&wanted).await, Err(AddWorktreeError::NotARepository));
    sh(repository, &["config", "--unset", "core.worktree"]);
    git().worktree_create(&scene.worktree("side")).await.unwrap();
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert_eq!(fs::read_to_string(scene.root.path().join("side/b.txt")).unwrap(), "one\n");
}
