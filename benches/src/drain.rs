//! The client of the stream scenarios, a process of its own: asks for a child and drains it.
//!
//! It checks what it drains (seq without a gap, frames within the size limit, bytes counted, exit
//! last) and prints one JSON line about it. It decodes nothing: the length of base64 is enough.

use std::io::BufRead as _;
use std::io::Write as _;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::ensure;
use serde_json::json;

use crate::client;
use crate::client::Connection;
use crate::options::DrainRequest;
use crate::procfs;
use crate::wire;
use crate::wire::Kind;

/// The environment variable that carries the token.
pub(crate) const TOKEN_VARIABLE: &str = "HOSTEL_BENCH_TOKEN";

/// For a server that trickles for ever; below the limit that the suite sets for this process.
const LIMIT: Duration = Duration::from_secs(110);

/// Runs the request to its exit frame.
pub(crate) fn run(request: &DrainRequest) -> Result<()> {
    let token = std::env::var(TOKEN_VARIABLE).unwrap_or_default();
    let mut connection = Connection::open(&request.socket, &token).context("connecting to the server")?;
    let params = client::spawn_params(&request.id, &request.command);
    let mut start = Instant::now();
    if request.gated {
        connection.call("process.spawn", Some(&params))?;
        println!("ready");
        std::io::stdout().flush()?;
        std::io::stdin().lock().read_line(&mut String::new()).context("waiting for the word to start")?;
        start = Instant::now();
        let newline = json!({"id": request.id, "data": "Cg=="});
        connection.send("process.stdin", Some(&newline))?;
    } else {
        connection.send("process.spawn", Some(&params))?;
    }

    let (mut bytes, mut frames) = (0, 0);
    let code = loop {
        ensure!(start.elapsed() < LIMIT, "not finished after {} s", LIMIT.as_secs());
        let line = connection.next_line()?;
        if !wire::is_frame(line) {
            client::reply(line)?;
            continue;
        }
        let frame = wire::frame(line)?;
        frames += 1;
        ensure!(frame.seq == frames, "seq {} came as frame {frames}", frame.seq);
        match frame.kind {
            Kind::Exit { code } => break code,
            Kind::Output => {
                let length = wire::decoded_length(frame.data);
                ensure!(length <= wire::FRAME_BYTES as u64, "a frame of {length} bytes");
                bytes += length;
            }
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{}",
        json!({
            "bytes": bytes, "frames": frames, "exit_code": code,
            "seconds": seconds, "cpu": procfs::own_cpu_seconds(),
        })
    );
    Ok(())
}
