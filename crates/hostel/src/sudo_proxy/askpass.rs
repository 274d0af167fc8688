//! sudo's password, typed at the terminal of `sudo-proxy`.
//!
//! Commands run without a terminal, so sudo is told to ask a helper. The helper is this program under another name; it
//! connects back, and the password is typed where the command was approved.
//!
//! Invariant: only the sudo of a privileged request that was approved gets anything: the asking process must be the
//! direct child of a process the keeper started for such a request, and of our own user, which the command itself,
//! being root, is not. A request is asked about a few times and no more. What became another file while the password was
//! typed gets none. The password is on no disk, in no argument and no log, and memory that held it is wiped.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::claustrum::Log;
use hostel_house::approvals::Approval;
use hostel_house::approvals::Approvals;
use hostel_house::approvals::Kind;
use hostel_house::approvals::State;
use hostel_house::pipelines::Pipelines;
use hostel_house::processes::Processes;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use super::terminal::SecretWanted;
use crate::daemon;
use crate::daemon::sockets::Bound;
use crate::inbox::visible;
use crate::paths::HouseDir;

/// The name of the helper; it lies beside its socket.
pub(crate) const NAME: &str = "hostel-askpass";

/// The name of the socket.
const SOCKET: &str = "askpass.sock";

/// How often sudo may ask for one request: as often as it does by itself.
const TRIES: u8 = 3;

/// Requests that are counted at once.
const COUNTED: usize = 64;

/// Settled requests that are looked through for the one that asks.
const LOOKED_AT: usize = 256;

/// The longest answer.
const ANSWER: u64 = 4096;

/// How long the helper waits: longer than anybody is given to type.
const PATIENCE: Duration = Duration::from_secs(120);

/// What stands before a password.
const GIVEN: u8 = b'+';

/// The helper's whole life: asks whoever made it and prints what it gets.
pub(crate) fn main(called: &OsStr) -> ExitCode {
    daemon::hide_memory();
    let socket = Path::new(called).parent().unwrap_or(Path::new("")).join(SOCKET);
    match ask(&socket) {
        Ok(Some(secret)) => {
            let mut out = io::stdout().lock();
            let written = out.write_all(&secret).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
            if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Ok(None) | Err(_) => ExitCode::FAILURE,
    }
}

fn ask(socket: &Path) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    let dial = hostel_keeper::socket_path::shorten(socket)?;
    let stream = UnixStream::connect(dial.as_ref())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // Never grows: nothing of it stays behind in memory that was given back.
    let mut answer = Zeroizing::new(Vec::with_capacity(usize::try_from(ANSWER).unwrap_or(0) + 1));
    stream.take(ANSWER).read_to_end(&mut answer)?;
    Ok(match answer.split_first() {
        Some((&GIVEN, secret)) => Some(Zeroizing::new(secret.to_vec())),
        _ => None,
    })
}

/// What of a house tells whether somebody who asks may have a password.
pub(super) struct Household {
    pub(super) processes: Processes,
    pub(super) approvals: Approvals,
    pub(super) pipelines: Pipelines,
}

/// The helper and its socket, in the house of the daemon that made them.
pub(super) struct Helper {
    bound: Bound,
    program: PathBuf,
}

impl Helper {
    /// Makes both; none where this program has no file of its own any more.
    pub(super) fn make(dir: &HouseDir) -> io::Result<Option<Self>> {
        let own = std::env::current_exe()?;
        if !own.is_file() {
            return Ok(None);
        }
        let (program, socket) = (dir.run().join(NAME), dir.run().join(SOCKET));
        if std::fs::read_link(&program).ok().as_deref() != Some(&*own) {
            std::fs::remove_file(&program).unwrap_or_default();
            std::os::unix::fs::symlink(&own, &program)?;
        }
        let dial = hostel_keeper::socket_path::shorten(&socket)?;
        Ok(Some(Helper { bound: Bound::replace(&socket, dial.as_ref())?, program }))
    }

    /// What sudo is told to run.
    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    /// Answers helpers for as long as it is polled.
    pub(super) async fn serve(
        self,
        house: Household,
        secrets: mpsc::Sender<SecretWanted>,
        lines: mpsc::Sender<String>,
        log: Log,
    ) {
        let listener = match self.bound.listener() {
            Ok(listener) => listener,
            Err(error) => return log.error(format_args!("[sudo-proxy] nobody can be asked for passwords: {error}")),
        };
        let mut tries: HashMap<String, u8> = HashMap::new();
        loop {
            // One after the other: there is one terminal.
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    log.error(format_args!("[sudo-proxy] cannot accept: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let approval = match asker(&stream, &house.processes, &house.approvals).await {
                Ok(approval) => approval,
                Err(why) => {
                    log.warn(format_args!("[sudo-proxy] somebody wanted a password and got none: {why}"));
                    continue;
                }
            };
            if tries.len() >= COUNTED {
                tries.clear();
            }
            let tried = tries.entry(approval.id.clone()).or_default();
            *tried += 1;
            if *tried > TRIES {
                continue;
            }
            if let Err(what) = answer(stream, &approval, &secrets, &house.pipelines).await {
                log.warn(format_args!("[sudo-proxy] {}: no password for it: {what}", approval.id));
                let what = visible::text(&visible::prose(&what)).replace('\n', " ");
                // A terminal that does not keep up misses it.
                lines.try_send(format!("→ The password was not passed on: {what}\n")).ok();
            }
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.bound.file().unlink();
    }
}

/// Has the password typed and hands it over; says why not, if what was approved is another file by then.
async fn answer(
    mut stream: tokio::net::UnixStream,
    approval: &Approval,
    secrets: &mpsc::Sender<SecretWanted>,
    pipelines: &Pipelines,
) -> Result<(), String> {
    let (answer, mut answered) = oneshot::channel();
    if secrets.send(SecretWanted { text: question(approval), answer }).await.is_err() {
        return Ok(());
    }
    let mut nothing = [0];
    let secret = tokio::select! {
        secret = &mut answered => secret.ok().flatten(),
        // It says nothing, so this is its end.
        _ = stream.read(&mut nothing) => None,
    };
    if let Some(secret) = secret {
        pipelines.look_again(approval).await?;
        let mut line = Zeroizing::new(Vec::with_capacity(secret.len() + 1));
        line.push(GIVEN);
        line.extend_from_slice(&secret);
        // Who is gone does not need it.
        stream.write_all(&line).await.unwrap_or_default();
    }
    Ok(())
}

fn question(approval: &Approval) -> String {
    const COMMAND: usize = 200;
    let command = approval
        .subject
        .pipeline()
        .map(|pipeline| visible::command(pipeline.stages.iter().map(|stage| stage.argv.iter().map(String::as_str))));
    let command = visible::text(&command.unwrap_or_default()).replace('\n', " ");
    format!("\nsudo needs your password for: {}\n", crate::text::cut(&command, COMMAND))
}

/// The request whose sudo is at the other end.
async fn asker(
    stream: &tokio::net::UnixStream,
    processes: &Processes,
    approvals: &Approvals,
) -> Result<Approval, String> {
    let peer = stream.peer_cred().map_err(|error| error.to_string())?;
    if peer.uid() != rustix::process::getuid().as_raw() {
        return Err(format!("user {} is not ours", peer.uid()));
    }
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).ok_or("it has no process")?;
    let parent = parent_of(pid).ok_or("it cannot be looked at")?;
    let process = processes
        .list()
        .into_iter()
        .find(|process| process.pid() == parent && process.status().running)
        .ok_or_else(|| format!("process {pid} was not started by one of ours"))?;
    let recent = approvals.list(LOOKED_AT).await.map_err(|error| error.to_string())?;
    recent
        .into_iter()
        .find(|approval| {
            approval.state == State::Approved
                && approval.kind == Kind::Privileged
                && approval.runs.contains(&process.id())
        })
        .ok_or_else(|| format!("process {pid} belongs to no approved request"))
}

/// The process that started another one.
fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_found() {
        assert_eq!(parent_of(std::process::id()), Some(std::os::unix::process::parent_id()));
        assert_eq!(parent_of(u32::MAX), None);
    }

    #[test]
    fn the_helper_prints_only_what_was_given() {
        let scratch = tempfile::tempdir().unwrap();
        let socket = scratch.path().join(SOCKET);
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            for answer in [&b"+secret"[..], b"", b"secret", b"+"] {
                listener.accept().unwrap().0.write_all(answer).unwrap();
            }
        });
        let asked = || ask(&socket).unwrap().map(|secret| secret.to_vec());
        assert_eq!(asked(), Some(b"secret".to_vec()));
        assert_eq!(asked(), None);
        assert_eq!(asked(), None);
        assert_eq!(asked(), Some(Vec::new()));
        server.join().unwrap();
    }
}
