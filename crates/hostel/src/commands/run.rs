//! `hostel run -- COMMAND`: a command hosted and followed as if it ran here. `hostel run "PROMPT"` is in `prompt`.

mod prompt;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::native::client::Client;
use hostel_doors::native::client::ClientError;
use hostel_doors::native::protocol::Exit;
use hostel_doors::native::protocol::ProcessList;
use hostel_doors::native::protocol::Spawn;
use hostel_doors::native::protocol::Spawned;
use hostel_doors::native::protocol::Target;
use hostel_doors::native::protocol::Text;
use hostel_doors::native::protocol::code;
use serde_json::json;
use tokio::time::Instant;

use super::Context;
use super::now_ns;
use crate::cli::Run;
use crate::error::CommandError;
use crate::houses::House;
use crate::session::AtEnd;
use crate::session::End;
use crate::session::Format;
use crate::session::Input;
use crate::session::OnInterrupt;
use crate::session::Session;
use crate::session::short;
use crate::text;
use crate::ui::Ui;

/// The exit code of a person who left with Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

pub(super) async fn run(context: &Context<'_>, arguments: Run) -> Result<ExitCode, CommandError> {
    if let Form::Prompt(word) = form(&arguments)? {
        return prompt::run(context, &arguments, word).await;
    }
    let ui = context.ui;
    let settings = context.settings()?;
    let house = context.houses.one()?;
    let spawn = request(&arguments, ui)?;
    let client = house.connect().await?;
    let (mut client, spawned) = start(&house, client, &spawn, settings.limits.reconnect).await?;
    if arguments.detach {
        if arguments.no_stdin {
            let target = Target { id: spawned.id.clone() };
            let _: serde_json::Value = client.call("process/close_stdin", &target).await?;
        }
        if ui.json() {
            ui.data(&spawned)?;
        } else {
            ui.line(&spawned.name)?;
            ui.note(&format!(
                "hostel: {} runs as pid {}; `hostel logs -f {}`, `hostel attach {}`, `hostel kill {}`",
                short(&spawned.id),
                spawned.pid,
                spawned.name,
                spawned.name,
                spawned.name
            ));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let input = match arguments.no_stdin {
        true => Input::empty(),
        false => Input::start(AtEnd::Close)?,
    };
    let session = Session {
        house,
        id: spawned.id.clone(),
        since_seq: 0,
        follow: true,
        format: if ui.json() { Format::Json } else { Format::Raw },
        input: Some(input),
        on_interrupt: OnInterrupt::PassOn,
        reconnect: settings.limits.reconnect,
    };
    match session.follow(client, ui).await? {
        End::Exited(exit) => exit_code(ui, &spawned.name, exit),
        End::Left => {
            ui.note(&format!(
                "hostel: left `{}` running; come back with `hostel attach {}`, end it with `hostel kill {}`",
                spawned.name, spawned.name, spawned.name
            ));
            Ok(ExitCode::from(INTERRUPTED))
        }
        End::ReaderGone => {
            Err(CommandError::failure(format!("nobody reads our output any more, `{}` runs on", spawned.name))
                .hint(format!("end it with `hostel kill {}`", spawned.name)))
        }
        End::HouseDown => Err(house_down(&spawned.name)),
        End::Replaced => Err(replaced(&spawned.name)),
        End::Replayed => Ok(ExitCode::SUCCESS),
    }
}

/// What is to be run.
#[derive(Debug, Eq, PartialEq)]
enum Form<'a> {
    Command,
    Prompt(&'a OsString),
}

/// A command after `--`, and nothing before it; one word alone is a prompt. Each has options the other has no use for.
fn form(arguments: &Run) -> Result<Form<'_>, CommandError> {
    let both = "host a command with `hostel run -- COMMAND`, or start an agent with `hostel run \"PROMPT\"`";
    let misplaced = |options: &[(&str, bool)], of: &str| match options.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(CommandError::usage(format!("`{name}` is {of}")).hint(both)),
        None => Ok(()),
    };
    match (arguments.words.as_slice(), arguments.command.as_slice()) {
        ([], []) => Err(CommandError::usage("there is nothing to run").hint(both)),
        ([], [_, ..]) => {
            let options = [
                ("--agent", arguments.agent.is_some()),
                ("--mode", arguments.mode.is_some()),
                ("--model", arguments.model.is_some()),
                ("--mesh", arguments.mesh.is_some()),
            ];
            misplaced(&options, "an option of a prompt, not of a command")?;
            Ok(Form::Command)
        }
        ([word], []) => {
            let options = [
                ("--env", !arguments.env.is_empty()),
                ("--no-stdin", arguments.no_stdin),
                ("--replace", arguments.replace),
            ];
            misplaced(&options, "an option of a command, not of a prompt")?;
            Ok(Form::Prompt(word))
        }
        _ => Err(CommandError::usage("a command comes after `--`, and a prompt is exactly one word").hint(both)),
    }
}

/// What to ask the house for: the command in our directory, with our environment.
fn request(arguments: &Run, ui: &Ui) -> Result<Spawn, CommandError> {
    let mut env = BTreeMap::new();
    for (key, value) in std::env::vars_os() {
        match key.into_string() {
            Ok(key) => {
                env.insert(key, Text(value.into_vec()));
            }
            Err(key) => ui.note(&format!(
                "hostel: the variable `{}` is left out, its name is not UTF-8",
                text::printable(&key.to_string_lossy())
            )),
        }
    }
    for pair in &arguments.env {
        let (key, value) = split_pair(pair)?;
        env.insert(key, value);
    }
    let here = std::env::current_dir()
        .map_err(|error| CommandError::failure(format!("the working directory is gone: {error}")))?;
    let cwd = match &arguments.cwd {
        Some(cwd) => here.join(cwd),
        None => here,
    };
    let name = match &arguments.name {
        Some(name) if name.is_empty() => return Err(CommandError::usage("a process cannot have an empty name")),
        Some(name) => name.clone(),
        None => made_up_name(arguments.command.first())?,
    };
    Ok(Spawn {
        argv: arguments.command.iter().map(|word| Text(word.as_bytes().to_vec())).collect(),
        name: Some(name),
        cwd: Some(Text(cwd.as_os_str().as_bytes().to_vec())),
        env: Some(env),
        replace: arguments.replace,
    })
}

fn split_pair(pair: &OsString) -> Result<(String, Text), CommandError> {
    let bytes = pair.as_bytes();
    let wrong = || {
        CommandError::usage(format!("`--env {}` is not KEY=VALUE", pair.to_string_lossy()))
            .hint("write for example `--env LANG=C`")
    };
    let equals = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0).ok_or_else(wrong)?;
    let (key, value) = bytes.split_at(equals);
    let key = String::from_utf8(key.to_vec()).map_err(|_| wrong())?;
    Ok((key, Text(value.get(1..).unwrap_or_default().to_vec())))
}

/// The command's own name and four digits, so that it can be typed and is not taken.
fn made_up_name(command: Option<&OsString>) -> Result<String, CommandError> {
    let stem: String = command
        .and_then(|command| Path::new(command).file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
        .chars()
        .filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-'))
        .take(24)
        .collect();
    let mut digits = [0_u8; 3];
    getrandom::fill(&mut digits)
        .map_err(|error| CommandError::failure(format!("the system gives no random numbers: {error}")))?;
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    let stem = if stem.is_empty() { "run" } else { &stem };
    Ok(format!("{stem}-{digits}"))
}

/// Starts the process exactly once, even if the daemon goes away between question and answer.
async fn start(
    house: &House,
    mut client: Client,
    spawn: &Spawn,
    limit: Duration,
) -> Result<(Client, Spawned), CommandError> {
    let asked_ns = now_ns();
    let lost = match client.call("process/spawn", spawn).await {
        Ok(spawned) => return Ok((client, spawned)),
        Err(error) if error.is_lost() || error.code() == Some(code::KEEPER) => error,
        Err(error) => return Err(refused(error)),
    };
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(20);
    loop {
        if Instant::now() + pause > deadline {
            return Err(lost.into());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(500));
        let Ok(mut client) = house.connect().await else { continue };
        let list: Result<ProcessList, ClientError> = client.call("process/list", &json!({})).await;
        let Ok(list) = list else { continue };
        // Whoever has the name and is not older than the question is the process we asked for.
        if let Some(process) = list
            .processes
            .into_iter()
            .rev()
            .find(|process| Some(&process.name) == spawn.name.as_ref() && process.started_ns >= asked_ns)
        {
            let spawned =
                Spawned { id: process.id, name: process.name, pid: process.pid, started_ns: process.started_ns };
            return Ok((client, spawned));
        }
        match client.call("process/spawn", spawn).await {
            Ok(spawned) => return Ok((client, spawned)),
            Err(error) if error.is_lost() || error.code() == Some(code::KEEPER) => {}
            Err(error) => return Err(refused(error)),
        }
    }
}

fn refused(error: ClientError) -> CommandError {
    let in_use = error.code() == Some(code::NAME_IN_USE);
    let error = CommandError::from(error);
    if in_use {
        return error.hint("choose another name, or end the old one with `--replace`");
    }
    error
}

/// Somebody started another process under the same name, which ended ours.
pub(super) fn replaced(name: &str) -> CommandError {
    CommandError::failure(format!("another process took the name `{name}`, ours was ended"))
        .hint(format!("see it with `hostel logs {name}`"))
}

/// Somebody closed the house while we were following.
pub(super) fn house_down(name: &str) -> CommandError {
    CommandError::failure(format!("the house was closed, and `{name}` with it")).hint("start it again with `hostel up`")
}

/// The process's own exit code; 128 and the number for a signal.
pub(super) fn exit_code(ui: &Ui, name: &str, exit: Exit) -> Result<ExitCode, CommandError> {
    if ui.json() {
        ui.data(&json!({"exit": exit}))?;
    }
    if exit.lost {
        return Err(CommandError::failure(format!("`{name}` was lost with its keeper, how it ended is not known"))
            .hint(format!("what it printed is in `hostel logs {name}`")));
    }
    if let Some(signal) = exit.signal.filter(|signal| *signal > 0) {
        ui.note(&format!("hostel: `{name}` was ended by signal {signal}"));
        return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(255)));
    }
    Ok(ExitCode::from(u8::try_from(exit.exit_code).unwrap_or(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_split_at_the_first_equals_sign() {
        assert_eq!(split_pair(&"A=b=c".into()).unwrap(), ("A".to_owned(), Text(b"b=c".to_vec())));
        assert_eq!(split_pair(&"A=".into()).unwrap(), ("A".to_owned(), Text(Vec::new())));
        for wrong in ["A", "=b", ""] {
            assert_eq!(split_pair(&wrong.into()).unwrap_err().exit_code(), 2);
        }
    }

    #[test]
    fn made_up_names_can_be_typed() {
        let name = made_up_name(Some(&"/usr/bin/a b\n$c".into())).unwrap();
        assert!(name.starts_with("abc-") && name.len() == 10, "{name}");
        assert!(made_up_name(None).unwrap().starts_with("run-"));
    }
}
