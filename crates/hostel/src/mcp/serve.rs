//! A server on our own standard streams.
//!
//! Invariant: it ends when the client closes our standard input, when nobody reads our standard output any more, or at a
//! signal, and takes what it asked for with it.

use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;

use hostel_doors::mcp;
use hostel_doors::mcp::NotServed;
use hostel_doors::mcp::Profile;
use hostel_doors::mcp::Server;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::io::Errno;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;

use super::cli::Mcp;
use super::desk::Desk;
use super::desk::Local;
use super::mesh::Mesh;
use super::mesh::Words;
use super::sockets::Sockets;
use super::sockets::Starter;
use crate::commands::Context;
use crate::error::CommandError;

/// `hostel mcp`.
pub(super) fn house(context: &Context<'_>, arguments: &Mcp) -> Result<ExitCode, CommandError> {
    let house = context.houses.one()?;
    // Only the main house is started by `hostel up`.
    let main = house.dir == context.houses.main().dir;
    let starter = (!arguments.no_start && main).then(|| Starter::new(house.clone()));
    let local = starter.clone().map_or(Local::Here, Local::House);
    hostel_peer::registry::registry().add_houses_of(context.houses.main().dir.root());
    let backend = Sockets::of_house(house, starter.clone());
    let profile = Profile::hostel(env!("CARGO_PKG_VERSION"));
    if std::io::stdin().is_terminal() {
        context.ui.note(
            "hostel: this speaks MCP on standard input and output; agents run it, see `hostel mcp install --help`",
        );
    }
    let mesh = Mesh { words: Words::Ours };
    let mut server = Server::new(profile, Arc::new(backend), Arc::new(Desk::new(local))).with_mesh(Arc::new(mesh));
    if arguments.channel {
        server = server.with_channel();
    }
    let served = run(server, async move {
        // Ahead of the first call, which then need not wait.
        if let Some(starter) = starter {
            starter.start().await.unwrap_or_default();
        }
    })?;
    match served {
        // A client that came and went wanted nothing.
        Ok(()) | Err(NotServed::Left) => Ok(ExitCode::SUCCESS),
        Err(error) => Err(CommandError::failure(format!("this is no MCP client: {error}"))
            .hint("an agent runs this, see `hostel mcp install --help`")),
    }
}

/// Serves on our standard streams; `meanwhile` is done beside it.
pub(super) fn run(
    server: Server,
    meanwhile: impl Future<Output = ()> + Send + 'static,
) -> Result<Result<(), NotServed>, CommandError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::failure(format!("cannot start the runtime: {error}")))?;
    let outcome = runtime.block_on(async {
        hostel_tasks::spawn(meanwhile);
        mcp::serve_stdio(server, tokio::io::stdin(), tokio::io::stdout(), told_to_end()).await
    });
    // A read of our standard input that nobody waits for must not hold us up.
    runtime.shutdown_background();
    Ok(outcome)
}

/// Waits for a reason to end besides the end of our input.
async fn told_to_end() {
    let wait = |kind: SignalKind| async move {
        match signal(kind) {
            Ok(mut signals) => drop(signals.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = wait(SignalKind::terminate()) => {}
        () = wait(SignalKind::interrupt()) => {}
        () = wait(SignalKind::hangup()) => {}
        () = reader_gone() => {}
    }
}

/// Waits until nobody can read our output any more: the other end of a pipe, a socket or a terminal is gone.
async fn reader_gone() {
    let (gone, told) = tokio::sync::oneshot::channel();
    // A thread of its own: nothing is asked for but what the system tells anyway, and that may never come.
    std::thread::spawn(move || {
        let output = std::io::stdout();
        let mut watched = [PollFd::new(&output, PollFlags::empty())];
        loop {
            match rustix::event::poll(&mut watched, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let [seen] = &watched;
            if seen.revents().intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
                return gone.send(()).unwrap_or_default();
            }
        }
    });
    // Where the system cannot tell, nobody has left.
    if told.await.is_err() {
        std::future::pending::<()>().await;
    }
}
