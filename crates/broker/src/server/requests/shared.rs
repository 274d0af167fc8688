//! The shared state and the tasks.

use hostel_wire::frames::client::Call;
use serde_json::json;

use super::{Asker, Outcome, Reply};
use crate::engine::Engine;
use crate::registry::{By, RegistryError, Stepped, Written};
use crate::server::accept::kept_until;

impl<E: Engine> Asker<'_, E> {
    pub(super) async fn shared(&self, call: Call) -> Outcome {
        let (mesh, member) = (self.mesh_id(), self.member());
        let registry = &self.broker.registry;
        match call {
            Call::StateSet(set) => Ok(match registry.state_set(mesh, self.by(), *set).await? {
                Written::Done { version, duplicate } => {
                    Reply::Of("state_written", json!({"version": version, "duplicate": duplicate}))
                }
                Written::Conflict(version) => Reply::Of("state_conflict", json!({"version": version})),
            }),
            Call::StateGet(get) => {
                let (entries, looked_at) = registry.state_get(mesh, member, &get.keys).await?;
                Ok(Reply::Of("state_entries", json!({"entries": entries, "lookedAt": looked_at})))
            }
            Call::StateList(page) => {
                let (entries, more) = registry.state_list(mesh, member, page.after.as_deref()).await?;
                Ok(Reply::Of("state_entries", json!({"entries": entries, "more": more})))
            }
            Call::TaskCreate(new) => Ok(stepped(registry.task_create(mesh, self.by(), *new).await?)),
            Call::TaskStep(step) => {
                let leased = step.lease_s.is_some();
                let answer = stepped(registry.task_step(mesh, self.by(), *step).await?);
                if leased {
                    self.broker.claimed.notify_one();
                }
                Ok(answer)
            }
            Call::TaskGet(get) => {
                let task = registry.task_get(mesh, member, &get.id).await?;
                Ok(Reply::Of("task", json!({"task": task})))
            }
            Call::TaskList(list) => {
                let (tasks, more) = registry.task_list(mesh, member, &list).await?;
                Ok(Reply::Of("task_entries", json!({"tasks": tasks, "more": more})))
            }
            Call::SharedLinks(page) => {
                let (links, more) = registry.shared_links(mesh, member, page.after.as_deref()).await?;
                Ok(Reply::Of("shared_links", json!({"links": links, "more": more})))
            }
            Call::SharedLinkPut(link) => {
                registry.shared_link_put(mesh, member, link).await?;
                Ok(Reply::Ok(json!({})))
            }
            _ => Err(RegistryError::Invalid("this cannot be asked".to_owned())),
        }
    }

    /// Who asks, for what is written.
    fn by(&self) -> By {
        let (expires_ms, forget_ms) = kept_until(&self.broker.settings.limits, self.broker.clock.now_ms());
        By {
            member: self.member().to_owned(),
            key: self.connection.key.hex(),
            member_key: self.connection.member_key.hex(),
            expires_ms,
            forget_ms,
        }
    }
}

fn stepped(stepped: Stepped) -> Reply {
    match stepped {
        Stepped::Done(task, duplicate) => Reply::Of("task", json!({"task": task, "duplicate": duplicate})),
        Stepped::Refused(code, task) => Reply::Of("task_refused", json!({"code": code, "task": task})),
    }
}
