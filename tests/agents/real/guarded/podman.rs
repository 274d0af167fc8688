//! Rootless podman, which needs programs that become root: the guard does not allow those.

use hostel_tests::process::{Process, run};
use hostel_tests::{procfs, wait};
use rustix::process::Signal;

use super::machine::Machine;
use super::place::text;

/// The programs of the packages `podman` and `uidmap`.
const PROGRAMS: [&str; 3] = ["podman", "newuidmap", "newgidmap"];

/// Makes the namespace in which podman has all its containers, and shows who the user is in it. Then ends the process
/// that podman leaves to keep the namespace.
const NAMESPACE: &str = "
podman unshare id -u 2>&1 || echo podman failed
podman system migrate >/dev/null 2>&1
";

/// A user namespace with the user's further ids, by the programs of the system alone.
const MAPPED: &str = "unshare --user --map-users=auto --map-root-user id -u 2>&1";

/// A house that is not up yet, of a user who has further user ids for containers.
fn machine() -> Option<Machine> {
    let mut machine = Machine::new("rootless podman")?;
    if !machine.has(&PROGRAMS) {
        return None;
    }
    let name = machine.user();
    if Machine::is_roots() {
        for file in ["subuid", "subgid"] {
            machine.extend(file, &format!("{name}:500000:65536"));
        }
    }
    let outside = run(machine.command("sh", &["-c", NAMESPACE]));
    if text(&outside).lines().last() != Some("0") {
        let said = text(&outside).trim().replace('\n', "; ");
        hostel_tests::skip(&format!("rootless podman does not work on this machine: {said}"));
        return None;
    }
    Some(machine)
}

#[test]
fn rootless_podman_fails_in_a_guard_and_not_without() {
    let Some(machine) = machine() else { return };
    machine.grant("user-namespaces");
    if !machine.up() {
        return;
    }
    let place = &machine.place;
    let bare = place.script_of("bare", NAMESPACE);
    assert_eq!(bare.lines().last(), Some("0"), "{bare}");
    for agent in ["fake", "granted"] {
        let guarded = place.script_of(agent, NAMESPACE);
        assert!(guarded.ends_with("podman failed"), "{agent}: {guarded}");
    }
    // What podman says depends on its version, so others are asked for the reason: user namespaces are refused, and where
    // they are not, the program that would give this one its users does not become root.
    assert_eq!(place.script_of("bare", MAPPED), "0");
    let refused = place.script_of("fake", "unshare --user id -u 2>&1");
    assert!(refused.starts_with("unshare: unshare failed: "), "{refused}");
    let unmapped = place.script_of("granted", MAPPED);
    assert_eq!(unmapped, "newuidmap: write to uid_map failed: Operation not permitted");
}

/// `podman system service`: a process that waits for another, which does the work in podman's namespace.
struct Service<'a> {
    machine: &'a Machine,
    process: Process,
}

impl<'a> Service<'a> {
    fn start(machine: &'a Machine) -> Self {
        let mut process = Process::new("podman system service", &machine.place.path().join("podman"));
        process.start(machine.command("podman", &["system", "service", "--time", "0"]));
        Service { machine, process }
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        // The first does not always take the others with it.
        let others = procfs::descendants(self.process.pid().cast_signed());
        self.process.kill();
        for other in others {
            other.signal(Signal::KILL);
            other.wait_gone(wait::LIMIT);
        }
        // Ends the process that keeps the namespace.
        run(self.machine.command("podman", &["system", "migrate"]));
    }
}

/// The service runs outside, and answers an agent that was granted it.
#[test]
fn podmans_service_is_there_for_agents_that_were_granted_it() {
    let Some(machine) = machine() else { return };
    let place = &machine.place;
    machine.grant("podman");
    let socket = place.path().join("run/podman/podman.sock");
    place.write("run/podman/.keep", "");
    let _service = Service::start(&machine);
    wait::socket(&socket);
    if machine.up() {
        let ask = "podman --remote info --format 'rootless {{.Host.Security.Rootless}}' 2>&1";
        assert_eq!(place.script_of("granted", ask), "rootless true");
        let refused = place.script_of("fake", ask);
        assert!(refused.contains("podman.sock: connect: no such file or directory"), "{refused}");
    }
}
