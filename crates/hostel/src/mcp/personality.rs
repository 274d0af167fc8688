//! `sudo-proxy-mcp`: the MCP server of the sudo-proxy contract, for the daemons of that contract.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use hostel_doors::mcp::Profile;
use hostel_doors::mcp::Server;

use super::desk::Desk;
use super::desk::Local;
use super::serve;
use super::sockets::Sockets;
use crate::sudo_proxy::reported_version;

/// The whole program.
pub(crate) fn sudo_proxy_mcp_main(words: &[OsString]) -> ExitCode {
    let version = reported_version();
    let mut profile = Profile::sudo_proxy(version.clone());
    if words.iter().any(|word| word == "-V" || word == "--version") {
        // A reader that is gone wants no version.
        return match std::io::stdout().write_all(format!("{} {version}\n", profile.client).as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    if std::env::var_os("SUDO_PROXY_MCP_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0") {
        profile.trace = Some(trace);
    }
    let server = Server::new(profile, Arc::new(Sockets::of_contract()), Arc::new(Desk::new(Local::Terminal)));
    let problem = match serve::run(server, std::future::ready(())) {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    std::io::stderr().write_all(format!("Error: {problem}\n").as_bytes()).unwrap_or_default();
    ExitCode::FAILURE
}

/// A line for who looks for a fault.
fn trace(text: &str) {
    std::io::stderr().write_all(format!("[mcp] {text}\n").as_bytes()).unwrap_or_default();
}
