//! Adding and removing worktrees.
//!
//! Adding checks the repository first, so git's own words for "no repository here" never reach a client. Removing
//! leaves the decision to git: what git refuses to remove stays where it is.
//!
//! Nothing is copied into a new worktree, and no branch is ever deleted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::run::{Git, GitError, Streams};
use super::{first_line, trim_end};
use crate::workspace::paths;

/// An identity for the placeholder commit below; it never becomes part of a history.
const PLACEHOLDER_IDENTITY: [&str; 4] = ["-c", "user.name=hostel", "-c", "user.email=hostel@localhost"];

/// What to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorktree {
    /// The repository; the daemon's own directory when empty.
    pub base_repo: PathBuf,
    /// The branch to create.
    pub branch: String,
    /// Where the worktree goes; relative paths count from the repository.
    pub path: PathBuf,
    /// The local branch to start from. Anything that is no local branch is ignored.
    pub source_branch: Option<String>,
}

/// An added worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddedWorktree {
    /// What the new branch started from; nothing in a repository without commits.
    pub source_branch: Option<Vec<u8>>,
}

/// Why no worktree was added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddWorktreeError {
    /// The base is no repository with a working tree.
    #[error("not a git repository")]
    NotARepository,
    /// Git refused; its own words.
    #[error("git worktree add failed: {}", OsStr::from_bytes(.output).display())]
    Refused {
        /// Everything git printed, without the last line's end.
        output: Vec<u8>,
    },
    /// Git gave no verdict while adding.
    #[error("git worktree add failed: {0}")]
    Unfinished(#[source] GitError),
    /// Git gave no verdict on the repository.
    #[error(transparent)]
    Git(GitError),
}

/// What became of a worktree that should go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovedWorktree {
    /// Git removed it.
    Removed,
    /// Git refused, and nothing was touched; its own words.
    Refused {
        /// Everything git printed, without the last line's end.
        output: Vec<u8>,
    },
    /// The path is, or contains, a directory that must never be removed; git was not asked.
    Protected {
        /// The directory that would have been lost.
        protected: PathBuf,
    },
}

impl Git {
    /// Adds a worktree on a new branch.
    pub async fn worktree_create(&self, wanted: &NewWorktree) -> Result<AddedWorktree, AddWorktreeError> {
        let base = base_directory(&wanted.base_repo);
        if self.work_tree_root(base).await.map_err(AddWorktreeError::Git)?.is_none() {
            return Err(AddWorktreeError::NotARepository);
        }
        // Git hands the name to `git branch`, which would take `-D` for an order to delete the source.
        if wanted.branch.starts_with('-') {
            let output = format!("fatal: '{}' is not a valid branch name", wanted.branch).into_bytes();
            return Err(AddWorktreeError::Refused { output });
        }
        let source = self.source_of(base, wanted.source_branch.as_deref()).await.map_err(AddWorktreeError::Git)?;

        let branch = OsStr::new(&wanted.branch);
        let mut arguments: Vec<&OsStr> = ["worktree", "add", "-b"].iter().map(OsStr::new).collect();
        arguments.extend([branch, OsStr::new("--"), wanted.path.as_os_str()]);
        if let Some(source) = &source {
            arguments.push(OsStr::from_bytes(source));
        }
        let added = self.run(base, &arguments, Streams::Everything).await.map_err(AddWorktreeError::Unfinished)?;
        if added.status.success() {
            return Ok(AddedWorktree { source_branch: source });
        }
        let refused = AddWorktreeError::Refused { output: trim_end(&added.text).to_vec() };
        if source.is_none() && self.add_orphan(base, wanted).await.map_err(AddWorktreeError::Unfinished)? {
            return Ok(AddedWorktree { source_branch: None });
        }
        Err(refused)
    }

    /// Asks git to remove a worktree. `protected` names directories that may never go this way.
    pub async fn worktree_remove(
        &self,
        base_repo: &Path,
        path: &Path,
        protected: &[PathBuf],
    ) -> Result<RemovedWorktree, GitError> {
        let base = base_directory(base_repo);
        if let Ok(full) = std::path::absolute(base.join(path))
            && let Some(directory) = protected.iter().find(|directory| paths::is_or_contains(&full, directory))
        {
            return Ok(RemovedWorktree::Protected { protected: directory.clone() });
        }
        let arguments = ["worktree", "remove", "--force", "--"].map(OsStr::new);
        let arguments = [&arguments[..], &[path.as_os_str()]].concat();
        let removed = self.run(base, &arguments, Streams::Everything).await?;
        if removed.status.success() {
            return Ok(RemovedWorktree::Removed);
        }
        Ok(RemovedWorktree::Refused { output: trim_end(&removed.text).to_vec() })
    }

    /// The branch to start from: the asked one if it is a local branch, else the current one, `HEAD` when detached,
    /// nothing in a repository whose branch has no commit yet.
    async fn source_of(&self, base: &Path, asked: Option<&str>) -> Result<Option<Vec<u8>>, GitError> {
        if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
            let reference = format!("refs/heads/{asked}");
            if self.answer(base, &["show-ref", "--verify", "--quiet", &reference]).await?.is_some() {
                return Ok(Some(asked.as_bytes().to_vec()));
            }
        }
        self.answer(base, &["rev-parse", "--abbrev-ref", "HEAD"]).await
    }

    /// Adds a worktree with a branch that has no commit, for a git too old to infer that by itself.
    ///
    /// Only in a repository without any branch: there is nothing else the new branch could start from. Git needs
    /// some commit to add a worktree, so it gets an empty one that nothing refers to afterwards. Answers false
    /// when git would not have it.
    async fn add_orphan(&self, base: &Path, wanted: &NewWorktree) -> Result<bool, GitError> {
        let branches = self.answer(base, &["for-each-ref", "--count=1", "refs/heads", "refs/remotes"]).await?;
        if branches.is_none_or(|found| !found.is_empty()) {
            return Ok(false);
        }
        if self.answer(base, &["check-ref-format", "--branch", &wanted.branch]).await?.is_none() {
            return Ok(false);
        }
        let Some(tree) = self.answer(base, &["hash-object", "-w", "-t", "tree", "/dev/null"]).await? else {
            return Ok(false);
        };
        let tree = OsString::from(OsStr::from_bytes(first_line(&tree)));
        let mut arguments: Vec<&OsStr> = PLACEHOLDER_IDENTITY.iter().map(OsStr::new).collect();
        arguments.extend([OsStr::new("commit-tree"), &tree, OsStr::new("-m"), OsStr::new("empty")]);
        let Some(commit) = self.answer(base, &arguments).await? else {
            return Ok(false);
        };
        let commit = OsStr::from_bytes(first_line(&commit));
        let add = ["worktree", "add", "--detach", "--"].map(OsStr::new);
        let add = [&add[..], &[wanted.path.as_os_str(), commit]].concat();
        if self.answer(base, &add).await?.is_none() {
            return Ok(false);
        }
        let reference = format!("refs/heads/{}", wanted.branch);
        let worktree = base.join(&wanted.path);
        Ok(self.answer(&worktree, &["symbolic-ref", "HEAD", &reference]).await?.is_some())
    }
}

/// An absent repository parameter means the daemon's own directory.
fn base_directory(base_repo: &Path) -> &Path {
    if base_repo.as_os_str().is_empty() { Path::new(".") } else { base_repo }
}
