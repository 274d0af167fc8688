//! Meshes: the verbs of `hostel mesh` and `claudemesh`, the mesh daemon's process, and what `hostel up` does for both.
//!
//! Invariant: a verb talks to a running daemon through its socket like any other program. Where no daemon answers, what
//! can be done with a connection of one's own is done that way, and everything else says which command starts one.
//!
//! What a mesh is lives in `hostel_mesh`, its wire format in `hostel_doors::claudemesh`.

pub(crate) mod cli;
pub(crate) mod client;
pub(crate) mod daemon;
pub(crate) mod failure;
pub(crate) mod fleet;
pub(crate) mod hooks;
pub(crate) mod host;

mod progress;
pub(crate) mod route;
pub(crate) mod speaker;

mod show;
mod verbs;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use crate::commands::Context;
use crate::error::CommandError;
use crate::ui::Ui;
use cli::Mesh;
use cli::MeshVerb;
use failure::Failure;
use host::Host;

/// What every mesh verb needs.
pub(crate) struct Desk<'a> {
    pub(crate) ui: &'a Ui,
    /// The house's directory, where the embedded broker has its place.
    pub(crate) home: PathBuf,
    /// Where meshes are kept, whichever name started us.
    pub(crate) host: Host,
    /// The mesh that was asked for.
    pub(crate) mesh: Option<String>,
    /// What this program is called in what it says.
    pub(crate) called: &'static str,
}

/// `hostel mesh`.
pub(crate) fn run(context: &Context<'_>, arguments: Mesh) -> Result<ExitCode, CommandError> {
    let Mesh { mesh, verb } = arguments;
    let mesh = mesh.or_else(speaker::mesh_of_environment);
    let host = Host::of_environment(context.ui).map_err(CommandError::from)?;
    let desk = Desk { ui: context.ui, home: context.home.clone(), host, mesh, called: "hostel mesh" };
    match serve(&desk, verb) {
        Ok(code) => Ok(code),
        Err(failure) => answer_failure(context.ui, failure),
    }
}

/// What `hostel` makes of a failure: the verbs of `daemon` and `broker` keep their own exit codes.
pub(crate) fn answer_failure(ui: &Ui, failure: Failure) -> Result<ExitCode, CommandError> {
    match failure.own_exit() {
        Some(exit) => {
            if ui.json() {
                ui.data(&failure.to_json())?;
            } else {
                ui.note(&failure::rename_hint(&failure.text()));
            }
            Ok(ExitCode::from(exit))
        }
        None => Err(failure.into()),
    }
}

/// Runs a verb, under whichever name.
pub(crate) fn serve(desk: &Desk<'_>, verb: MeshVerb) -> Result<ExitCode, Failure> {
    match verb {
        MeshVerb::Create(arguments) => wait(verbs::create::run(desk, &arguments)),
        MeshVerb::Join(arguments) => wait(verbs::join::run(desk, &arguments)),
        MeshVerb::List => wait(verbs::list::run(desk)),
        MeshVerb::Leave(arguments) => wait(verbs::leave::run(desk, &arguments)),
        MeshVerb::Invite(arguments) => wait(verbs::invites::run(desk, arguments)),
        MeshVerb::Member(arguments) => wait(verbs::members::run(desk, &arguments)),
        MeshVerb::Audit(arguments) => wait(verbs::members::audit(desk, &arguments)),
        MeshVerb::Peers(arguments) => wait(verbs::peers::run(desk, &arguments)),
        MeshVerb::Peer(cli::Peer { action }) => match action {
            cli::PeerAction::List(arguments) => wait(verbs::peers::run(desk, &arguments)),
            cli::PeerAction::Block(arguments) => wait(verbs::grants::set(desk, &arguments.peer, Some(&[]))),
            cli::PeerAction::Unblock(arguments) => wait(verbs::grants::set(desk, &arguments.peer, None)),
            cli::PeerAction::Grant(arguments) => {
                wait(verbs::grants::set(desk, &arguments.peer, Some(&arguments.capabilities)))
            }
            cli::PeerAction::Grants => wait(verbs::grants::list(desk)),
        },
        MeshVerb::Send(arguments) => wait(verbs::send::run(desk, &arguments)),
        MeshVerb::Post(arguments) => wait(verbs::send::post(desk, &arguments)),
        MeshVerb::Subscribe(arguments) => wait(verbs::topics::subscribe(desk, &arguments.topic)),
        MeshVerb::Unsubscribe(arguments) => wait(verbs::topics::unsubscribe(desk, &arguments.topic)),
        MeshVerb::Topics => wait(verbs::topics::list(desk)),
        MeshVerb::Topic(cli::Topic { action }) => match action {
            cli::TopicAction::List => wait(verbs::topics::list(desk)),
            cli::TopicAction::Post(arguments) => wait(verbs::send::post(desk, &arguments)),
            cli::TopicAction::Subscribe(arguments) => wait(verbs::topics::subscribe(desk, &arguments.topic)),
            cli::TopicAction::Unsubscribe(arguments) => wait(verbs::topics::unsubscribe(desk, &arguments.topic)),
        },
        MeshVerb::Inbox(arguments) => wait(verbs::inbox::run(desk, &arguments)),
        MeshVerb::Search(arguments) => wait(verbs::inbox::search(desk, &arguments)),
        MeshVerb::File(arguments) => wait(verbs::files::run(desk, &arguments)),
        MeshVerb::Events(arguments) => wait(verbs::events::run(desk, &arguments)),
        MeshVerb::State(cli::State { action }) => wait(verbs::state::run(desk, &action)),
        MeshVerb::Task(cli::Task { action }) => wait(verbs::tasks::run(desk, &action)),
        MeshVerb::Profile(arguments) => wait(verbs::profile::run(desk, &arguments)),
        MeshVerb::Rename(arguments) => wait(verbs::profile::rename(desk, &arguments.name)),
        MeshVerb::Verify(arguments) => wait(verbs::profile::verify(desk, &arguments)),
        MeshVerb::Launch(arguments) => verbs::launch::run(desk, &arguments),
        MeshVerb::Install(arguments) => verbs::install::run(desk, &arguments),
        MeshVerb::Daemon(arguments) => daemon::run(desk, arguments),
    }
}

/// Runs an asking verb on a small runtime of its own.
pub(crate) fn wait<T>(verb: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("cannot start the runtime: {error}")))?
        // Boxed: the runtime's loop is compiled once instead of for each verb.
        .block_on(Box::pin(verb) as Pin<Box<dyn Future<Output = _>>>)
}
