//! A process's output on its way to one connection.
//!
//! Invariant: frames go out in the order of their numbers, each once, the exit last. The next piece of the journal is
//! read only after the previous one was written to the socket.

use std::sync::Arc;

use hostel_house::processes::Batch;
use hostel_house::processes::Exit;
use hostel_house::processes::HeldBecause;
use hostel_house::processes::Item;
use hostel_house::processes::Next;
use hostel_house::processes::Process;
use hostel_house::processes::Processes;
use hostel_house::processes::Stream;
use hostel_house::processes::Watch;

use super::methods;
use super::protocol::Attach;
use super::protocol::Attached;
use super::protocol::code;
use crate::rpc::Failure;
use crate::rpc::Writer;

/// A stream that has not begun.
pub(super) struct Prepared {
    pub(super) attached: Attached,
    watch: Watch,
}

impl Prepared {
    /// Whose output it is.
    pub(super) fn process(&self) -> &Process {
        self.watch.process()
    }
}

/// Finds the process and puts a cursor into its journal.
pub(super) fn prepare(processes: &Processes, attach: &Attach) -> Result<Prepared, Failure> {
    let process = methods::find(processes, &attach.id)?;
    let status = process.status();
    let watch = Arc::clone(&process)
        .watch(attach.since_seq)
        .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
    Ok(Prepared {
        attached: Attached {
            id: process.id().to_string(),
            name: process.name().to_owned(),
            running: status.running,
            first_seq: status.first_seq,
            last_seq: status.last_seq,
            stdin_applied: status.stdin_applied,
            pid: process.pid(),
        },
        watch,
    })
}

/// Sends what there is and, if asked to, what comes.
pub(super) async fn run(prepared: Prepared, follow: bool, writer: Writer) {
    let Prepared { attached, mut watch } = prepared;
    let id = attached.id;
    let until = attached.last_seq;
    let mut batch = Batch::default();
    let mut lines = Vec::new();
    // Whether the end was among what was sent.
    let mut told = false;
    let mut held = None;
    let process = Arc::clone(watch.process());
    loop {
        let finished = !follow && watch.position() >= until;
        let next = match finished {
            true => Ok(Next::Ended),
            false => tokio::select! {
                biased;
                next = watch.next(&mut batch) => next,
                because = process.held_otherwise_than(held), if follow => {
                    held = because;
                    lines.clear();
                    push_held(&mut lines, &id, because);
                    if writer.send(&lines).await.is_err() {
                        return;
                    }
                    continue;
                }
            },
        };
        lines.clear();
        match next {
            Ok(Next::Items) => {
                for item in batch.items() {
                    told |= matches!(item, Item::Exit { .. });
                    push(&mut lines, &id, &item);
                }
                if writer.send(&lines).await.is_err() {
                    return;
                }
            }
            Ok(Next::Ended) => {
                let status = watch.process().status();
                match status.exit {
                    _ if !follow => push_plain(&mut lines, "process/replayed", &id, watch.position()),
                    // Who asked for what comes after the end still wants to know how it ended.
                    Some(exit) if !told => push(&mut lines, &id, &Item::Exit { seq: status.last_seq, exit }),
                    _ => {}
                }
                drop(writer.send(&lines).await);
                return;
            }
            Ok(Next::Replaced) => {
                push_plain(&mut lines, "process/replaced", &id, watch.position());
                drop(writer.send(&lines).await);
                return;
            }
            Err(error) => {
                push_failed(&mut lines, &id, &error.to_string());
                drop(writer.send(&lines).await);
                return;
            }
        }
    }
}

/// One item as a line. The id is hexadecimal and base64 needs no escaping, so the line is put together by hand.
fn push(lines: &mut Vec<u8>, id: &str, item: &Item<'_>) {
    match item {
        Item::Output { stream, seq, time_ns, data } => {
            let stream = match stream {
                Stream::Out => "stdout",
                Stream::Err => "stderr",
            };
            let head = format!(
                r#"{{"jsonrpc":"2.0","method":"process/output","params":{{"id":"{id}","stream":"{stream}","seq":{seq},"time_ns":{time_ns},"data":""#
            );
            lines.extend_from_slice(head.as_bytes());
            base64_simd::STANDARD.encode_append(data, lines);
            lines.extend_from_slice(b"\"}}\n");
        }
        Item::Exit { seq, exit } => {
            let Exit { code, signal, lost } = exit;
            let mut line = format!(
                r#"{{"jsonrpc":"2.0","method":"process/exit","params":{{"id":"{id}","seq":{seq},"exit_code":{code}"#
            );
            if *signal != 0 {
                line.push_str(&format!(r#","signal":{signal}"#));
            }
            if *lost {
                line.push_str(r#","lost":true"#);
            }
            line.push_str("}}\n");
            lines.extend_from_slice(line.as_bytes());
        }
    }
}

/// The end of a stream that is not the end of its process.
fn push_plain(lines: &mut Vec<u8>, method: &str, id: &str, last_seq: u64) {
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"id\":\"{id}\",\"last_seq\":{last_seq}}}}}\n"
    );
    lines.extend_from_slice(line.as_bytes());
}

/// A process that prints nothing may wait for room: whoever waits for it hears why.
fn push_held(lines: &mut Vec<u8>, id: &str, because: Option<HeldBecause>) {
    let because = match because {
        None => "null",
        Some(HeldBecause::Quota) => "\"quota\"",
        Some(HeldBecause::DiskFull) => "\"disk_full\"",
        Some(HeldBecause::DiskError) => "\"disk_error\"",
    };
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"process/held\",\"params\":{{\"id\":\"{id}\",\"because\":{because}}}}}\n"
    );
    lines.extend_from_slice(line.as_bytes());
}

fn push_failed(lines: &mut Vec<u8>, id: &str, message: &str) {
    let message = serde_json::Value::from(message);
    let line = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"process/failed\",\"params\":{{\"id\":\"{id}\",\"message\":{message}}}}}\n"
    );
    lines.extend_from_slice(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::protocol;
    use super::*;

    #[test]
    fn hand_made_lines_are_what_the_types_say() {
        let mut lines = Vec::new();
        push(&mut lines, "ab12", &Item::Output { stream: Stream::Err, seq: 7, time_ns: 9, data: b"\x00\xff\"\n" });
        push(&mut lines, "ab12", &Item::Exit { seq: 8, exit: Exit { code: -1, signal: 9, lost: false } });
        push_plain(&mut lines, "process/replayed", "ab12", 8);
        push_failed(&mut lines, "ab12", "a \"b\"");
        let values: Vec<serde_json::Value> = lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let output: protocol::Output = serde_json::from_value(values[0]["params"].clone()).unwrap();
        assert_eq!(output.stream, protocol::StreamName::Stderr);
        assert_eq!(base64_simd::STANDARD.decode_to_vec(output.data).unwrap(), b"\x00\xff\"\n");
        assert_eq!((output.seq, output.time_ns), (7, 9));
        let exit: protocol::Exit = serde_json::from_value(values[1]["params"].clone()).unwrap();
        assert_eq!((exit.seq, exit.exit_code, exit.signal, exit.lost), (8, -1, Some(9), false));
        assert_eq!(values[2]["params"]["last_seq"], 8);
        assert_eq!(values[3]["params"]["message"], "a \"b\"");
    }
}
