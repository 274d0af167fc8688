//! Server-sent events of the `/v1` surface: their form, resuming, filters, readers that fall behind.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::claudemesh::{Block, Client, Lab, Transport};
use hostel_tests::wait;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use serde_json::json;

fn send(client: &Client, message: &str) {
    let answer = client.post("/v1/send", &json!({"to": "bob", "message": message}));
    assert_eq!(answer.status, 202, "{}", answer.text());
}

fn header(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[test]
fn the_form_of_a_stream() {
    let lab = Lab::start(&["alice", "bob"]);
    for transport in Transport::ALL {
        let (alice, bob) = (lab.host("alice").client(transport), lab.host("bob").client(transport));
        let mut stream = bob.events("?events=message", &[]);
        assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
        assert_eq!(stream.head.header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(stream.head.header("x-accel-buffering"), Some("no"));
        assert_eq!(stream.head.header("content-length"), None);
        assert_eq!(stream.block(), Block::Comment("connected".to_owned()));
        send(&alice, "two\nlines");
        // Signs of life may come first, on a machine that is held up for long.
        let (id, name, data) = loop {
            match stream.block() {
                Block::Event { id, name, data } => break (id, name, data),
                Block::Comment(text) => assert_eq!(text, "keepalive"),
            }
        };
        assert_eq!((name.as_str(), &data["body"]), ("message", &json!("two\nlines")));
        let (boot, number) = id.rsplit_once('-').expect("an id is a boot and a number");
        assert!(!boot.is_empty() && number.parse::<u64>().is_ok(), "{id}");
        assert!(data["ts"].as_str().is_some_and(|ts| ts.ends_with('Z') || ts.contains('T')), "{data}");
    }
}

#[test]
fn a_stream_goes_on_where_it_was_left() {
    let mut lab = Lab::start(&["alice", "bob"]);
    for transport in Transport::ALL {
        let (alice, bob) = (lab.host("alice").client(transport), lab.host("bob").client(transport));
        let mut stream = bob.events("?events=message", &[]);
        send(&alice, "one");
        assert_eq!(stream.named("message")["body"], "one");
        let last = stream.last_id.clone().expect("an id");
        drop(stream);
        let mut live = bob.events("?events=message", &[]);
        send(&alice, "two");
        send(&alice, "three");
        live.named("message");
        live.named("message");
        // By the header, and by the query; both give what was missed and then what is new, each once.
        let mut by_header = bob.events("?events=message", &header("Last-Event-ID", &last));
        let mut by_query = bob.events(&format!("?events=message&last_event_id={last}"), &[]);
        for stream in [&mut by_header, &mut by_query] {
            assert_eq!(stream.named("message")["body"], "two");
            assert_eq!(stream.named("message")["body"], "three");
        }
        send(&alice, "four");
        for stream in [&mut by_header, &mut by_query, &mut live] {
            assert_eq!(stream.named("message")["body"], "four");
        }
        assert_eq!(by_header.last_id, live.last_id, "an event has one id for all");
    }
    // Over a restart of the daemon too.
    let transport = Transport::Tcp;
    let alice = lab.host("alice").client(transport);
    let mut stream = lab.host("bob").client(transport).events("?events=message", &[]);
    send(&alice, "before");
    stream.named("message");
    let last = stream.last_id.clone().expect("an id");
    lab.host_mut("bob").kill();
    send(&alice, "meanwhile");
    lab.host_mut("bob").start();
    let bob = lab.host("bob").client(transport);
    let mut stream = bob.events("?events=message", &header("Last-Event-ID", &last));
    assert_eq!(stream.named("message")["body"], "meanwhile");
}

#[test]
fn an_unknown_id_gets_a_gap_and_then_what_is_new() {
    let lab = Lab::start(&["alice", "bob"]);
    for transport in Transport::ALL {
        let (alice, bob) = (lab.host("alice").client(transport), lab.host("bob").client(transport));
        for id in ["unknown", "x-1", "zzzz-999999"] {
            let mut stream = bob.events("?events=message", &header("Last-Event-ID", id));
            assert_eq!(stream.block(), Block::Comment("connected".to_owned()));
            let (name, data) = stream.event();
            assert_eq!((name.as_str(), &data["from"]), ("gap", &json!(id)));
            let resume = data["resume"].as_str().expect("a path");
            assert!(resume.starts_with("/v1/inbox?since="), "{resume}");
            assert_eq!(bob.get(resume).status, 200, "{resume}");
            send(&alice, id);
            assert_eq!(stream.named("message")["body"], id);
        }
    }
}

#[test]
fn filters_by_name_and_topic() {
    let lab = Lab::start(&["alice", "bob"]);
    let transport = Transport::Tcp;
    let (alice, bob) = (lab.host("alice").client(transport), lab.host("bob").client(transport));
    for topic in ["red", "blue"] {
        assert_eq!(bob.post("/v1/topic/subscribe", &json!({"topic": topic})).status, 200);
    }
    let mut red = bob.events("?events=message&topic=%23red", &[]);
    let mut all = bob.events("", &[]);
    let mut none = bob.events("?events=hook_executed", &[]);
    let post = |topic: &str, message: &str| {
        let answer = alice.post("/v1/topic/post", &json!({"topic": topic, "message": message}));
        assert_eq!(answer.status, 202, "{}", answer.text());
    };
    post("blue", "b");
    post("red", "r");
    send(&alice, "direct");
    assert_eq!(red.named("message")["body"], "r");
    // Different destinations keep no order among each other.
    let mut bodies: Vec<String> = (0..3).map(|_| all.named("message")["body"].as_str().unwrap().to_owned()).collect();
    bodies.sort();
    assert_eq!(bodies, ["b", "direct", "r"]);
    assert_eq!(none.block(), Block::Comment("connected".to_owned()));
    let answer = bob.get("/v1/events?events=message,Dance!");
    assert_eq!((answer.status, answer.json()["field"].as_str()), (400, Some("events")), "{}", answer.text());
    let answer = bob.get("/v1/events?topic=no+such+name");
    assert_eq!((answer.status, answer.json()["field"].as_str()), (400, Some("topic")), "{}", answer.text());
}

#[test]
fn a_reader_that_falls_behind_is_cut_off_and_others_are_not() {
    let lab = Lab::start(&["alice", "bob"]);
    for transport in Transport::ALL {
        let (alice, bob) = (lab.host("alice").client(transport), lab.host("bob").client(transport));
        let mut slow = bob.events("?events=message", &[]);
        let mut quick = bob.events("?events=message", &[]);
        // More than a stream may hold back together with what the kernel buffers: for a socket that is little, for TCP what
        // may wait to be sent, as hardly anything waits to be read.
        let body = "x".repeat(90_000);
        let count = if transport == Transport::Socket { 40 } else { 100 };
        // Not smaller: TCP would hand over what it holds for minutes, some kilobytes per delayed acknowledgement.
        set_socket_recv_buffer_size(slow.connection().socket(), 64 << 10).expect("a smaller buffer");
        // A few are on their way at once: how quick the quick one is must not depend on what else the machine does.
        let (read, told) = std::sync::mpsc::channel();
        let reader = std::thread::spawn(move || {
            for _ in 0..count {
                quick.named("message");
                read.send(()).ok();
            }
        });
        for number in 0..count {
            send(&alice, &body);
            if number >= 4 {
                told.recv_timeout(wait::LIMIT).expect("who reads gets everything");
            }
        }
        reader.join().expect("who reads gets everything");
        let mut got = 0;
        let ended = loop {
            match slow.try_block() {
                Ok(Some(Block::Event { .. })) => got += 1,
                Ok(Some(Block::Comment(_))) => {}
                Ok(None) => break "ended",
                Err(_) => break "cut off",
            }
        };
        assert!(got < count, "{got} and then {ended}");
        // What it missed it can have.
        let last = slow.last_id.clone().unwrap_or_default();
        if !last.is_empty() {
            let mut again = bob.events("?events=message", &header("Last-Event-ID", &last));
            again.named("message");
        }
    }
}

#[test]
fn streams_end_when_the_daemon_does() {
    let mut lab = Lab::start(&["alice"]);
    let mut stream = lab.hosts[0].client(Transport::Socket).events("", &[]);
    assert_eq!(stream.block(), Block::Comment("connected".to_owned()));
    let status = lab.hosts[0].stop();
    assert!(status.success(), "{status}");
    wait::until_true(wait::LIMIT, "the stream to end", || !matches!(stream.try_block(), Ok(Some(_))));
}
