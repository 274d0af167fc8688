//! `fs/list_dir`: for clients that pick a directory on this machine.
//!
//! Invariant: it looks and never changes anything. A directory is listed up to a limit.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Component;
use std::path::Path;

use serde_json::Value;
use serde_json::json;

use super::Params;
use super::code;
use super::visitor::internal;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// Entries of one answer.
const ENTRIES: usize = 10_000;

/// Lists a directory, directories first.
pub(crate) async fn list_dir(params: &Params) -> Outcome {
    let path = params.need("path")?.to_owned();
    let hidden = params.flag("show_hidden")?.unwrap_or(false);
    hostel_tasks::spawn_blocking(move || list(Path::new(&path), hidden)).await.map_err(internal)?
}

fn list(path: &Path, hidden: bool) -> Outcome {
    if path.is_relative() || path.components().any(|part| part == Component::ParentDir) {
        let message = format!("`{}` is not an absolute path without `..`", path.display());
        return Err(Failure::new(code::FS_BAD_PATH, message));
    }
    let failed = |error: io::Error| {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => code::FS_DENIED,
            _ => code::FS_NOT_FOUND,
        };
        Failure::new(code, format!("cannot list `{}`: {error}", path.display()))
    };
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_hidden = name.starts_with('.');
        if is_hidden && !hidden {
            continue;
        }
        // What a link leads to counts; one that leads nowhere is shown as it is.
        let about = std::fs::metadata(entry.path()).or_else(|_| entry.metadata());
        let Ok(about) = about else { continue };
        let shown = json!({
            "name": name,
            "is_dir": about.is_dir(),
            "size": about.len(),
            "is_hidden": is_hidden,
            "full_path": entry.path().display().to_string(),
            "mtime": u64::try_from(about.mtime()).ok(),
        });
        entries.push((!about.is_dir(), name.to_lowercase(), shown));
        if entries.len() >= ENTRIES {
            break;
        }
    }
    entries.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    let entries: Vec<Value> = entries.into_iter().map(|(_, _, shown)| shown).collect();
    Ok(json!({"entries": entries, "cwd": path.display().to_string()}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_first_and_hidden_ones_on_request() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "abc").unwrap();
        std::fs::create_dir(dir.path().join("Z")).unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        let names = |hidden| {
            let listed = list(dir.path(), hidden).unwrap();
            let entries = listed["entries"].as_array().unwrap().clone();
            entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["Z", "a.txt"]);
        assert_eq!(names(true), [".git", "Z", "a.txt"]);
        let listed = list(dir.path(), false).unwrap();
        assert_eq!((&listed["entries"][1]["size"], &listed["entries"][0]["is_dir"]), (&json!(3), &json!(true)));
    }

    #[test]
    fn the_contracts_codes() {
        let code = |path: &str| list(Path::new(path), false).unwrap_err().code;
        assert_eq!(code("relative"), code::FS_BAD_PATH);
        assert_eq!(code("/tmp/../etc"), code::FS_BAD_PATH);
        assert_eq!(code("/nonexistent"), code::FS_NOT_FOUND);
        assert_eq!(code("/etc/hostname"), code::FS_NOT_FOUND);
    }
}
