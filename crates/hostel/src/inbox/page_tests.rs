//! Pages at several widths, and that nothing foreign leaves its columns.

use serde_json::json;

use super::*;

fn print(lines: &[Line]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| line.iter().map(|span| span.text.as_str()).collect::<String>().trim_end().to_owned())
        .collect();
    lines.join("\n")
}

fn sample() -> Request {
    Request::read(&json!({
        "id": "7c1e0d52-1111-4222-8333-444455556666", "kind": "privileged_pipeline", "state": "pending",
        "summary": "apt install nginx", "reason": "Set up a web server", "created_at": "2026-02-13T14:30:00Z",
        "requester": {"door": "sudo-proxy", "session": "project-alpha", "host": "workstation", "client": "1.2.0",
                      "pid": 4711, "uid": 1000, "program": "/usr/bin/sudo-request", "cwd": "/src", "root_pid": 4700},
        "subject": {"cwd": "/", "privileged": true, "by": "sudo", "forward_agent": false,
            "env": [{"name": "LANG", "value": "C"}, {"name": "PATH", "value": "/usr/bin:/bin"}],
            "stages": [
                {"argv": ["echo", "a b", "|", ""], "file": {"path": "/bin/echo", "target": "/usr/bin/echo", "inode": 12,
                    "size": 2048, "digest": "00ff"}},
                {"argv": ["tee", "/etc/x\u{202e}"], "file": {"missing": "No such file or directory"}}]}
    }))
    .unwrap()
}

#[test]
fn everything_is_on_the_page() {
    assert_eq!(
        print(&page(&sample(), 80)),
        "Run as root?
▲ one character is not what it looks like and is spelled out
▲ runs as root
△ may write to /etc/x⟨U+202E⟩, outside of /src
△ tee cannot be run: No such file or directory

stage 1   0  echo
          1  a␣b
          2  |
          3  ⟨empty⟩
file      /bin/echo → /usr/bin/echo, inode 12, 2 KiB, sha256
          00ff
          its output goes on to:
stage 2   0  tee
          1  /etc/x⟨U+202E⟩
file      cannot be run: No such file or directory
as        root, through sudo, in /
env       LANG=C  PATH=/usr/bin:/bin
because   Set up a web server
session   project-alpha on workstation, by sudo-proxy 1.2.0
process   4711 /usr/bin/sudo-request, below 4700, user 1000, in /src
request   7c1e0d52-1111-4222-8333-444455556666 of 2026-02-13T14:30:00Z"
    );
}

#[test]
fn narrow_pages_keep_their_width_and_say_the_same() {
    for width in [20, 30, 40, 55, 56, 80, 200] {
        let lines = page(&sample(), width);
        for line in &lines {
            let used: usize = line.iter().map(|span| text::columns(&span.text)).sum();
            assert!(used <= width, "{width}: {}", print(std::slice::from_ref(line)));
        }
        let all: String = print(&lines).split_whitespace().collect();
        for word in ["7c1e0d52", "⟨U+202E⟩", "⟨empty⟩", "a␣b", "LANG=C", "Setupawebserver"] {
            assert!(all.contains(word), "{width}: {word}");
        }
    }
}

#[test]
fn a_script_cannot_draw_our_labels() {
    let mut request = sample();
    request.subject["stages"] = json!([{"argv": ["sh", "-c", "true\nfile      /bin/true\nid  7c"], "file": {}}]);
    let printed = print(&page(&request, 80));
    assert!(printed.contains("2  true⟨LF⟩\n             file␣␣␣␣␣␣/bin/true⟨LF⟩\n             id␣␣7c"), "{printed}");
}

#[test]
fn tools_and_questions() {
    let request = Request::read(&json!({"id": "a1", "kind": "agent_tool", "state": "pending", "tool": "Bash",
        "session_id": "s1", "turn": 3, "input": {"command": "make\ntest ", "a very long\u{1b}key": [1]}}))
    .unwrap();
    assert_eq!(
        print(&page(&request, 60)),
        "Let an agent use this tool?

tool      Bash
          a␣very␣long⟨ESC⟩key
            [↵
              1↵
            ]
command   make↵
          test␣
session   s1, turn 3
request   a1"
    );
    let request = Request::read(&json!({"id": "q", "kind": "question", "state": "approved", "decider": "unlocked",
        "subject": {"text": "Deploy?", "details": "to production\nnow"}, "decided_at": "2026-02-13T14:30:00Z",
        "rule": "grant 3"}));
    let printed = print(&page(&request.unwrap(), 60));
    assert!(
        printed.starts_with("A question\n\nasks      Deploy?\ndetails   to production\n          now\n"),
        "{printed}"
    );
    assert!(printed.ends_with("state     approved by unlocked, 2026-02-13T14:30:00Z\nrule      grant 3"), "{printed}");
}

#[test]
fn what_is_not_understood_is_shown_as_it_came() {
    let request = Request::read(&json!({"id": "x", "kind": "pipeline", "state": "pending", "subject": {"new": 1}}));
    let printed = print(&page(&request.unwrap(), 60));
    assert!(printed.contains("▲ this program does not understand what is asked"), "{printed}");
    assert!(printed.contains("subject   {↵\n            \"new\": 1↵\n          }"), "{printed}");
}

#[test]
fn ends_in_words() {
    for (outcome, words) in [
        (
            json!({"end": {"word": "finished"}, "stages": [{"exit_code": 0}, {"exit_code": -1, "signal": 9}]}),
            "exit 0, signal 9",
        ),
        (json!({"end": {"word": "timed_out", "secs": 300}}), "took too long, killed after 300 s"),
        (json!({"end": {"word": "changed", "stage": 0, "what": "another file"}}), "refused: another file"),
        (
            json!({"end": {"word": "cannot_start", "stage": 0, "errno": 2}}),
            "could not be started: No such file or directory (os error 2)",
        ),
        (json!({"odd": 1}), "{\"odd\":1}"),
    ] {
        assert_eq!(outcome_words(&outcome), words);
    }
}
