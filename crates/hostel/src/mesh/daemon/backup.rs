//! `daemon backup` and `daemon restore`: this host's identity in a mesh, in a file that a passphrase keeps.
//!
//! Invariant: the file is 0600 and whole, or not there. Nothing is written back before all of the file was read, opened
//! and understood, and nothing while the daemon runs. Passphrase and contents are wiped.

use std::path::Path;
use std::process::ExitCode;

use hostel_mesh::home::backup;
use hostel_mesh::home::backup::BackupFault;
use hostel_mesh::home::backup::Kept;
use hostel_mesh::home::files;
use hostel_wire::Clock;
use hostel_wire::backup as sealed;
use hostel_wire::backup::BackupError;
use hostel_wire::backup::Content;
use hostel_wire::backup::Cost;
use serde_json::json;
use zeroize::Zeroizing;

use crate::inbox::passphrase;
use crate::mesh::Desk;
use crate::mesh::cli;
use crate::mesh::failure::Failure;
use crate::text;

/// The largest file that is read.
const LARGEST: u64 = 128 * 1024 * 1024;

/// `daemon backup`.
pub(super) fn run(desk: &Desk<'_>, arguments: &cli::Backup) -> Result<ExitCode, Failure> {
    let joined = desk.host.joined(desk.mesh.as_deref())?;
    let mesh = joined.slug;
    let out = &arguments.out;
    writable(out)?;
    let question = format!("Passphrase for the backup of `{mesh}`: ");
    let passphrase = passphrase::obtain_for_backup(arguments.passphrase_fd, &question)?;
    let now_ms = Clock::system().now_ms();
    let plain =
        backup::collect(desk.host.places(), &mesh, env!("CARGO_PKG_VERSION"), now_ms).map_err(|error| fault(&error))?;
    let bytes = sealed::seal(Content::Mesh, Cost::default(), passphrase.as_bytes(), &plain).map_err(unreadable(out))?;
    files::write_atomic(out, &bytes, 0o600)
        .map_err(|error| Failure::daemon(1, "io", format!("cannot write `{}`: {error}", out.display())))?;
    if desk.ui.json() {
        desk.ui.data(&json!({"ok": true, "mesh": mesh, "path": out, "bytes": bytes.len()}))?;
        return Ok(ExitCode::SUCCESS);
    }
    desk.ui.line(&format!("backup of `{mesh}`: {} ({})", out.display(), text::size(bytes.len() as u64)))?;
    desk.ui.note("it holds this host's keys: without the passphrase nobody can use it, you neither");
    Ok(ExitCode::SUCCESS)
}

/// Whether there is a place for the file, before somebody types a passphrase for it.
fn writable(out: &Path) -> Result<(), Failure> {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let problem = match out.is_dir() {
        true => "it is a directory".to_owned(),
        false if !parent.is_dir() => format!("there is no directory `{}`", parent.display()),
        false => return Ok(()),
    };
    Err(Failure::daemon(1, "io", format!("cannot write `{}`: {problem}", out.display()))
        .hint("name a file in a directory that is there with `--out PATH`"))
}

/// `daemon restore`.
pub(super) fn restore(desk: &Desk<'_>, arguments: &cli::Restore) -> Result<ExitCode, Failure> {
    let path = &arguments.source.input;
    let problem =
        |error: &dyn std::fmt::Display| Failure::daemon(1, "io", format!("cannot read `{}`: {error}", path.display()));
    let Some(bytes) = files::read_bounded(path, LARGEST).map_err(|error| problem(&error))? else {
        return Err(problem(&"there is no such file"));
    };
    let kept = open(desk, &bytes, arguments)?;
    let restored =
        kept.restore(desk.host.places(), arguments.force, Clock::system().now_ms()).map_err(|error| fault(&error))?;
    let membership = kept.membership();
    let mesh = &membership.slug;
    if desk.ui.json() {
        desk.ui.data(&json!({
            "ok": true, "mesh": mesh, "meshId": membership.mesh_id, "memberId": membership.member_id,
            "pubkey": membership.key.public().hex(), "made_at": kept.made_at(), "set_aside": restored.set_aside,
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let as_of = kept.made_at().map_or_else(String::new, |time| format!(", as of {}", text::printable(time)));
    desk.ui.line(&format!(
        "this host is {} in `{mesh}` again{as_of}",
        text::printable(membership.display_name.as_deref().unwrap_or(mesh)),
    ))?;
    for path in restored.set_aside {
        desk.ui.note(&format!("what was here is kept as `{}`", path.display()));
    }
    desk.ui.note(&format!("start it with `{} daemon up --mesh {mesh}`", desk.called));
    desk.ui.note("another machine that still uses this identity has to stop: the mesh takes one of them at a time");
    Ok(ExitCode::SUCCESS)
}

/// Asks for the passphrase of a file and opens it, whichever program made it.
fn open(desk: &Desk<'_>, bytes: &[u8], arguments: &cli::Restore) -> Result<Kept, Failure> {
    let (path, earlier) = (&arguments.source.input, sealed::is_earlier(bytes));
    // What is no backup is said before anybody types a passphrase for it.
    if !earlier {
        sealed::Header::expect(bytes, Content::Mesh).map_err(unreadable(path))?;
    }
    let passphrase = passphrase::obtain(arguments.source.passphrase_fd, "Passphrase of the backup: ")?;
    let plain: Zeroizing<Vec<u8>> = match earlier {
        true => sealed::open_earlier(passphrase.as_bytes(), bytes),
        false => sealed::open(Content::Mesh, passphrase.as_bytes(), bytes),
    }
    .map_err(unreadable(path))?;
    let kept = match earlier {
        true => Kept::read_earlier(&plain, desk.mesh.as_deref()),
        false => Kept::read(&plain),
    };
    kept.map_err(|error| fault(&error))
}

/// What is wrong with the file itself.
fn unreadable(path: &Path) -> impl FnOnce(BackupError) -> Failure {
    let shown = path.display().to_string();
    move |error| {
        let word = match error {
            BackupError::Passphrase | BackupError::Unopened => "wrong_passphrase",
            BackupError::Damaged(_) => "backup_damaged",
            BackupError::NotOne | BackupError::Earlier(_) => "not_a_backup",
            BackupError::TooNew(_) => "backup_too_new",
            BackupError::Other { .. } => "other_backup",
            _ => "backup",
        };
        let failure = Failure::daemon(1, word, format!("`{shown}`: {error}"));
        match error {
            BackupError::Passphrase => failure.hint("the file is whole; try the passphrase again"),
            BackupError::Damaged(_) => failure.hint("take another copy of it"),
            BackupError::Other { found: Content::House, .. } => {
                failure.hint("restore it with `hostel restore --in PATH`")
            }
            _ => failure,
        }
    }
}

/// What is wrong with what it holds, or with where it should go.
fn fault(fault: &BackupFault) -> Failure {
    let failure = |word: &str| Failure::daemon(1, word, fault.to_string());
    match fault {
        BackupFault::NotJoined(_) => failure("mesh_not_found").hint("see which are with `claudemesh list`"),
        BackupFault::Running { mesh, .. } => {
            failure("running").hint(format!("stop it with `claudemesh daemon down --mesh {mesh}`"))
        }
        BackupFault::Exists { .. } => {
            failure("exists").hint("`--force` puts the backup in its place; what is here is kept beside it")
        }
        BackupFault::Which(_) => failure("which_mesh").hint("say which one with `--mesh NAME`"),
        BackupFault::TooNew(_) => failure("backup_too_new"),
        BackupFault::Malformed(_) => failure("malformed"),
        _ => failure("io"),
    }
}
