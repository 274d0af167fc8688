//! A line to one mesh daemon: found, followed, lost and found again.
//!
//! Invariant: the stream of events is open before mailboxes are read, so that nothing comes unnoticed in between. An event
//! is only a hint that a mailbox is to be read; what is read, and from where, is not its business.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::Bag;
use super::Joined;
use super::register::Register;
use super::rounds::Round;
use super::rounds::Rounds;
use crate::mesh::client::Client;
use crate::mesh::client::Event;
use crate::mesh::failure::Failure;
use crate::mesh::host::Host;

/// How long a daemon that is away is left alone, at first and at most.
const SOON: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(2);

/// How long until a mailbox is read again whose session had no room.
const AGAIN: Duration = Duration::from_secs(1);

/// How often mailboxes are read although nothing was heard: a stream may be silent without having ended.
const ANYWAY: Duration = Duration::from_secs(300);

/// Follows a mesh for as long as it is joined.
pub(super) async fn follow(joined: Joined, bag: Arc<Bag>) {
    let mut pause = SOON;
    let mut told = false;
    loop {
        if let Some(client) = find(&joined.slug).await {
            (pause, told) = (SOON, false);
            if let Err(failure) = attend(&client, &joined, &bag).await {
                bag.log.debug(format_args!("[postman] the mesh {} was lost: {failure}", joined.slug));
            }
        } else if !std::mem::replace(&mut told, true) {
            bag.log.debug(format_args!("[postman] no daemon is up for the mesh {}", joined.slug));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LATE);
    }
}

/// The daemon of a mesh, if it is up. What is asked of it is the member's, also where this house is part of a session.
async fn find(slug: &str) -> Option<Client> {
    let wanted = slug.to_owned();
    let sockets = hostel_tasks::spawn_blocking(move || Host::quiet().map(|host| host.sockets(&wanted)).ok()).await;
    for socket in sockets.ok().flatten()? {
        let client = Client::new(socket).of_member();
        if client.handshake(slug).await.is_some() {
            return Some(client);
        }
    }
    None
}

/// Serves a mesh until its daemon is gone.
async fn attend(client: &Client, joined: &Joined, bag: &Bag) -> Result<(), Failure> {
    let mut events = client.stream("/v1/events?events=message").await?;
    let mut changed = bag.sessions.changed();
    let mut register = Register::new(client, &joined.slug, bag);
    let mut rounds = Rounds::new(client, joined, bag);
    // Addresses of sessions whose mailboxes are to be read.
    let mut waiting: BTreeSet<String> = BTreeSet::new();
    changed.mark_changed();
    loop {
        if changed.has_changed().unwrap_or(false) {
            changed.borrow_and_update();
            register.update().await?;
            waiting.extend(rounds.changed());
        }
        let mut full = BTreeSet::new();
        while let Some(address) = waiting.pop_first() {
            if rounds.read(&address).await? == Round::Full {
                full.insert(address);
            }
        }
        waiting = full;
        let pause = if waiting.is_empty() { ANYWAY } else { AGAIN };
        tokio::select! {
            event = events.next() => match event? {
                Some(event) => waiting.extend(concerned(&event, &rounds)),
                None => return Ok(()),
            },
            more = changed.changed() => match more {
                Ok(()) => changed.mark_changed(),
                // The house is closed.
                Err(_) => return Ok(()),
            },
            () = tokio::time::sleep(pause) => if waiting.is_empty() {
                waiting.extend(rounds.all());
            },
        }
    }
}

/// What is read of an event.
#[derive(Deserialize)]
struct Told {
    recipient_session: Option<String>,
}

/// Whose mailboxes an event is about.
fn concerned(event: &Event, rounds: &Rounds<'_>) -> Vec<String> {
    match event.name.as_str() {
        "message" => {
            let told: Option<Told> = serde_json::from_str(&event.data).ok();
            told.and_then(|told| told.recipient_session).into_iter().filter(|address| rounds.knows(address)).collect()
        }
        // Something was not told.
        "gap" => rounds.all(),
        _ => Vec::new(),
    }
}
