//! The limit of the machine: the least a server could do for each scenario.
//!
//! `stream` is one thread that reads a pipe in 32 KiB, encodes a frame and writes it to the socket;
//! `ping` answers every line with a fixed one; `spawn_and_wait` runs a program and nothing else.
//! None of them checks a token, keeps a byte or survives anything: they are yardsticks.

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::net::UnixListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use serde_json::Value;
use serde_json::json;

use crate::client::PATIENCE;
use crate::procfs;
use crate::wire;

/// What the ping server answers, whatever it was asked; the client always asks with id 1.
const PONG: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"pong\":true}}\n";

fn accept(listener: &UnixListener) -> Result<UnixStream> {
    let mut waiting = [PollFd::new(listener, PollFlags::IN)];
    let limit = Timespec { tv_sec: i64::try_from(PATIENCE.as_secs()).unwrap_or(30), tv_nsec: 0 };
    let ready = rustix::event::poll(&mut waiting, Some(&limit)).context("waiting for a client")?;
    ensure!(ready > 0, "no client came within {} s", PATIENCE.as_secs());
    let (stream, _) = listener.accept().context("accepting a client")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Serves one `process.spawn` to one client, then prints the CPU seconds it took as JSON.
pub(crate) fn stream(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket).context("binding the socket")?;
    let mut client = accept(&listener)?;
    let mut request = String::new();
    BufReader::new(client.try_clone()?).read_line(&mut request).context("reading the request")?;
    let request: Value = serde_json::from_str(&request).context("the request is not JSON")?;
    let params = &request["params"];
    let (Some(id), Some(command)) = (params["id"].as_str(), params["command"].as_str()) else {
        bail!("the request has no id or no command");
    };
    let arguments = params["args"].as_array().into_iter().flatten();

    let mut child = Command::new(command)
        .args(arguments.filter_map(Value::as_str))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the child")?;
    client.write_all(
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"success\":true}}}}\n", request["id"]).as_bytes(),
    )?;
    let mut output = child.stdout.take().context("the child has no stdout")?;
    let pumped = pump(&mut output, &mut client, id);
    if pumped.is_err() {
        // The client is gone; the child may still be printing and must not outlive us.
        child.kill().context("ending the child")?;
    }
    drop(output);
    let code = child.wait()?.code().unwrap_or(-1);
    let seq = pumped?;
    let mut line = Vec::new();
    wire::write_exit(&mut line, id, seq + 1, code)?;
    client.write_all(&line)?;
    let usage = procfs::cpu(std::process::id())?;
    println!("{}", json!({"cpu": procfs::own_cpu_seconds(), "child_cpu": usage.reaped_seconds}));
    Ok(())
}

/// The loop everything else is measured against. Returns the last seq.
fn pump(output: &mut impl std::io::Read, client: &mut UnixStream, id: &str) -> Result<u64> {
    let mut seq = 0;
    let mut data = vec![0; wire::FRAME_BYTES];
    let mut line = Vec::with_capacity(2 * wire::FRAME_BYTES);
    loop {
        let count = output.read(&mut data)?;
        if count == 0 {
            return Ok(seq);
        }
        seq += 1;
        wire::write_output(&mut line, id, seq, &data[..count])?;
        client.write_all(&line)?;
    }
}

/// Answers lines until killed, or until no client came for a while; a thread for each connection.
pub(crate) fn ping(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket).context("binding the socket")?;
    loop {
        let client = accept(&listener)?;
        std::thread::spawn(move || answer(client));
    }
}

fn answer(mut client: UnixStream) {
    let mut buffer = [0; 64 * 1024];
    let mut replies = Vec::new();
    loop {
        let Ok(count @ 1..) = client.read(&mut buffer) else {
            return;
        };
        replies.clear();
        for _ in memchr::memchr_iter(b'\n', &buffer[..count]) {
            replies.extend_from_slice(PONG);
        }
        if client.write_all(&replies).is_err() {
            return;
        }
    }
}

/// Runs `program` again and again in `threads` threads; returns how many ended per second.
pub(crate) fn spawn_and_wait(program: &str, threads: usize, count: u64, limit: Duration) -> Result<f64> {
    let begun = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while start.elapsed() < limit && begun.fetch_add(1, Ordering::Relaxed) < count {
                        let status = Command::new(program)
                            .stdin(Stdio::null())
                            .stdout(Stdio::null())
                            .stderr(Stdio::null())
                            .status()
                            .with_context(|| format!("running {program}"))?;
                        ensure!(status.success(), "{program} ended with {status}");
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(outcome) => outcome?,
                Err(_) => bail!("a spawning thread died"),
            }
        }
        Ok(())
    })?;
    Ok(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_cuts_at_32_kib_and_counts_from_one() {
        let data: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        let (mut near, far) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut whole = Vec::new();
            for (expected, line) in (1..).zip(BufReader::new(far).split(b'\n')) {
                let line = line.unwrap();
                let frame = wire::frame(&line).unwrap();
                assert_eq!(frame.seq, expected);
                whole.extend(base64_simd::STANDARD.decode_to_vec(frame.data).unwrap());
            }
            whole
        });
        let last = pump(&mut &data[..], &mut near, "p").unwrap();
        drop(near);
        assert_eq!(last, 4);
        assert_eq!(reader.join().unwrap(), data);
    }
}
