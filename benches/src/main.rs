//! Measures hostel beside the bare limit of the machine and the programs it stands in for.
//!
//! Every figure is a ratio between subjects that ran interleaved in the same call, because a
//! figure from another machine or another hour says nothing. A missed bar is printed and is not
//! an error; a run that could not be finished is.
//!
//! Never: leave a process, a socket or a temporary directory behind, or wait without a limit.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a table on the terminal is what this program is for")]

mod bare;
mod client;
mod codecast;
mod consent;
mod drain;
mod lines;
mod machine;
mod mesh;
mod options;
mod procfs;
mod report;
mod results;
mod scenarios;
mod server;
mod stats;
mod subject;
mod wire;

use std::process::ExitCode;

use options::Command;

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let command = match options::parse(&arguments) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("hostel-benches: {problem:#}; try `hostel-benches --help`");
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Help => {
            print!("{}", options::HELP);
            Ok(true)
        }
        Command::Suite(options) => results::run(&options),
        Command::BareStream { socket } => bare::stream(&socket).map(|()| true),
        Command::BarePing { socket } => bare::ping(&socket).map(|()| true),
        Command::Drain(request) => drain::run(&request).map(|()| true),
        Command::BareLoop => codecast::bare_loop::run().map(|()| true),
        Command::BareHttp { threads } => codecast::bare_http::run(threads).map(|()| true),
        Command::BareEcho => mesh::echo::run().map(|()| true),
        Command::Agent(arguments) => codecast::agent::run(&arguments).map(|()| true),
        Command::Lines { interval, count } => lines::print(interval, count).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("hostel-benches: {problem:#}");
            ExitCode::FAILURE
        }
    }
}
