use super::super::log::Level;
use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a script in the place of the login shell; gives the answer and the log.
fn asked(script: &str, limit: Duration) -> (Option<OsString>, String) {
    let folder = tempfile::tempdir().unwrap();
    let shell = folder.path().join("shell");
    std::fs::write(&shell, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let memory = Memory::default();
    let log = Log::new(Level::Debug, memory.clone()).unwrap();
    let environment = [(OsString::from("PATH"), OsString::from("/bare")), ("SHELL".into(), shell.clone().into())];
    assert_eq!(choose_shell(&environment), shell);
    let path = extract(&shell, &environment, &[], &Guards::none(), limit, &log);
    log.flush(Duration::from_secs(10));
    let lines = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
    (path, lines.replace(shell.to_str().unwrap(), "SHELL"))
}

/// A shell that does what `-l -i -c WORDS` asks, after `before`.
fn honest(before: &str) -> String {
    format!("{before}\n[ \"$1 $2 $3\" = '-l -i -c' ] && exec /bin/sh -c \"$4\"")
}

fn fifo_in(folder: &Path) -> PathBuf {
    let fifo = folder.join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fifo
}

const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn the_path_of_the_profile_is_found_among_noise() {
    let script = honest("echo welcome; echo oops >&2; export PATH=/profile/bin:/bin");
    let (path, log) = asked(&script, PATIENT);
    assert_eq!(path, Some(OsString::from("/profile/bin:/bin")));
    assert!(log.ends_with("INFO  [shellenv] Extracted shell PATH (17 chars)\n"), "{log}");
}

#[test]
fn a_failing_shell_may_still_have_told() {
    let script = format!("echo {SENTINEL}/told; exit 3");
    let (path, log) = asked(&script, PATIENT);
    assert_eq!(path, Some(OsString::from("/told")));
    assert!(log.contains("[shellenv] Shell command exited with error (may still have PATH): exit status 3\n"), "{log}");
}

#[test]
fn a_shell_that_says_nothing_useful() {
    let noise = "n".repeat(300);
    let (path, log) = asked(&format!("printf {noise}"), PATIENT);
    assert_eq!(path, None);
    let expected = format!(
        "[shellenv] Failed to extract PATH from login shell: PATH sentinel not found in shell output: {}...\n",
        &noise[..200]
    );
    assert!(log.ends_with(&expected), "{log}");
}

#[test]
fn a_shell_that_hangs_is_killed_with_all_it_started_and_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = fifo_in(folder.path());
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let reader = rustix::fs::open(&fifo, flags, rustix::fs::Mode::empty()).unwrap();
    // Both processes keep the other end open: it hangs up when both are gone.
    let fifo_text = fifo.display();
    let script = format!("exec 9>{fifo_text}; echo {SENTINEL}/told; /bin/sleep 1000 & /bin/sleep 1000");
    let (path, log) = asked(&script, Duration::from_millis(500));
    assert_eq!(path, None);
    assert!(
        log.ends_with("[shellenv] Failed to extract PATH from login shell: shell PATH extraction timed out (SHELL)\n"),
        "{log}"
    );
    let mut waited = [PollFd::new(&reader, PollFlags::IN)];
    let limit = rustix::time::Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut waited, Some(&limit)), Ok(1));
    assert!(waited[0].revents().contains(PollFlags::HUP));
}

#[test]
fn a_background_process_of_the_profile_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = fifo_in(folder.path());
    let held = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    // It keeps the shell's output open for as long as we keep the fifo open.
    let fifo_text = fifo.display();
    let (path, log) = asked(&honest(&format!("/bin/cat {fifo_text} &")), PATIENT);
    assert_eq!(path, Some(OsString::from("/bare")), "{log}");
    drop(held);
}

#[tokio::test]
async fn waiting_for_the_answer() {
    assert_eq!(LoginShell::not_asked().path().await, None);
    let log = Log::new(Level::Error, io::sink()).unwrap();
    let environment = vec![("SHELL".into(), "/bin/sh".into()), ("PATH".into(), "/some:/bin".into())];
    let shell = LoginShell::ask(environment, Vec::new(), Arc::new(Guards::none()), log);
    assert!(shell.path().await.is_some());
    assert!(shell.path().await.is_some());
}

#[test]
fn what_counts_as_the_value() {
    let find = |text: &str| path_in(text.as_bytes()).map(|path| path.into_string().unwrap());
    assert_eq!(find(&format!("a\nb {SENTINEL} /x:/y \r\nrest")), Some("/x:/y".to_owned()));
    assert_eq!(find(&format!("{SENTINEL}\n{SENTINEL}/late")), None);
    assert_eq!(find("nothing"), None);
    assert_eq!(find(""), None);
}
