//! What the session scenarios are made of: an agent CLI that is none, the bare limits, the daemon and its clients.

pub(crate) mod agent;
pub(crate) mod bare_http;
pub(crate) mod bare_loop;
pub(crate) mod closed_loop;
pub(crate) mod daemon;
pub(crate) mod group_commit;
pub(crate) mod http;
pub(crate) mod native;

use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;

use anyhow::Context as _;
use anyhow::Result;

use crate::server::Helper;

/// A helper process that said where on loopback it listens.
pub(crate) struct Listening {
    helper: Helper,
    port: u16,
}

impl Listening {
    /// Waits for the port, which is the first line a helper prints.
    pub(crate) fn wait(mut helper: Helper) -> Result<Listening> {
        let mut output = BufReader::new(helper.0.stdout.take().context("the helper has no stdout")?);
        let mut line = String::new();
        output.by_ref().take(32).read_line(&mut line).context("waiting for the helper's port")?;
        let port = line.trim().parse().with_context(|| format!("the helper said `{}`", line.trim()))?;
        Ok(Listening { helper, port })
    }

    /// Where it listens.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.helper.0.id()
    }
}
