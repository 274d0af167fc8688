//! Entry points for fuzz targets: everything here is a pure function of a stranger's bytes.
//!
//! They return what was produced so that a target can check it; they never check by themselves.

use std::collections::BTreeMap;

use super::answer;
use super::answer::Plain;
use super::gates::Screened;
use super::request;
use super::time;
use super::time::Stale;
use super::time::Window;

/// The window that [`judge`] uses.
pub const WINDOW: Window = Window { age: 60, lead: 30 };

/// Stages that [`judge`] lets pass.
pub const STAGES: usize = 64;

/// A request that passed every gate but the one of used ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    /// Its id, sent or made.
    pub id: String,
    /// The words of each stage.
    pub pipeline: Vec<Vec<String>>,
    /// The variables it brings.
    pub env: BTreeMap<String, String>,
    /// Everything else that is shown: reason, session, host, version.
    pub shown: [String; 4],
    /// Its time as it was sent.
    pub time: String,
    /// Whether it wants to be root, and whether it wants the agent.
    pub wants: (bool, bool),
}

/// Takes a line through the gates at the second `now`. A refusal is the answer line.
///
/// # Errors
/// The line it is refused with.
pub fn judge(line: &[u8], now: i64) -> Result<Passed, Vec<u8>> {
    let refuse = |id: &str, message: String| answer::line(id, &Plain::Error(message), "1.2.0");
    let fields = request::decode(line).map_err(|error| refuse("", format!("invalid JSON: {error}")))?;
    let passed = Screened::of(fields, STAGES).and_then(|screened| screened.accept(now, WINDOW));
    let fields = passed.map_err(|refused| refuse(&refused.id, refused.message))?.into_fields();
    Ok(Passed {
        id: fields.id,
        pipeline: fields.pipeline,
        env: fields.env,
        shown: [fields.reason, fields.session, fields.host, fields.version],
        time: fields.time,
        wants: (fields.privileged, fields.forward_agent),
    })
}

/// Reads a time.
pub fn parse_time(text: &str) -> Option<i64> {
    time::parse(text)
}

/// Judges a time.
///
/// # Errors
/// Why it is not taken.
pub fn judge_time(text: &str, now: i64) -> Result<(), Stale> {
    time::judge(text, now, WINDOW)
}
