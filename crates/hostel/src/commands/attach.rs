//! `hostel attach ID`: this terminal connected to a process.

use std::process::ExitCode;

use super::Context;
use super::run::exit_code;
use super::run::house_down;
use super::run::replaced;
use crate::cli::Attach;
use crate::error::CommandError;
use crate::session::AtEnd;
use crate::session::End;
use crate::session::Format;
use crate::session::Input;
use crate::session::OnInterrupt;
use crate::session::Session;

pub(super) async fn run(context: &Context<'_>, arguments: &Attach) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let reconnect = context.settings()?.limits.reconnect;
    let (house, client, process) = context.houses.find(&arguments.id).await?;
    let input = match (arguments.no_stdin, arguments.close_stdin) {
        (true, _) => None,
        (false, true) => Some(Input::start(AtEnd::Close)?),
        (false, false) => Some(Input::start(AtEnd::LeaveOpen)?),
    };
    let session = Session {
        house,
        id: process.id,
        since_seq: if arguments.no_replay { process.last_seq } else { 0 },
        follow: true,
        format: if ui.json() { Format::Json } else { Format::Raw },
        input,
        on_interrupt: OnInterrupt::Leave,
        reconnect,
    };
    match session.follow(client, ui).await? {
        End::Exited(exit) => exit_code(ui, &process.name, exit),
        End::Left => {
            ui.note(&format!(
                "hostel: left `{}` running; come back with `hostel attach {}`",
                process.name, process.name
            ));
            Ok(ExitCode::SUCCESS)
        }
        End::HouseDown => Err(house_down(&process.name)),
        End::Replaced => Err(replaced(&process.name)),
        End::Replayed | End::ReaderGone => Ok(ExitCode::SUCCESS),
    }
}
