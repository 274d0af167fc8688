//! Says lines to a socket and keeps what it hears: a client that a test can start in any tree of processes.
//!
//! `speaker SOCKET HEARD LINE…` sends each LINE and waits for a line after it. HEARD appears when it is done, with what
//! was heard, one line each; `lost` stands for a connection that ended.

#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test program: a surprise must end it")]

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A request that waits for a decision must stay for as long as its test runs. The end of the daemon ends the wait.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [socket, heard, lines @ ..] = arguments.as_slice() else { panic!("speaker SOCKET HEARD LINE…") };
    let said = speak(socket, lines).unwrap_or_else(|error| format!("lost: {error}\n"));
    let draft = format!("{heard}.draft");
    fs::write(&draft, said).expect("a file");
    fs::rename(&draft, heard).expect("a file in its place");
}

fn speak(socket: &str, lines: &[String]) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let mut source = BufReader::new(stream.try_clone()?);
    let mut heard = String::new();
    for line in lines {
        stream.write_all(format!("{line}\n").as_bytes())?;
        // What is told in between is not an answer: those have the id that was asked with, as every request here has.
        loop {
            let mut answer = String::new();
            if source.read_line(&mut answer)? == 0 {
                heard.push_str("lost\n");
                return Ok(heard);
            }
            if !answer.contains("\"method\"") {
                heard.push_str(&answer);
                break;
            }
        }
    }
    Ok(heard)
}
