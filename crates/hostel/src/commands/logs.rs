//! `hostel logs ID`: what a process has printed, and with `-f` what it prints.

use std::process::ExitCode;

use super::Context;
use super::run::house_down;
use super::run::replaced;
use crate::cli::Logs;
use crate::error::CommandError;
use crate::session::End;
use crate::session::Format;
use crate::session::OnInterrupt;
use crate::session::Session;

pub(super) async fn run(context: &Context<'_>, arguments: &Logs) -> Result<ExitCode, CommandError> {
    let reconnect = context.settings()?.limits.reconnect;
    let (house, client, process) = context.houses.find(&arguments.id).await?;
    let format = match (context.ui.json(), arguments.timestamps) {
        (true, _) => Format::Json,
        (false, true) => Format::Timestamps,
        (false, false) => Format::Raw,
    };
    let session = Session {
        house,
        id: process.id,
        since_seq: arguments.since_seq,
        follow: arguments.follow,
        format,
        input: None,
        on_interrupt: OnInterrupt::System,
        reconnect,
    };
    match session.follow(client, context.ui).await? {
        End::Replaced => Err(replaced(&process.name)),
        End::HouseDown => Err(house_down(&process.name)),
        End::Exited(_) | End::Replayed | End::Left | End::ReaderGone => Ok(ExitCode::SUCCESS),
    }
}
