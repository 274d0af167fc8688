//! Five daemons in one mesh, over both transports.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use hostel_tests::claudemesh::{Client, Lab, Stream, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

fn clients(lab: &Lab, transport: Transport) -> BTreeMap<&'static str, Client> {
    NAMES.iter().map(|name| (*name, lab.host(name).client(transport))).collect()
}

fn listen(clients: &BTreeMap<&'static str, Client>) -> BTreeMap<&'static str, Stream> {
    clients.iter().map(|(name, client)| (*name, client.events("?events=message", &[]))).collect()
}

fn accepted(client: &Client, path: &str, body: &Value) {
    let answer = client.post(path, body);
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn everybody_hears_what_is_for_everybody_and_nobody_else_the_rest() {
    let lab = Lab::start(&NAMES);
    for transport in Transport::ALL {
        let word = transport.name();
        let clients = clients(&lab, transport);
        let mut streams = listen(&clients);
        // To all: everybody but the sender.
        accepted(&clients["alice"], "/v1/send", &json!({"to": "*", "message": format!("all {word}")}));
        // To a topic: its subscribers.
        for name in ["bob", "carol"] {
            assert_eq!(clients[name].post("/v1/topic/subscribe", &json!({"topic": "some"})).status, 200);
        }
        accepted(&clients["erin"], "/v1/topic/post", &json!({"topic": "some", "message": format!("some {word}")}));
        // To one, from each of the others.
        for name in ["alice", "bob", "carol", "erin"] {
            accepted(&clients[name], "/v1/send", &json!({"to": "dave", "message": format!("{name} {word}")}));
        }
        // A last word to each, so that what came before it is all there is.
        for name in NAMES {
            let from = if name == "alice" { "bob" } else { "alice" };
            accepted(&clients[from], "/v1/send", &json!({"to": name, "message": "last"}));
        }
        for name in NAMES {
            let mut expected = match name {
                "alice" => vec![],
                "bob" | "carol" => vec![format!("all {word}"), format!("some {word}")],
                "dave" => {
                    let mut all = vec![format!("all {word}")];
                    all.extend(["alice", "bob", "carol", "erin"].map(|from| format!("{from} {word}")));
                    all
                }
                _ => vec![format!("all {word}")],
            };
            expected.sort();
            let stream = streams.get_mut(name).unwrap();
            let mut got = Vec::new();
            // The last word comes from another lane than most others and may overtake them.
            let mut last = false;
            while !last || got.len() < expected.len() {
                let body = stream.named("message")["body"].as_str().expect("a body").to_owned();
                if body == "last" {
                    last = true;
                } else {
                    got.push(body);
                }
            }
            got.sort();
            assert_eq!(got, expected, "{name} over {word}");
        }
    }
}

#[test]
fn each_sees_all_five() {
    let lab = Lab::start(&NAMES);
    for transport in Transport::ALL {
        for (name, client) in clients(&lab, transport) {
            wait::until_true(wait::LIMIT, &format!("{name} to see everybody"), || {
                let peers = client.get_json("/v1/peers");
                let mut seen: Vec<String> = peers["peers"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|peer| peer["displayName"].as_str().unwrap().to_owned())
                    .collect();
                seen.sort();
                seen == NAMES
            });
        }
    }
}

#[test]
fn order_is_kept_for_each_sender_whatever_is_killed() {
    let mut lab = Lab::start(&NAMES);
    let count = 60;
    let clients = clients(&lab, Transport::Tcp);
    for number in 0..count {
        for name in ["alice", "bob", "carol", "dave"] {
            let id = format!("{name}-{number}");
            accepted(
                &clients[name],
                "/v1/send",
                &json!({"to": "erin", "message": format!("{name} {number}"), "client_message_id": id}),
            );
        }
        match number {
            15 => {
                lab.kill_broker();
                lab.start_broker();
            }
            30 => lab.host_mut("erin").kill(),
            40 => lab.host_mut("erin").start(),
            _ => {}
        }
    }
    let erin = lab.host("erin").client(Transport::Socket);
    let total = 4 * count;
    wait::until_true(wait::LIMIT, "everything to arrive", || {
        erin.get_json("/v1/inbox?limit=1000&mark_seen=false")["items"].as_array().unwrap().len() >= total
    });
    let page = erin.get_json("/v1/inbox?limit=1000&mark_seen=false");
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), total, "each once");
    for name in ["alice", "bob", "carol", "dave"] {
        let of_sender: Vec<&str> = items
            .iter()
            .rev()
            .filter(|item| item["sender_name"] == name)
            .map(|item| item["body"].as_str().unwrap())
            .collect();
        let expected: Vec<String> = (0..count).map(|number| format!("{name} {number}")).collect();
        assert_eq!(of_sender, expected, "in the order they were sent");
    }
}
