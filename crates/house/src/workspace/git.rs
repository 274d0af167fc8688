//! Questions to git, asked of the `git` program itself: info, status, branches, worktrees.
//!
//! Only git's answer stream is parsed, never its warnings. "No repository" is an answer of git (or of a machine
//! without git) and never the consequence of a run that was cut short: that is an error.
//!
//! Output stays as bytes, because names in a repository need not be text. Nothing here talks to a network, and nothing
//! here runs a program that a repository names (`hardening`).

mod hardening;
mod porcelain;
mod program;
mod run;
mod slug;
mod status;
mod worktree;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use run::Streams;
pub use run::{Git, GitError, Limits};
pub use slug::repo_slug;
pub use worktree::{AddWorktreeError, AddedWorktree, NewWorktree, RemovedWorktree};

const ORIGIN_PREFIX: &[u8] = b"refs/remotes/origin/";

/// What `info` tells about a repository with a working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The last component of the root.
    pub repo: Vec<u8>,
    /// The current branch, or `detached:` and a short commit name.
    pub branch: Vec<u8>,
    /// The absolute path of the working tree's top.
    pub root: Vec<u8>,
    /// `owner/repo` of the remote `origin`; empty when unknown.
    pub repo_slug: String,
    /// The branch the remote `origin` points to; empty when unknown.
    pub default_branch: Vec<u8>,
}

/// Where a repository's working tree stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The current branch; none when a commit was checked out by itself.
    pub branch: Option<Vec<u8>>,
    /// The short name of the current commit; none before the first.
    pub commit: Option<Vec<u8>>,
}

impl Git {
    /// Branch and commit of the working tree around `path`; `None` when there is none.
    pub async fn head(&self, path: &Path) -> Result<Option<Head>, GitError> {
        if self.work_tree_root(path).await?.is_none() {
            return Ok(None);
        }
        let (branch, commit) = tokio::try_join!(self.branch(path), self.commit(path))?;
        Ok(Some(Head { branch, commit }))
    }

    /// Describes the repository around `path`; `None` when there is none with a working tree.
    pub async fn info(&self, path: &Path) -> Result<Option<Info>, GitError> {
        let Some(root) = self.work_tree_root(path).await? else {
            return Ok(None);
        };
        let (branch, address, default) = tokio::try_join!(
            self.current_branch(path),
            self.answer(path, &["config", "--get", "remote.origin.url"]),
            self.answer(path, &["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"]),
        )?;
        let repo = Path::new(OsStr::from_bytes(&root)).file_name().map_or(&root[..], OsStr::as_bytes).to_vec();
        let repo_slug = address.and_then(|address| repo_slug(&String::from_utf8_lossy(&address))).unwrap_or_default();
        let default = default.unwrap_or_default();
        let default_branch = default.strip_prefix(ORIGIN_PREFIX).unwrap_or(&default).to_vec();
        Ok(Some(Info { repo, branch, root, repo_slug, default_branch }))
    }

    /// The changed files in git's short format, one line each; `None` outside a repository.
    ///
    /// The whole output is freed of blanks at both ends before it is cut into lines, so the first line (and only
    /// that) loses a leading blank. A repository without a working tree is an error of git.
    pub async fn status(&self, path: &Path) -> Result<Option<Vec<Vec<u8>>>, GitError> {
        if !self.is_repository(path).await? {
            return Ok(None);
        }
        let output = self.porcelain(path, true).await?;
        Ok(Some(lines(output.trim_ascii())))
    }

    /// The local branches, sorted by their bytes; `None` outside a repository.
    pub async fn list_branches(&self, path: &Path) -> Result<Option<Vec<Vec<u8>>>, GitError> {
        if !self.is_repository(path).await? {
            return Ok(None);
        }
        let arguments = ["for-each-ref", "--format=%(refname:short)", "refs/heads"];
        let output = self.run(path, &arguments, Streams::Answer).await?.success()?;
        let mut branches = lines(output.trim_ascii());
        branches.sort_unstable();
        Ok(Some(branches))
    }

    /// The top of the working tree `path` is in; `None` outside, in a bare repository, and within `.git`.
    async fn work_tree_root(&self, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        let answer = self.answer(path, &["rev-parse", "--is-inside-work-tree", "--show-toplevel"]).await?;
        Ok(answer.and_then(|answer| answer.strip_prefix(b"true\n").map(<[u8]>::to_vec)))
    }

    async fn is_repository(&self, path: &Path) -> Result<bool, GitError> {
        Ok(self.answer(path, &["rev-parse", "--git-dir"]).await?.is_some())
    }

    async fn current_branch(&self, path: &Path) -> Result<Vec<u8>, GitError> {
        if let Some(branch) = self.branch(path).await? {
            return Ok(branch);
        }
        let commit = self.commit(path).await?.unwrap_or_default();
        Ok([b"detached:", &commit[..]].concat())
    }

    async fn branch(&self, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        self.answer(path, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await
    }

    async fn commit(&self, path: &Path) -> Result<Option<Vec<u8>>, GitError> {
        self.answer(path, &["rev-parse", "--short", "HEAD"]).await
    }

    /// Git's answer without the last line's end; `None` when git says no or is not there to be asked.
    async fn answer<A: AsRef<OsStr>>(&self, path: &Path, arguments: &[A]) -> Result<Option<Vec<u8>>, GitError> {
        match self.run(path, arguments, Streams::Answer).await.and_then(run::Output::success) {
            Ok(text) => Ok(Some(trim_end(&text).to_vec())),
            Err(error) if error.is_verdict() || error.is_not_installed() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    if text.is_empty() {
        return Vec::new();
    }
    text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

fn first_line(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == b'\n').next().unwrap_or(text)
}

fn trim_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b'\n' && *byte != b'\r').map_or(0, |last| last + 1);
    &text[..end]
}
