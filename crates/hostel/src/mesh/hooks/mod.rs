//! Hooks as people meet them: what there is, what would run and why not, and a file to begin with; and the process by
//! which each one is started.

pub(crate) mod launch;
mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;

use hostel_mesh::hooks::HookOptions;
use hostel_mesh::hooks::sandbox::Tools;
use hostel_mesh::hooks::sandbox::VERB;

pub(crate) use verbs::gate_on;
pub(crate) use verbs::run;

/// This very program, even if its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// With what the daemon runs hooks; read from the environment once.
pub(crate) fn options(socket: &Path, ci: Option<&'static str>) -> HookOptions {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    HookOptions {
        off: ci.map(|_| "this is a build server"),
        socket: socket.to_owned(),
        home: variable("HOME"),
        lang: variable("LANG"),
        tools: Tools { launcher: vec![OWN_PROGRAM.into(), VERB.into()], bwrap: bwrap(variable("PATH")) },
    }
}

/// bubblewrap, where programs are looked for.
fn bwrap(path: Option<OsString>) -> Option<PathBuf> {
    let path = path?;
    std::env::split_paths(&path).map(|directory| directory.join("bwrap")).find(|file| file.is_file())
}
