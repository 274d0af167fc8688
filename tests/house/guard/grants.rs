//! What a setting lets through: the ssh agent, a socket of the runtime directory; and `sudo`, which asks.

use std::os::unix::net::UnixListener;
use std::process::{Child, Stdio};

use hostel_tests::wait;

use super::place::Place;

/// An agent that keeps keys, in a place as it usually is.
struct SshAgent {
    child: Child,
    directory: std::path::PathBuf,
}

impl SshAgent {
    fn start(place: &mut Place) -> Self {
        let directory = std::path::PathBuf::from(format!("/tmp/ssh-hostel-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        place.own(&directory);
        let socket = directory.join("agent.1");
        let mut command = place.command("ssh-agent");
        command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null());
        let child = command.spawn().expect("ssh-agent runs");
        wait::socket(&socket);
        place.variable("SSH_AUTH_SOCK", socket.to_str().unwrap());
        SshAgent { child, directory }
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        std::fs::remove_dir_all(&self.directory).ok();
    }
}

/// 1: the agent answers that it has no keys. 2: there is no agent.
const ASK_AGENT: &str = "ssh-add -l >/dev/null 2>&1; echo $?";

#[test]
fn the_ssh_agent_is_there_for_agents_that_were_granted_it() {
    let mut place = Place::new();
    let _agent = SshAgent::start(&mut place);
    place.settings("", "grant = [\"ssh-agent\"]");
    place.start();
    if !place.is_full() {
        return;
    }
    assert_eq!(place.script(ASK_AGENT), "1");
    place.good(&["down"]);
    place.settings("", "");
    place.start();
    assert_eq!(place.script(&format!("{ASK_AGENT}; echo ${{SSH_AUTH_SOCK-unset}}")), "2\nunset");
    assert_eq!(place.script_of("bare", ASK_AGENT), "1");
}

#[test]
fn a_socket_is_granted_by_its_path_and_nothing_beside_it() {
    let place = Place::new();
    let runtime = place.path().join("run");
    let [wanted, other] = ["wanted", "other"].map(|name| {
        let socket = runtime.join(format!("{name}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        place.own(&socket);
        (socket, listener)
    });
    place.settings(&format!("grant = [{:?}]", wanted.0), "");
    place.start();
    if !place.is_full() {
        return;
    }
    let told = place.script("ls $XDG_RUNTIME_DIR");
    assert_eq!(told, "sudo-proxy.sock\nwanted.sock");
    let connect = |socket: &std::path::Path| {
        format!(
            "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{}\")' 2>/dev/null && echo yes || echo no",
            socket.display()
        )
    };
    assert_eq!(place.script(&connect(&wanted.0)), "yes");
    assert_eq!(place.script(&connect(&other.0)), "no");
}

#[test]
fn what_cannot_be_granted_or_hidden_is_said_at_the_start() {
    let place = Place::new();
    for (guard, agent, part) in [
        ("grant = [\"dockr\"]", "", "`guard.grant` holds `dockr`"),
        ("hide = [\"relative\"]", "", "`guard.hide` must hold absolute paths"),
        ("setting = \"on\"", "", "on"),
        ("", "grant = [\"../x\"]", "`agents.fake.grant` holds `../x`"),
        ("", "guard = \"yes\"", "yes"),
    ] {
        place.settings(guard, agent);
        let refused = place.hostel(&["up"]);
        let said = super::place::text(&refused);
        assert!(!refused.status.success() && said.contains(part), "{guard}{agent}: {said}");
    }
}

#[test]
fn more_can_be_hidden_and_kept_from_changes() {
    let place = Place::new();
    place.write("home/.aws/credentials", "secret\n");
    place.write("home/.bashrc", "# of the person\n");
    let guard = "hide = [\"~/.aws\"]\nread_only = [\"~/.bashrc\"]";
    place.settings(guard, "");
    place.start();
    if !place.is_full() {
        return;
    }
    let script = "cat ~/.aws/credentials 2>/dev/null; cat ~/.bashrc; (echo evil >>~/.bashrc) 2>/dev/null; rm -f ~/.bashrc 2>/dev/null; \
                  mv ~/.bashrc ~/x 2>/dev/null; ls -A ~/.aws";
    assert_eq!(place.script(script), "# of the person");
    assert_eq!(std::fs::read_to_string(place.path().join("home/.bashrc")).unwrap(), "# of the person\n");
}

/// `sudo` inside a guard becomes a request, and what it runs it runs outside.
#[test]
fn sudo_asks_for_consent() {
    let place = Place::up("", "");
    if !place.is_full() {
        return;
    }
    let mut set = place.command(&place.hostel);
    set.args(["approver", "set", "--passphrase-fd", "0"]).stdin(Stdio::piped());
    let mut child = set.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"correct horse battery\n").unwrap();
    assert!(wait::end_of(&mut child, "approver set").success());
    let script = place.write("work/sudo.sh", "sudo -n -- id -u; echo code $?\n");
    let prompt = format!("tool sh {}", script.display());
    let mut asking = place.command(&place.hostel);
    asking.args(["run", "--agent", "fake", &prompt]).stdout(Stdio::piped()).stderr(Stdio::null());
    let asking = asking.spawn().unwrap();
    let request = wait::eventually("the request", || {
        let pending = place.json(&["approvals", "list"]);
        pending["approvals"].as_array().and_then(|all| all.first().cloned())
    });
    assert!(request.to_string().contains("privileged"), "{request}");
    let id = request["id"].as_str().unwrap();
    let mut deny = place.command(&place.hostel);
    deny.args(["approvals", "deny", id, "--passphrase-fd", "0"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = deny.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"correct horse battery\n").unwrap();
    assert!(wait::end_of(&mut child, "the denial").success());
    let said = asking.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("Request denied.") && said.contains("code 1"), "{said}");
    // What is fed to it cannot be passed on, and is not silently lost.
    let told = place.script("echo 127.0.0.1 x | sudo tee /etc/hosts 2>&1; echo code $?");
    assert!(told.contains("standard input") && told.ends_with("code 1"), "{told}");
}
