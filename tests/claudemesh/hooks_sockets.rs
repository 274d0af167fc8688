//! What hooks can reach on their own machine: nothing that listens on a unix socket unless they were given a token, whatever
//! they start and however; and what a policy that cannot be enforced comes to.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use hostel_tests::claudemesh::hooks::SPEAKS;
use hostel_tests::claudemesh::{Host, Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

/// Tries every way to a socket of somebody else, by itself and from what it starts.
const TRIES: &str = r#"
import ctypes, platform, struct, subprocess
def attempt(what):
    try:
        what()
        return True
    except OSError:
        return False
def stream(address):
    s = socket.socket(socket.AF_UNIX)
    s.connect(address)
def datagram(address):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"x", address)
def child(words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
libc = ctypes.CDLL(None, use_errno=True)
def ring():
    if libc.syscall(425, 1, ctypes.create_string_buffer(256)) < 0:
        raise OSError(ctypes.get_errno(), "io_uring_setup")
def locks():
    line = [line for line in open("/proc/self/limits") if line.startswith("Max file locks")][0]
    return line.split()[4]
again = "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(" + repr(PATH) + ")\nprint('reached')"
told = {
    "path": attempt(lambda: stream(PATH)),
    "abstract": attempt(lambda: stream("\0" + NAME)),
    "daemon": attempt(lambda: stream(os.environ["CLAUDEMESH_DAEMON_SOCK"])),
    "datagram": attempt(lambda: datagram("\0" + NAME + "-datagram")),
    "child": "reached" in child(["/usr/bin/python3", "-c", again]),
    "session": "reached" in child(["/usr/bin/env", "-i", "/usr/bin/setsid", "/usr/bin/python3", "-c", again]),
    "ring": attempt(ring),
    "pair": attempt(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)),
    "resolved": attempt(lambda: socket.getaddrinfo("localhost", 80)),
    "piped": child(["/bin/sh", "-c", "echo a | cat"]) == "a\n",
    "marked": locks() != "unlimited",
    "marked child": child(["/bin/sh", "-c", "env -i setsid grep 'Max file locks' /proc/self/limits"]).split()[4:5] != ["unlimited"],
}
reply(told)
"#;

fn started(mut lab: Lab) -> Lab {
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    lab
}

/// What the hook for a message has found.
fn told(lab: &Lab, message: &str) -> Value {
    let alice = lab.host("alice").client(Transport::Socket);
    let sent = alice.post("/v1/send", &json!({"to": "bob", "message": message, "client_message_id": message}));
    assert_eq!(sent.status, 202);
    wait::until(wait::LIMIT, "the hook's answer", || {
        let page = alice.get_json("/v1/inbox?mark_seen=false");
        let answer = page["items"].as_array()?.iter().find(|item| item["reply_to_id"] == message)?.clone();
        serde_json::from_str(answer["body"].as_str()?).ok()
    })
}

#[test]
fn without_a_token_no_socket_of_another_is_reached() {
    let lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    let bob = lab.host("bob");
    let path = lab.path().join("listens");
    let _listener = UnixListener::bind(&path).unwrap();
    let name = format!("hostel-test-{}", std::process::id());
    let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let datagrams =
        UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(format!("{name}-datagram")).unwrap()).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let script = format!("{SPEAKS}PATH = {path:?}\nNAME = {name:?}\n{TRIES}");
    let policies = [
        ("all it can have but a token", "[on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n", false),
        ("nothing", "[on-dm]\n", false),
        (
            "a token",
            "[on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\ncapability_token_scope = [\"reply:event\"]\n",
            true,
        ),
    ];
    bob.put_hook("on-dm", &script);
    bob.put_policy(policies[0].1);
    let lab = started(lab);
    for (number, (what, policy, reaches)) in policies.into_iter().enumerate() {
        let bob = lab.host("bob");
        bob.put_policy(policy);
        bob.run(&["daemon", "reload"]);
        let told = told(&lab, &format!("m{number}"));
        for way in ["path", "daemon", "datagram", "child", "session"] {
            assert_eq!(told[way], reaches, "{what}, {way}: {told}");
        }
        // An abstract name is of the network the hook is in.
        assert_eq!(told["abstract"], reaches, "{what}: {told}");
        assert_eq!(told["ring"], false, "{what}: {told}");
        // What has nothing to do with others works.
        for way in ["pair", "piped", "marked", "marked child"] {
            assert_eq!(told[way], true, "{what}, {way}: {told}");
        }
        if number == 0 {
            assert_eq!(told["resolved"], true, "names are resolved without sockets of others: {told}");
            assert!(datagrams.recv(&mut [0; 8]).is_err(), "nothing has come");
        }
    }
    assert_eq!(lab.host("bob").metric("cm_daemon_hook_unenforceable_total", &["on-dm", "sockets"]), 0);
}

#[test]
fn a_list_of_hosts_is_refused_wherever_a_policy_is_read() {
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    let listed = "[on-dm]\n\n[pre-send]\nnetwork_policy = \"allowlist\"\nnetwork_allowlist = [\"example.org:443\"]\n";
    let complaint = "line 4: `pre-send.network_policy` asks for a list of hosts, which nothing here can enforce";
    let bob = lab.host("bob");
    bob.put_hook("on-dm", "#!/bin/sh\necho ran >>runs\n");
    bob.put_hook("pre-send", "#!/bin/sh\n");
    bob.put_policy("[on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n");
    lab = started(lab);
    let said = |output: std::process::Output| {
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    // A reload is refused and changes nothing: the hook that ran still does.
    let bob = lab.host("bob");
    bob.put_policy(listed);
    let (done, text) = said(bob.try_run(&["daemon", "reload"]));
    assert!(!done && text.contains(complaint), "{text}");
    let (done, text) = said(bob.try_run(&["daemon", "hooks", "check"]));
    assert!(!done && text.contains(complaint), "{text}");
    let alice = lab.host("alice").client(Transport::Socket);
    assert_eq!(alice.post("/v1/send", &json!({"to": "bob", "message": "go"})).status, 202);
    wait::until_true(wait::LIMIT, "the hook", || bob.hook_output("runs").lines().count() == 1);
    // A daemon that starts with it runs no hook, and a gate that lies there is shut.
    lab.host_mut("bob").stop();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let refused = lab.host("bob").client(Transport::Socket).post("/v1/send", &json!({"to": "alice", "message": "x"}));
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("blocked_by_pre_send")));
    assert!(refused.text().contains("asks for a list of hosts"), "{}", refused.text());
    assert_eq!(lab.host("bob").hook_output("runs").lines().count(), 1);
}
