//! git over ssh, against a real ssh server on loopback.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use hostel_tests::house::path_text;
use hostel_tests::process::{Process, run};
use hostel_tests::{ports, wait};

use super::machine::Machine;
use super::place::text;

/// What the tests need besides git and Python.
const PROGRAMS: [&str; 6] = ["sshd", "ssh", "ssh-keygen", "ssh-agent", "ssh-add", "git"];

/// Clones `@FORGE@`, commits, and pushes to the branch `@BRANCH@`.
const SCRIPT: &str = "
set -e
rm -rf app
git clone -q forge:@FORGE@ app 2>&1
cd app
cat readme
echo more >>readme
git commit -qam more
git push -q origin HEAD:refs/heads/@BRANCH@ 2>&1
git fetch -q origin 2>&1
git rev-parse HEAD
git log --format=%s
";

/// A house that is not up yet, and a server with a repository. The user's key is in `~/.ssh`.
struct Forge {
    machine: Machine,
    server: Process,
}

impl Forge {
    fn new() -> Option<Self> {
        let mut machine = Machine::new("git over ssh")?;
        if !machine.has(&PROGRAMS) {
            return None;
        }
        let user = machine.user();
        let place = &machine.place;
        place.write("sshd/.keep", "");
        place.write("home/.ssh/.keep", "");
        fs::set_permissions(place.path().join("home/.ssh"), Permissions::from_mode(0o700)).unwrap();
        for file in ["sshd/host_key", "home/.ssh/id_ed25519"] {
            let file = place.path().join(file);
            good(machine.command("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", path_text(&file)]));
        }
        let (at, port) = (place.path().display(), ports::own_port());
        let config = place.write(
            "sshd/config",
            &format!(
                "ListenAddress 127.0.0.1:{port}\nHostKey {at}/sshd/host_key\nAuthorizedKeysFile {at}/sshd/authorized_keys\n\
                 PidFile none\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            ),
        );
        let public = |file: &str| fs::read_to_string(place.path().join(file)).unwrap();
        place.write("sshd/authorized_keys", &public("home/.ssh/id_ed25519.pub"));
        place.write("home/.ssh/known_hosts", &format!("[127.0.0.1]:{port} {}", public("sshd/host_key.pub")));
        let mut personal = format!(
            "Host forge\nUser {user}\nUserKnownHostsFile {at}/home/.ssh/known_hosts\nIdentityFile {at}/home/.ssh/id_ed25519\n\
             BatchMode yes\n"
        );
        let general = format!("Host forge\nHostName 127.0.0.1\nPort {port}\n");
        if Machine::is_roots() {
            machine.write_etc("ssh/ssh_config", "Include /etc/ssh/ssh_config.d/*.conf\n");
            machine.write_etc("ssh/ssh_config.d/forge.conf", &general);
        } else {
            // ssh looks for the user's settings in the home that the system knows, not in `HOME`.
            personal += &general;
            let config = machine.place.path().join("home/.ssh/config");
            machine.place.variable("GIT_SSH_COMMAND", &format!("ssh -F {}", config.display()));
        }
        machine.place.write("home/.ssh/config", &personal);
        let mut server = Process::new("sshd", &machine.place.path().join("sshd/log"));
        let sshd = String::from_utf8(run(machine.command("sh", &["-c", "command -v sshd"])).stdout).unwrap();
        server.start(machine.command(sshd.trim(), &["-D", "-e", "-f", path_text(&config)]));
        server.wait_ready(|| TcpStream::connect(("127.0.0.1", port)).is_ok());
        let forge = Forge { machine, server };
        forge.make_repository();
        Some(forge)
    }

    /// Moves the user's key into an ssh agent whose socket is where such sockets are, in `/tmp`.
    fn keep_key_in_agent(&mut self) -> Process {
        let name = format!("ssh-hostel-{}", std::process::id());
        let directory = self.machine.tmp().join(&name);
        fs::create_dir(&directory).unwrap();
        self.machine.place.own(&directory);
        let socket = format!("/tmp/{name}/agent.1");
        let mut agent = Process::new("ssh-agent", &self.machine.place.path().join("sshd/agent"));
        agent.start(self.machine.command("ssh-agent", &["-D", "-a", &socket]));
        wait::socket(&directory.join("agent.1"));
        self.machine.place.variable("SSH_AUTH_SOCK", &socket);
        let key = self.machine.place.path().join("home/.ssh/id_ed25519");
        good(self.machine.command("ssh-add", &["-q", path_text(&key)]));
        fs::remove_file(key).unwrap();
        agent
    }

    fn path(&self) -> String {
        self.machine.place.path().join("forge.git").display().to_string()
    }

    /// One commit in a bare repository.
    fn make_repository(&self) {
        let script = "set -e; git init -q first; cd first; echo hello >readme; git add readme; git commit -qm first; \
                      git clone -q --bare . \"$0\"; cd ..; rm -rf first";
        good(self.machine.command("sh", &["-c", script, &self.path()]));
    }

    fn clone_and_push(&self, agent: &str, branch: &str) -> String {
        let script = SCRIPT.replace("@FORGE@", &self.path()).replace("@BRANCH@", branch);
        self.machine.place.script_of(agent, &script)
    }

    fn branches(&self) -> String {
        let list = ["--git-dir", &self.path(), "for-each-ref", "--format=%(refname:short) %(subject)"];
        good(self.machine.command("git", &list))
    }
}

fn good(command: Command) -> String {
    let shown = format!("{command:?}");
    let output = run(command);
    assert!(output.status.success(), "{shown}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn git_clones_and_pushes_over_ssh_as_without_a_guard() {
    let Some(forge) = Forge::new() else { return };
    if !forge.machine.up() {
        return;
    }
    let bare = forge.clone_and_push("bare", "bare");
    let guarded = forge.clone_and_push("fake", "guarded");
    assert_eq!(guarded, bare, "{}", forge.server.printed());
    assert!(guarded.starts_with("hello\n") && guarded.ends_with("\nmore\nfirst"), "{guarded}");
    assert_eq!(forge.branches(), "bare more\nguarded more\nmaster first\n");
    // The keys of the server are checked as well.
    let known = forge.machine.place.path().join("home/.ssh/known_hosts");
    fs::write(&known, "").unwrap();
    let refused = forge.clone_and_push("fake", "unknown");
    assert!(refused.contains("Host key verification failed."), "{refused}");
}

#[test]
fn git_uses_the_ssh_agent_where_that_was_granted() {
    let Some(mut forge) = Forge::new() else { return };
    let _agent = forge.keep_key_in_agent();
    forge.machine.grant("ssh-agent");
    if !forge.machine.up() {
        return;
    }
    let bare = forge.clone_and_push("bare", "bare");
    assert!(bare.ends_with("\nmore\nfirst"), "{bare}: {}", forge.server.printed());
    assert_eq!(forge.clone_and_push("granted", "granted"), bare, "{}", forge.server.printed());
    let refused = forge.clone_and_push("fake", "guarded");
    assert!(refused.contains("Permission denied (publickey)"), "{refused}");
    assert_eq!(forge.branches(), "bare more\ngranted more\nmaster first\n");
}
