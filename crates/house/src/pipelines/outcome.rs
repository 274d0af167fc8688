//! How an execution ended: what is answered, stored and audited.

use serde::{Deserialize, Serialize};

/// How the execution of a pipeline ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Outcome {
    /// What became of it as a whole.
    pub end: End,
    /// Each stage that was started, in order; all of them unless it could not be started.
    pub stages: Vec<StageEnd>,
    /// The last stage printed more than is kept.
    pub stdout_truncated: bool,
    /// Processes that could not be killed (they run as somebody else) and may live on.
    pub unkillable: Vec<u32>,
    /// When the first stage was started, nanoseconds of wall clock; 0 if none was.
    pub started_ns: u64,
    /// When it was over.
    pub ended_ns: u64,
}

/// What became of an execution.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "word")]
pub enum End {
    /// Every stage ended by itself.
    Finished,
    /// A stage could not be started; those before it were killed.
    CannotStart {
        /// Which one, from 0.
        stage: usize,
        /// The kernel's reason.
        errno: i32,
    },
    /// It took too long and was killed.
    TimedOut {
        /// The limit.
        secs: u64,
    },
    /// A file is not the one that was shown; nothing was started.
    Changed {
        /// Which stage's, from 0.
        stage: usize,
        /// What is different, in words.
        what: String,
    },
    /// It was killed.
    Killed {
        /// By whom or why, in words.
        why: String,
    },
    /// It was never started.
    NotRun {
        /// Why, in words.
        why: String,
    },
    /// What became of it cannot be known any more; it is not started again.
    Lost {
        /// Why, in words.
        why: String,
    },
}

/// How one stage ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StageEnd {
    /// Its exit status; -1 if a signal ended it.
    pub exit_code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// It wrote more to its standard error than is kept.
    pub stderr_truncated: bool,
}

impl Outcome {
    /// Nothing was started.
    pub(super) fn without_stages(end: End) -> Self {
        let ended_ns = crate::sessions::now_ns();
        Self { end, stages: Vec::new(), stdout_truncated: false, unkillable: Vec::new(), started_ns: 0, ended_ns }
    }

    pub(super) fn not_run(why: &str) -> Self {
        Self::without_stages(End::NotRun { why: why.to_owned() })
    }

    pub(super) fn lost(why: &str) -> Self {
        Self::without_stages(End::Lost { why: why.to_owned() })
    }
}
