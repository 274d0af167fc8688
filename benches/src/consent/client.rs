//! A client of the sudo-proxy socket: a connection for each request, one line each way.
//!
//! Every request has an id of its own and the time of its sending, as the contract demands. An answer that is not the
//! success it should be fails the run.

use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use hostel_tests::sudo_proxy::moment;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;

use crate::client::PATIENCE;
use crate::stats;

/// Bytes of an answer without output, and more.
const SHORT: usize = 16 << 10;

/// The least of an answer that a scenario looks at.
#[derive(Deserialize)]
struct Answer {
    status: String,
    #[serde(default)]
    stages: Vec<Stage>,
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct Stage {
    exit_code: i64,
}

/// Where an answer is put. It is touched once and used again: what a client pays for fresh memory is no daemon's.
pub(crate) struct Room(Vec<u8>);

impl Room {
    /// For answers up to this long.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(vec![1; bytes])
    }
}

/// The whole answer to one request line, or the error of the connection.
fn exchange<'a>(socket: &Path, request: &Value, room: &'a mut Room) -> Result<&'a [u8]> {
    let mut stream = UnixStream::connect(socket).context("connecting")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{request}\n").as_bytes()).context("asking")?;
    let mut filled = 0;
    loop {
        match stream.read(&mut room.0[filled..]).context("waiting for the answer")? {
            0 => break,
            count => filled += count,
        }
    }
    ensure!(filled < room.0.len(), "an answer of more than {filled} bytes");
    Ok(&room.0[..filled])
}

fn request(argv: &[String]) -> Result<Value> {
    Ok(json!({
        "id": id()?, "host": "", "session": "bench", "time": now(), "pipeline": [argv],
        "reason": "a measurement", "privileged": false,
    }))
}

fn checked(answer: &[u8]) -> Result<Answer> {
    let parsed: Answer = serde_json::from_slice(answer).with_context(|| {
        format!("an answer that is none: {}", String::from_utf8_lossy(&answer[..answer.len().min(200)]))
    })?;
    let codes: Vec<i64> = parsed.stages.iter().map(|stage| stage.exit_code).collect();
    ensure!(parsed.status == "ok" && codes == [0], "{} {codes:?} {}", parsed.status, parsed.message);
    Ok(parsed)
}

/// Runs a command and gives how long that took; it must end with 0 and print nothing.
pub(crate) fn run(socket: &Path, argv: &[String]) -> Result<Duration> {
    let (request, mut room) = (request(argv)?, Room::new(SHORT));
    let begun = Instant::now();
    let answer = exchange(socket, &request, &mut room)?;
    let took = begun.elapsed();
    let answer = checked(answer)?;
    ensure!(answer.stdout.is_empty(), "a command that prints nothing printed something");
    Ok(took)
}

/// Runs a command that prints exactly this, and gives how long that took.
pub(crate) fn output(socket: &Path, argv: &[String], expected: &[u8], room: &mut Room) -> Result<Duration> {
    let request = request(argv)?;
    let begun = Instant::now();
    let answer = exchange(socket, &request, room)?;
    let took = begun.elapsed();
    let stdout = base64_simd::STANDARD.decode_to_vec(checked(answer)?.stdout).context("the output is not base64")?;
    ensure!(stdout == expected, "{} bytes came of {}, or others", stdout.len(), expected.len());
    Ok(took)
}

/// Asks the daemon to end.
pub(crate) fn stop(socket: &Path) -> Result<()> {
    let request = json!({"id": id()?, "action": "stop", "session": "bench", "time": now(), "pipeline": []});
    let answer: Value =
        serde_json::from_slice(exchange(socket, &request, &mut Room::new(SHORT))?).context("the answer to stop")?;
    ensure!(answer["status"] == "ok", "stop was answered with {answer}");
    Ok(())
}

/// What a closed loop of clients found.
pub(crate) struct Loop {
    pub(crate) rate: f64,
    /// Milliseconds.
    pub(crate) middle: f64,
    pub(crate) late: f64,
}

/// When a closed loop ends.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    Passed(Duration),
    /// Each client has had so many answers.
    Answers(usize),
}

/// So many clients, each asking again as soon as it is answered.
pub(crate) fn closed_loop(socket: &Path, argv: &[String], clients: usize, until: Until) -> Result<Loop> {
    let begun = Instant::now();
    let mut samples = std::thread::scope(|scope| -> Result<Vec<u64>> {
        let client = || -> Result<Vec<u64>> {
            let mut samples = Vec::new();
            while match until {
                Until::Passed(time) => begun.elapsed() < time,
                Until::Answers(count) => samples.len() < count,
            } {
                samples.push(u64::try_from(run(socket, argv)?.as_nanos())?);
            }
            Ok(samples)
        };
        let workers: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| anyhow::anyhow!("a client died"))??);
        }
        Ok(all)
    })?;
    let rate = samples.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Loop {
        rate,
        middle: stats::percentile(&mut samples, 0.5) as f64 / 1e6,
        late: stats::percentile(&mut samples, 0.99) as f64 / 1e6,
    })
}

/// An id nobody had before.
fn id() -> Result<String> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The time in the one form that the real daemon reads.
fn now() -> String {
    format!("{}Z", moment::from_now(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_no_success() {
        assert!(checked(br#"{"id":"1","status":"denied"}"#).is_err());
        assert!(checked(br#"{"id":"1","status":"ok","stages":[{"exit_code":1,"stderr":""}],"stdout":""}"#).is_err());
        assert!(checked(br#"{"id":"1","status":"ok","stages":[{"exit_code":0,"stderr":""}],"stdout":""}"#).is_ok());
    }
}
