//! A real systemd: a manager of a user with control groups, mounts and a runtime directory of its own.
//!
//! Everything is below one directory, outside of `/tmp`: services with a `/tmp` of their own must see it. A process that
//! does nothing but wait holds the mounts open, and ends everything in the control group when its standard input ends:
//! when the test is over, however it is over.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::sandbox::TEST_ID;
use crate::{binary, house, skip, wait};

/// Where Debian and others have it.
const MANAGERS: [&str; 2] = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];

/// Goes into a control group and starts the manager where that group is the root of all.
const OUTER: &str = r#"echo $$ >"$1/cgroup.procs" && shift && exec unshare --mount --cgroup sh -c "$@""#;
const INNER: &str = r#"
mount --make-rprivate / && umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup || exit 1
mount -t tmpfs none /run && mkdir -p /run/systemd/system || exit 1
"$1" --user >"$2" 2>&1 &
cat >/dev/null
echo 1 >/sys/fs/cgroup/cgroup.kill
"#;

/// A manager that runs.
#[derive(Debug)]
pub struct Systemd {
    child: Child,
    group: PathBuf,
    root: TempDir,
}

impl Systemd {
    /// A manager below a directory. None where none can be run; then the reason is printed.
    ///
    /// # Panics
    /// If a file cannot be written.
    pub fn start(below: &Path) -> Option<Self> {
        let Some(manager) = MANAGERS.into_iter().find(|path| Path::new(path).exists()) else {
            return skipped("there is no systemd");
        };
        if !rustix::process::geteuid().is_root() {
            return skipped("control groups of its own need root");
        }
        // Services have a /tmp of their own and would not see what is there.
        let is_hidden = ["/tmp", "/var/tmp"].iter().any(|hidden| below.starts_with(hidden));
        let below = if is_hidden { Path::new("/dev/shm") } else { below };
        let root = tempfile::Builder::new().prefix("sd-").tempdir_in(below).expect("a temporary directory");
        for name in ["home", "run", "config", "bin"] {
            fs::create_dir(root.path().join(name)).expect("a fresh directory");
        }
        // A service with a /tmp of its own would not find it there.
        let program = root.path().join("bin/hostel");
        if fs::hard_link(binary::hostel(), &program).is_err() {
            fs::copy(binary::hostel(), &program).expect("the program can be copied");
        }
        let group = match own_group() {
            Some(own) => own.join(root.path().file_name().expect("it has a name")),
            None => return skipped("there are no control groups of version 2"),
        };
        if let Err(error) = fs::create_dir(&group) {
            return skipped(&format!("a control group cannot be made: {error}"));
        }
        let mut command = Command::new("sh");
        command.args(["-c", OUTER, "sh"]).arg(&group).args([INNER, "sh", manager]).arg(root.path().join("systemd.out"));
        set_environment(&mut command, root.path());
        command.env("SYSTEMD_LOG_TARGET", "console");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("sh can be started");
        let mut systemd = Self { child, group, root };
        let answers = wait::attempt(wait::LIMIT, || {
            if systemd.child.try_wait().expect("a child can be waited for").is_some() {
                return Some(false);
            }
            let said = systemd.systemctl(&["is-system-running"]);
            ["running", "degraded"].contains(&text(&said).trim()).then_some(true)
        });
        match answers {
            Some(true) => Some(systemd),
            Some(false) => skipped("namespaces are not allowed here"),
            None => {
                let said = fs::read_to_string(systemd.path().join("systemd.out")).unwrap_or_default();
                skipped(&format!("systemd does not come up here: {}", said.trim_end()))
            }
        }
    }

    /// The directory everything lies in.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Where the user's units are.
    pub fn units(&self) -> PathBuf {
        self.path().join("config/systemd/user")
    }

    /// Has a unit come back sooner than it would.
    ///
    /// # Panics
    /// If that cannot be written.
    pub fn hasten(&self, unit: &str) {
        let place = self.units().join(format!("{unit}.d"));
        fs::create_dir_all(&place).expect("a directory");
        fs::write(place.join("soon.conf"), "[Service]\nRestartSec=100ms\n").expect("a file");
    }

    /// Runs something as a user of it would.
    pub fn run(&self, program: &str, words: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.child.id().to_string(), "--mount", "--cgroup", "--", program]).args(words);
        set_environment(&mut command, self.path());
        command.current_dir(self.path()).stdin(Stdio::null());
        house::run(command)
    }

    /// `systemctl --user`.
    pub fn systemctl(&self, words: &[&str]) -> Output {
        self.run("systemctl", &[&["--user"], words].concat())
    }

    /// What it prints, of a command of ours that must work.
    ///
    /// # Panics
    /// If it fails.
    pub fn hostel(&self, words: &[&str]) -> String {
        let output = self.try_hostel(words);
        assert!(output.status.success(), "hostel {words:?}: {output:?}\n{}", self.said());
        text(&output)
    }

    /// A command of ours.
    ///
    /// # Panics
    /// If its path is no text.
    pub fn try_hostel(&self, words: &[&str]) -> Output {
        self.run(self.path().join("bin/hostel").to_str().expect("a path of text"), words)
    }

    /// The process of a unit; none while there is none.
    pub fn main_pid(&self, unit: &str) -> Option<i32> {
        let said = text(&self.systemctl(&["show", "--property=MainPID", "--value", unit]));
        said.trim().parse().ok().filter(|pid| *pid > 0)
    }

    /// What the manager has said.
    pub fn said(&self) -> String {
        fs::read_to_string(self.path().join("systemd.out")).unwrap_or_default()
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        // Its end is the end of everything in the group.
        drop(self.child.stdin.take());
        fs::write(self.group.join("cgroup.kill"), "1").ok();
        self.child.wait().ok();
        wait::attempt(wait::LIMIT, || remove(&self.group).then_some(()));
    }
}

/// Removes a control group and those below it; false while somebody is still in one.
fn remove(group: &Path) -> bool {
    let below = fs::read_dir(group).into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
    for entry in below {
        remove(&entry.path());
    }
    fs::remove_dir(group).is_ok() || !group.exists()
}

/// The control group of version 2 that we are in.
fn own_group() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let place = mounts.find(|words| words.get(2) == Some(&"cgroup2"))?.get(1).copied().map(PathBuf::from)?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    Some(place.join(own))
}

fn set_environment(command: &mut Command, root: &Path) {
    let own = std::env::var("PATH").unwrap_or_default();
    command.env_clear().env("PATH", format!("{own}:/usr/sbin:/usr/bin:/sbin:/bin")).env("LC_ALL", "C");
    command.env("HOME", root.join("home")).env("HOSTEL_HOME", root.join("house")).env("SHELL", "/bin/sh");
    command.env("XDG_RUNTIME_DIR", root.join("run")).env("XDG_CONFIG_HOME", root.join("config"));
    if let Some(mark) = std::env::var_os(TEST_ID) {
        command.env(TEST_ID, mark);
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn skipped<T>(reason: &str) -> Option<T> {
    skip(reason);
    None
}
