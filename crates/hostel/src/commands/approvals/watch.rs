//! `hostel approvals watch`: each question as it is asked, and how it was settled, in every house.
//!
//! Invariant: a question is printed once when it comes and once when it goes, however often its house says what waits.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Duration;

use hostel_doors::native::client::ClientError;
use hostel_doors::native::client::Message;
use hostel_doors::native::client::decode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::signal::unix::SignalKind;
use tokio::signal::unix::signal;
use tokio::sync::mpsc;

use super::kind;
use super::one_line;
use super::state;
use crate::commands::Context;
use crate::config::Occasion;
use crate::conversation::short;
use crate::conversation::start::too_old;
use crate::conversation::summary;
use crate::conversation::wire::ApprovalList;
use crate::conversation::wire::one_spelling;
use crate::error::CommandError;
use crate::houses::House;
use crate::inbox::request::Request;
use crate::inbox::visible;
use crate::text;
use crate::ui::Paint;
use crate::ui::Ui;

/// Pieces of news that may wait to be printed.
const DEPTH: usize = 16;

/// Something about one question of one house.
struct News {
    house: String,
    row: Request,
    value: Value,
}

#[derive(Deserialize)]
struct Got {
    approval: Value,
}

pub(super) async fn run(context: &Context<'_>) -> Result<ExitCode, CommandError> {
    let ui = context.ui;
    let settings = context.settings()?;
    let reconnect = settings.limits.reconnect;
    let notify = &settings.approvals.notify;
    // A terminal rings; a file or a pipe gets no such thing.
    let rings = notify.bell && notify.on.contains(&Occasion::Request) && !ui.json() && std::io::stdout().is_terminal();
    let live = context.houses.live().await?;
    let several = live.len() > 1;
    let (sender, mut news) = mpsc::channel(DEPTH);
    let mut houses = tokio::task::JoinSet::new();
    for (house, client) in live {
        drop(client);
        houses.spawn(listen(house, reconnect, sender.clone()));
    }
    drop(sender);
    if !ui.json() {
        ui.note("hostel: waiting for questions, Ctrl-C ends it");
    }
    let mut interrupts = signal(SignalKind::interrupt())
        .map_err(|error| CommandError::failure(format!("cannot watch for Ctrl-C: {error}")))?;
    loop {
        tokio::select! {
            said = news.recv() => match said {
                Some(said) => {
                    if rings && said.row.pending() {
                        ui.raw(b"\x07")?;
                    }
                    print(ui, &said, several)?;
                }
                None => break,
            },
            _ = interrupts.recv() => return Ok(ExitCode::SUCCESS),
        }
    }
    match houses.join_next().await {
        Some(Ok(Err(error))) => Err(error),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn print(ui: &Ui, news: &News, several: bool) -> Result<(), CommandError> {
    let row = &news.row;
    if ui.json() {
        let mut value = one_spelling(news.value.clone());
        value["house"] = news.house.as_str().into();
        return ui.data(&value);
    }
    let id = ui.paint(Paint::Bold, &text::printable(short(&row.id)));
    let house = if several { format!(" in {}", text::printable(&news.house)) } else { String::new() };
    if !row.pending() {
        let (paint, word) = state(row);
        let by = row.decider.as_deref().filter(|by| !by.is_empty()).map(|by| format!(" by {by}")).unwrap_or_default();
        return ui.line(&format!("{id} {}{}", ui.paint(paint, &text::printable(&word)), text::printable(&by)));
    }
    let who = row.caller();
    let (_, what) = kind(row);
    let what = ui.paint(Paint::Yellow, &text::printable(&what));
    let asks = if row.pipeline().is_some() { "asks to" } else { "asks for permission," };
    match row.pipeline() {
        Some(_) => ui.line(&format!("{id} {who}{house} {asks} {what}"))?,
        None => ui.line(&format!("{id} {what} {asks} session {who}{house}"))?,
    }
    let asked = match (row.pipeline().is_some(), summary::whole(&row.input)) {
        (true, _) => one_line(row),
        (false, whole) if whole.is_empty() => visible::text(&visible::prose(&row.summary)),
        (false, whole) => whole,
    };
    for line in asked.lines() {
        ui.line(&format!("    {line}"))?;
    }
    Ok(())
}

/// Tells the news of one house, also of a daemon that comes back.
async fn listen(house: House, reconnect: Duration, news: mpsc::Sender<News>) -> Result<(), CommandError> {
    let mut known = BTreeMap::new();
    loop {
        match connected(&house, &mut known, &news).await {
            Ok(()) => return Ok(()),
            Err(error) if error.is_lost() => {
                house.again(reconnect, "hostel approvals watch").await?;
            }
            Err(error) => return Err(too_old(error)),
        }
    }
}

/// Until nobody listens to us any more.
async fn connected(
    house: &House,
    known: &mut BTreeMap<String, Request>,
    news: &mpsc::Sender<News>,
) -> Result<(), ClientError> {
    let (mut questions, mut messages) = house.connect().await?.split();
    let watching = questions.send("approval/watch", &json!({})).await?;
    // What is gone is asked about, to say how it was settled.
    let mut asked: BTreeMap<u64, Request> = BTreeMap::new();
    loop {
        let (list, settled): (Vec<Value>, Option<Value>) = tokio::select! {
            message = messages.next() => match message? {
                Message::Notification { method, params } if method == "approval/changed" => (pending(&params)?, None),
                Message::Notification { .. } => continue,
                Message::Answer { id, result } if id == watching => {
                    (decode::<ApprovalList>(result)?.approvals, None)
                }
                Message::Answer { id, result } => match asked.remove(&id) {
                    Some(_) => match decode::<Got>(result) {
                        Ok(got) => (Vec::new(), Some(got.approval)),
                        // Its session was deleted, and it with it.
                        Err(ClientError::Reply { .. }) => continue,
                        Err(error) => return Err(error),
                    },
                    None => continue,
                },
            },
            () = news.closed() => return Ok(()),
        };
        if let Some(value) = settled {
            if tell(house, news, &value).await? { continue } else { return Ok(()) }
        }
        let mut now = BTreeMap::new();
        for value in &list {
            let row = row(value)?;
            if !known.contains_key(&row.id) && !tell(house, news, value).await? {
                return Ok(());
            }
            now.insert(row.id.clone(), row);
        }
        for (id, row) in std::mem::replace(known, now) {
            if !known.contains_key(&id) {
                asked.insert(questions.send("approval/get", &json!({"id": id})).await?, row);
            }
        }
    }
}

fn pending(params: &RawValue) -> Result<Vec<Value>, ClientError> {
    let list: ApprovalList =
        serde_json::from_str(params.get()).map_err(|error| ClientError::Protocol(error.to_string()))?;
    Ok(list.approvals)
}

fn row(value: &Value) -> Result<Request, ClientError> {
    Request::read(value).map_err(|error| ClientError::Protocol(error.to_string()))
}

/// False when nobody listens to us any more.
async fn tell(house: &House, news: &mpsc::Sender<News>, value: &Value) -> Result<bool, ClientError> {
    let row = row(value)?;
    Ok(news.send(News { house: house.label.clone(), row, value: value.clone() }).await.is_ok())
}
