//! The limit for events: one thread that reads the CLI's pipe, parses each line, writes frames to the socket.
//!
//! It parses into a type as small as the lines allow and writes with one call what one read brought. It keeps nothing,
//! serves one client at a time and survives nothing: it is a yardstick.

use std::borrow::Cow;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context as _;
use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;

use super::http;

/// As much as the pipe holds.
const READ_BYTES: usize = 64 * 1024;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
                      transfer-encoding: chunked\r\nconnection: close\r\n\r\n";

/// What is looked for in a line; everything else is parsed and dropped.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    event: Option<Event<'a>>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

/// Serves one `session.send` after the other until it is ended; the agent is this same program.
pub(crate) fn run() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("binding a port")?;
    println!("{}", listener.local_addr()?.port());
    let program = std::env::current_exe().context("finding this program")?;
    loop {
        let (mut client, _) = listener.accept().context("accepting a client")?;
        client.set_nodelay(true)?;
        let request = http::read_request(&mut client)?;
        let prompt = request["params"]["message"].as_str().context("the request has no message")?;
        let mut agent = Command::new(&program)
            .args(["agent", "--print", prompt])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the agent")?;
        let mut output = agent.stdout.take().context("the agent has no stdout")?;
        client.write_all(HEAD)?;
        let pumped = pump(&mut output, &mut client);
        drop(output);
        if pumped.is_err() {
            // The client is gone; the agent may still be printing and must not outlive us.
            agent.kill().context("ending the agent")?;
        }
        agent.wait()?;
        pumped?;
    }
}

/// The loop everything else is measured against.
fn pump(output: &mut impl Read, client: &mut impl Write) -> Result<()> {
    let mut data = vec![0; READ_BYTES];
    let mut unfinished = 0;
    let mut frames = Vec::with_capacity(2 * READ_BYTES);
    let mut chunk = Vec::with_capacity(2 * READ_BYTES);
    loop {
        if unfinished == data.len() {
            data.resize(2 * unfinished, 0);
        }
        let count = output.read(&mut data[unfinished..])?;
        if count == 0 {
            frames.extend_from_slice(b"data: [DONE]\n\n");
            send(&frames, &mut chunk, client)?;
            client.write_all(b"0\r\n\r\n")?;
            return Ok(());
        }
        let end = unfinished + count;
        let mut start = 0;
        for newline in memchr::memchr_iter(b'\n', &data[..end]) {
            frame(&data[start..newline], &mut frames);
            start = newline + 1;
        }
        data.copy_within(start..end, 0);
        unfinished = end - start;
        if !frames.is_empty() {
            send(&frames, &mut chunk, client)?;
            frames.clear();
        }
    }
}

fn frame(line: &[u8], frames: &mut Vec<u8>) {
    let Ok(parsed) = serde_json::from_slice::<Line<'_>>(line) else {
        return;
    };
    let text = parsed.event.and_then(|event| event.delta).and_then(|delta| delta.text);
    match (&*parsed.kind, text) {
        ("stream_event", Some(text)) => {
            frames.extend_from_slice(br#"data: {"type":"partial","content":"#);
            // Into memory: it has no way to fail.
            serde_json::to_writer(&mut *frames, &text).unwrap_or_default();
            frames.extend_from_slice(b"}\n\n");
        }
        ("system" | "assistant" | "result", _) => {
            frames.extend_from_slice(b"data: {\"type\":\"");
            frames.extend_from_slice(parsed.kind.as_bytes());
            frames.extend_from_slice(b"\",\"raw\":");
            frames.extend_from_slice(line);
            frames.extend_from_slice(b"}\n\n");
        }
        _ => {}
    }
}

fn send(frames: &[u8], chunk: &mut Vec<u8>, client: &mut impl Write) -> Result<()> {
    chunk.clear();
    write!(chunk, "{:x}\r\n", frames.len())?;
    chunk.extend_from_slice(frames);
    chunk.extend_from_slice(b"\r\n");
    client.write_all(chunk).context("writing to the client")
}

/// The body of `session.send`, for whoever serves it.
pub(crate) fn message(session: &str, prompt: &str) -> Value {
    serde_json::json!({"method": "session.send", "params": {"sessionId": session, "message": prompt}, "id": "s"})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time, so that lines are cut anywhere.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn every_piece_becomes_a_frame() {
        let input = concat!(
            r#"{"type":"system","subtype":"init"}"#,
            "\n",
            r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":"a\n"}}}"#,
            "\n",
            "no json\n",
            r#"{"type":"stream_event","event":{"type":"message_stop"}}"#,
            "\n",
            r#"{"type":"stream_event","event":{"delta":{"text":"b"}}}"#,
            "\n",
        );
        for step in [1, 7, 1000] {
            let mut out = Vec::new();
            pump(&mut Trickle(input.as_bytes(), step), &mut out).unwrap();
            let mut frames = Vec::new();
            let mut stream = http::Body::default();
            stream
                .feed(&out, |frame| {
                    frames.push(String::from_utf8(frame.to_vec()).unwrap());
                    Ok(())
                })
                .unwrap();
            assert_eq!(
                frames,
                [
                    r#"{"type":"system","raw":{"type":"system","subtype":"init"}}"#,
                    r#"{"type":"partial","content":"a\n"}"#,
                    r#"{"type":"partial","content":"b"}"#,
                    "[DONE]",
                ]
            );
            assert!(stream.is_over());
        }
    }
}
