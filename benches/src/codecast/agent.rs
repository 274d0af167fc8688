//! The agent CLI of the session scenarios: prints what claude prints, as fast or as slowly as the prompt says.
//!
//! It thinks nothing and asks nobody, so that whatever is measured is the way from its pipe to the client. The same
//! program is run by hostel and by the bare loop.

use std::fmt;
use std::io::BufWriter;
use std::io::Write;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;
use anyhow::bail;
use anyhow::ensure;

use crate::lines::now_ns;

/// What stands before and after the text of a piece.
type Frame = (&'static str, &'static str);

/// As claude 2.1 prints a piece of text: 292 bytes with eight of text.
const LONG: Frame = (
    r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""#,
    r#""}},"session_id":"850484be-1c2a-4be8-8c62-14421c8ade2f","parent_tool_use_id":null,"uuid":"3138941d-e725-4520-9a56-9c3cea4eef7d","api_message_id":"msg_337142cd3c4b407791e47012"}"#,
);

/// The least a piece can be: 90 bytes with eight of text.
const SHORT: Frame = (r#"{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":""#, r#""}}}"#);

const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/","session_id":"850484be-1c2a-4be8-8c62-14421c8ade2f","tools":["Bash","Edit","Read"],"mcp_servers":[],"model":"claude-bench-1","permissionMode":"bypassPermissions","slash_commands":[],"apiKeySource":"none","uuid":"0b1de0f3-6fd8-4b21-8a86-5a9a2b1f0a36"}"#;
const REPLY: &str = r#"{"type":"assistant","message":{"id":"msg_337142cd3c4b407791e47012","type":"message","role":"assistant","model":"claude-bench-1","content":[{"type":"text","text":"done"}],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"850484be-1c2a-4be8-8c62-14421c8ade2f","uuid":"5a0dc9f1-6cb5-4d2a-8d5f-3a1f2b9d1c77"}"#;
const RESULT: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":1,"duration_api_ms":1,"num_turns":1,"result":"done","session_id":"850484be-1c2a-4be8-8c62-14421c8ade2f","total_cost_usd":0.01,"usage":{"input_tokens":1,"output_tokens":1},"uuid":"b6a9a1f7-6c0a-4a67-9f1b-0d8f5a3d2e11"}"#;

/// What goes out with one write when nobody waits for single pieces.
const WRITE_BYTES: usize = 64 * 1024;

/// How long a piece's line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Long,
    Short,
}

/// When a piece leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// With many others in one write.
    Together,
    /// With a write of its own, the next at once.
    OneByOne,
    /// With a write of its own each so many microseconds; its text is the time of that write.
    EachMicros(u64),
}

/// What to print; travels as the prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) count: u64,
    pub(crate) shape: Shape,
    pub(crate) pace: Pace,
    /// Where the time of the last write is noted.
    pub(crate) note: Option<PathBuf>,
}

impl fmt::Display for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = match self.shape {
            Shape::Long => "long",
            Shape::Short => "short",
        };
        write!(formatter, "{} {shape} ", self.count)?;
        match self.pace {
            Pace::Together => write!(formatter, "together")?,
            Pace::OneByOne => write!(formatter, "one-by-one")?,
            Pace::EachMicros(micros) => write!(formatter, "{micros}")?,
        }
        self.note.as_ref().map_or(Ok(()), |path| write!(formatter, " {}", path.display()))
    }
}

impl FromStr for Script {
    type Err = anyhow::Error;

    fn from_str(prompt: &str) -> Result<Self> {
        let mut words = prompt.splitn(4, ' ');
        let mut word = || words.next().context("the prompt is COUNT SHAPE PACE [FILE]");
        let count = word()?.parse().context("COUNT")?;
        let shape = match word()? {
            "long" => Shape::Long,
            "short" => Shape::Short,
            other => bail!("no shape `{other}`"),
        };
        let pace = match word()? {
            "together" => Pace::Together,
            "one-by-one" => Pace::OneByOne,
            micros => Pace::EachMicros(micros.parse().context("PACE")?),
        };
        Ok(Script { count, shape, pace, note: words.next().map(PathBuf::from) })
    }
}

/// Runs with the arguments of claude; only the prompt after `--print` counts.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let prompt = arguments.iter().skip_while(|argument| *argument != "--print").nth(1);
    let script: Script = prompt.context("there is no --print PROMPT")?.parse()?;
    let mut out = BufWriter::with_capacity(WRITE_BYTES, std::io::stdout().lock());
    writeln!(out, "{INIT}")?;
    print_pieces(&script, &mut out)?;
    writeln!(out, "{REPLY}\n{RESULT}")?;
    out.flush()?;
    if let Some(path) = &script.note {
        // Appears with its content: whoever waits for it may read it at once.
        let draft = path.with_extension("draft");
        std::fs::write(&draft, now_ns().to_string())?;
        std::fs::rename(&draft, path)?;
    }
    Ok(())
}

fn print_pieces(script: &Script, out: &mut impl Write) -> Result<()> {
    ensure!(script.count <= 10_000_000, "at most ten million pieces");
    let (before, after) = match script.shape {
        Shape::Long => LONG,
        Shape::Short => SHORT,
    };
    let mut due = Instant::now();
    for number in 1..=script.count {
        match script.pace {
            Pace::Together => writeln!(out, "{before}{number:07} {after}")?,
            Pace::OneByOne => {
                writeln!(out, "{before}{number:07} {after}")?;
                out.flush()?;
            }
            Pace::EachMicros(micros) => {
                // The init line must not wait for the first piece.
                out.flush()?;
                due += Duration::from_micros(micros);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                writeln!(out, "{before}{} {after}", now_ns())?;
                out.flush()?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_survives_the_prompt() {
        for script in [
            Script { count: 1, shape: Shape::Long, pace: Pace::Together, note: None },
            Script { count: 2, shape: Shape::Short, pace: Pace::OneByOne, note: Some("/a b/c".into()) },
            Script { count: 3, shape: Shape::Long, pace: Pace::EachMicros(1000), note: None },
        ] {
            assert_eq!(script.to_string().parse::<Script>().unwrap(), script);
        }
        for wrong in ["", "1", "1 long", "x long together", "1 wide together", "1 long soon"] {
            assert!(wrong.parse::<Script>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn pieces_are_json_of_the_promised_length() {
        for (shape, length) in [(Shape::Long, 292), (Shape::Short, 90)] {
            let mut out = Vec::new();
            print_pieces(&Script { count: 2, shape, pace: Pace::Together, note: None }, &mut out).unwrap();
            let lines: Vec<&[u8]> = out.trim_ascii_end().split(|byte| *byte == b'\n').collect();
            assert_eq!(lines.len(), 2);
            assert_eq!(lines[1].len(), length);
            let line: serde_json::Value = serde_json::from_slice(lines[1]).unwrap();
            assert_eq!(line["event"]["delta"]["text"], "0000002 ");
        }
        for line in [INIT, REPLY, RESULT] {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
    }
}
