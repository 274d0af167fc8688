//! `process/spawn`: a request made into what the house wants.
//!
//! Invariant: a request that cannot be met is refused before anything starts.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use hostel_house::insiders::Rights;
use hostel_house::processes::Processes;
use hostel_house::processes::SpawnError;
use hostel_house::processes::SpawnSpec;
use hostel_house::processes::program;

use super::Settings;
use super::methods::refused as refused_to_insider;
use super::methods::value;
use super::protocol::Spawn;
use super::protocol::Spawned;
use super::protocol::Text;
use super::protocol::code;
use crate::rpc::Failure;
use crate::rpc::Outcome;

/// The longest name of a process.
const NAME_LIMIT: usize = 255;

/// Starts a process.
pub(super) async fn spawn(processes: &Processes, settings: &Settings, rights: &Rights, request: Spawn) -> Outcome {
    let own = match request.env {
        Some(_) => Vec::new(),
        None => settings.environment.clone(),
    };
    let spec = hostel_tasks::spawn_blocking(move || specify(request, own))
        .await
        .map_err(|error| Failure::new(code::INTERNAL, error.to_string()))??;
    let (mut spec, replace) = spec;
    rights.may_name("process/spawn", &spec.name).await.map_err(|refusal| refused_to_insider(&refusal))?;
    rights.inherit(&mut spec).await;
    if !replace
        && let Some(older) = processes.get(&spec.name)
        && older.status().running
    {
        return Err(Failure::new(code::NAME_IN_USE, format!("a running process is called `{}` already", spec.name)));
    }
    let (program, cwd) = (spec.program.clone(), spec.cwd.clone().unwrap_or_default());
    let process = processes.spawn(spec).await.map_err(|error| refused(&error, &program, &cwd))?;
    value(&Spawned {
        id: process.id().to_string(),
        name: process.name().to_owned(),
        pid: process.pid(),
        started_ns: process.started_ns(),
    })
}

/// The request as the house wants it, and whether a running namesake is to be replaced. `own` is the environment of a
/// request that brings none.
fn specify(request: Spawn, own: Vec<(OsString, OsString)>) -> Result<(SpawnSpec, bool), Failure> {
    let bad = |message: String| Failure::new(code::PARAMS, message);
    let argv: Vec<OsString> = request.argv.into_iter().map(|Text(word)| OsString::from_vec(word)).collect();
    let Some(command) = argv.first() else {
        return Err(bad("`argv` is empty".to_owned()));
    };
    let env: Vec<(OsString, OsString)> = match request.env {
        Some(env) => {
            env.into_iter().map(|(key, Text(value))| (OsString::from(key), OsString::from_vec(value))).collect()
        }
        None => own,
    };
    let zero = |text: &OsStr| text.as_bytes().contains(&0);
    if argv.iter().any(|word| zero(word)) || env.iter().any(|(key, value)| zero(key) || zero(value)) {
        return Err(bad("a zero byte cannot be passed to a process".to_owned()));
    }
    if env.iter().any(|(key, _)| key.is_empty() || key.as_bytes().contains(&b'=')) {
        return Err(bad("a variable's name is empty or holds `=`".to_owned()));
    }
    let cwd = match request.cwd {
        Some(Text(cwd)) => PathBuf::from(OsString::from_vec(cwd)),
        None => std::env::current_dir().map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?,
    };
    if cwd.is_relative() || zero(cwd.as_os_str()) {
        return Err(bad("`cwd` must be an absolute path".to_owned()));
    }
    let name = match request.name {
        Some(name) => name,
        None => made_up_name(),
    };
    if name.is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
        return Err(bad(format!("a name has 1 to {NAME_LIMIT} bytes and no control characters")));
    }
    let path = env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_os_str());
    let program = program::resolve(command, path, &cwd)
        .ok_or_else(|| Failure::new(code::SPAWN, format!("`{}` was not found in PATH", command.to_string_lossy())))?;
    Ok((
        SpawnSpec {
            name,
            door: "native".to_owned(),
            program,
            argv,
            env,
            cwd: Some(cwd),
            id: None,
            socket_stdin: false,
            session: None,
            asked_by: None,
            owned_input: false,
            guard: None,
        },
        request.replace,
    ))
}

fn made_up_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_nanos());
    format!("process-{now:x}")
}

fn refused(error: &SpawnError, program: &Path, cwd: &Path) -> Failure {
    let reason = |errno: i32| std::io::Error::from_raw_os_error(errno).to_string();
    match error {
        SpawnError::Chdir { errno } => {
            Failure::new(code::SPAWN, format!("cannot start in `{}`: {}", cwd.display(), reason(*errno)))
        }
        SpawnError::Exec { errno } => {
            Failure::new(code::SPAWN, format!("cannot run `{}`: {}", program.display(), reason(*errno)))
        }
        SpawnError::Limit(text) => Failure::new(code::LIMIT, text.clone()),
        SpawnError::Guard(text) | SpawnError::Keeper(text) => Failure::new(code::KEEPER, text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_cannot_be_met_are_refused_before_anything_starts() {
        let spawn = |text: &str| specify(serde_json::from_str(text).unwrap(), Vec::new()).map(|_| ()).unwrap_err();
        assert_eq!(spawn(r#"{"argv":[]}"#).message, "`argv` is empty");
        assert_eq!(spawn(r#"{"argv":["a\u0000b"],"cwd":"/"}"#).code, code::PARAMS);
        assert_eq!(spawn(r#"{"argv":["true"],"cwd":"tmp"}"#).message, "`cwd` must be an absolute path");
        assert_eq!(spawn(r#"{"argv":["true"],"cwd":"/","name":"a\nb"}"#).code, code::PARAMS);
        assert_eq!(spawn(r#"{"argv":["true"],"cwd":"/","env":{"A=":"b"}}"#).code, code::PARAMS);
        assert_eq!(
            spawn(r#"{"argv":["no-such-program"],"cwd":"/","env":{"PATH":"/bin"}}"#).message,
            "`no-such-program` was not found in PATH"
        );
        let (spec, replace) = specify(
            serde_json::from_str(r#"{"argv":["sh","-c","x y"],"cwd":"/","env":{"PATH":"/bin"}}"#).unwrap(),
            Vec::new(),
        )
        .unwrap();
        assert!(!replace);
        assert_eq!(spec.program, PathBuf::from("/bin/sh"));
        assert_eq!(spec.argv.len(), 3);
    }
}
