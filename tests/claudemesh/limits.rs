//! The limits of the `/v1` surface: bodies and heads of any form, slots, streams, rates, long answers.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::fmt::Write as _;
use std::io::Write as _;

use hostel_tests::claudemesh::{Client, Lab, Options, Transport};
use hostel_tests::codecast::http::{Answer, Connection};
use hostel_tests::wait;
use serde_json::{Value, json};

const MEGABYTE: usize = 1024 * 1024;

fn lab(config: &str) -> Lab {
    Lab::start_with(&Options { config: config.to_owned(), ..Options::of(&["alice"]) })
}

/// The head of a request, without the empty line at its end.
fn head(client: &Client, method: &str, path: &str) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in client.headers() {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head
}

fn code(answer: &Answer) -> (u16, String) {
    let json = answer.json();
    assert!(json.get("detail").is_some_and(Value::is_string), "{json}");
    assert!(json.get("field").is_some(), "{json}");
    (answer.status, json["error"].as_str().expect("an error has a word").to_owned())
}

fn refused(status: u16, word: &str) -> (u16, String) {
    (status, word.to_owned())
}

/// A request whose body never comes: it holds a slot.
fn half_open(client: &Client) -> Connection {
    let mut connection = client.connect();
    let head = head(client, "POST", "/v1/heartbeat");
    connection.send(format!("{head}Content-Length: 5\r\n\r\n{{").as_bytes()).unwrap();
    connection
}

#[test]
fn a_body_is_cut_at_a_megabyte_however_it_comes() {
    let lab = lab("");
    for transport in Transport::ALL {
        let client = lab.hosts[0].client(transport);
        // Only announced: the answer comes before the body.
        let mut connection = client.connect();
        let head = head(&client, "POST", "/v1/send");
        connection.send(format!("{head}Content-Length: {}\r\n\r\n", MEGABYTE + 1).as_bytes()).unwrap();
        assert_eq!(code(&connection.answer()), refused(413, "payload_too_large"));
        // In chunks whose sum nobody has announced.
        let mut connection = client.connect();
        connection.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
        let chunk = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
        for _ in 0..17 {
            if connection.send(&chunk).is_err() {
                break;
            }
        }
        assert_eq!(code(&connection.answer()), refused(413, "payload_too_large"));
        // One that just fits is read to its end.
        let mut connection = client.connect();
        connection.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
        for _ in 0..16 {
            connection.send(&chunk).unwrap();
        }
        connection.send(b"0\r\n\r\n").unwrap();
        assert_eq!(code(&connection.answer()), refused(400, "invalid_json"));
        // The connection is still good.
        client.send_on(&mut connection, "GET", "/v1/version", &[], b"");
        assert_eq!(connection.answer().status, 200);
        // A length that is none.
        let mut connection = client.connect();
        connection.send(format!("{head}Content-Length: 99999999999999999999\r\n\r\n").as_bytes()).unwrap();
        assert!(matches!(connection.answer().status, 400 | 413));
    }
}

#[test]
fn a_head_has_64_kilobytes_and_100_headers() {
    let lab = lab("");
    for transport in Transport::ALL {
        let client = lab.hosts[0].client(transport);
        let with = |more: &str| {
            let mut connection = client.connect();
            let request = format!("{}{more}\r\n", head(&client, "GET", "/v1/version"));
            connection.send(request.as_bytes()).unwrap();
            connection.answer()
        };
        let own = client.headers().len() + 1;
        let headers =
            |count: usize| (own..count).fold(String::new(), |all, number| all + &format!("X-{number}: y\r\n"));
        assert_eq!(with(&headers(100)).status, 200);
        assert_eq!(code(&with(&headers(101))), refused(431, "headers_too_large"));
        assert_eq!(with(&format!("X-Long: {}\r\n", "y".repeat(60_000))).status, 200);
        assert_eq!(code(&with(&format!("X-Long: {}\r\n", "y".repeat(65_536)))), refused(431, "headers_too_large"));
        // Far beyond, it is only cut off.
        let mut connection = client.connect();
        let request = format!("{}X: {}\r\n\r\n", head(&client, "GET", "/v1/version"), "y".repeat(2 * MEGABYTE));
        connection.send(request.as_bytes()).ok();
        assert_eq!(connection.answer().status, 431);
    }
}

#[test]
fn what_is_no_http_hurts_nobody() {
    let lab = lab("");
    for transport in Transport::ALL {
        let client = lab.hosts[0].client(transport);
        for bytes in [
            b"\0\0\0\0\r\n\r\n".as_slice(),
            b"GET\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            let mut connection = client.connect();
            connection.send(bytes).unwrap();
        }
        assert_eq!(client.get("/v1/version").status, 200);
    }
}

#[test]
fn a_host_must_be_named_over_tcp_only() {
    let lab = lab("");
    for (transport, status) in [(Transport::Socket, 200), (Transport::Tcp, 403)] {
        let client = lab.hosts[0].client(transport);
        let mut connection = client.connect();
        let request = head(&client, "GET", "/v1/version").replace("Host: localhost\r\n", "") + "\r\n";
        connection.send(request.as_bytes()).unwrap();
        assert_eq!(connection.answer().status, status);
    }
    let client = lab.hosts[0].client(Transport::Tcp);
    let mut connection = client.connect();
    let request =
        head(&client, "GET", "/v1/version").replace("HTTP/1.1\r\n", "HTTP/1.1\r\nHost: evil.example\r\n") + "\r\n";
    connection.send(request.as_bytes()).unwrap();
    assert!(matches!(connection.answer().status, 400 | 403), "of two hosts both count");
}

#[test]
fn slots_are_given_back_and_streams_need_none() {
    let lab = lab("[ipc]\nmax_inflight = 3\nmax_sse = 2\n");
    for transport in Transport::ALL {
        let client = lab.hosts[0].client(transport);
        let busy = || {
            let answer = client.get("/v1/version");
            (answer.status == 429).then_some(answer)
        };
        let held: Vec<Connection> = (0..3).map(|_| half_open(&client)).collect();
        let answer = wait::until(wait::LIMIT, "the slots to be taken", busy);
        assert_eq!(code(&answer), refused(429, "daemon_busy"));
        assert!(answer.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok_and(|s| s >= 1)));
        // Streams have places of their own.
        let first = client.events_soon();
        let second = client.events_soon();
        let answer = client.get("/v1/events");
        assert_eq!(code(&answer), refused(429, "too_many_streams"));
        assert!(answer.header("retry-after").is_some());
        // Who may not ask at all is not told that it is busy.
        if transport == Transport::Tcp {
            let answer = client.request("GET", "/v1/version", &[("Authorization".into(), String::new())], b"");
            assert_eq!(code(&answer), refused(401, "unauthorized"));
        }
        drop((first, held));
        wait::until_true(wait::LIMIT, "a slot to be free", || client.get("/v1/version").status == 200);
        let third = client.events_soon();
        drop((second, third));
        wait::until_true(wait::LIMIT, "all streams to be free", || {
            let mut streams: Vec<Connection> = Vec::new();
            (0..2).all(|_| {
                let mut connection = client.connect();
                client.send_on(&mut connection, "GET", "/v1/events", &[], b"");
                let status = connection.answer().status;
                streams.push(connection);
                status == 200
            })
        });
    }
}

#[test]
fn the_default_is_64_slots_and_32_streams() {
    let lab = lab("");
    let client = lab.hosts[0].client(Transport::Socket);
    let held: Vec<Connection> = (0..63).map(|_| half_open(&client)).collect();
    let probe = |client: &Client| client.get("/v1/version").status;
    // The 64th is the probe's own.
    assert_eq!(probe(&client), 200);
    let last = half_open(&client);
    wait::until_true(wait::LIMIT, "the slots to be taken", || probe(&client) == 429);
    drop((held, last));
    let streams: Vec<_> = (0..32).map(|_| client.events("", &[])).collect();
    assert_eq!(code(&client.get("/v1/events")), refused(429, "too_many_streams"));
    drop(streams);
}

#[test]
fn a_bucket_per_token_and_a_larger_one_for_the_socket() {
    // One request in a second and five at once; over the socket ten times that. Nobody has asked anything before: it is
    // not waited for the connection, for that would be asked over the socket.
    let config = "[ipc]\nrate_per_s = 1\nrate_burst = 5\n".to_owned();
    let mut lab = Lab::prepare(&Options { config, ..Options::of(&["alice"]) });
    lab.hosts[0].start();
    let tcp = lab.hosts[0].client(Transport::Tcp);
    let burst = |client: &Client, count: usize| {
        let mut connection = client.connect();
        let request = format!("{}\r\n", head(client, "GET", "/v1/nowhere"));
        connection.send(request.repeat(count).as_bytes()).unwrap();
        (0..count).map(|_| connection.answer()).collect::<Vec<_>>()
    };
    let answers = burst(&tcp, 20);
    assert!(answers[..5].iter().all(|answer| answer.status == 404), "five at once");
    let answer = answers.iter().find(|answer| answer.status == 429).expect("and not twenty");
    assert_eq!(code(answer), refused(429, "rate_limited"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    // Who shows no token spends nobody's.
    let answer = tcp.request("GET", "/v1/version", &[("Authorization".into(), String::new())], b"");
    assert_eq!(code(&answer), refused(401, "unauthorized"));
    let socket = lab.hosts[0].client(Transport::Socket);
    let answers = burst(&socket, 200);
    let taken = answers.iter().take_while(|answer| answer.status == 404).count();
    assert!(taken >= 50, "{taken}");
    assert!(answers.iter().any(|answer| answer.status == 429), "two hundred at once are too many");
}

#[test]
fn the_default_bucket_holds_a_thousand() {
    let lab = lab("");
    let client = lab.hosts[0].client(Transport::Tcp);
    let mut connection = client.connect();
    let request = format!("{}Content-Length: 0\r\n\r\n", head(&client, "GET", "/v1/nowhere"));
    let mut counts = (0, 0);
    // However slowly it goes: as long as more than a hundred a second are asked for, it is too much at some time.
    for _ in 0..400 {
        connection.send(request.repeat(50).as_bytes()).unwrap();
        for _ in 0..50 {
            match connection.answer().status {
                404 => counts.0 += 1,
                429 => counts.1 += 1,
                other => panic!("{other}"),
            }
        }
        if counts.1 > 0 {
            break;
        }
    }
    // A thousand at once, and a hundred more for each second it took.
    assert!(counts.0 >= 1000 && counts.1 > 0, "{counts:?}");
}

#[test]
fn a_long_answer_is_cut_and_says_where_it_goes_on() {
    let lab = Lab::start(&["alice", "bob"]);
    let (alice, bob) = (lab.host("alice").client(Transport::Socket), lab.host("bob").client(Transport::Tcp));
    let mut events = bob.events("?events=message", &[]);
    let (body, count) = ("x".repeat(90_000), 125);
    for number in 0..count {
        let answer = alice.post("/v1/send", &json!({"to": "bob", "message": body, "meta": {"n": number}}));
        assert_eq!(answer.status, 202, "{}", answer.text());
        // One by one: a stream that is not read is cut off.
        events.named("message");
    }
    let answer = bob.get("/v1/inbox?limit=1000&mark_seen=false&from=alice");
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() <= 10 * MEGABYTE, "{}", answer.body.len());
    let first = answer.json();
    let link = answer.header("link").expect("a link to the rest").to_owned();
    let next = link.strip_prefix('<').and_then(|link| link.strip_suffix(r#">; rel="next""#)).expect("a link");
    assert!(next.starts_with("/v1/inbox?") && next.contains("from=alice") && next.contains("cursor="), "{next}");
    let rest = bob.get(next);
    assert_eq!(rest.status, 200, "{}", rest.text());
    assert!(rest.header("link").is_none());
    let mut numbers: Vec<u64> = Vec::new();
    for page in [&first, &rest.json()] {
        numbers.extend(page["items"].as_array().unwrap().iter().map(|item| item["meta"]["n"].as_u64().unwrap()));
    }
    assert_eq!(numbers, (0..count).rev().collect::<Vec<_>>(), "every message once, newest first");
    // Over the search as well: no answer is larger.
    let found = bob.get("/v1/inbox/search?q=alice&limit=1000");
    assert!(found.body.len() <= 10 * MEGABYTE);
}

#[test]
fn connections_are_kept_and_requests_answered_in_order() {
    let lab = lab("");
    for transport in Transport::ALL {
        let client = lab.hosts[0].client(transport);
        let mut connection = client.connect();
        let request = |path: &str| format!("{}Content-Length: 0\r\n\r\n", head(&client, "GET", path));
        let all = ["/v1/version", "/v1/nowhere", "/v1/health"].map(request).concat();
        connection.send(all.as_bytes()).unwrap();
        assert_eq!([200, 404, 200].map(|_| connection.answer().status), [200, 404, 200]);
    }
}

#[test]
fn who_reads_nothing_holds_nothing_up() {
    let lab = lab("");
    let client = lab.hosts[0].client(Transport::Tcp);
    let mut silent = client.connect();
    let request = format!("{}\r\n", head(&client, "GET", "/v1/metrics"));
    for _ in 0..200 {
        if silent.send(request.as_bytes()).is_err() {
            break;
        }
    }
    silent.socket().flush().ok();
    assert_eq!(client.get("/v1/version").status, 200);
}
