//! `git.*`: the wire around the workspace's git.
//!
//! Git's output is passed on as bytes; what is not UTF-8 in it is replaced when it is written.

use super::door::Door;
use super::errors::{self, RpcError};
use super::gojson::Object;
use super::params::GitParams;
use super::request::Method;
use hostel_house::workspace::git::{AddWorktreeError, GitError, NewWorktree, RemovedWorktree};
use hostel_house::workspace::paths;

type Outcome = Result<Vec<u8>, RpcError>;

/// Runs a method.
pub(crate) async fn call(door: &Door, method: Method, params: &[u8]) -> Outcome {
    let params = GitParams::decode(params).map_err(|_| RpcError::invalid_params())?;
    match method {
        Method::GitInfo => info(door, &params).await,
        Method::GitStatus => status(door, &params).await,
        Method::GitListBranches => list_branches(door, &params).await,
        Method::GitWorktreeCreate => worktree_create(door, &params).await,
        _ => worktree_remove(door, &params).await,
    }
}

async fn info(door: &Door, params: &GitParams<'_>) -> Outcome {
    let info = door.git.info(&door.path(&params.path)).await.map_err(|error| internal(&error))?;
    let mut out = Vec::new();
    let mut result = Object::open(&mut out);
    result.boolean("isRepo", info.is_some());
    match info {
        Some(info) => result
            .string("repo", info.repo)
            .string("branch", info.branch)
            .string("root", info.root)
            .string("repoSlug", info.repo_slug)
            .string("defaultBranch", info.default_branch),
        None => result.string("repoSlug", "").string("defaultBranch", ""),
    };
    result.close();
    Ok(out)
}

async fn status(door: &Door, params: &GitParams<'_>) -> Outcome {
    let changes = door.git.status(&door.path(&params.path)).await.map_err(|error| internal(&error))?;
    let mut out = Vec::new();
    let mut result = Object::open(&mut out);
    result.boolean("isRepo", changes.is_some()).boolean("clean", changes.as_ref().is_some_and(Vec::is_empty));
    if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
        result.strings("changes", changes);
    }
    result.close();
    Ok(out)
}

async fn list_branches(door: &Door, params: &GitParams<'_>) -> Outcome {
    let branches = door.git.list_branches(&door.path(&params.path)).await.map_err(|error| internal(&error))?;
    let mut out = Vec::new();
    Object::open(&mut out)
        .boolean("isRepo", branches.is_some())
        .strings("branches", branches.unwrap_or_default())
        .close();
    Ok(out)
}

async fn worktree_create(door: &Door, params: &GitParams<'_>) -> Outcome {
    if params.branch_name.is_empty() {
        return Err(RpcError::params("branchName is required"));
    }
    let path = door.path(&params.worktree_path);
    let wanted = NewWorktree {
        base_repo: door.path(&params.base_repo),
        branch: params.branch_name.clone().into_owned(),
        path: path.clone(),
        source_branch: Some(params.source_branch.clone().into_owned()).filter(|branch| !branch.is_empty()),
    };
    let mut out = Vec::new();
    let mut result = Object::open(&mut out);
    match door.git.worktree_create(&wanted).await {
        Ok(added) => result
            .boolean("success", true)
            .nonempty("path", path.as_os_str().as_encoded_bytes())
            .nonempty("sourceBranch", added.source_branch.unwrap_or_default()),
        Err(AddWorktreeError::NotARepository) => {
            result.boolean("success", false).string("error", "not a git repository").string("errorCode", "not_a_repo")
        }
        Err(AddWorktreeError::Refused { output }) => result
            .boolean("success", false)
            .string("error", [b"git worktree add failed: ", &output[..]].concat())
            .string("errorCode", "worktree_add_failed"),
        Err(error) => result
            .boolean("success", false)
            .string("error", error.to_string())
            .string("errorCode", "worktree_add_failed"),
    };
    result.close();
    Ok(out)
}

/// Lenient: what git refuses to remove is not an error. That we would not ask, or that git gave no
/// answer, is said.
async fn worktree_remove(door: &Door, params: &GitParams<'_>) -> Outcome {
    let base = door.path(&params.base_repo);
    let path = door.path(&params.worktree_path);
    let outcome = door.git.worktree_remove(&base, &path, &door.protected).await;
    let error = match outcome {
        Ok(RemovedWorktree::Removed | RemovedWorktree::Refused { .. }) => String::new(),
        Ok(RemovedWorktree::Protected { protected }) => format!(
            "refusing to remove {}: it is or contains {}",
            paths::quoted(path.as_os_str()),
            paths::quoted(protected.as_os_str())
        ),
        Err(error) if error.is_verdict() || error.is_not_installed() => String::new(),
        Err(error) => error.to_string(),
    };
    let mut out = Vec::new();
    Object::open(&mut out).boolean("success", error.is_empty()).nonempty("error", error).close();
    Ok(out)
}

fn internal(error: &GitError) -> RpcError {
    RpcError::worded(errors::INTERNAL, error.to_string())
}
