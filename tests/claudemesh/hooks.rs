//! Hooks of real daemons: which run and what they get, what they answer, what they may ask, and how they are ended.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hostel_tests::claudemesh::hooks::SPEAKS;
use hostel_tests::claudemesh::{Client, Host, Lab, Options, Transport};
use hostel_tests::procfs;
use hostel_tests::wait;
use serde_json::{Value, json};

/// Every limit taken away, for hooks that write beside themselves.
const OPEN: &str = "network_policy = \"allow\"\nfs_policy = \"rw\"\n";

/// alice and bob, of whom bob has hooks.
fn lab(config: &str, policy: &str, hooks: &[(&str, String)]) -> Lab {
    let mut lab = Lab::prepare(&Options { config: config.to_owned(), ..Options::of(&["alice", "bob"]) });
    let bob = lab.host("bob");
    bob.put_policy(policy);
    for (name, script) in hooks {
        bob.put_hook(name, script);
    }
    for host in &mut lab.hosts {
        host.start();
    }
    for host in &lab.hosts {
        host.wait_connected();
    }
    lab
}

fn client(host: &Host) -> Client {
    host.client(Transport::Socket)
}

/// Sends to bob; the id it was taken under.
fn send(lab: &Lab, message: &str) -> String {
    let answer = client(lab.host("alice")).post("/v1/send", &json!({"to": "bob", "message": message}));
    assert_eq!(answer.status, 202, "{}", answer.text());
    answer.json()["messageId"].as_str().expect("an id").to_owned()
}

/// What was answered to a message: text and the rest.
fn answered(alice: &Client, id: &str) -> Value {
    wait::until(wait::LIMIT, "an answer", || {
        let page = alice.get_json("/v1/inbox?limit=100&mark_seen=false");
        page["items"].as_array()?.iter().find(|item| item["reply_to_id"] == id).cloned()
    })
}

/// The same, where the text is JSON.
fn answered_json(alice: &Client, id: &str) -> Value {
    serde_json::from_str(answered(alice, id)["body"].as_str().expect("a text")).expect("JSON")
}

/// The run of a hook, once it is written down.
fn run_of(host: &Host, hook: &str) -> Value {
    wait::until(wait::LIMIT, &format!("a run of {hook}"), || {
        host.logged("hook_executed").into_iter().find(|line| line["hook"] == hook)
    })
}

fn python(script: &str) -> String {
    format!("{SPEAKS}{script}")
}

#[test]
fn hooks_are_told_what_happened_and_answer_it() {
    let tell = "reply({\"event\": event, \"environment\": dict(os.environ), \"cwd\": os.getcwd(),\n\
         \"open\": sorted(int(fd) for fd in os.listdir(\"/proc/self/fd\") if os.path.exists(f\"/proc/self/fd/{fd}\"))})\n";
    let note = "#!/bin/sh\necho $CLAUDEMESH_HOOK_NAME >>order\n".to_owned();
    let policy = format!(
        "[on-dm]\n[on-message]\n{OPEN}[on-mention]\n{OPEN}[on-topic-alerts]\n{OPEN}[on-startup]\n{OPEN}\
         [on-disconnect]\n{OPEN}[on-reconnect]\n{OPEN}[on-file-share]\n{OPEN}"
    );
    let keep = "json.dump(event, open('shared', 'w'))\n";
    let mut hooks = vec![("on-dm.sh", python(tell)), ("on-file-share", python(keep))];
    for name in ["on-message", "on-mention.sh", "on-topic-alerts.sh", "on-startup", "on-disconnect", "on-reconnect"] {
        hooks.push((name, note.clone()));
    }
    let mut lab = lab("", &policy, &hooks);
    let (alice, bob) = (client(lab.host("alice")), client(lab.host("bob")));
    run_of(lab.host("bob"), "on-startup");
    let mut events = bob.events("?events=hook_executed", &[]);
    // The start may be told a moment after it is written down.
    let mut next = || loop {
        let run = events.named("hook_executed");
        if run["hook"] != "on-startup" {
            return run;
        }
    };
    let id = send(&lab, "hello");
    let answer = answered(&alice, &id);
    let told: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    let event = &told["event"];
    let event_id = event["event_id"].as_str().unwrap();
    assert_eq!(answer["client_message_id"], format!("hook:{event_id}:on-dm"));
    assert_eq!(answer["meta"]["_hop"], 1);
    for (key, value) in [
        ("event", json!("message")),
        ("hook", json!("on-dm")),
        ("mesh", json!("lab")),
        ("kind", json!("dm")),
        ("topic", Value::Null),
        ("body", json!("hello")),
        ("meta", json!({})),
        ("priority", json!("next")),
        ("mentions", json!([])),
        ("idempotency_key", json!(id)),
        ("reply_to_id", Value::Null),
        ("_truncated", json!(false)),
    ] {
        assert_eq!(event[key], value, "{key} in {event}");
    }
    assert_eq!(event["from"]["name"], "alice");
    assert_eq!(event["from"]["pubkey"], lab.host("alice").member("pubkey"));
    assert_eq!(event["from"]["member_id"], lab.host("alice").member("memberId"));
    let mut expected = json!({
        "CLAUDEMESH_MESH": "lab", "CLAUDEMESH_HOOK_NAME": "on-dm", "CLAUDEMESH_EVENT_ID": event_id,
        "CLAUDEMESH_DAEMON_SOCK": lab.host("bob").directory().join("sock"), "PATH": "/usr/bin:/bin",
        "HOME": lab.host("bob").home(), "LANG": "C.UTF-8",
    });
    // Python puts this there itself where no other language is set.
    if let Some(own) = told["environment"].get("LC_CTYPE") {
        expected["LC_CTYPE"] = own.clone();
    }
    assert_eq!(told["environment"], expected);
    assert_eq!(told["cwd"], json!(lab.host("bob").hooks()));
    assert_eq!(told["open"], json!([0, 1, 2]));
    assert_eq!([next(), next()].map(|run| run["hook"].clone()), [json!("on-dm"), json!("on-message")]);
    // The record says what the contract says, and nothing of the message.
    let run = run_of(lab.host("bob"), "on-dm");
    assert_eq!((&run["exit"], &run["replied"], &run["capability_calls"]), (&json!(0), &json!(true), &json!(0)));
    assert!(run["stdout_bytes"].as_u64().unwrap() > 100 && run["duration_ms"].is_u64() && run["ts"].is_string());
    assert_eq!((&run["event_id"], &run["stderr_bytes"]), (&json!(event_id), &json!(0)));
    assert!(!run.to_string().contains("hello"));
    // A post that mentions us: the most specific first, each once.
    assert_eq!(bob.post("/v1/topic/subscribe", &json!({"topic": "alerts"})).status, 200);
    let post = alice.post("/v1/topic/post", &json!({"topic": "alerts", "message": "@bob look"}));
    assert_eq!(post.status, 202, "{}", post.text());
    for hook in ["on-topic-alerts", "on-mention", "on-message"] {
        assert_eq!(next()["hook"], hook);
    }
    let bob = lab.host("bob");
    assert_eq!(bob.hook_output("order"), "on-startup\non-message\non-topic-alerts\non-mention\non-message\n");
    assert_eq!(bob.metric("cm_daemon_hook_invocations_total", &["hook=\"on-topic\"", "exit=\"0\""]), 1);
    assert_eq!(bob.metric("cm_daemon_hook_duration_seconds_count", &["hook=\"on-message\""]), 2);
    // A file runs its own, and is no message.
    let file = lab.path().join("notes.txt");
    fs::write(&file, "content").unwrap();
    let shared = alice.post("/v1/file/share", &json!({"path": file, "to": "bob", "message": "look"}));
    assert_eq!(shared.status, 200, "{}", shared.text());
    assert_eq!(next()["hook"], "on-file-share");
    let told: Value = serde_json::from_str(&lab.host("bob").hook_output("shared")).unwrap();
    assert_eq!((&told["event"], &told["body"]), (&json!("file_shared"), &json!("look")), "{told}");
    assert_eq!((&told["file"]["name"], &told["file"]["size"]), (&json!("notes.txt"), &json!(7)), "{told}");
    // The connection goes and comes back.
    lab.kill_broker();
    assert_eq!(next()["hook"], "on-disconnect");
    lab.start_broker();
    assert_eq!(next()["hook"], "on-reconnect");
}

#[test]
fn what_may_not_run_does_not_and_says_why() {
    let answers = "#!/bin/sh\necho '{\"reply\":\"here\"}'\n".to_owned();
    let mut lab = lab("", "", &[("on-dm", answers.clone()), ("on-message.sh", answers)]);
    let bob = lab.host("bob");
    fs::remove_file(bob.hooks().join("hooks.toml")).unwrap();
    lab.host_mut("bob").stop();
    lab.host_mut("bob").start();
    lab.host("bob").wait_connected();
    let (alice, bob) = (client(lab.host("alice")), lab.host("bob"));
    // Without a policy nothing runs, and nothing of what came is owed later.
    let first = send(&lab, "one");
    let arrived = |id: &str| {
        let bob = client(lab.host("bob"));
        wait::until_true(wait::LIMIT, "the message", || bob.get("/v1/inbox?mark_seen=false").text().contains(id));
    };
    arrived(&first);
    assert_eq!(bob.try_run(&["daemon", "hooks", "check"]).status.code(), Some(1));
    assert!(bob.run(&["daemon", "hooks", "init"]).contains("wrote"));
    bob.put_policy("[on-dm]\nallow_reply = maybe\n");
    let refused = bob.try_run(&["daemon", "reload"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("hooks.toml: line 2"), "{said}");
    // Each of these is a reason not to run.
    bob.put_policy(&format!("[on-dm]\n{OPEN}[on-message]\nenabled = false\n"));
    bob.run(&["daemon", "reload"]);
    let script = bob.hooks().join("on-dm");
    let mode = |path: &std::path::Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (spoil, mend, reason) in [(0o777, 0o700, "chmod go-w"), (0o600, 0o700, "chmod u+x")] {
        mode(&script, spoil);
        let id = send(&lab, "two");
        wait::until_true(wait::LIMIT, reason, || {
            bob.logged("hook_refused").iter().any(|line| line["reason"].as_str().unwrap().contains(reason))
        });
        arrived(&id);
        let listed = bob.run(&["daemon", "hooks", "list"]);
        assert!(listed.contains(reason) && listed.contains("on-message"), "{listed}");
        mode(&script, mend);
    }
    mode(&bob.hooks(), 0o755);
    send(&lab, "three");
    wait::until_true(wait::LIMIT, "the directory to be refused", || {
        bob.logged("hook_refused").iter().any(|line| line["reason"].as_str().unwrap().contains("chmod 700"))
    });
    mode(&bob.hooks(), 0o700);
    // A policy that cannot be read leaves the last good one in force.
    bob.put_policy("[on-dm]\nfoo = 1\n");
    let refused = bob.try_run(&["daemon", "reload", "--json"]);
    assert!(!refused.status.success());
    let id = send(&lab, "four");
    assert_eq!(answered(&alice, &id)["body"], "here");
    let page = alice.get_json("/v1/inbox?mark_seen=false");
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "only the last one was answered: {page}");
    assert_eq!(bob.metric("cm_daemon_hook_invocations_total", &["on-dm", "refused"]), 3);
}

#[test]
fn what_is_secret_or_too_long_is_not_told() {
    let policy = "[on-dm]\nredact_payload = [\"body.password\", \"$.meta.keys[*].value\", \"meta.none\"]\n";
    let lab = lab("[hooks]\nstdin_limit = 4096\n", policy, &[("on-dm", python("reply(event)"))]);
    let alice = client(lab.host("alice"));
    let meta = json!({"keys": [{"name": "a", "value": "s3cret"}, {"name": "b", "value": "s3cret"}]});
    let body = json!({"user": "ada", "password": "s3cret"}).to_string();
    let answer = alice.post("/v1/send", &json!({"to": "bob", "message": body, "meta": meta}));
    let told = answered_json(&alice, answer.json()["messageId"].as_str().unwrap());
    assert!(!told.to_string().contains("s3cret"), "{told}");
    assert_eq!(told["_redacted"], json!(["body.password", "$.meta.keys[*].value"]));
    assert_eq!(told["body"], "{\"user\":\"ada\"}");
    assert_eq!(told["meta"]["keys"], json!([{"name": "a"}, {"name": "b"}]));
    let id = send(&lab, &"long ".repeat(10_000));
    let told = answered_json(&alice, &id);
    assert_eq!(told["_truncated"], true);
    let text = told["body"].as_str().unwrap();
    assert!(text.starts_with("long long") && text.len() > 2000 && told.to_string().len() <= 4096, "{}", text.len());
}

#[test]
fn hooks_end_whatever_they_do() {
    let stubborn = "#!/bin/sh\ntrap '' TERM\necho $$ >leader\n(trap '' TERM; sleep 1000) & echo $! >child\n\
         setsid sh -c 'echo $$ >escaped; exec sleep 1000' &\nwhile :; do sleep 1; done\n";
    // Long enough for the script to write down whom it has started.
    let timeout = wait::scaled(std::time::Duration::from_secs(4)).as_secs();
    let leaves = "#!/bin/sh\nsleep 1000 & echo $! >left\necho '{\"reply\":\"gone\"}'\n";
    let policy = format!(
        "[on-topic-hang]\ntimeout_s = {timeout}\n{OPEN}[on-topic-leave]\n{OPEN}[on-topic-flood]\noutput_size_limit = 1000\n\
         [on-topic-fail]\n[on-topic-garbage]\n[on-topic-missing]\n{OPEN}[on-topic-mute]\nallow_reply = false\n"
    );
    let hooks = [
        ("on-topic-hang", stubborn.to_owned()),
        ("on-topic-leave", leaves.to_owned()),
        ("on-topic-flood", "#!/bin/sh\nhead -c 3000000 /dev/zero\nhead -c 3000000 /dev/zero >&2\n".to_owned()),
        ("on-topic-fail", "#!/bin/sh\necho '{\"reply\":\"no\"}'\nexit 3\n".to_owned()),
        ("on-topic-garbage", "#!/bin/sh\necho hello\n".to_owned()),
        ("on-topic-missing", "#!/no/such/shell\n".to_owned()),
        ("on-topic-mute", "#!/bin/sh\necho '{\"reply\":\"psst\"}'\n".to_owned()),
    ];
    let lab = lab("", &policy, &hooks);
    let (alice, bob) = (client(lab.host("alice")), lab.host("bob"));
    let topics = ["hang", "leave", "flood", "fail", "garbage", "missing", "mute"];
    for topic in topics {
        for host in ["alice", "bob"] {
            let subscribed = client(lab.host(host)).post("/v1/topic/subscribe", &json!({"topic": topic}));
            assert_eq!(subscribed.status, 200, "{}", subscribed.text());
        }
    }
    for topic in topics {
        let posted = alice.post("/v1/topic/post", &json!({"topic": topic, "message": "go"}));
        assert_eq!(posted.status, 202, "{}", posted.text());
    }
    let run = |topic: &str| run_of(bob, &format!("on-topic-{topic}"));
    let gone = |file: &str| {
        let pid: i32 = bob.hook_output(file).trim().parse().unwrap_or_else(|_| panic!("no pid in {file}"));
        wait::until_true(wait::LIMIT, &format!("{file} to be gone"), || !procfs::alive(pid));
    };
    let left = run("leave");
    assert_eq!((&left["exit"], &left["replied"]), (&json!(0), &json!(true)));
    gone("left");
    let flooded = run("flood");
    assert_eq!((&flooded["stdout_bytes"], &flooded["stderr_bytes"]), (&json!(3_000_000), &json!(3_000_000)));
    assert_eq!(bob.logged("hook_output_truncated").len(), 1);
    assert_eq!((run("fail")["exit"].clone(), run("fail")["replied"].clone()), (json!(3), json!(false)));
    assert_eq!(run("garbage")["replied"], false);
    assert_eq!(run("mute")["replied"], false);
    assert_eq!(run("missing")["exit"], 126);
    assert!(bob.logged("hook_output_not_understood").iter().any(|line| line["hook"] == "on-topic-garbage"));
    let hung = run("hang");
    assert_eq!((&hung["exit"], &hung["reason"]), (&json!(-1), &json!("timeout")));
    assert!(
        hung["duration_ms"].as_u64().unwrap() >= timeout * 1000 + 5000,
        "its time, and five seconds to end: {hung}"
    );
    for file in ["leader", "child", "escaped"] {
        gone(file);
    }
    assert_eq!(bob.metric("cm_daemon_hook_invocations_total", &["on-topic", "timeout"]), 1);
    // Of all of them only one was answered.
    wait::until_true(wait::LIMIT, "the answer", || {
        let page = alice.get_json("/v1/inbox?mark_seen=false");
        let bodies: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|item| &item["body"]).collect();
        assert!(bodies.is_empty() || bodies == [&json!("gone")], "{page}");
        bodies.len() == 1
    });
}

#[test]
fn a_token_opens_its_event_and_nothing_else() {
    let tries = "open('token', 'w').write(own)\n\
         me = event['from']['pubkey']\n\
         reply({'send': call('POST', '/v1/send', {'to': me, 'message': 'by token'}),\n\
         'name': call('POST', '/v1/send', {'to': 'alice', 'message': 'by token, by name'}),\n\
         'other': call('POST', '/v1/send', {'to': 'carol', 'message': 'x'}),\n\
         'nobody': call('POST', '/v1/send', {'to': 'nobody', 'message': 'x'}),\n\
         'all': call('POST', '/v1/send', {'to': '*', 'message': 'x'}),\n\
         'topic': call('POST', '/v1/topic/post', {'topic': 'alerts', 'message': 'x'}),\n\
         'hash': call('POST', '/v1/send', {'to': '#alerts', 'message': 'x'}),\n\
         'inbox': call('GET', '/v1/inbox'), 'peers': call('GET', '/v1/peers'), 'health': call('GET', '/v1/health'),\n\
         'events': call('GET', '/v1/events'), 'rotate': call('POST', '/v1/token/rotate', {}),\n\
         'nowhere': call('GET', '/v1/nowhere'), 'method': call('DELETE', '/v1/send'),\n\
         'off': call('POST', '/v1/state/set', {'key': 'a', 'value': 1}),\n\
         'forged': call('POST', '/v1/send', {'to': me, 'message': 'x'}, own[::-1])})\n";
    let post = "reply({'post': call('POST', '/v1/topic/post', {'topic': 'alerts', 'message': 'seen'}),\n\
         'other': call('POST', '/v1/topic/post', {'topic': 'general', 'message': 'x'}),\n\
         'dm': call('POST', '/v1/send', {'to': event['from']['pubkey'], 'message': 'x'})})\n";
    let scopes = "capability_token_scope = [\"reply:event\", \"topic:alerts:post\"]\n";
    let policy = format!(
        "[on-dm]\n{OPEN}{scopes}[on-topic-alerts]\ncapability_token_scope = [\"topic:alerts:post\"]\n[on-mention]\n\
         capability_token_scope = [\"topic:other:post\"]\n"
    );
    let hooks =
        [("on-dm", python(tries)), ("on-topic-alerts", python(post)), ("on-mention", python("reply({'token': own})"))];
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob", "carol"]));
    for (name, script) in &hooks {
        lab.host("bob").put_hook(name, script);
    }
    lab.host("bob").put_policy(&policy);
    for host in &mut lab.hosts {
        host.start();
    }
    lab.hosts.iter().for_each(Host::wait_connected);
    let (alice, bob) = (client(lab.host("alice")), lab.host("bob"));
    for host in ["alice", "bob"] {
        client(lab.host(host)).post("/v1/topic/subscribe", &json!({"topic": "alerts"}));
    }
    let id = send(&lab, "hello");
    let answer = wait::until(wait::LIMIT, "the hook's own answer", || {
        let page = alice.get_json("/v1/inbox?mark_seen=false");
        let items = page["items"].as_array()?.clone();
        items.into_iter().find(|item| item["client_message_id"].as_str().is_some_and(|id| id.ends_with(":on-dm")))
    });
    let tried: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
    let denied = json!([403, "capability_denied"]);
    assert_eq!((&tried["send"], &tried["name"]), (&json!([202, null]), &json!([202, null])), "{tried}");
    let others = ["inbox", "peers", "health", "events", "rotate", "nowhere", "method", "off"];
    for what in ["other", "nobody", "all", "topic", "hash"].into_iter().chain(others) {
        assert_eq!(tried[what], denied, "{what} in {tried}");
    }
    assert_eq!(tried["forged"], json!([401, "unauthorized"]));
    // What it sent is counted among hooks in a row, and is an answer to the event.
    let sent = answered(&alice, &id);
    assert_eq!(sent["reply_to_id"], json!(id));
    let by_token = wait::until(wait::LIMIT, "what was sent with the token", || {
        let page = alice.get_json("/v1/inbox?mark_seen=false");
        page["items"].as_array()?.iter().find(|item| item["body"] == "by token").cloned()
    });
    assert_eq!((&by_token["meta"]["_hop"], &by_token["reply_to_id"]), (&json!(1), &json!(id)));
    // It ended with its hook, on either side.
    let token = bob.hook_output("token");
    assert_eq!(token.len(), 43);
    for transport in Transport::ALL {
        let shown = [("Authorization".to_owned(), format!("Bearer {token}"))];
        let answer = bob.client(transport).request("GET", "/v1/inbox", &shown, b"");
        assert_eq!((answer.status, &answer.json()["error"]), (401, &json!("unauthorized")));
    }
    assert!(!bob.printed().contains(&token), "no token is ever logged");
    let run = run_of(bob, "on-dm");
    assert_eq!(run["capability_calls"], 15);
    assert_eq!(bob.metric("cm_daemon_hook_capability_calls_total", &["on-dm", "reply:event"]), 2);
    assert_eq!(bob.metric("cm_daemon_hook_capability_calls_total", &["on-dm", "denied"]), 13);
    // A topic's hook posts to its topic, and a scope that does not fit the event gives no token at all.
    let posted = alice.post("/v1/topic/post", &json!({"topic": "alerts", "message": "@bob x"}));
    let id = posted.json()["messageId"].as_str().unwrap().to_owned();
    let all = wait::until(wait::LIMIT, "three answers", || {
        let page = alice.get_json("/v1/inbox?mark_seen=false");
        let items: Vec<Value> =
            page["items"].as_array()?.iter().filter(|item| item["reply_to_id"] == id.as_str()).cloned().collect();
        (items.len() == 3).then_some(items)
    });
    let body = |part: &str| {
        let item = all.iter().find(|item| item["client_message_id"].as_str().unwrap().ends_with(part)).unwrap();
        serde_json::from_str::<Value>(item["body"].as_str().unwrap()).unwrap()
    };
    let tried = body(":on-topic-alerts");
    assert_eq!((&tried["post"], &tried["other"], &tried["dm"]), (&json!([202, null]), &denied, &denied), "{tried}");
    assert_eq!(body(":on-mention")["token"], Value::Null);
    assert!(all.iter().any(|item| item["body"] == "seen" && item["topic"] == "alerts"));
}

#[test]
fn two_that_answer_each_other_come_to_an_end() {
    let answers = "#!/bin/sh\necho '{\"reply\":\"and you?\"}'\n";
    let lab = lab("", "[on-dm]\n", &[("on-dm", answers.to_owned())]);
    let (alice, bob) = (lab.host("alice"), lab.host("bob"));
    alice.put_policy("[on-dm]\n");
    alice.put_hook("on-dm", answers);
    alice.run(&["daemon", "reload"]);
    send(&lab, "hello");
    let hops = |host: &Host| {
        let page = client(host).get_json("/v1/inbox?mark_seen=false");
        let items = page["items"].as_array().unwrap().clone();
        items.iter().rev().map(|item| item["meta"]["_hop"].as_u64().unwrap_or(0)).collect::<Vec<_>>()
    };
    wait::until_true(wait::LIMIT, "the last of them", || hops(bob).contains(&4));
    // Something that comes after it shows that nothing was answered to it.
    let answer = client(alice).post("/v1/send", &json!({"to": "bob", "message": "x", "meta": {"_hop": 4}}));
    assert_eq!(answer.status, 202);
    wait::until_true(wait::LIMIT, "what came after it", || hops(bob).len() == 4);
    assert_eq!((hops(alice), hops(bob)), (vec![1, 3], vec![0, 2, 4, 4]));
    assert_eq!(bob.metric("cm_daemon_hook_invocations_total", &["on-dm", "exit=\"0\""]), 2);
}

#[test]
fn more_than_the_queue_holds_is_counted_and_dropped() {
    let waits = "#!/bin/sh\necho x >>begun\nwhile ! [ -e go ]; do sleep 0.05; done\necho x >>runs\n".to_owned();
    // They wait for a word of ours, however long that takes.
    let policy = format!("[on-message]\ntimeout_s = 300\n{OPEN}");
    let lab = lab("[hooks]\nconcurrency = 2\n", &policy, &[("on-message", waits)]);
    let (alice, bob) = (client(lab.host("alice")), lab.host("bob"));
    for number in 0..280 {
        let sent = alice.post("/v1/send", &json!({"to": "bob", "message": number.to_string()}));
        assert_eq!(sent.status, 202, "{}", sent.text());
        if number == 1 {
            // Those that run do not wait any more: from here on it can be counted.
            wait::until_true(wait::LIMIT, "two to run", || bob.hook_output("begun").lines().count() == 2);
        }
    }
    wait::until_true(wait::LIMIT, "some to be dropped", || {
        bob.metric("cm_daemon_hook_invocations_total", &["on-message", "dropped"]) == 280 - 256 - 2
    });
    assert_eq!(bob.logged("hooks_dropped").len(), 1);
    fs::write(bob.hooks().join("go"), "").unwrap();
    wait::until_true(wait::LIMIT, "the others to have run", || bob.hook_output("runs").lines().count() == 258);
}
