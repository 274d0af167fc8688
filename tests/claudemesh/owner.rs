//! An owner who leaves: the mesh goes on with the one who follows, who invites others as an owner does.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // test code

use hostel_tests::claudemesh::{Host, Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

const CONFIG: &str = "[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n";

fn joined(lab: &Lab, name: &str, link: &str) -> Host {
    let mut host = Host::new(name, lab.path());
    host.configure(&format!("[ipc]\ntcp_enabled = true\n{CONFIG}"));
    host.run(&["join", link, "--name", name]);
    host.start();
    host.wait_connected();
    host
}

#[test]
fn an_heir_invites_with_and_without_its_daemon() {
    let mut lab = Lab::start_with(&Options { config: CONFIG.to_owned(), ..Options::of(&["alice"]) });
    let link = lab.host("alice").run(&["invite", "create", "--role", "admin", "--json"]);
    let link: Value = serde_json::from_str(&link).unwrap();
    let bob = joined(&lab, "bob", link["invite"].as_str().unwrap());
    let refused = bob.client(Transport::Socket).post("/v1/invite/create", &json!({}));
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("owner_only")));
    lab.host("alice").run(&["leave", "--mesh", "lab"]);
    lab.host_mut("alice").ended();
    let owns = || {
        let members = bob.client(Transport::Socket).get_json("/v1/member/list");
        members["members"].as_array().unwrap().iter().any(|one| one["me"] == true && one["role"] == "owner")
    };
    wait::until_true(wait::LIMIT, "bob to own the mesh", owns);
    let carol = joined(&lab, "carol", &bob.invite(1));
    // The root key came along: what is sealed for everybody opens.
    let sent = carol.client(Transport::Socket).post("/v1/send", &json!({"to": "*", "message": "thank you"}));
    assert_eq!(sent.status, 202, "{}", sent.text());
    let client = bob.client(Transport::Socket);
    wait::until_true(wait::LIMIT, "carol's message", || {
        let page = client.get_json("/v1/inbox?mark_seen=false");
        page["items"].as_array().unwrap().iter().any(|item| item["body"] == "thank you")
    });
    // Also where no daemon answers, and with a key that was rotated.
    bob.run(&["daemon", "rotate-keypair", "--mesh", "lab"]);
    let mut bob = bob;
    bob.stop();
    joined(&lab, "dave", &bob.invite(1));
}
