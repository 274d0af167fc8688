//! Messages of the mesh pushed to a client as notifications of a channel (`notifications/claude/channel`).
//!
//! Invariant: only a client that said it takes them gets any, and it gets exactly what arrives in its own mailbox from
//! then on: a session's in a session, else the member's without those of its sessions. Each message is pushed once for
//! each connection of a client, in order, whatever happens to the mesh daemon in between. Nothing is queued here: a client
//! that does not read holds up its own stream alone, and what it has not taken stays with the daemon.
//!
//! Pushing marks nothing as read: nobody confirms a notification, and a client may drop it unseen.

mod following;
mod notice;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hostel_tasks::SpawnBoxed as _;
use rmcp::Peer;
use rmcp::RoleServer;
use rmcp::model::CustomNotification;
use rmcp::model::ServerNotification;
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::task::JoinSet;

use super::Mesh;
use crate::mcp::Caller;
use crate::mcp::Later;
use crate::mcp::visits::Visit;
use following::Following;

/// What client and server call it among their experimental capabilities.
pub(in crate::mcp) const CAPABILITY: &str = "claude/channel";

/// What a notification is called.
const METHOD: &str = "notifications/claude/channel";

/// How often it is looked whether meshes were joined or left.
const LOOK: Duration = Duration::from_secs(10);

/// Meshes that are followed for one client.
const MOST: usize = 16;

/// Somebody who is told.
pub(super) trait Ear: Send + Sync + 'static {
    /// Waits until it can hear something; false if it never will again.
    fn ready(&self) -> Later<'_, bool>;
    /// Tells it something; false if it is gone.
    fn hear(&self, told: Value) -> Later<'_, bool>;
    /// Waits until it is gone.
    fn gone(&self) -> Later<'_, ()>;
}

/// A client's connection.
struct Client {
    peer: Peer<RoleServer>,
    /// The request by which it came, where it came over HTTP.
    visit: Option<Visit>,
}

impl Ear for Client {
    fn ready(&self) -> Later<'_, bool> {
        Box::pin(async move {
            match &self.visit {
                None => true,
                // Until it opens a stream for it, there is nowhere to put what it did not ask for.
                Some(visit) => tokio::select! {
                    heard = visit.heard() => heard,
                    () = visit.over() => false,
                },
            }
        })
    }

    fn hear(&self, told: Value) -> Later<'_, bool> {
        let notification = CustomNotification::new(METHOD, Some(told));
        Box::pin(async move {
            self.peer.send_notification(ServerNotification::CustomNotification(notification)).await.is_ok()
        })
    }

    fn gone(&self) -> Later<'_, ()> {
        Box::pin(async move {
            match &self.visit {
                Some(visit) => visit.over().await,
                None => std::future::pending().await,
            }
        })
    }
}

/// Begins to push messages to a client that arrive after `since`, in milliseconds of the clock, until it is gone.
pub(in crate::mcp) fn begin(
    mesh: Arc<dyn Mesh>,
    caller: Caller,
    peer: Peer<RoleServer>,
    visit: Option<Visit>,
    since: u64,
) {
    // A call without a session has no stream that outlives it.
    if visit.as_ref().is_some_and(|visit| visit.session.is_none()) {
        return;
    }
    hostel_tasks::spawn(run(mesh, Arc::new(caller), Arc::new(Client { peer, visit }), since));
}

/// Follows every mesh there is for one client, until it is gone.
async fn run(mesh: Arc<dyn Mesh>, caller: Arc<Caller>, ear: Arc<dyn Ear>, since: u64) {
    let mut followed: BTreeMap<String, AbortHandle> = BTreeMap::new();
    // Dropped, it ends all that is left in it.
    let mut work = JoinSet::new();
    loop {
        if let Ok(known) = mesh.meshes(&caller).await {
            followed.retain(|name, following| {
                let stays = known.contains(name);
                if !stays {
                    following.abort();
                }
                stays
            });
            for name in known {
                if !followed.contains_key(&name) && followed.len() < MOST {
                    let following = Following::new(Arc::clone(&mesh), name.clone(), Arc::clone(&caller), since);
                    followed.insert(name, work.spawn_boxed(following.run(Arc::clone(&ear))));
                }
            }
        }
        tokio::select! {
            Some(ended) = work.join_next(), if !work.is_empty() => {
                // Who was told to end was told so above; who ended by itself has found the client gone.
                if ended.is_ok() {
                    return;
                }
            }
            () = ear.gone() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

#[cfg(test)]
mod tests;
