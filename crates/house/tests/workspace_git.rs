//! Asking the real git about real repositories.

#![allow(clippy::unwrap_used, reason = "a test that can not prepare its repositories has failed")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hostel_house::workspace::git::{
    AddWorktreeError, AddedWorktree, Git, GitError, Head, Info, Limits, NewWorktree, RemovedWorktree,
};
use tempfile::TempDir;

fn git() -> Git {
    Git::new(Limits::default())
}

/// Runs git as the person at the keyboard would, and returns what it printed.
fn sh(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn empty_repository() -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let path = fs::canonicalize(root.path()).unwrap().join("project");
    fs::create_dir(&path).unwrap();
    sh(&path, &["init", "--quiet", "--initial-branch=trunk"]);
    (root, path)
}

fn repository() -> (TempDir, PathBuf) {
    let (root, path) = empty_repository();
    for name in ["a1.txt", "a2.txt", "a3.txt"] {
        fs::write(path.join(name), "one\n").unwrap();
    }
    sh(&path, &["add", "."]);
    sh(&path, &["commit", "--quiet", "-m", "first"]);
    (root, path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn texts(lines: &[Vec<u8>]) -> Vec<String> {
    lines.iter().map(|line| text(line)).collect()
}

fn worktree(base: &Path, branch: &str, path: &Path, source: Option<&str>) -> NewWorktree {
    NewWorktree {
        base_repo: base.to_path_buf(),
        branch: branch.to_owned(),
        path: path.to_path_buf(),
        source_branch: source.map(str::to_owned),
    }
}

#[tokio::test]
async fn the_head_is_a_branch_a_commit_or_both() {
    let (root, path) = empty_repository();
    let head = async || git().head(&path).await.unwrap();
    let branch = || Some(b"trunk".to_vec());
    assert_eq!(head().await, Some(Head { branch: branch(), commit: None }), "before the first commit");
    sh(&path, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let commit = Some(sh(&path, &["rev-parse", "--short", "HEAD"]).into_bytes());
    assert_eq!(head().await, Some(Head { branch: branch(), commit: commit.clone() }));
    sh(&path, &["checkout", "--quiet", "--detach"]);
    assert_eq!(head().await, Some(Head { branch: None, commit }));
    assert_eq!(git().head(root.path()).await.unwrap(), None, "outside of a repository");
}

#[tokio::test]
async fn info_of_a_repository_and_of_its_corners() {
    let (_root, path) = repository();
    let bare_info = Info {
        repo: b"project".to_vec(),
        branch: b"trunk".to_vec(),
        root: path.to_str().unwrap().into(),
        repo_slug: String::new(),
        default_branch: Vec::new(),
    };
    assert_eq!(git().info(&path).await.unwrap(), Some(bare_info.clone()));

    let below = path.join("sub/directory");
    fs::create_dir_all(&below).unwrap();
    assert_eq!(git().info(&below).await.unwrap(), Some(bare_info.clone()), "the root stays the root");

    sh(&path, &["remote", "add", "origin", "git@example.org:own-er/re.po.git"]);
    sh(&path, &["update-ref", "refs/remotes/origin/main", "HEAD"]);
    sh(&path, &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    let with_remote = Info { repo_slug: "own-er/re.po".into(), default_branch: b"main".to_vec(), ..bare_info.clone() };
    assert_eq!(git().info(&path).await.unwrap(), Some(with_remote));
    sh(&path, &["remote", "set-url", "origin", "https://example.org/group/sub/project"]);
    assert_eq!(git().info(&path).await.unwrap().unwrap().repo_slug, "");

    sh(&path, &["checkout", "--quiet", "--detach"]);
    let short = sh(&path, &["rev-parse", "--short", "HEAD"]);
    assert_eq!(text(&git().info(&path).await.unwrap().unwrap().branch), format!("detached:{short}"));

    let (_root, unborn) = empty_repository();
    assert_eq!(text(&git().info(&unborn).await.unwrap().unwrap().branch), "trunk");
}

#[tokio::test]
async fn what_is_no_working_tree_has_no_info() {
    let (root, path) = repository();
    let bare = root.path().join("bare.git");
    sh(root.path(), &["init", "--quiet", "--bare", "bare.git"]);
    for none in [root.path().to_path_buf(), bare, path.join(".git"), path.join("missing"), path.join("a1.txt")] {
        assert_eq!(git().info(&none).await, Ok(None), "{none:?}");
    }
}

#[tokio::test]
async fn status_tells_changes_in_gits_short_form() {
    let (root, path) = repository();
    assert_eq!(git().status(&path).await, Ok(Some(Vec::new())));
    fs::write(path.join("a1.txt"), "two\n").unwrap();
    fs::write(path.join("a2.txt"), "two\n").unwrap();
    fs::write(path.join("a3.txt"), "two\n").unwrap();
    sh(&path, &["add", "a3.txt"]);
    fs::write(path.join("new file"), "").unwrap();
    // Trimmed as a whole: the first line alone loses its blank.
    let changes = git().status(&path).await.unwrap().unwrap();
    assert_eq!(texts(&changes), ["M a1.txt", " M a2.txt", "M  a3.txt", "?? \"new file\""]);

    assert_eq!(git().status(root.path()).await, Ok(None));
    sh(root.path(), &["init", "--quiet", "--bare", "bare.git"]);
    let refused = git().status(&root.path().join("bare.git")).await.unwrap_err();
    assert_eq!(refused.to_string(), "exit status 128");
}

#[tokio::test]
async fn branches_are_local_and_sorted_by_bytes() {
    let (root, path) = repository();
    for branch in ["b", "a", "Z", "feature/x", "a-1"] {
        sh(&path, &["branch", branch]);
    }
    sh(&path, &["update-ref", "refs/remotes/origin/remote-only", "HEAD"]);
    sh(&path, &["tag", "tag-only"]);
    let expected = ["Z", "a", "a-1", "b", "feature/x", "trunk"];
    assert_eq!(texts(&git().list_branches(&path).await.unwrap().unwrap()), expected);

    sh(root.path(), &["clone", "--quiet", "--bare", "project", "bare.git"]);
    let of_bare = git().list_branches(&root.path().join("bare.git")).await.unwrap().unwrap();
    assert_eq!(texts(&of_bare), expected, "a bare repository has branches too");
    assert_eq!(git().list_branches(root.path()).await, Ok(None));
    let (_root, unborn) = empty_repository();
    assert_eq!(git().list_branches(&unborn).await, Ok(Some(Vec::new())));
}

#[tokio::test]
async fn a_worktree_starts_from_the_branch_asked_for() {
    let (root, path) = repository();
    sh(&path, &["checkout", "--quiet", "-b", "other"]);
    fs::write(path.join("only-in-other"), "").unwrap();
    sh(&path, &["add", "."]);
    sh(&path, &["commit", "--quiet", "-m", "second"]);

    let create = async |branch: &str, source: Option<&str>| {
        let target = root.path().join(branch);
        let added = git().worktree_create(&worktree(&path, branch, &target, source)).await;
        (added.map(|added| added.source_branch.map(|source| text(&source))), target)
    };
    let (source, target) = create("from-current", None).await;
    assert_eq!(source, Ok(Some("other".into())));
    assert!(target.join("only-in-other").exists());
    assert_eq!(sh(&target, &["symbolic-ref", "--short", "HEAD"]), "from-current");

    let (source, target) = create("from-trunk", Some("trunk")).await;
    assert_eq!(source, Ok(Some("trunk".into())));
    assert!(!target.join("only-in-other").exists());

    // What is no local branch is ignored, be it missing, a tag, or an option in disguise.
    sh(&path, &["tag", "a-tag", "trunk"]);
    for (number, odd) in ["missing", "a-tag", "--force", "", "HEAD~1"].into_iter().enumerate() {
        let (source, target) = create(&format!("odd-{number}"), Some(odd)).await;
        assert_eq!(source, Ok(Some("other".into())), "{odd}");
        assert!(target.join("only-in-other").exists());
    }

    sh(&path, &["checkout", "--quiet", "--detach"]);
    assert_eq!(create("from-detached", None).await.0, Ok(Some("HEAD".into())));
}

#[tokio::test]
async fn a_worktree_of_a_repository_without_commits_has_an_orphan_branch() {
    let (root, path) = empty_repository();
    let target = root.path().join("tree");
    let added = git().worktree_create(&worktree(&path, "fresh", &target, None)).await;
    assert_eq!(added, Ok(AddedWorktree { source_branch: None }));
    assert_eq!(sh(&target, &["symbolic-ref", "--short", "HEAD"]), "fresh");
    assert_eq!(sh(&target, &["status", "--porcelain"]), "");
    assert_eq!(sh(&path, &["for-each-ref"]), "", "the branch has no commit yet");
    fs::write(target.join("file"), "").unwrap();
    sh(&target, &["add", "."]);
    sh(&target, &["commit", "--quiet", "-m", "root"]);
    assert_eq!(sh(&target, &["rev-list", "--count", "HEAD"]), "1", "and its first commit is a root");

    // An impossible name is refused here as anywhere.
    let (root, path) = empty_repository();
    let refused = git().worktree_create(&worktree(&path, "a..b", &root.path().join("t"), None)).await;
    assert!(matches!(refused, Err(AddWorktreeError::Refused { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_refused_worktree_carries_gits_own_words() {
    let (root, path) = repository();
    let elsewhere = root.path().join("plain");
    fs::create_dir(&elsewhere).unwrap();
    for base in [&elsewhere, &root.path().join("missing"), &path.join(".git")] {
        let refused = git().worktree_create(&worktree(base, "b", &root.path().join("t"), None)).await.unwrap_err();
        assert_eq!(refused, AddWorktreeError::NotARepository);
        assert_eq!(refused.to_string(), "not a git repository");
    }
    let taken = git().worktree_create(&worktree(&path, "trunk", &root.path().join("t"), None)).await;
    let words = taken.unwrap_err().to_string();
    assert!(words.starts_with("git worktree add failed: "), "{words}");
    assert!(words.contains("fatal: ") && words.contains("trunk") && !words.ends_with('\n'), "{words}");

    // A path that looks like an option is a path.
    let added = git().worktree_create(&worktree(&path, "dashed", Path::new("--force"), None)).await;
    assert!(added.is_ok(), "{added:?}");
    assert!(path.join("--force/a1.txt").exists());

    // A branch that looks like an option is no branch: `git branch -D victim` must not come of it.
    sh(&path, &["branch", "victim"]);
    let refused = git().worktree_create(&worktree(&path, "-D", &root.path().join("t"), Some("victim"))).await;
    assert_eq!(refused.unwrap_err().to_string(), "git worktree add failed: fatal: '-D' is not a valid branch name");
    assert!(texts(&git().list_branches(&path).await.unwrap().unwrap()).contains(&"victim".to_owned()));
    assert!(!root.path().join("t").exists());
}

#[tokio::test]
async fn removing_a_worktree_never_goes_beyond_git() {
    let (root, path) = repository();
    let target = root.path().join("tree");
    git().worktree_create(&worktree(&path, "b", &target, None)).await.unwrap();
    fs::write(target.join("uncommitted"), "").unwrap();
    assert_eq!(git().worktree_remove(&path, &target, &[]).await, Ok(RemovedWorktree::Removed));
    assert!(!target.exists());

    let plain = root.path().join("plain");
    fs::create_dir(&plain).unwrap();
    fs::write(plain.join("precious"), "").unwrap();
    for refused in [&plain, &path, &root.path().join("missing")] {
        let answer = git().worktree_remove(&path, refused, &[]).await.unwrap();
        assert!(matches!(answer, RemovedWorktree::Refused { .. }), "{refused:?}: {answer:?}");
    }
    assert!(plain.join("precious").exists() && path.join("a1.txt").exists());
    let answer = git().worktree_remove(&plain, &target, &[]).await.unwrap();
    assert!(matches!(answer, RemovedWorktree::Refused { .. }), "no repository: {answer:?}");

    let home = root.path().join("home");
    git().worktree_create(&worktree(&path, "h", &home, None)).await.unwrap();
    let answer = git().worktree_remove(&path, Path::new("../home"), std::slice::from_ref(&home)).await;
    assert_eq!(answer, Ok(RemovedWorktree::Protected { protected: home.clone() }));
    assert!(home.join("a1.txt").exists());
}

#[tokio::test]
async fn variables_of_the_daemon_do_not_redirect_git() {
    // The environment is the process's own, so the question is asked by this same test in a child process.
    if let Some(asked) = std::env::var_os("HOSTEL_TEST_ASK") {
        let info = git().info(Path::new(&asked)).await.unwrap().unwrap();
        assert_eq!(OsStr::new(&text(&info.root)), asked);
        return;
    }
    let (_root, path) = repository();
    let (_other_root, other) = repository();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "workspace_git::variables_of_the_daemon_do_not_redirect_git"])
        .env("HOSTEL_TEST_ASK", &path)
        .env("GIT_DIR", other.join(".git"))
        .env("GIT_WORK_TREE", &other)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && printed.contains("1 passed"), "{printed}");
}

#[tokio::test]
async fn without_git_there_is_no_repository() {
    let (_root, path) = repository();
    let absent = Git::with_program(PathBuf::from("no-such-git-program"), Limits::default());
    assert_eq!(absent.info(&path).await, Ok(None));
    assert_eq!(absent.status(&path).await, Ok(None));
    let error = absent.worktree_remove(&path, Path::new("x"), &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "exec: \"no-such-git-program\": executable file not found in $PATH");
    let unusable = Git::with_program(PathBuf::from("/dev/null"), Limits::default());
    assert!(matches!(unusable.info(&path).await, Err(GitError::Start { errno: 13, .. })));
}
