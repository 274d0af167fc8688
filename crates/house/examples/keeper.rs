//! A program that is nothing but a keeper, or the echo agent, so that the house's tests have both to start.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == "echo-agent") {
        let done = hostel_agents::echo::program::run(std::io::stdin().lock(), std::io::stdout());
        return if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    hostel_keeper::process_main(std::env::args_os().skip(2))
}
