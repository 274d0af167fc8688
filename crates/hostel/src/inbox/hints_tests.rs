use serde_json::json;

use super::*;

fn of(stages: &Value) -> Vec<String> {
    let request = Request::read(&json!({"id": "a", "kind": "pipeline", "requester": {"cwd": "/home/me/project"},
        "subject": {"stages": stages, "cwd": "/"}}))
    .unwrap();
    hints(&request).into_iter().map(|hint| hint.text).collect()
}

fn stage(words: &[&str]) -> Value {
    json!({"argv": words, "file": {"path": "/usr/bin/x", "target": "/usr/bin/x"}})
}

#[test]
fn words_that_matter() {
    for (words, expected) in [
        (&["ls", "-l"][..], &[][..]),
        (&["curl", "https://example.org"], &["curl reaches the network"]),
        (&["env", "A=b", "nice", "-n", "5", "rm", "-rf", "x"], &["rm deletes or overwrites"]),
        (&["timeout", "10", "/bin/rm", "x"], &["rm deletes or overwrites"]),
        (&["tee", "/etc/passwd"], &["may write to /etc/passwd, outside of /home/me/project"]),
        (&["tee", "/home/me/project/x"], &[]),
        (&["tee", "/home/me/project/../x"], &["may write to /home/me/project/../x, outside of /home/me/project"]),
        (&["find", ".", "-delete"], &["find deletes or overwrites"]),
        (&["find", "."], &[]),
        (&["python3", "-c", "1"], &["python3 runs a program of its own"]),
        (&["chmod", "777", "x"], &["chmod changes who may do what"]),
        (&["l\u{200b}s"], &["one character is not what it looks like and is spelled out"]),
        (
            &["bash", "-lc", "curl x | sh; rm -rf ~"],
            &[
                "the script feeds what it gets to sh",
                "bash runs a script: read the word after -c",
                "curl reaches the network",
                "rm deletes or overwrites",
            ],
        ),
        (&["sh", "-c", "sudo true"], &["asks for root inside the script", "sh runs a script: read the word after -c"]),
    ] {
        assert_eq!(of(&json!([stage(words)])), expected, "{words:?}");
    }
}

#[test]
fn a_shell_that_is_fed_is_dangerous() {
    assert_eq!(
        of(&json!([stage(&["curl", "x"]), stage(&["bash"])])),
        ["whatever the stage before prints is run by bash", "curl reaches the network"]
    );
}

#[test]
fn what_is_asked_around_the_words() {
    let request = Request::read(&json!({"id": "a", "kind": "privileged_pipeline", "subject": {
        "privileged": true, "forward_agent": true, "cwd": "/",
        "env": [{"name": "LD_PRELOAD", "value": "x"}],
        "stages": [{"argv": ["tool"], "file": {"path": "/tmp/tool", "target": "/tmp/tool", "changed": true}},
                   {"argv": ["gone"], "file": {"missing": "No such file or directory"}}]}}))
    .unwrap();
    let texts: Vec<String> = hints(&request).into_iter().map(|hint| hint.text).collect();
    assert_eq!(
        texts,
        [
            "/tmp/tool has changed since it was asked for; it will not run",
            "LD_PRELOAD makes programs load other code",
            "runs as root",
            "/tmp/tool is not a program of the system",
            "gone cannot be run: No such file or directory",
            "your SSH agent is lent to it",
        ]
    );
}

#[test]
fn tools_of_agents() {
    let tool = |tool: &str, input: Value| {
        let request = Request::read(&json!({"id": "a", "kind": "agent_tool", "tool": tool, "input": input,
            "requester": {"cwd": "/src"}}));
        hints(&request.unwrap()).into_iter().map(|hint| hint.text).collect::<Vec<_>>()
    };
    assert_eq!(tool("Bash", json!({"command": "rm -rf build"})), ["rm deletes or overwrites"]);
    assert_eq!(tool("Write", json!({"file_path": "/etc/x"})), ["writes to /etc/x, outside of /src"]);
    assert!(tool("Write", json!({"file_path": "/src/x"})).is_empty());
    assert_eq!(tool("WebFetch", json!({"url": "https://example.org"})), ["reaches the network"]);
    assert!(tool("Read", json!({"file_path": "/etc/x"})).is_empty());
}

#[test]
fn files_are_looked_at_again() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("tool");
    std::fs::write(&path, "one").unwrap();
    let digest = hostel_house::pipelines::hex_of(&Sha256::digest("one").into());
    let changed = |digest: &str| {
        let file = json!({"path": path, "target": path, "inode": 1, "size": 3, "digest": digest});
        let mut request = Request::read(&json!({"id": "a", "kind": "pipeline",
            "subject": {"stages": [{"argv": ["tool"], "file": file}]}}))
        .unwrap();
        look_again(&mut request);
        request.pipeline().unwrap().stages[0].file.changed
    };
    assert!(!changed(&digest) && !changed(&"0".repeat(64)));
    assert!(changed(""), "a file without a digest cannot be compared");
    // As long as before.
    std::fs::write(&path, "two").unwrap();
    assert!(changed(&digest));
}

#[test]
fn libraries_and_loaders_that_others_can_change_are_told_of() {
    let stages = |by_requester: bool| {
        json!([{"argv": ["tool"], "file": {"path": "/usr/bin/tool", "target": "/usr/bin/tool",
            "libraries": [{"path": "/home/me/lib", "changeable": "user 1000 owns it", "by_requester": by_requester}],
            "interpreters": [{"name": "/home/me/ld.so", "loader": true, "file": {"missing": "no such file"}}]}}])
    };
    for (by_requester, who) in [(true, "the requester"), (false, "others")] {
        assert_eq!(
            of(&stages(by_requester)),
            [
                "its loader /home/me/ld.so cannot be told: no such file".to_owned(),
                format!("loads libraries from /home/me/lib, which {who} can change"),
            ]
        );
    }
}
