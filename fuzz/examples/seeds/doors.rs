//! What the doors are asked: the requests of the black-box tests.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;

use super::{Failure, project, put, some};

/// Each data file's requests as one seed, and each distinct params text as another.
pub fn claustrum() -> Result<(), Failure> {
    let mut params = BTreeSet::new();
    for entry in fs::read_dir(project().join("tests/claustrum/data"))? {
        let path = entry?.path();
        let mut lines = String::new();
        for line in fs::read_to_string(&path)?.lines() {
            if let Some(raw) = line.strip_prefix("> ") {
                lines.push_str(&raw.replace("${TOKEN}", "tok"));
            } else if let Some(call) = line.strip_prefix(">> ") {
                let (method, given) = call.split_once(' ').unwrap_or((call, "{}"));
                lines.push_str(&format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{given},"auth":"tok"}}"#
                ));
                params.insert(given.to_owned());
            } else {
                continue;
            }
            lines.push('\n');
        }
        let name = path.file_stem().and_then(OsStr::to_str).unwrap_or("unnamed");
        lines.truncate(lines.char_indices().map(|(at, _)| at).take_while(|at| *at <= 6000).last().unwrap_or(0));
        put("claustrum_request", name, &lines)?;
    }
    some("claustrum_params", &params)?;
    let spawn = r#"{"id":"p","command":"sh","args":["-c","x",null],"cwd":"/","env":{"A":"1","B":null},"wantPid":true}"#;
    put("claustrum_params", "spawn", spawn)?;
    put("claustrum_params", "stdin", r#"{"ID":"p","data":"aGkK","offset":18446744073709551615}"#)?;
    put("claustrum_json", "mixed", r#" {"b":[1.0,-1e-7,1E21,null,true],"a":"\u00e9<\/>","a":{}} "#)?;
    put("claustrum_json", "surrogates", r#"["\ud83d\ude00","\ud800"]"#)?;
    put("claustrum_json", "text", b"\xe2\x80\xa8 \xff\xe2\x82 a&b \xf0\x9f\x98\x80")?;
    Ok(())
}

/// Distinct requests of a door's data files as one seed each, and distinct params for the door that has a target for
/// them.
pub fn sessions(door: &str, target: &str) -> Result<(), Failure> {
    let (mut requests, mut params) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(project().join("tests").join(door).join("data"))? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            if let Some(raw) = line.strip_prefix("> ") {
                requests.insert(raw.to_owned());
            } else if let Some(call) = line.strip_prefix(">> ") {
                let (method, given) = call.split_once(' ').unwrap_or((call, "{}"));
                requests.insert(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{given}}}"#));
                params.insert(given.to_owned());
            }
        }
    }
    some(target, &requests)?;
    if door == "zeroclaw" {
        some("zeroclaw_params", &params)?;
        put("zeroclaw_params", "list", r#"["s","hello",null,7]"#)?;
        put("zeroclaw_params", "both", r#"{"session_id":"s","sessionId":"s","since_seq":3,"raw_input":{"a_b":1}}"#)?;
    } else {
        put(target, "kept", "1 0 7 3-5 8-9 12-")?;
    }
    Ok(())
}

/// Distinct requests as one seed each, at the moment their target knows; and distinct times.
pub fn sudo_proxy() -> Result<(), Failure> {
    const NOW: &str = "2026-02-13T14:30:00";
    let (mut requests, mut times) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(project().join("tests/sudo_proxy/data"))? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let line = line.replace("${T}", NOW).replace("${CASE}", "case").replace("${DIR}", "/tmp");
            if line.contains("${") {
                continue;
            }
            if let Some(raw) = line.strip_prefix("> ") {
                requests.insert(raw.to_owned());
            } else if let Some(rest) = line.strip_prefix(">> {") {
                let time = if rest.contains("\"time\":") { String::new() } else { format!("\"time\":\"{NOW}Z\",") };
                requests.insert(format!("{{{time}{rest}"));
            }
            if let Some((_, rest)) = line.split_once("\"time\":\"")
                && let Some((time, _)) = rest.split_once('"')
            {
                // A number of eight bytes comes first: the moment it is judged at.
                let now = 1_770_993_000_i64.to_le_bytes();
                times.insert([&now[..], time.as_bytes()].concat());
            }
        }
    }
    some("sudo_proxy_request", &requests)?;
    let numbered = times.iter().enumerate();
    numbered.map(|(number, time)| put("sudo_proxy_time", &format!("{number:02}"), time)).collect()
}

pub fn native() -> Result<(), Failure> {
    let lines = [
        r#"{"protocol_version":1}"#,
        r#"{"argv":["sh",{"base64":"/w=="}],"name":"x","cwd":"/","env":{"A":"b"},"replace":true}"#,
        r#"{"id":"x","since_seq":3,"follow":false}"#,
        r#"{"id":"x","data":"aGk=","offset":2}"#,
        r#"{"id":"x","signal":"TERM","wait_ms":5,"escalate":true}"#,
        r#"{"processes":[{"id":"a","name":"n","door":"d","pid":1,"command":"c","state":"held","started_ns":1,"last_seq":2,"stdin_applied":0}]}"#,
        r#"{"id":"a","stream":"stderr","seq":1,"data":""}"#,
        r#"{"seq":4,"exit_code":-1,"signal":9,"lost":true}"#,
        "",
    ];
    put("native_line", "messages", lines.join("\n"))
}

/// Bodies and queries of the `/v1` surface.
pub fn claudemesh() -> Result<(), Failure> {
    let (mut bodies, mut queries) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(project().join("tests/claudemesh/data"))? {
        for line in fs::read_to_string(entry?.path())?.lines() {
            let Some((_, request)) = line.split_once("> ").filter(|_| line.starts_with('>')) else { continue };
            let mut words = request.splitn(3, ' ');
            let (path, body) = (words.nth(1).unwrap_or_default(), words.next().unwrap_or_default());
            bodies.extend(Some(body.to_owned()).filter(|body| !body.is_empty()));
            queries.extend(path.split_once('?').map(|(_, query)| query.to_owned()));
        }
    }
    some("claudemesh_body", &bodies)?;
    put("claudemesh_body", "key", "c\0{\"to\":\"bob\",\"message\":\"m\",\"client_message_id\":\"c\"}")?;
    some("claudemesh_query", &queries)
}
