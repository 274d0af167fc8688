//! The verbs, one file each.
//!
//! Invariant: a verb returns an exit code or an error and prints through `Ui`; none ends the program itself.

mod approvals;
mod approver;
mod attach;
mod audit;
mod completions;
mod config;
mod df;
mod doctor;
mod down;
mod gc;
mod init;
mod journal;
mod keeper;
mod kill;
mod link;
mod logs;
mod man;
mod ps;
mod run;
mod send;
mod sessions;
mod up;
mod watch;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use crate::cli::Cli;
use crate::cli::Verb;
use crate::config::Settings;
use crate::dispatch;
use crate::error::CommandError;
use crate::houses::Houses;
use crate::paths;
use crate::paths::HouseDir;
use crate::ui::Ui;

pub(crate) use down::end_daemon_alone;

/// What every verb needs.
pub(crate) struct Context<'a> {
    pub(crate) ui: &'a Ui,
    pub(crate) home: PathBuf,
    pub(crate) houses: Houses,
}

impl Context<'_> {
    /// The settings of the main house, without any flags.
    pub(crate) fn settings(&self) -> Result<Settings, CommandError> {
        Settings::load(&HouseDir::at(&self.home).config_file(), &[])
    }
}

/// Runs a verb.
pub(crate) fn run(cli: Cli, ui: &Ui) -> Result<ExitCode, CommandError> {
    match &cli.verb {
        Verb::Completions(arguments) => return completions::run(ui, arguments),
        Verb::Man(arguments) => return man::run(ui, arguments),
        Verb::Link(arguments) => return link::run(ui, arguments),
        Verb::As(arguments) => return dispatch::act_as(&arguments.arguments),
        _ => {}
    }
    let home = paths::home(cli.home.as_deref())?;
    let context = Context { ui, houses: Houses::new(home.clone(), cli.house), home };
    match cli.verb {
        Verb::Up(arguments) => up::run(&context, &arguments),
        Verb::Down(arguments) => wait(down::run(&context, &arguments)),
        Verb::Run(arguments) => wait(run::run(&context, arguments)),
        Verb::Sessions(arguments) => wait(sessions::run(&context, arguments)),
        Verb::Send(arguments) => wait(send::run(&context, &arguments)),
        Verb::Watch(arguments) => wait(watch::run(&context, &arguments)),
        Verb::Approvals(arguments) => wait(approvals::run(&context, arguments)),
        Verb::Approver(arguments) => wait(approver::run(&context, &arguments)),
        Verb::Audit(arguments) => wait(audit::run(&context, &arguments)),
        Verb::Mcp(arguments) => crate::mcp::run(&context, &arguments),
        Verb::Mesh(arguments) => crate::mesh::run(&context, arguments),
        Verb::Broker(arguments) => crate::broker::run(&context, &arguments),
        Verb::Backup(arguments) => crate::backup::backup(&context, &arguments),
        Verb::Restore(arguments) => crate::backup::restore(&context, &arguments),
        Verb::Ps(arguments) => wait(ps::run(&context, &arguments)),
        Verb::Logs(arguments) => wait(logs::run(&context, &arguments)),
        Verb::Attach(arguments) => wait(attach::run(&context, &arguments)),
        Verb::Kill(arguments) => wait(kill::run(&context, &arguments)),
        Verb::Doctor => wait(doctor::run(&context)),
        Verb::Df => wait(df::run(&context)),
        Verb::Gc(arguments) => wait(gc::run(&context, &arguments)),
        Verb::Journal(arguments) => journal::run(&context, &arguments.action),
        Verb::Service(arguments) => crate::service::house::run(&context, &arguments),
        Verb::Keeper(arguments) => wait(keeper::run(&context, &arguments)),
        Verb::Config(arguments) => config::run(&context, &arguments),
        Verb::Completions(_) | Verb::Man(_) | Verb::Link(_) | Verb::As(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Runs an asking verb on a small runtime of its own.
fn wait(verb: impl Future<Output = Result<ExitCode, CommandError>>) -> Result<ExitCode, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failure(format!("cannot start the runtime: {error}")))?
        // Boxed: the runtime's loop is compiled once instead of for each verb.
        .block_on(Box::pin(verb) as Pin<Box<dyn Future<Output = _>>>)
}

/// Nanoseconds since the epoch.
pub(crate) fn now_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |elapsed| u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}
