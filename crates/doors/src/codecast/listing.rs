//! Sessions as they are listed.

use std::sync::Arc;

use hostel_house::sessions::{Session, Status};
use jiff::Timestamp;
use serde::Serialize;

use super::link::QueueStats;

/// A session in `session.list`: always all nine keys.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed {
    cli_type: String,
    created_at: String,
    last_activity_at: String,
    mode: &'static str,
    model: Option<String>,
    path: String,
    sdk_session_id: Option<String>,
    session_id: String,
    status: &'static str,
}

/// A session in `monitor.sessions`.
#[derive(Debug, Serialize)]
pub(super) struct Watched {
    #[serde(flatten)]
    pub(super) session: Listed,
    pub(super) queue: QueueStats,
}

impl Listed {
    pub(super) fn of(session: &Arc<Session>) -> Self {
        let info = session.info();
        Self {
            cli_type: info.agent,
            created_at: time(info.created_ns),
            last_activity_at: time(info.active_ns.max(info.created_ns)),
            mode: info.mode.name(),
            // What was chosen, and until then what the agent says it uses.
            model: info.model_chosen.or(info.model_reported),
            path: info.cwd.to_string_lossy().into_owned(),
            sdk_session_id: info.cli_session_id,
            session_id: info.id,
            status: match info.status {
                Status::Idle => "idle",
                Status::Busy => "busy",
            },
        }
    }
}

/// RFC 3339 with as many digits as every client can read, always the same number of them.
fn time(nanoseconds: u64) -> String {
    let time = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(time(1_774_778_400_123_456_789), "2026-03-29T10:00:00.123456Z");
        assert_eq!(time(u64::MAX), "2554-07-21T23:34:33.709551Z");
    }
}
