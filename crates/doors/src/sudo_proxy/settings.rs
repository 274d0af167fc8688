//! What the door is told by the program around it.
//!
//! Every bound has the contract's value by default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;

use super::notice::Notice;
pub use super::time::Window;

/// How the door behaves. How long commands may run and how much they may print is for [`Pipelines`] to know.
///
/// [`Pipelines`]: hostel_house::pipelines::Pipelines
#[derive(Clone, Debug)]
pub struct Settings {
    /// The version that is put on every answer; the contract's clients compare it with their own.
    pub reported_version: String,
    /// Connections at once, whatever they are doing; the next one is told that there is no room.
    pub in_flight: usize,
    /// How long a client may take for its request line.
    pub line_time: Duration,
    /// How long an answer may make no progress. The contract gives each write 5 s and tries a started one once more, so
    /// that a client may pause for up to 10 s.
    pub write_stall: Duration,
    /// How old a request may be, and how far ahead its clock may run.
    pub window: Window,
    /// How long ids are remembered, the lead of the window not counted.
    pub remembered: Duration,
    /// How many are remembered at most; beyond that nothing new is taken.
    pub remembered_ids: usize,
    /// How long a request waits for an answer once it is shown.
    pub prompt_time: Duration,
    /// Stages of a pipeline.
    pub stages: usize,
    /// Privileged commands go through `pkexec`, which asks by itself: what it needs of the daemon's environment to do
    /// so. Otherwise through `sudo`.
    pub pkexec: Option<BTreeMap<String, String>>,
    /// Privileged commands get the user's `HOME`, `USER` and `LOGNAME`, as the contract has it, instead of root's.
    pub keeps_user: bool,
    /// The daemon's own `SSH_AUTH_SOCK`, for commands that may use it.
    pub agent_socket: Option<PathBuf>,
    /// A terminal of its own is where this door's requests are answered. Decides how it is said that there is nobody.
    pub terminal: bool,
    /// Each accepted request is logged.
    pub verbose: bool,
    /// How long those who are served may take to hear that the door ends.
    pub farewell: Duration,
    /// Whom to tell what happens; one that does not keep up misses some.
    pub notices: Option<mpsc::Sender<Notice>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            reported_version: "1.2.0".to_owned(),
            in_flight: 64,
            line_time: Duration::from_secs(10),
            write_stall: Duration::from_secs(10),
            window: Window { age: 60, lead: 30 },
            remembered: Duration::from_secs(120),
            remembered_ids: 1_000_000,
            prompt_time: Duration::from_secs(60),
            stages: 64,
            pkexec: None,
            keeps_user: false,
            agent_socket: None,
            terminal: false,
            verbose: false,
            farewell: Duration::from_secs(4),
            notices: None,
        }
    }
}

impl Settings {
    /// How long an id is really remembered: never shorter than a request with it can be fresh.
    pub(crate) fn memory(&self) -> Duration {
        let lead = Duration::from_secs(self.window.lead.into());
        self.remembered.max(Duration::from_secs(self.window.age.into())) + lead
    }
}
