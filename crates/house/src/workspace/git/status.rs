//! `git status --porcelain` without a program that the repository names, and without a second git.
//!
//! A sealed git answers at once in most repositories. It fails where a filter is required, and where there are submodules,
//! which git would ask by starting itself in each of them. Then the answer is put together: filters and hooks are switched
//! off, git is told to look at the commits of submodules alone, and each submodule is asked in the same way for changes
//! inside.
//!
//! The answer is the one of `git status` in a repository without filters. A file that only a filter makes equal to what
//! was committed counts as changed, unless git has seen it unchanged before.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::hardening::{NAMED_PROGRAMS, Overrides};
use super::porcelain::{self, Quoting};
use super::run::{Call, Git, GitError, Output, Streams};

/// How deep submodules within submodules are asked. Deeper ones count as unchanged.
const MAX_DEPTH: usize = 8;

/// Which changes inside a submodule count (`ignore` of a submodule, `diff.ignoreSubmodules`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ignored {
    Nothing,
    Untracked,
    /// All changes inside, or even new commits: git itself sees to that.
    Inside,
}

impl Ignored {
    fn parse(value: &[u8]) -> Option<Self> {
        match value {
            b"none" => Some(Self::Nothing),
            b"untracked" => Some(Self::Untracked),
            b"dirty" | b"all" => Some(Self::Inside),
            _ => None,
        }
    }
}

/// A submodule that has a repository in the working tree.
struct Submodule {
    path: Vec<u8>,
    ignored: Ignored,
}

impl Git {
    /// What `git status --porcelain` prints; without untracked files if they are not `wanted`.
    pub(super) async fn porcelain(&self, path: &Path, untracked: bool) -> Result<Vec<u8>, GitError> {
        self.porcelain_at(path, untracked, 0).await
    }

    async fn porcelain_at(&self, path: &Path, untracked: bool, depth: usize) -> Result<Vec<u8>, GitError> {
        if self.program().await?.sealable.is_some() {
            let call = Call::new(path, &status_arguments(untracked), Streams::Answer);
            match self.carry_out(&call).await.and_then(Output::success) {
                Err(error) if error.is_verdict() => {}
                outcome => return outcome,
            }
        }
        // The time limit is that of one run; without it many submodules could hold the caller for ever.
        let limit = self.limits.time;
        let parts = Box::pin(self.porcelain_by_parts(path, untracked, depth));
        tokio::time::timeout(limit, parts).await.unwrap_or(Err(GitError::TimedOut { limit }))
    }

    async fn porcelain_by_parts(&self, path: &Path, untracked: bool, depth: usize) -> Result<Vec<u8>, GitError> {
        let root = self.run(path, &["rev-parse", "--show-toplevel"], Streams::Answer).await?.success()?;
        let root = Path::new(OsStr::from_bytes(super::trim_end(&root)));
        let mut overrides = self.without_named_programs(root).await?;
        let submodules = self.submodules(root, &mut overrides).await?;
        let mut arguments = status_arguments(untracked);
        if !submodules.is_empty() {
            arguments.push("-z");
        }
        let call = Call { overrides: &overrides, ..Call::new(root, &arguments, Streams::Answer) };
        let output = self.carry_out(&call).await?.success()?;
        if submodules.is_empty() {
            return Ok(output);
        }
        let shows_untracked = untracked && self.shows_untracked(root).await?;
        let mut changed_inside = BTreeSet::new();
        for Submodule { path, ignored } in submodules {
            if ignored == Ignored::Inside || depth >= MAX_DEPTH {
                continue;
            }
            let directory = root.join(OsStr::from_bytes(&path));
            let untracked = shows_untracked && ignored == Ignored::Nothing;
            if !self.porcelain_at(&directory, untracked, depth + 1).await?.is_empty() {
                changed_inside.insert(path);
            }
        }
        let quoting = match self.answer(root, &["config", "--type=bool", "--get", "core.quotePath"]).await?.as_deref() {
            Some(b"false") => Quoting::Controls,
            _ => Quoting::NonAscii,
        };
        Ok(porcelain::lines(&output, &changed_inside, quoting))
    }

    /// Switches off every filter and hook that the configuration around `path` names.
    pub(super) async fn without_named_programs(&self, path: &Path) -> Result<Overrides, GitError> {
        let arguments = ["config", "--null", "--name-only", "--get-regexp", NAMED_PROGRAMS];
        let names = self.run(path, &arguments, Streams::Answer).await?;
        // Git fails with 1 when there are none.
        match names.success() {
            Ok(names) => Overrides::of_named_programs(&names),
            Err(error) if error.is_verdict() => Ok(Overrides::default()),
            Err(error) => Err(error),
        }
    }

    /// The submodules that have a repository, and the settings by which git looks at their commits alone.
    async fn submodules(&self, root: &Path, overrides: &mut Overrides) -> Result<Vec<Submodule>, GitError> {
        let index = self.run(root, &["ls-files", "--stage", "-z"], Streams::Answer).await?.success()?;
        let paths: Vec<&[u8]> = index
            .split(|byte| *byte == 0)
            .filter_map(|entry| {
                // `MODE OBJECT STAGE<tab>PATH`; a submodule's mode is 160000, stage 0 means that it is not in conflict.
                let (head, path) = entry.split_at_checked(entry.iter().position(|byte| *byte == b'\t')?)?;
                (head.starts_with(b"160000 ") && head.ends_with(b" 0")).then(|| &path[1..])
            })
            .filter(|path| root.join(OsStr::from_bytes(path)).join(".git").exists())
            .collect();
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let default = self.answer(root, &["config", "--get", "diff.ignoreSubmodules"]).await?;
        let default = default.as_deref().and_then(Ignored::parse).unwrap_or(Ignored::Nothing);
        if default != Ignored::Inside {
            overrides.set(b"diff.ignoreSubmodules".to_vec(), "dirty");
        }
        let own = settings(&self.submodule_settings(root, &["config"]).await?);
        let shared = settings(&self.submodule_settings(root, &["config", "--file", ".gitmodules"]).await?);
        let found = paths.into_iter().map(|path| {
            let name = shared.iter().find(|(_, of)| of.get(&b"path"[..]).is_some_and(|known| known == path));
            let ignored = name.and_then(|(name, of)| {
                let own = own.get(name).and_then(|of| of.get(&b"ignore"[..]));
                let ignored = own.or_else(|| of.get(&b"ignore"[..])).and_then(|value| Ignored::parse(value))?;
                if ignored != Ignored::Inside {
                    overrides.set([b"submodule.", &name[..], b".ignore"].concat(), "dirty");
                }
                Some(ignored)
            });
            Submodule { path: path.to_vec(), ignored: ignored.unwrap_or(default) }
        });
        Ok(found.collect())
    }

    async fn submodule_settings(&self, root: &Path, command: &[&str]) -> Result<Vec<u8>, GitError> {
        let which = ["--null", "--get-regexp", r"^submodule\..*\.(path|ignore)$"];
        Ok(self.answer(root, &[command, &which].concat()).await?.unwrap_or_default())
    }

    async fn shows_untracked(&self, root: &Path) -> Result<bool, GitError> {
        let shown = self.answer(root, &["config", "--get", "status.showUntrackedFiles"]).await?;
        Ok(!matches!(shown.as_deref(), Some(b"no" | b"false" | b"off" | b"0")))
    }
}

fn status_arguments(untracked: bool) -> Vec<&'static str> {
    let arguments = ["status", "--porcelain", "--untracked-files=no"];
    arguments[..if untracked { 2 } else { 3 }].to_vec()
}

/// What `git config --null` said of `submodule.NAME.VARIABLE`: name, variable, value.
fn settings(listing: &[u8]) -> BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut settings: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>> = BTreeMap::new();
    for setting in listing.split(|byte| *byte == 0) {
        let Some(end) = setting.iter().position(|byte| *byte == b'\n') else { continue };
        let (key, value) = (&setting[..end], &setting[end + 1..]);
        let Some(rest) = key.strip_prefix(b"submodule.") else { continue };
        let Some(dot) = rest.iter().rposition(|byte| *byte == b'.') else { continue };
        settings.entry(rest[..dot].to_vec()).or_default().insert(rest[dot + 1..].to_vec(), value.to_vec());
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_submodules_are_read_by_name() {
        let read = settings(b"submodule.a.b.path\nsome where\0submodule.a.b.ignore\ndirty\0other.x.path\ny\0\0garbage");
        assert_eq!(read.len(), 1);
        assert_eq!(read[&b"a.b".to_vec()][&b"path".to_vec()], b"some where");
        assert_eq!(read[&b"a.b".to_vec()][&b"ignore".to_vec()], b"dirty");
        assert_eq!(Ignored::parse(b"all"), Some(Ignored::Inside));
        assert_eq!(Ignored::parse(b"nonsense"), None);
    }
}
