//! `sudo-request`: asks a sudo-proxy to run a command and shows what came of it.
//!
//! Invariant: one request, one answer; leaving early takes the request back. The words are those of the contract's own
//! client.

mod answer;
mod exchange;
pub(crate) mod options;

use std::ffi::OsString;
use std::io;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::complain;
use super::digest::Style;
use super::hosts;
use super::registry;
use super::say;
use options::Options;
use options::Task;

/// The name it is called by.
pub(crate) const NAME: &str = "sudo-request";

/// How long an answer may take, and the variable that says otherwise in whole seconds.
const ANSWER: Duration = Duration::from_secs(600);
const ANSWER_VARIABLE: &str = "SUDO_REQUEST_TIMEOUT_SECS";

/// The whole program.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    match options::parse(words) {
        Ok(Task::Version) => say(&format!("{NAME} {}\n", super::reported_version())),
        Ok(Task::Help) => {
            complain(&format!("{}\n{}", options::USAGE, options::HELP.trim_end()));
            ExitCode::SUCCESS
        }
        Ok(Task::Request(options)) => match ask(&options) {
            Ok(code) => ExitCode::from(code),
            Err(message) => {
                complain(&format!("error: {message}"));
                ExitCode::FAILURE
            }
        },
        Err(message) => {
            complain(&format!("error: {message}\n{}", options::USAGE));
            ExitCode::FAILURE
        }
    }
}

fn ask(options: &Options) -> Result<u8, String> {
    let socket = options.socket.clone().unwrap_or_else(hosts::default_socket);
    let mut line = request(options).to_string();
    line.push('\n');
    let limit = answer_limit(std::env::var(ANSWER_VARIABLE).ok().as_deref());
    let line = exchange::ask(&socket, line.as_bytes(), limit)?;
    let answer = answer::read(line.trim())?;
    if options.print {
        let digest = answer.digest(Style::wanted())?;
        io::stdout().lock().write_all(digest.as_bytes()).unwrap_or_default();
        return Ok(0);
    }
    answer.show()
}

/// The request, dated now and under an id of its own.
fn request(options: &Options) -> serde_json::Value {
    let host = hosts::own_name();
    json!({
        "id": uuid::Uuid::new_v4().to_string(),
        "host": if host.is_empty() { "unknown".to_owned() } else { host },
        "session": options.session,
        "time": registry::now(),
        "pipeline": options.pipeline,
        "env": {},
        "reason": options.reason,
        "privileged": options.privileged,
        "forward_agent": options.forward_agent,
        "version": super::reported_version(),
    })
}

/// What the variable asks for; what is no number counts as nothing said, and 0 as no limit.
fn answer_limit(variable: Option<&str>) -> Option<Duration> {
    let asked = variable.and_then(|text| text.parse().ok()).map(Duration::from_secs);
    Some(asked.unwrap_or(ANSWER)).filter(|limit| !limit.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_a_number_of_seconds() {
        assert_eq!(answer_limit(None), Some(ANSWER));
        assert_eq!(answer_limit(Some("5")), Some(Duration::from_secs(5)));
        assert_eq!(answer_limit(Some("0")), None);
        for nonsense in ["", "5s", "-1", " 5"] {
            assert_eq!(answer_limit(Some(nonsense)), Some(ANSWER), "{nonsense:?}");
        }
    }
}
