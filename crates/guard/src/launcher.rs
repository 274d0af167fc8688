//! The launcher: a process that puts a guard around itself and becomes the program.
//!
//! `VERB PLAN PROGRAM ARGUMENT...` enforces every layer of the plan and executes the program; the first argument is the
//! name the program is called by. `VERB --try PLAN` enforces what it can, checks that it holds, and says on standard
//! output what could not be had.
//!
//! Guarantees: the program runs with all layers of its plan or not at all. What the launcher has to say goes to standard
//! error, one line, and the exit code says who failed: [`GUARD_FAILED`], or 126 and 127 as shells use them.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::plan::Plan;
use crate::probe;
use crate::{nested, scopes, variables, view};

/// The word that makes the program a launcher.
pub const VERB: &str = "guard-launch";

/// The exit code of a launcher that could not enforce its plan.
pub const GUARD_FAILED: u8 = 125;

/// What the line of a launcher begins with that could not enforce its plan.
pub const GUARD_FAILED_TEXT: &str = "hostel: the guard cannot be set up";

/// The word that asks for a try.
pub(crate) const TRY: &str = "--try";

/// The environment variable with the search path.
const PATH: &str = "PATH";

/// Becomes the program that the words describe. The caller has one thread and has opened nothing.
pub fn main(words: &[OsString]) -> ExitCode {
    let plan = |word: &OsString| word.to_str().and_then(Plan::parse);
    match words {
        [asked, plan_word] if asked == TRY => match plan(plan_word) {
            Some(plan) => probe::try_out(&plan),
            None => fail(GUARD_FAILED, &format!("{GUARD_FAILED_TEXT}: there is no plan")),
        },
        [plan_word, program, name, arguments @ ..] => match plan(plan_word) {
            Some(plan) => become_program(&plan, program, name, arguments),
            None => fail(GUARD_FAILED, &format!("{GUARD_FAILED_TEXT}: the plan is not of this version")),
        },
        _ => fail(GUARD_FAILED, &format!("{GUARD_FAILED_TEXT}: there is nothing to start")),
    }
}

fn become_program(plan: &Plan, program: &OsStr, name: &OsStr, arguments: &[OsString]) -> ExitCode {
    if let Err(reason) = enforce(plan) {
        return fail(GUARD_FAILED, &format!("{GUARD_FAILED_TEXT}: {reason}"));
    }
    let mut command = Command::new(program);
    command.arg0(name).args(arguments);
    for (passed, value) in std::env::vars_os() {
        if let Some(own) = variables::rearmed(&passed) {
            command.env(own, value).env_remove(&passed);
        }
    }
    for variable in &plan.unset {
        command.env_remove(variable);
    }
    if let Some(first) = &plan.path_first {
        command.env(PATH, with_first(first, std::env::var_os(PATH)));
    }
    let error = command.exec();
    let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
    fail(code, &format!("hostel: cannot run `{}`: {error}", Path::new(program).display()))
}

/// Enforces the layers of a plan, or says why not.
fn enforce(plan: &Plan) -> Result<(), String> {
    if plan.layers.view {
        view::enter(plan).map_err(|error| error.to_string())?;
        if !plan.user_namespaces {
            nested::refuse()?;
        }
    }
    if !plan.layers.is_none() {
        let failed = |error: io::Error| format!("privileges cannot be given up: {error}");
        rustix::thread::set_no_new_privs(true).map_err(|error| failed(error.into()))?;
        if plan.layers.view {
            scopes::drop_capabilities().map_err(failed)?;
        }
    }
    if plan.layers.scopes { scopes::enter() } else { Ok(()) }
}

/// The search path with a directory before the others. Without a path programs are looked for where shells look.
fn with_first(first: &Path, path: Option<OsString>) -> OsString {
    let rest = path.unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let mut joined = first.as_os_str().to_owned();
    joined.push(":");
    joined.push(rest);
    joined
}

pub(crate) fn fail(code: u8, text: &str) -> ExitCode {
    // One line, whatever a path holds.
    let line: String = text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect();
    io::stderr().write_all(format!("{line}\n").as_bytes()).ok();
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_commands_comes_first() {
        let joined = |path: Option<&str>| with_first(Path::new("/x"), path.map(OsString::from));
        assert_eq!(joined(Some("/a:/b")), "/x:/a:/b");
        assert_eq!(joined(None), "/x:/usr/local/bin:/usr/bin:/bin");
    }
}
