//! `hostel doctor`: what is wrong with this house or this machine, and what to do about it.
//!
//! Invariant: it looks and changes nothing. A finding is bad only if something does not work; what may become
//! trouble is a warning.

mod agents;
mod consent;
mod guard;
mod hooks;
mod mesh;
mod service;

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::ExitCode;

use hostel_doors::native::client::Client;
use hostel_doors::native::protocol::HouseStatus;
use hostel_doors::native::protocol::ProcessList;
use hostel_doors::native::protocol::State;
use hostel_doors::native::protocol::Usage;
use hostel_guard::OwnPrograms;
use hostel_house::processes::program;
use hostel_house::workspace::git::Git;
use hostel_house::workspace::git::Limits;
use rustix::process::Resource;
use serde::Serialize;
use serde_json::json;

use super::Context;
use crate::config::Settings;
use crate::daemon;
use crate::daemon::lock::DaemonLock;
use crate::error::CommandError;
use crate::paths::HouseDir;
use crate::text;
use crate::ui::Paint;
use crate::ui::Ui;

/// Fewer open files than this make a busy house run into its limits.
const OPEN_FILES: u64 = 4096;

/// Less free space than this will soon hold processes back.
const FREE_SPACE: u64 = 2 << 30;

/// No clock that is right shows less: January 2026.
const RELEASE: u64 = 1_767_225_600;

/// How every SQLite database begins.
const DATABASE_START: &[u8] = b"SQLite format 3\0";

/// File systems on which locks and deleted files behave differently, by their magic numbers.
const REMOTE_FILE_SYSTEMS: [(u64, &str); 5] =
    [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x6573_5546, "FUSE"), (0x0102_1997, "9p")];

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Good,
    Warning,
    Bad,
}

#[derive(Serialize)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn good(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(check, Verdict::Good, text.into(), None);
    }

    fn warn(&mut self, check: &'static str, text: impl Into<String>, hint: impl Into<String>) {
        self.add(check, Verdict::Warning, text.into(), Some(hint.into()));
    }

    fn bad(&mut self, check: &'static str, text: impl Into<String>, hint: impl Into<String>) {
        self.add(check, Verdict::Bad, text.into(), Some(hint.into()));
    }

    fn add(&mut self, check: &'static str, verdict: Verdict, text: String, hint: Option<String>) {
        self.0.push(Finding { check, verdict, text, hint });
    }
}

pub(super) async fn run(context: &Context<'_>) -> Result<ExitCode, CommandError> {
    let mut findings = Findings::default();
    let dir = context.houses.one()?.dir;
    machine(&mut findings);
    let settings = context.settings();
    let programs = settings.as_ref().map(|settings| settings.guard.programs).unwrap_or_default();
    git(programs, &mut findings).await;
    directory(&dir, &mut findings);
    let settings = match settings {
        Ok(settings) => {
            findings.good("configuration", "is in order");
            settings
        }
        Err(error) => {
            findings.bad("configuration", error.to_string(), "correct it, then `hostel config check`");
            Settings::default()
        }
    };
    agents::check(&settings, &mut findings).await?;
    guard::ways_out(&settings, &mut findings);
    guard::own_programs(&settings, &mut findings);
    consent::check(&context.home, &settings, &mut findings);
    journals(&dir, &settings, &mut findings);
    database(&dir, &mut findings);
    match context.houses.one()?.connect().await {
        Ok(mut client) => {
            house(&mut client, &mut findings).await?;
            consent::ask(&mut client, &mut findings).await?;
        }
        Err(_) => {
            absent(&dir, &mut findings);
            guard::try_out(&dir, &settings, &mut findings);
            agents::addresses(&settings, &mut findings);
            consent::addresses(&settings, &mut findings);
        }
    }
    mesh::check(context.ui, &context.home, &mut findings).await;
    service::check(context.ui, &context.home, &mut findings).await;
    report(context.ui, &findings.0)
}

fn machine(findings: &mut Findings) {
    clock(findings);
    if Path::new("/proc/self/stat").exists() {
        findings.good("/proc", "is there");
    } else {
        findings.warn("/proc", "is not there: process trees shrink to process groups", "mount it");
    }
    let files = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    if files < OPEN_FILES {
        findings.warn("open files", format!("at most {files} for one process"), "raise the hard limit (`ulimit -Hn`)");
    } else {
        findings.good("open files", "the limit is high enough");
    }
}

/// Git: whether it is there, and whether it can be kept from running other programs.
async fn git(from: OwnPrograms, findings: &mut Findings) {
    let Some(found) = program::own("git", from, std::env::var_os("PATH").as_deref()) else {
        return findings.warn("git", "is not there: the claustrum door's git methods will fail", "install git");
    };
    if !found.is_protected {
        guard::unprotected("git", &found.file, findings);
    } else if Git::new(Limits::default()).from(from).is_sealed().await {
        findings.good("git", "is there, and only root can change it");
    } else {
        findings.warn(
            "git",
            "starts other programs to do its work, so the kernel cannot keep it from running those of a repository",
            "install the git program itself instead of a script or wrapper",
        );
    }
}

/// The time: signatures, keys and approvals go by it.
fn clock(findings: &mut Findings) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    let program = daemon::own_program().and_then(|program| program.metadata().map_err(Into::into)).ok();
    let built = program.map_or(0, |metadata| u64::try_from(metadata.mtime()).unwrap_or(0));
    if now < RELEASE {
        findings.bad(
            "clock",
            "is years behind",
            "set it (`timedatectl set-ntp true`): brokers refuse it, keys look expired",
        );
    } else if built > now + 86_400 {
        findings.warn("clock", "is behind the file of this program", "set it (`timedatectl set-ntp true`)");
    } else {
        findings.good("clock", "is plausible");
    }
}

fn directory(dir: &HouseDir, findings: &mut Findings) {
    let root = dir.root();
    match root.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            findings.good("directory", format!("{} will be made by `hostel up`", root.display()));
        }
        Err(error) => {
            findings.bad("directory", format!("{}: {error}", root.display()), "choose another one with `--home DIR`");
        }
        Ok(metadata) if metadata.uid() != rustix::process::geteuid().as_raw() => findings.bad(
            "directory",
            format!("{} belongs to user {}", root.display(), metadata.uid()),
            "choose another one with `--home DIR`",
        ),
        Ok(metadata) if metadata.mode() & 0o077 != 0 => findings.bad(
            "directory",
            format!("{} is open to others", root.display()),
            format!("`chmod 700 {}`", root.display()),
        ),
        Ok(_) => findings.good("directory", format!("{} is private", root.display())),
    }
    let longest = dir.claustrum_socket();
    if longest.as_os_str().len() > hostel_keeper::socket_path::LIMIT {
        findings.warn(
            "socket paths",
            format!("{} is too long for a socket address: we reach it, other programs cannot", longest.display()),
            "choose a shorter directory with `--home DIR`, or add a short path to `doors.claustrum.listen`",
        );
    }
}

fn journals(dir: &HouseDir, settings: &Settings, findings: &mut Findings) {
    let journals = daemon::journal_dir(dir, settings);
    if !journals.exists() {
        return;
    }
    match rustix::fs::statfs(&journals) {
        Ok(stat) => {
            let magic = u64::try_from(stat.f_type).unwrap_or(0) & 0xffff_ffff;
            match REMOTE_FILE_SYSTEMS.iter().find(|(known, _)| *known == magic) {
                Some((_, name)) => findings.warn(
                    "journals",
                    format!("{} is on {name}, which may stall", journals.display()),
                    "put them on a local disk with `journal.dir`",
                ),
                None => findings.good("journals", format!("{} is on a local disk", journals.display())),
            }
        }
        Err(error) => findings.bad(
            "journals",
            format!("{}: {error}", journals.display()),
            "choose another place with `journal.dir`",
        ),
    }
}

/// The sessions' file. It is not opened: that would change it.
fn database(dir: &HouseDir, findings: &mut Findings) {
    let path = dir.database();
    let mut start = Vec::new();
    let read = std::fs::File::open(&path)
        .and_then(|file| file.take(DATABASE_START.len() as u64).read_to_end(&mut start).map(drop));
    match read {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => findings.bad("sessions", format!("{}: {error}", path.display()), "see to its permissions"),
        Ok(()) if start.is_empty() || start == DATABASE_START => {
            findings.good("sessions", format!("{} is a database", path.display()));
        }
        Ok(()) => findings.bad(
            "sessions",
            format!("{} is not a database", path.display()),
            "move it away; `hostel up` makes a new one, without the sessions",
        ),
    }
}

/// Nobody answers: is the house merely down?
fn absent(dir: &HouseDir, findings: &mut Findings) {
    let held = |path: &Path| path.exists() && DaemonLock::is_held(path).unwrap_or(false);
    if held(&dir.daemon_lock()) {
        findings.bad(
            "daemon",
            "runs and does not answer",
            format!("end the process named in {}, then `hostel up`", dir.daemon_lock().display()),
        );
    } else if held(&dir.run().join(hostel_keeper::LOCK_NAME)) {
        findings.warn(
            "daemon",
            "is not up, but its keeper still keeps processes",
            "`hostel up` finds them, `hostel down` ends them",
        );
    } else {
        findings.warn("daemon", "is not up", "start it with `hostel up`");
    }
}

async fn house(client: &mut Client, findings: &mut Findings) -> Result<(), CommandError> {
    let ours = env!("CARGO_PKG_VERSION");
    let status: HouseStatus = client.call("house/status", &json!({})).await?;
    if status.version == ours {
        findings.good("daemon", format!("answers, process {}", status.pid));
    } else {
        findings.warn(
            "daemon",
            format!("runs version {}, this is {ours}", status.version),
            "`hostel down --keep && hostel up`",
        );
    }
    if status.keeper.build == ours {
        findings.good("keeper", format!("answers, process {}", status.keeper.pid));
    } else {
        findings.warn(
            "keeper",
            format!("runs build {}, this is {ours}", status.keeper.build),
            "`hostel keeper upgrade`",
        );
    }
    session(status.keeper.pid, findings);
    guard::told(status.guard.as_ref(), findings);
    if status.keeper.cgroup {
        findings.good("cgroups", "each process has a control group of its own");
    } else {
        findings.warn(
            "cgroups",
            "the keeper may not make control groups: what a process started is found by its tag, group and parents",
            "run the house as a service (`hostel service install`), whose unit delegates them",
        );
    }
    for door in &status.doors {
        let note = door.note.as_deref().unwrap_or("");
        if door.open {
            findings.good("door", format!("{} on {}", door.name, door.address));
        } else if note.starts_with("taken") {
            findings.warn(
                "door",
                format!("{} on {}: {note}", door.name, door.address),
                "end the other program, then `hostel down --keep && hostel up`",
            );
        }
    }
    if let Some(stalled) = &status.stalled {
        findings.bad(
            "sessions",
            format!("{} wait because state.db takes nothing: {}", stalled.sessions, stalled.error),
            "make room on the disk; they go on by themselves, and `hostel sessions interrupt` stops them meanwhile",
        );
    }
    let usage: Usage = client.call("journal/usage", &json!({})).await?;
    space(&usage, findings);
    unreadable(&usage, findings);
    let list: ProcessList = client.call("process/list", &json!({})).await?;
    let held = list.processes.iter().filter(|process| process.state == State::Held).count();
    if held > 0 {
        findings.bad(
            "processes",
            format!("{held} wait for room in the journal"),
            "make room with `hostel gc --all`, or raise `journal.quota`",
        );
    } else {
        findings.good("processes", format!("{} running", status.keeper.children));
    }
    Ok(())
}

/// A keeper that belongs to a login session may be ended with it.
fn session(keeper: u32, findings: &mut Findings) {
    let cgroup = std::fs::read_to_string(format!("/proc/{keeper}/cgroup")).unwrap_or_default();
    let inside = cgroup.lines().any(|line| line.contains("/session-") && line.contains(".scope"));
    if inside {
        findings.warn(
            "logout",
            "the keeper belongs to a login session and may be ended at logout",
            "`loginctl enable-linger`, and set KillUserProcesses=no",
        );
    }
}

/// Journals that the daemon could not read.
fn unreadable(usage: &Usage, findings: &mut Findings) {
    for journal in &usage.unreadable {
        let file = Path::new(&usage.dir).join(&journal.file);
        let hint = if journal.set_aside {
            "it was renamed and nothing of it was removed: put a copy back from a backup, start the version that wrote it, or \
             remove it yourself"
        } else {
            "the daemon tries again each minute; see to its permissions and to the disk"
        };
        findings.bad("journal", format!("{} cannot be read: {}", file.display(), journal.reason), hint);
    }
}

fn space(usage: &Usage, findings: &mut Findings) {
    let used = format!("{} of {}", text::size(usage.bytes), text::size(usage.quota_bytes));
    if usage.bytes / 10 >= usage.quota_bytes / 11 {
        findings.warn("space", format!("the journals use {used}"), "`hostel gc`, or raise `journal.quota`");
    } else if usage.free_bytes < FREE_SPACE {
        findings.warn(
            "space",
            format!("{} left on the disk", text::size(usage.free_bytes)),
            "make room, or move the journals with `journal.dir`",
        );
    } else {
        findings.good("space", format!("the journals use {used}"));
    }
}

fn report(ui: &Ui, findings: &[Finding]) -> Result<ExitCode, CommandError> {
    let bad = findings.iter().any(|finding| finding.verdict == Verdict::Bad);
    if ui.json() {
        ui.data(&json!({"ok": !bad, "findings": findings}))?;
    } else {
        for finding in findings {
            let (paint, mark) = match finding.verdict {
                Verdict::Good => (Paint::Green, "ok  "),
                Verdict::Warning => (Paint::Yellow, "warn"),
                Verdict::Bad => (Paint::Red, "bad "),
            };
            let hint = finding.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
            ui.line(&format!(
                "{}  {}: {}{hint}",
                ui.paint(paint, mark),
                finding.check,
                text::printable(&finding.text)
            ))?;
        }
    }
    Ok(if bad { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
