//! What the tools of both programs need around them: the registry of hosts, and starting daemons.
//!
//! Invariant: the registry is written whole or not at all, and what others put there stays. A registry that cannot be
//! read counts as empty, and is not written over.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hostel_doors::mcp;
use hostel_doors::mcp::FirstContact;
use hostel_doors::mcp::HostInfo;
use hostel_doors::mcp::Later;
use hostel_doors::mcp::LaunchError;
use hostel_doors::mcp::Launched;

use super::terminal;
use crate::sudo_proxy::hosts;
use crate::sudo_proxy::registry::RegistryFile;

/// How a daemon of this machine is started.
pub(super) enum Local {
    /// In a terminal of its own.
    Terminal,
    /// The house, in the background.
    House(Arc<super::sockets::Starter>),
    /// It runs: we are part of it.
    Here,
}

/// The desk.
pub(super) struct Desk {
    own_name: String,
    registry: RegistryFile,
    local: Local,
    /// The words that run `sudo-proxy`.
    program: Vec<OsString>,
    has_program: bool,
}

impl Desk {
    pub(super) fn new(local: Local) -> Self {
        let (program, has_program) = sudo_proxy(&local);
        Desk { own_name: hosts::own_name(), registry: RegistryFile::of_user(), local, program, has_program }
    }

    fn in_terminal(&self, host: Option<&str>, first: FirstContact) -> Result<Launched, LaunchError> {
        let the_house = matches!(self.local, Local::Here);
        let emulator = terminal::emulator(the_house).map_err(LaunchError::NoTerminal)?;
        let mut words = self.program.clone();
        if let Some(host) = host {
            if first == FirstContact::AskInTerminal {
                // Another program of that name does not know how to ask.
                let own = std::env::current_exe().map_err(LaunchError::Spawn)?;
                words = acting(own);
                words.push("--ask-first".into());
            }
            words.extend(["--host".into(), host.into()]);
        }
        terminal::open(&emulator, &words, the_house).map_err(LaunchError::Spawn)?;
        Ok(Launched::Terminal)
    }
}

impl mcp::Desk for Desk {
    fn check(&self, host: &str) -> Result<(), String> {
        hosts::check(host).map_err(|error| error.to_string())
    }

    fn is_here(&self, host: &str) -> bool {
        hosts::is_this_machine(host, &self.own_name)
    }

    fn known(&self) -> BTreeMap<String, HostInfo> {
        let info = |host: crate::sudo_proxy::registry::HostRecord| HostInfo {
            description: host.description,
            os: host.os,
            last_connected: host.last_connected,
            version: host.version,
        };
        self.registry.read().hosts.into_iter().map(|(name, host)| (name, info(host))).collect()
    }

    fn registry(&self) -> String {
        self.registry.read().to_text()
    }

    fn update(&self, host: &str, description: Option<&str>, os: Option<&str>) -> io::Result<()> {
        self.registry.update(|registry| {
            let record = registry.host(host);
            if let Some(description) = description {
                description.clone_into(&mut record.description);
            }
            if let Some(os) = os {
                os.clone_into(&mut record.os);
            }
        })
    }

    fn seen(&self, host: &str, version: &str) {
        // A note that cannot be made is no reason to fail.
        self.registry
            .update(|registry| {
                registry.touch(host);
                registry.saw_version(host, version);
            })
            .unwrap_or_default();
    }

    fn has_program(&self) -> bool {
        self.has_program
    }

    fn launch<'a>(&'a self, host: Option<&'a str>, first: FirstContact) -> Later<'a, Result<Launched, LaunchError>> {
        Box::pin(async move {
            match (&self.local, host) {
                (Local::Terminal, _) | (_, Some(_)) => self.in_terminal(host, first),
                (Local::House(starter), None) => {
                    starter.start().await.map_err(LaunchError::Other)?;
                    Ok(Launched::House)
                }
                (Local::Here, None) => Ok(Launched::House),
            }
        })
    }
}

/// The words that run `sudo-proxy`, and whether such a program is there: one beside this program, one of the search
/// path, else this program in its place. The house itself runs no other program: an agent may have put it on the path.
fn sudo_proxy(local: &Local) -> (Vec<OsString>, bool) {
    let own = std::env::current_exe().ok();
    let found = match local {
        Local::Here => None,
        Local::Terminal | Local::House(_) => {
            let beside = own.as_ref().and_then(|own| Some(own.parent()?.join(crate::sudo_proxy::NAME)));
            beside.filter(|file| file.is_file()).or_else(|| terminal::find(crate::sudo_proxy::NAME))
        }
    };
    match (found, own) {
        (Some(program), _) => (vec![program.into_os_string()], true),
        (None, Some(own)) => (acting(own), true),
        (None, None) => (vec![crate::sudo_proxy::NAME.into()], false),
    }
}

fn acting(own: PathBuf) -> Vec<OsString> {
    vec![own.into_os_string(), "as".into(), crate::sudo_proxy::NAME.into()]
}
