//! How a run of events is written down: a line each.
//!
//! Invariant: what is read is what was written. A line is `[turn,time,event]`, or only the event where turn and time are
//! those of the line before; a piece of text, of which there are most, is only its text. Pure.

use std::sync::Arc;

use hostel_agents::Event;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::types::Entry;

/// A line that says whose it is.
#[derive(Deserialize)]
struct Line<'a>(u64, u64, #[serde(borrow)] &'a RawValue);

/// Events in a row, as bytes.
pub(crate) fn write(run: &[Arc<Entry>]) -> serde_json::Result<Vec<u8>> {
    let mut body = Vec::with_capacity(run.len() * 32);
    let mut before = None;
    for entry in run {
        let whose = Some((entry.turn, entry.time_ns));
        if whose == before {
            write_event(&mut body, &entry.event)?;
        } else {
            body.push(b'[');
            serde_json::to_writer(&mut body, &entry.turn)?;
            body.push(b',');
            serde_json::to_writer(&mut body, &entry.time_ns)?;
            body.push(b',');
            write_event(&mut body, &entry.event)?;
            body.push(b']');
            before = whose;
        }
        body.push(b'\n');
    }
    Ok(body)
}

fn write_event(body: &mut Vec<u8>, event: &Event) -> serde_json::Result<()> {
    match event {
        Event::TextDelta { text } => serde_json::to_writer(body, text),
        event => serde_json::to_writer(body, event),
    }
}

/// The events of `body`, whose first has the number `first`, as far as they come after `after`.
pub(crate) fn read(body: &[u8], first: u64, after: u64) -> serde_json::Result<Vec<Arc<Entry>>> {
    let mut run = Vec::new();
    let (mut turn, mut time_ns) = (0, 0);
    for (seq, line) in (first..).zip(body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())) {
        let mut event = line;
        if line.starts_with(b"[") {
            let Line(of_turn, at, raw) = serde_json::from_slice(line)?;
            (turn, time_ns, event) = (of_turn, at, raw.get().as_bytes());
        }
        if seq > after {
            run.push(Arc::new(Entry { seq, turn, time_ns, event: read_event(event)? }));
        }
    }
    Ok(run)
}

/// No other event is a plain text: all have members.
fn read_event(json: &[u8]) -> serde_json::Result<Event> {
    match json.first() {
        Some(b'"') => Ok(Event::TextDelta { text: serde_json::from_slice(json)? }),
        _ => serde_json::from_slice(json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostel_agents::Raw;

    fn run() -> Vec<Arc<Entry>> {
        let text = |text: &str| Event::TextDelta { text: text.to_owned() };
        let raw = Raw::of(&serde_json::json!({"type": "system", "list": [1, "\n"]}));
        let init = Event::Init { subtype: "init".to_owned(), session_id: None, model: None, raw: Some(raw) };
        let events = [
            (1, 5, init.clone()),
            (1, 5, text("a\n\"[")),
            (1, 5, text("")),
            (1, 6, text("{\u{1f600}")),
            (1, 6, init),
            (2, 6, Event::Notice { message: "[2]".to_owned() }),
            (2, 6, Event::Text { text: "b".to_owned(), streamed: true }),
        ];
        (10..).zip(events).map(|(seq, (turn, time_ns, event))| Arc::new(Entry { seq, turn, time_ns, event })).collect()
    }

    fn same(left: &[Arc<Entry>], right: &[Arc<Entry>]) -> bool {
        let parts = |entry: &Arc<Entry>| (entry.seq, entry.turn, entry.time_ns, entry.event.clone());
        left.iter().map(parts).eq(right.iter().map(parts))
    }

    #[test]
    fn what_is_read_is_what_was_written_from_any_number_on() {
        let run = run();
        let body = write(&run).unwrap();
        for after in 0..20_u64 {
            let read = read(&body, 10, after).unwrap();
            let skipped = usize::try_from(after.saturating_sub(9)).unwrap().min(run.len());
            assert!(same(&read, &run[skipped..]), "{after}");
        }
        assert!(write(&[]).unwrap().is_empty());
        assert!(read(b"", 1, 0).unwrap().is_empty());
    }

    #[test]
    fn a_piece_of_text_takes_its_own_length_and_little_more() {
        let run = run();
        let body = String::from_utf8(write(&run).unwrap()).unwrap();
        let lines: Vec<&str> = body.lines().collect();
        assert_eq!(lines[1], r#""a\n\"[""#);
        assert_eq!(lines[3], "[1,6,\"{\u{1f600}\"]");
    }

    #[test]
    fn damage_is_told() {
        for body in ["[1,2]\n", "[1,2,{\"none\":{}}]\n", "\"x\n", "{}\n", "7\n"] {
            assert!(read(body.as_bytes(), 1, 0).is_err(), "{body}");
        }
    }
}
