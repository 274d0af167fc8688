//! Adding and removing worktrees.
//!
//! Adding checks the repository first, so git's own words for "no repository here" never reach a client. Removing
//! leaves the decision to git: what git refuses to remove stays where it is.
//!
//! A worktree is added in three steps: the branch, the worktree without files, the files. `git worktree add` alone would
//! start another git for each. Done one by one the steps that touch branches and files run sealed, so no hook and no
//! filter of the repository runs: files are written as they were committed. The worktree itself has to be added by a git
//! that may start another one, where git is older than 2.46. That step reads no file and no attribute of the repository.
//!
//! Nothing is copied into a new worktree, and no branch is ever deleted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::hardening::Overrides;
use super::run::{Call, Git, GitError, Streams};
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

        let mut printed = format!("Preparing worktree (new branch '{}')\n", wanted.branch).into_bytes();
        let added = match &source {
            Some(source) => self.add(base, wanted, source, &mut printed).await,
            None => self.add_orphan(base, wanted, &mut printed).await,
        };
        match added.map_err(AddWorktreeError::Unfinished)? {
            true => Ok(AddedWorktree { source_branch: source }),
            false => Err(AddWorktreeError::Refused { output: trim_end(&printed).to_vec() }),
        }
    }

    /// Adds a branch and a worktree for it. What git says is appended to `printed`. False when git refused.
    async fn add(
        &self,
        base: &Path,
        wanted: &NewWorktree,
        source: &[u8],
        printed: &mut Vec<u8>,
    ) -> Result<bool, GitError> {
        let branch = OsStr::new(&wanted.branch);
        let arguments = [OsStr::new("branch"), OsStr::new("--"), branch, OsStr::from_bytes(source)];
        if !self.run_without_programs(base, &arguments, printed).await? {
            return Ok(false);
        }
        let arguments = [OsStr::new("--"), wanted.path.as_os_str(), branch];
        Ok(self.add_without_files(base, &arguments, printed).await?
            && self.write_files(base, &wanted.path, printed).await?)
    }

    /// Runs `git worktree add --no-checkout arguments…`.
    async fn add_without_files(
        &self,
        base: &Path,
        arguments: &[&OsStr],
        printed: &mut Vec<u8>,
    ) -> Result<bool, GitError> {
        let starts_git = !self.program().await?.adds_worktrees_alone();
        let overrides = match starts_git {
            true => self.without_named_programs(base).await?,
            false => Overrides::default(),
        };
        let command = ["worktree", "add", "--quiet", "--no-checkout"].map(OsStr::new);
        let call = Call::new(base, &[&command, arguments].concat(), Streams::Everything);
        self.carried_out(&Call { starts_git, overrides: &overrides, ..call }, printed).await
    }

    /// Writes the files of a new worktree. One that cannot be filled is removed again, as git itself does.
    async fn write_files(&self, base: &Path, path: &Path, printed: &mut Vec<u8>) -> Result<bool, GitError> {
        let Ok(path) = std::path::absolute(base.join(path)) else { return Ok(false) };
        // Named, so that no setting of the repository sends the files to another directory.
        let repository = OsString::from_iter([OsStr::new("--git-dir="), path.join(".git").as_os_str()]);
        let tree = OsString::from_iter([OsStr::new("--work-tree="), path.as_os_str()]);
        let reset = ["reset", "--quiet", "--hard", "--no-recurse-submodules"].map(OsStr::new);
        let arguments = [&[&*repository, &*tree], &reset[..]].concat();
        let written = self.run_without_programs(&path, &arguments, printed).await;
        if !matches!(written, Ok(true)) {
            self.worktree_remove(base, &path, &[]).await?;
        }
        written
    }

    /// Runs a command that would use filters or hooks if the repository had any.
    async fn run_without_programs(
        &self,
        directory: &Path,
        arguments: &[&OsStr],
        printed: &mut Vec<u8>,
    ) -> Result<bool, GitError> {
        let mut call = Call::new(directory, arguments, Streams::Everything);
        let before = printed.len();
        let is_sealed = self.program().await?.sealable.is_some();
        if is_sealed && self.carried_out(&call, printed).await? {
            return Ok(true);
        }
        let overrides = self.without_named_programs(directory).await?;
        if is_sealed && overrides.is_empty() {
            return Ok(false);
        }
        // A filter that is required, or a hook that is asked first, may be why git refused: it could not be run.
        printed.truncate(before);
        call.overrides = &overrides;
        self.carried_out(&call, printed).await
    }

    async fn carried_out(&self, call: &Call<'_>, printed: &mut Vec<u8>) -> Result<bool, GitError> {
        let output = self.carry_out(call).await?;
        printed.extend_from_slice(&output.text);
        Ok(output.status.success())
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

    /// Adds a worktree with a branch that has no commit, also with a git too old to know such worktrees.
    ///
    /// Only in a repository without any branch: there is nothing else the new branch could start from. Git needs
    /// some commit to add a worktree, so it gets an empty one that nothing refers to afterwards. Answers false
    /// when git would not have it.
    async fn add_orphan(&self, base: &Path, wanted: &NewWorktree, printed: &mut Vec<u8>) -> Result<bool, GitError> {
        let branches = self.answer(base, &["for-each-ref", "--count=1", "refs/heads", "refs/remotes"]).await?;
        if branches.is_none_or(|found| !found.is_empty()) {
            // Git says why there is nothing to start from.
            return self.add(base, wanted, b"HEAD", printed).await;
        }
        if self.answer(base, &["check-ref-format", "--branch", &wanted.branch]).await?.is_none() {
            printed.extend_from_slice(format!("fatal: '{}' is not a valid branch name", wanted.branch).as_bytes());
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
        let arguments = [OsStr::new("--detach"), OsStr::new("--"), wanted.path.as_os_str(), commit];
        if !self.add_without_files(base, &arguments, printed).await? {
            return Ok(false);
        }
        let reference = format!("refs/heads/{}", wanted.branch);
        let worktree = base.join(&wanted.path);
        let arguments = ["symbolic-ref", "HEAD", &reference].map(OsStr::new);
        self.run_without_programs(&worktree, &arguments, printed).await
    }
}

/// An absent repository parameter means the daemon's own directory.
fn base_directory(base_repo: &Path) -> &Path {
    if base_repo.as_os_str().is_empty() { Path::new(".") } else { base_repo }
}
