//! What a confined hook of a real daemon cannot do, and what is said where it cannot be kept from it; and what a daemon
//! that is killed owes.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use hostel_tests::claudemesh::hooks::SPEAKS;
use hostel_tests::claudemesh::{Host, Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

fn started(mut lab: Lab) -> Lab {
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    lab
}

/// Sends each a topic's post, and gives what its hook answered.
fn answers(lab: &Lab, topics: &[&str]) -> BTreeMap<String, Value> {
    let alice = lab.host("alice").client(Transport::Socket);
    for topic in topics {
        for host in ["alice", "bob"] {
            let client = lab.host(host).client(Transport::Socket);
            assert_eq!(client.post("/v1/topic/subscribe", &json!({"topic": topic})).status, 200);
        }
        assert_eq!(alice.post("/v1/topic/post", &json!({"topic": topic, "message": "go"})).status, 202);
    }
    wait::until(wait::LIMIT, "every answer", || {
        let page = alice.get_json("/v1/inbox?mark_seen=false");
        let all: BTreeMap<String, Value> = page["items"]
            .as_array()?
            .iter()
            .filter(|item| topics.iter().any(|topic| item["topic"] == *topic))
            .map(|item| {
                let body = item["body"].as_str().unwrap();
                (item["topic"].as_str().unwrap().to_owned(), serde_json::from_str(body).unwrap())
            })
            .collect();
        (all.len() == topics.len()).then_some(all)
    })
}

/// The directory of its own that a hook told of goes with the hook.
fn nothing_is_left_of(told: &Value) {
    let scratch = Path::new(told["directory"].as_str().unwrap());
    wait::until_true(wait::LIMIT, &format!("{} to go", scratch.display()), || !scratch.exists());
}

/// Below bubblewrap there is one place to write to, no network, no `/proc` and no bus, and the daemon's socket for who
/// has a token.
fn wrapped_is_shut(lab: &Lab) {
    let all = answers(lab, &["wrapped", "walled"]);
    for (topic, socket) in [("wrapped", json!(200)), ("walled", json!(null))] {
        let told = &all[topic];
        // Nothing of UDP: bubblewrap's empty network has a loopback of its own, where words go nowhere.
        for what in ["tcp", "beside", "home", "shared", "proc"] {
            assert_eq!(told[what], false, "{topic}, {what}: {told}");
        }
        assert_eq!((&told["scratch"], &told["null"]), (&json!(true), &json!(true)), "{topic}: {told}");
        assert_eq!(told["socket"], socket, "{topic}: {told}");
        nothing_is_left_of(told);
    }
    assert_eq!(all["walled"]["key"], false);
}

#[test]
fn network_and_files_are_what_the_policy_says() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    let bob = lab.host("bob");
    let script = format!(
        "{SPEAKS}
def attempt(what):
    try:
        what()
        return True
    except OSError:
        return False
def write(path):
    open(path, 'w').write('x')
    os.remove(path)
def answered():
    try:
        return call('GET', '/v1/version', None, None)[0]
    except OSError:
        return None
scratch = '/tmp/' + os.environ['CLAUDEMESH_EVENT_ID'] + '-' + os.environ['CLAUDEMESH_HOOK_NAME']
reply({{
    'directory': scratch,
    'tcp': attempt(lambda: socket.create_connection(('127.0.0.1', {port}), 2).close()),
    'udp': attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))),
    'socket': answered(),
    'beside': attempt(lambda: write('beside')),
    'home': attempt(lambda: write(os.environ['HOME'] + '/x')),
    'scratch': attempt(lambda: write(scratch + '/x')),
    'key': attempt(lambda: open('../keypair.json').read()),
    'shared': attempt(lambda: write('/tmp/' + os.path.basename(scratch) + '.x')),
    'proc': os.path.exists('/proc/self') or os.path.exists('/run/dbus'),
    'null': attempt(lambda: open('/dev/null', 'w').write('x')),
}})
"
    );
    bob.put_policy(
        "[on-topic-shut]\n[on-topic-open]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n[on-topic-sandbox]\n\
         fs_policy = \"sandbox\"\n[on-topic-wrapped]\nsandbox = \"bubblewrap\"\ncapability_token_scope = [\"topic:wrapped:post\"]\n\
         [on-topic-walled]\nsandbox = \"bubblewrap\"\nfs_policy = \"sandbox\"\n",
    );
    for topic in ["shut", "open", "sandbox", "wrapped", "walled"] {
        bob.put_hook(&format!("on-topic-{topic}"), &script);
    }
    let lab = started(lab);
    let bob = lab.host("bob");
    let bwrap = Command::new("bwrap").args(["--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "true"]).output();
    let all = answers(&lab, &["shut", "open", "sandbox"]);
    let unenforced = |reason: &str| bob.metric("cm_daemon_hook_unenforceable_total", &["on-topic", reason]);
    // What this machine cannot enforce is counted; what is counted may be missing here.
    let (network, files) = (unenforced("\"network\"") == 0, unenforced("filesystem") == 0);
    for topic in ["shut", "sandbox"] {
        let told = &all[topic];
        assert!(!network || (told["tcp"] == false && told["udp"] == false), "{topic}: {told}");
        assert!(!files || (told["beside"] == false && told["home"] == false), "{topic}: {told}");
        assert_eq!((&told["scratch"], &told["null"]), (&json!(true), &json!(true)), "{topic}: {told}");
        assert_eq!(told["socket"], Value::Null, "without a token no socket is reached");
    }
    assert_eq!((&all["shut"]["key"], &all["sandbox"]["key"]), (&json!(true), &json!(!files)));
    let open = &all["open"];
    for what in ["tcp", "udp", "beside", "home"] {
        assert_eq!(open[what], true, "{what}: {open}");
    }
    assert_eq!(open["socket"], Value::Null, "nor from one that may do everything else");
    nothing_is_left_of(&all["shut"]);
    if let Ok(probe) = bwrap {
        if probe.status.success() {
            wrapped_is_shut(&lab);
        }
        // Else it is there and may not do anything, as in some containers: see below.
        return;
    }
    // A sandbox by name that is not there is a reason not to run.
    let client = bob.client(Transport::Socket);
    client.post("/v1/topic/subscribe", &json!({"topic": "wrapped"}));
    let alice = lab.host("alice").client(Transport::Socket);
    wait::until_true(wait::LIMIT, "alice to know the topic", || {
        alice.post("/v1/topic/post", &json!({"topic": "wrapped", "message": "go"})).status == 202
    });
    wait::until_true(wait::LIMIT, "it to be refused", || {
        bob.logged("hook_refused").iter().any(|line| line["reason"].as_str().unwrap().contains("bubblewrap"))
    });
    assert_eq!(unenforced("\"sandbox\""), 1);
}

#[test]
fn a_sandbox_that_cannot_be_had_keeps_a_hook_from_running() {
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob"]));
    // One that is there and may not do anything, as in some containers.
    let programs = lab.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let bwrap = programs.join("bwrap");
    std::fs::write(&bwrap, "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&bwrap, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let bob = lab.host_mut("bob");
    bob.set_variable("PATH", &format!("{}:/usr/bin:/bin", programs.display()));
    bob.put_policy("[on-dm]\nfs_policy = \"rw\"\nsandbox = \"bubblewrap\"\n[pre-send]\nsandbox = \"bubblewrap\"\n");
    bob.put_hook("on-dm", "#!/bin/sh\necho x >ran\nexit 1\n");
    bob.put_hook("pre-send", "#!/bin/sh\n");
    let lab = started(lab);
    let bob = lab.host("bob");
    let alice = lab.host("alice").client(Transport::Socket);
    assert_eq!(alice.post("/v1/send", &json!({"to": "bob", "message": "go"})).status, 202);
    let run = wait::until(wait::LIMIT, "it not to run", || bob.logged("hook_executed").into_iter().next());
    let reason = run["reason"].as_str().unwrap();
    assert!(reason.contains("bubblewrap cannot start here: bwrap: No permissions"), "{run}");
    assert_eq!((&run["hook"], &run["exit"]), (&json!("on-dm"), &json!(-1)));
    assert_eq!(bob.metric("cm_daemon_hook_unenforceable_total", &["on-dm", "\"sandbox\""]), 1);
    assert_eq!(bob.metric("cm_daemon_hook_invocations_total", &["on-dm", "failed"]), 1);
    assert!(bob.logged("hook_policy_unenforceable").iter().any(|line| line["reason"] == "sandbox"));
    // A gate that cannot be asked is shut.
    let refused = bob.client(Transport::Socket).post("/v1/send", &json!({"to": "alice", "message": "x"}));
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("blocked_by_pre_send")));
    assert!(refused.text().contains("bubblewrap cannot start here"), "{}", refused.text());
    assert!(!bob.hooks().join("ran").exists(), "no hook ran");
}

#[test]
fn a_killed_daemon_misses_no_hook_and_answers_once() {
    let lab =
        Lab::prepare(&Options { config: "[hooks]\nconcurrency = 3\n".to_owned(), ..Options::of(&["alice", "bob"]) });
    let bob = lab.host("bob");
    bob.put_policy("[on-dm]\nnetwork_policy = \"allow\"\nfs_policy = \"rw\"\n");
    // It says something else each time it runs.
    let script = "import time\nopen('runs', 'a').write(event['body'] + '\\n')\ntime.sleep(0.2)\n\
         print(json.dumps({'reply': event['body'] + ' ' + str(os.getpid())}))\n";
    bob.put_hook("on-dm", &format!("{SPEAKS}{script}"));
    let mut lab = started(lab);
    let alice = lab.host("alice").client(Transport::Socket);
    let messages: Vec<String> = (0..24).map(|number| format!("m{number}")).collect();
    let count = |lab: &Lab| lab.host("bob").hook_output("runs").lines().count();
    let mut sent = messages.iter();
    for kills in 0..4_usize {
        for message in sent.by_ref().take(6) {
            let answer =
                alice.post("/v1/send", &json!({"to": "bob", "message": message, "client_message_id": message}));
            assert_eq!(answer.status, 202);
        }
        let before = count(&lab);
        wait::until_true(wait::LIMIT, "a hook to be running", || count(&lab) > before + kills % 3);
        lab.host_mut("bob").kill();
        lab.host_mut("bob").start();
    }
    let answered = |lab: &Lab| {
        let page = lab.host("alice").client(Transport::Socket).get_json("/v1/inbox?limit=1000&mark_seen=false");
        let mut all: BTreeMap<String, usize> = BTreeMap::new();
        for item in page["items"].as_array().unwrap() {
            *all.entry(item["reply_to_id"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        all
    };
    wait::until_true(wait::LIMIT, "every answer", || answered(&lab).len() == messages.len());
    // Nothing is left to be run: the place was kept up to the last.
    lab.host_mut("bob").stop();
    let runs = count(&lab);
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let last = alice.post("/v1/send", &json!({"to": "bob", "message": "last", "client_message_id": "last"}));
    assert_eq!(last.status, 202);
    wait::until_true(wait::LIMIT, "the last answer", || answered(&lab).contains_key("last"));
    assert_eq!(count(&lab), runs + 1);
    let all = answered(&lab);
    assert!(all.values().all(|count| *count == 1), "answered twice: {all:?}");
    let ran = lab.host("bob").hook_output("runs");
    assert!(messages.iter().all(|message| ran.lines().any(|line| line == message)), "{ran}");
}
