//! Becoming a member: a command or a daemon that is killed on the way is repeated, and goes on where it was.

use std::fs;
use std::process::{Child, Command, Stdio};

use hostel_tests::claudemesh::{Host, Transport};
use hostel_tests::syncpoints::SyncPoints;
use hostel_tests::{binary, house, wait};
use tempfile::TempDir;

use super::field::{QUICK, bodies, insist, message};
use crate::points::has_points;

/// The points of becoming a member, in the order in which one comes to them.
pub(in crate::points) const BEGINNING: &[&str] = &[
    "broker.identity.stored",
    // Before the mesh: once that is stored, the repeated command needs no log.
    "broker.log.created",
    "broker.mesh.stored",
    "broker.session.stored",
    "mesh.key.pending-written",
    "mesh.membership.written",
    "mesh.fingerprint.written",
    "mesh.inbox.history-line",
];

/// A broker without a lab around it.
struct Broker {
    home: TempDir,
    variable: (String, String),
    child: Option<Child>,
}

impl Broker {
    fn launch(&mut self) {
        let mut command = Command::new(binary::hostel());
        command.args(["as", "claudemesh", "broker", "up", "--foreground"]);
        house::set_base_environment(&mut command, self.home.path());
        command.env("HOSTEL_HOME", self.home.path()).env(&self.variable.0, &self.variable.1);
        command.current_dir(self.home.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().expect("the program can be started"));
    }

    /// Starts and waits until it accepts; gives its port, which it keeps.
    fn start(&mut self) -> u16 {
        self.launch();
        wait::until(wait::LIMIT, "the broker to accept", || {
            let text = fs::read_to_string(self.home.path().join("broker/port")).ok()?;
            let port = text.trim().parse::<u16>().ok()?;
            std::net::TcpStream::connect(("127.0.0.1", port)).ok().map(|_| port)
        })
    }

    fn reap(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.reap();
    }
}

fn succeed(command: Command) {
    let output = house::run(command);
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_beginning_is_finished_later() {
    if !has_points() {
        return;
    }
    let root = tempfile::Builder::new().prefix("hostel-beg-").tempdir().expect("a temporary directory");
    let points = SyncPoints::listen(root.path());
    let variable = points.variable();
    let home = tempfile::Builder::new().prefix("hostel-bro-").tempdir().expect("a temporary directory");
    let mut broker = Broker { home, variable: variable.clone(), child: None };
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| Host::new(name, root.path()));
    for host in [&mut alice, &mut bob] {
        host.configure(&format!("{QUICK}[ipc]\ntcp_enabled = true\n"));
        host.set_variable(&variable.0, &variable.1);
    }
    let mut link = String::new();
    for point in BEGINNING {
        points.kill_next(point);
        match *point {
            "broker.identity.stored" => {
                broker.launch();
                points.met();
                broker.reap();
            }
            "broker.mesh.stored" | "broker.log.created" | "broker.session.stored" => {
                points.disarm();
                let port = broker.start();
                points.kill_next(point);
                let url = format!("ws://127.0.0.1:{port}/ws");
                // The session is stored when everything else of a new mesh is, so its mesh is another one. The command
                // below repeats the other creations, which must then give this very mesh and no second one of its name.
                let made = *point == "broker.session.stored";
                let slug = if made { "other" } else { "lab" };
                let mut create = alice.command(&["mesh", "create", slug, "--name", "alice", "--broker", &url]);
                create.env("HOSTEL_HOME", broker.home.path());
                let output = house::run(create);
                points.met();
                assert_eq!(output.status.success(), made, "{point}: the command ended with {}", output.status);
                broker.reap();
            }
            "mesh.key.pending-written" | "mesh.membership.written" => {
                if link.is_empty() {
                    points.disarm();
                    let url = format!("ws://127.0.0.1:{}/ws", broker.start());
                    let mut create = alice.command(&["mesh", "create", "lab", "--name", "alice", "--broker", &url]);
                    create.env("HOSTEL_HOME", broker.home.path());
                    succeed(create);
                    alice.start();
                    alice.wait_connected();
                    link = alice.invite(2);
                    points.kill_next(point);
                }
                let output = house::run(bob.command(&["join", &link, "--name", "bob"]));
                points.met();
                assert!(!output.status.success(), "the command ended well although it was killed");
            }
            _ => {
                if *point == "mesh.fingerprint.written" {
                    points.disarm();
                    succeed(bob.command(&["join", &link, "--name", "bob"]));
                    points.kill_next(point);
                }
                bob.launch(&[]);
                assert_eq!(points.met(), bob.identity(), "another process was at {point}");
                bob.kill();
            }
        }
        points.disarm();
    }
    bob.start();
    bob.wait_connected();
    insist(&alice.client(Transport::Socket), "POST", "/v1/send", &message("hello"));
    let bob = bob.client(Transport::Socket);
    wait::until_true(wait::LIMIT, "the message", || bodies(&bob) == ["hello"]);
}
