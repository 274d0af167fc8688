//! `hostel watch ID`: what a session has said and done, and what it says and does.

use std::collections::HashSet;
use std::process::ExitCode;

use super::Context;
use super::send::house_down;
use crate::cli::Watch;
use crate::conversation;
use crate::conversation::End;
use crate::conversation::Follow;
use crate::conversation::Format;
use crate::conversation::Spread;
use crate::conversation::Until;
use crate::conversation::page::Page;
use crate::error::CommandError;
use crate::houses;
use crate::text;

pub(super) async fn run(context: &Context<'_>, arguments: &Watch) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let reconnect = context.settings()?.limits.reconnect;
    let (house, mut client, row) = context.houses.find_session(&arguments.id).await?;
    let handle = text::printable(row.handle()).into_owned();
    let pending = houses::approvals(&mut client, false).await?;
    let pending = pending.into_iter().map(|(approval, _)| approval.id).collect::<HashSet<_>>();
    let until = if arguments.no_follow { Until::Replayed } else { Until::Closed };
    let format = match ui.json() {
        true => Format::Json,
        false => Format::Page(Box::new(Page::new(conversation::look(ui, Spread::Together)))),
    };
    let end = Follow::new(house, row.session_id, until, format, reconnect)
        .since(arguments.since)
        .with_open(pending)
        .run(client, ui)
        .await?;
    match end {
        End::Left => {
            ui.note(&format!("hostel: left {handle} to itself; come back with `hostel watch {handle}`"));
            Ok(ExitCode::SUCCESS)
        }
        End::HouseDown => Err(house_down(&handle)),
        End::Replayed | End::Closed | End::ReaderGone | End::Turn { .. } => Ok(ExitCode::SUCCESS),
    }
}
