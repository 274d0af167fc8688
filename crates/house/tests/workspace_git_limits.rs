//! Git runs that go wrong: too slow, too loud, abandoned, or with noise around the answer.

#![allow(clippy::unwrap_used, reason = "a test that can not prepare its programs has failed")]

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hostel_house::workspace::git::{AddWorktreeError, Git, GitError, Limits, NewWorktree, RemovedWorktree};
use tempfile::TempDir;

use crate::support::{limit, within};

/// A time limit that git is to run into: long enough for its program to have begun by then, on any machine.
const SHORT: Duration = Duration::from_secs(5);

/// A directory with a program that stands in for git, and a pipe that shows whether any of its processes live.
struct Stage {
    root: TempDir,
}

impl Stage {
    fn new(script: &str) -> Self {
        let stage = Self { root: tempfile::tempdir().unwrap() };
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, stage.pipe(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        // Written by another process: were the file open for writing here, a fork in another test's
        // thread could keep it open and the kernel would refuse to run it.
        let mut writer = Command::new("sh")
            .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
            .arg(stage.program())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let text = format!("#!/bin/sh\npipe='{}'\n{script}\n", stage.pipe().display());
        writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(writer.wait().unwrap().success());
        stage
    }

    fn program(&self) -> PathBuf {
        self.root.path().join("git")
    }

    fn pipe(&self) -> PathBuf {
        self.root.path().join("pipe")
    }

    fn git(&self, time: Duration) -> Git {
        Git::with_program(self.program(), Limits { time, output: 1 << 20, concurrent: 1 })
    }

    /// Everything written to the pipe, once the last process that holds it has ended.
    async fn all_ended(&self) -> Vec<u8> {
        let path = self.pipe();
        let read = tokio::task::spawn_blocking(move || {
            let mut content = Vec::new();
            fs::File::open(path).unwrap().read_to_end(&mut content).unwrap();
            content
        });
        within("the end of all processes", read).await.unwrap()
    }
}

/// Holds the pipe in the leader and in a child of the same group, and never ends by itself.
const HANGS: &str = "exec 9>\"$pipe\"\necho up >&9\nsleep 600 &\nsleep 600";

#[tokio::test]
async fn out_of_time_is_an_error_and_ends_the_whole_group() {
    let stage = Stage::new(HANGS);
    let git = stage.git(SHORT);
    let (answer, written) = tokio::join!(git.info(stage.root.path()), stage.all_ended());
    let error = answer.unwrap_err();
    assert_eq!(error, GitError::TimedOut { limit: SHORT });
    assert!(!error.is_verdict());
    assert_eq!(error.to_string(), "git timed out after 5s");
    assert_eq!(written, b"up\n");
}

#[tokio::test]
async fn out_of_time_while_looking_is_not_the_verdict_no_repository() {
    let stage = Stage::new("sleep 600");
    let git = stage.git(Duration::from_millis(200));
    let path = stage.root.path();
    assert!(matches!(git.status(path).await, Err(GitError::TimedOut { .. })));
    assert!(matches!(git.list_branches(path).await, Err(GitError::TimedOut { .. })));
    let wanted =
        NewWorktree { base_repo: path.to_path_buf(), branch: "b".into(), path: path.join("t"), source_branch: None };
    let refused = git.worktree_create(&wanted).await;
    assert_eq!(refused, Err(AddWorktreeError::Git(GitError::TimedOut { limit: Duration::from_millis(200) })));
    assert!(matches!(git.worktree_remove(path, Path::new("t"), &[]).await, Err(GitError::TimedOut { .. })));
}

#[tokio::test]
async fn an_abandoned_run_ends_with_its_caller() {
    let stage = Stage::new(HANGS);
    let git = stage.git(limit());
    let path = stage.root.path().to_path_buf();
    let asking = tokio::spawn(async move { git.info(&path).await });
    let pipe = stage.pipe();
    // Opening waits for the program, so from here on it runs.
    let mut held = tokio::task::spawn_blocking(move || fs::File::open(pipe).unwrap()).await.unwrap();
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    let ended = tokio::task::spawn_blocking(move || held.read_to_end(&mut Vec::new()).unwrap());
    within("its end", ended).await.unwrap();
}

#[tokio::test]
async fn endless_output_is_cut_off() {
    let stage = Stage::new("exec 9>\"$pipe\"\nyes");
    let git = stage.git(limit());
    let (answer, _) = tokio::join!(git.status(stage.root.path()), stage.all_ended());
    assert_eq!(answer, Err(GitError::OutputTooLarge { limit: 1 << 20 }));
}

#[tokio::test]
async fn endless_warnings_are_dropped_and_never_taken_for_an_answer() {
    let loud =
        "head -c 10000000 /dev/zero | tr '\\0' 'w' >&2\ncase \"$*\" in *porcelain*) echo ' M x';; *) echo .git;; esac";
    let stage = Stage::new(loud);
    let changes = stage.git(limit()).status(stage.root.path()).await.unwrap().unwrap();
    assert_eq!(changes, [b"M x".to_vec()]);
}

#[tokio::test]
async fn something_left_in_the_background_does_not_hold_the_answer() {
    let stage = Stage::new("sleep 600 &\necho $! > \"$pipe.child\"\necho done");
    let answer = stage.git(limit()).worktree_remove(stage.root.path(), Path::new("t"), &[]).await;
    let left = fs::read_to_string(stage.root.path().join("pipe.child")).unwrap();
    // It still runs, and holds the output, which is what this test is about.
    assert!(Command::new("kill").args(["-KILL", left.trim()]).status().unwrap().success());
    assert_eq!(answer, Ok(RemovedWorktree::Removed));
}

#[tokio::test]
async fn waiting_for_a_free_place_is_bounded() {
    let stage = Stage::new(HANGS);
    let git = stage.git(SHORT);
    let first = git.clone();
    let path = stage.root.path().to_path_buf();
    let asking = tokio::spawn(async move { first.info(&path).await });
    let pipe = stage.pipe();
    let held = tokio::task::spawn_blocking(move || fs::File::open(pipe).unwrap()).await.unwrap();
    // The only place is taken by a run that lasts as long as it may; the second run started waiting later,
    // so it either gets the place at the last moment and runs out of time itself, or never gets it.
    let second = git.info(stage.root.path()).await.unwrap_err();
    assert!(matches!(second, GitError::Busy { .. } | GitError::TimedOut { .. }), "{second}");
    assert!(asking.await.unwrap().is_err());
    drop(held);
}

#[tokio::test]
async fn git_can_not_ask_and_sees_no_hidden_variable() {
    let script = "exec 9>\"$pipe\"\nenv >&9\nread line && echo \"stdin: $line\" >&9\necho .git";
    let stage = Stage::new(script);
    let git = stage.git(limit()).hiding("PATH_OF_SECRETS").hiding("CARGO_MANIFEST_DIR");
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "set by the test runner");
    let (answer, written) =
        tokio::join!(git.worktree_remove(stage.root.path(), Path::new("t"), &[]), stage.all_ended());
    answer.unwrap();
    let written = String::from_utf8_lossy(&written).into_owned();
    assert!(written.lines().any(|line| line == "GIT_TERMINAL_PROMPT=0"));
    assert!(!written.contains("CARGO_MANIFEST_DIR="), "hidden");
    assert!(!written.contains("stdin: "), "nothing to read from");
}
