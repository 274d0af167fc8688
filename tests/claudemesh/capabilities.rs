//! Parts of the surface behind a switch: off by default, named when they are off, and followed when they are switched.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests")]

use hostel_tests::claudemesh::lab::Options;
use hostel_tests::claudemesh::{Lab, Transport};
use serde_json::{Value, json};

/// Paths of each switch.
const SURFACE: &[(&str, &[(&str, &str)])] = &[
    (
        "state",
        &[
            ("POST", "/v1/state/set"),
            ("GET", "/v1/state/get?key=a"),
            ("GET", "/v1/state/list"),
            ("GET", "/v1/state/watch"),
            ("DELETE", "/v1/state?key=a"),
            ("PUT", "/v1/state/set"),
        ],
    ),
    ("memory", &[("POST", "/v1/memory/remember"), ("GET", "/v1/memory/recall")]),
    ("vector", &[("POST", "/v1/vector/store"), ("POST", "/v1/vector/search"), ("POST", "/v1/vector/delete")]),
    ("graph", &[("POST", "/v1/graph/query")]),
    (
        "tasks",
        &[
            ("POST", "/v1/task/create"),
            ("POST", "/v1/task/claim"),
            ("POST", "/v1/task/release"),
            ("POST", "/v1/task/complete"),
            ("GET", "/v1/task/list"),
            ("GET", "/v1/task/get?id=x"),
        ],
    ),
    ("scheduling", &[("POST", "/v1/scheduling/remind")]),
    ("mcp_host", &[("POST", "/v1/mcp/register"), ("POST", "/v1/mcp/call")]),
    ("skill_share", &[("POST", "/v1/skill/deploy"), ("POST", "/v1/skill/share")]),
];

#[test]
fn everything_is_off_and_says_which_switch() {
    let lab = Lab::start(&["alice"]);
    let config = lab.host("alice").directory().join("config.toml");
    for transport in Transport::ALL {
        let client = lab.host("alice").client(transport);
        for (switch, paths) in SURFACE {
            for (method, path) in *paths {
                let answer = client.request(method, path, &[], b"{}");
                let detail = format!(
                    "`{switch}` is switched off: write `{switch} = true` below `[capabilities]` in {}, then run `claudemesh daemon reload`",
                    config.display()
                );
                let expected = json!({
                    "error": "capability_disabled", "detail": detail, "field": format!("capabilities.{switch}"),
                });
                assert_eq!((answer.status, answer.json()), (403, expected), "{method} {path}");
            }
        }
    }
    // On the command line it is the same words, and the exit code of what is denied.
    let refused = lab.host("alice").try_run(&["state", "get", "a"]);
    let complaint = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(7), "{complaint}");
    assert!(complaint.contains("`state = true`") && complaint.contains("config.toml"), "{complaint}");
}

#[test]
fn what_is_on_and_not_there_says_so_and_is_warned_of_at_the_start() {
    let unbuilt = ["memory", "vector", "graph", "scheduling", "mcp_host", "skill_share"];
    let lines: Vec<String> = unbuilt.iter().map(|switch| format!("{switch} = true\n")).collect();
    let config = format!("[capabilities]\nstate = true\ntasks = true\n{}", lines.concat());
    let lab = Lab::start_with(&Options { config, ..Options::of(&["alice"]) });
    let client = lab.host("alice").client(Transport::Socket);
    for (switch, paths) in SURFACE.iter().filter(|(switch, _)| unbuilt.contains(switch)) {
        for (method, path) in *paths {
            let answer = client.request(method, path, &[], b"{}");
            let body: Value = answer.json();
            assert_eq!((answer.status, &body["error"]), (501, &json!("not_implemented")), "{method} {path}: {body}");
            assert_eq!(body["field"], format!("capabilities.{switch}"));
            assert!(body["detail"].as_str().unwrap().contains(switch));
        }
    }
    let log = lab.host("alice").printed();
    for switch in unbuilt {
        let warned =
            log.lines().any(|line| line.contains("config_warning") && line.contains(&format!("capabilities.{switch}")));
        assert!(warned, "no warning about {switch}");
    }
    assert!(!log.contains("capabilities.state") && !log.contains("capabilities.tasks"));
    // Paths there are not, of a part that is there.
    for path in ["/v1/state/dance", "/v1/tasks", "/v1/task/create/x"] {
        assert_eq!(client.get(path).status, 404, "{path}");
    }
    assert_eq!(client.get("/v1/state/set").status, 405);
}

#[test]
fn a_switch_is_followed_when_the_configuration_is_read_again() {
    let lab = Lab::start(&["alice"]);
    let host = lab.host("alice");
    let client = host.client(Transport::Socket);
    assert_eq!(client.get("/v1/state/get?key=a").status, 403);
    let before = std::fs::read_to_string(host.directory().join("config.toml")).unwrap();
    host.configure(&format!("{before}\n[capabilities]\nstate = true\n"));
    host.run(&["daemon", "reload"]);
    let mut watch = client.stream("/v1/state/watch", &[]);
    let answer = client.post("/v1/state/set", &json!({"key": "a", "value": 1}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(watch.named("state_changed")["key"], "a");
    assert_eq!(client.get("/v1/task/list").status, 403, "the others stay off");
    // A file that cannot be read leaves it as it is.
    host.configure("[capabilities]\nstate = maybe\n");
    assert!(!host.try_run(&["daemon", "reload"]).status.success());
    assert_eq!(client.get_json("/v1/state/get?key=a")["value"], 1);
    host.configure(&before);
    host.run(&["daemon", "reload"]);
    assert_eq!(client.get("/v1/state/get?key=a").status, 403);
}
