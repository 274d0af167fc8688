//! What one client may have waiting in the inbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;

use hostel_tests::wait;
use serde_json::{Value, json};
use support::house::House;

/// Questions that one connection may have open.
const OPEN: usize = 64;

#[test]
fn questions_that_come_all_at_once_are_counted_too() {
    let house = House::up();
    let mut stream = UnixStream::connect(house.home().join("run/hostel.sock")).unwrap();
    stream.set_read_timeout(Some(wait::limit())).unwrap();
    let line = |id: usize, method: &str, params: Value| {
        format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    };
    let mut lines = line(0, "initialize", json!({"protocol_version": 1}));
    let asked = 4 * OPEN;
    for number in 1..=asked {
        lines += &line(number, "approval/ask", json!({"question": format!("may I, {number}?")}));
    }
    stream.write_all(lines.as_bytes()).unwrap();
    let answers = BufReader::new(stream.try_clone().unwrap()).lines().skip(1);
    for answer in answers.take(asked - OPEN) {
        let answer = answer.unwrap();
        assert!(answer.contains("at most 64 open questions"), "{answer}");
    }
    // Refusals are told at once; an accepted question is listed when it is stored.
    wait::eventually("as many questions as one client may have", || {
        let list = house.json(&["approvals", "list", "--json"]);
        match list["approvals"].as_array().unwrap().len() {
            OPEN => Ok(()),
            fewer if fewer < OPEN => Err(format!("{fewer} questions")),
            more => panic!("{more} questions of one client are open"),
        }
    });
}
