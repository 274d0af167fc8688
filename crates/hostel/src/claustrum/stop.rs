//! `-stop`: ask a running daemon to shut down, and take no for an answer.
//!
//! Invariant: every way out is exit code 0 and takes at most two seconds after the question was sent.

use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::claustrum::gojson::encode::push_string;

/// How long the daemon has to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The most of an answer that is passed on.
const ANSWER: usize = 4096;

pub(super) fn run(socket: &Path) -> ExitCode {
    if let Some(answer) = ask(socket) {
        // An answer nobody wants to read changes nothing.
        std::io::stdout().lock().write_all(&answer).unwrap_or_default();
    }
    ExitCode::SUCCESS
}

/// The daemon's answer; none if there is no daemon or it has nothing to say.
fn ask(socket: &Path) -> Option<Vec<u8>> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_write_timeout(Some(LIMIT)).ok()?;
    stream.set_read_timeout(Some(LIMIT)).ok()?;
    let token = std::env::var_os("CLAUDE_RPC_TOKEN").unwrap_or_default();
    stream.write_all(&question(token.as_bytes())).ok()?;
    let mut answer = vec![0; ANSWER];
    // A read with a time limit is interrupted when the process is stopped and continued.
    let count = loop {
        match stream.read(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            read => break read.ok()?,
        }
    };
    answer.truncate(count);
    Some(answer)
}

fn question(token: &[u8]) -> Vec<u8> {
    let mut line = br#"{"jsonrpc":"2.0","id":1,"method":"server.shutdown","auth":"#.to_vec();
    push_string(&mut line, token);
    line.extend_from_slice(b"}\n");
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_question_has_its_members_in_order() {
        assert_eq!(
            question(b"a<\"b"),
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.shutdown\",\"auth\":\"a\\u003c\\\"b\"}\n"
        );
        assert_eq!(question(b""), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server.shutdown\",\"auth\":\"\"}\n");
    }
}
