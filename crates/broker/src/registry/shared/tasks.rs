//! Tasks: made by one member, claimed by exactly one at a time, completed by who has claimed it.
//!
//! Invariant: a task that is claimed is nobody else's until it is let go, its lease is over, or its claimer is gone. Two
//! claims with different ids are two claims, also of the same member: only one of them counts. What is done stays done.

use hostel_wire::frames::Kind;
use hostel_wire::frames::shared::{Boxed, Step, TaskCreate, TaskEntry, TaskList, TaskStatus, TaskStep};
use hostel_wire::ids;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::update::bytes;
use super::leases::noted;
use super::{Book, By, CONTENT, Entry, NAME, bucket, invalid, key, request, well_formed};
use crate::engine::{Engine, KvOp};
use crate::registry::load::parse;
use crate::registry::{Inner, Mesh, Registry, RegistryError};

/// Tasks in one answer, and what is read for it at a time and at most.
const MOST: usize = 1000;
const PAGE: usize = 500;
const PAGE_BYTES: usize = 1024 * 1024;
const LIST_BYTES: usize = 180 * 1024;

/// The longest lease.
const LONGEST_S: u64 = 7 * 24 * 3600;

/// When there are as many tasks as there may be, so many of those that are done go at once.
const PRUNED: usize = 100;

/// What a task holds besides its title.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Content {
    body: Option<Boxed>,
    result: Option<Boxed>,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stepped {
    /// It is done: the task after it, and whether it was done before.
    Done(Box<TaskEntry>, bool),
    /// It may not be: the protocol's word, and the task as it is.
    Refused(&'static str, Box<TaskEntry>),
}

impl<E: Engine> Registry<E> {
    /// Makes a task.
    pub async fn task_create(&self, mesh: &str, by: By, new: TaskCreate) -> Result<Stepped, RegistryError> {
        let mesh = mesh.to_owned();
        self.in_turn(|inner| async move { inner.task_create(&mesh, &by, new).await }).await
    }

    /// Claims, lets go or completes a task.
    pub async fn task_step(&self, mesh: &str, by: By, step: TaskStep) -> Result<Stepped, RegistryError> {
        let mesh = mesh.to_owned();
        self.in_turn(|inner| async move { inner.task_step(&mesh, &by, step).await }).await
    }

    /// A task with its content.
    pub async fn task_get(&self, mesh: &str, member: &str, id: &str) -> Result<TaskEntry, RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        let task = self.inner.task(mesh, id).await?;
        let content = self.inner.record::<Content>(bucket::CONTENT, mesh, id).await?.unwrap_or_default();
        let shown = as_it_stands(&snapshot, task, self.inner.leases.now_ms());
        Ok(TaskEntry { body: content.body, result: content.result, ..shown })
    }

    /// Tasks without their content, in the order of their ids, and whether there are more.
    pub async fn task_list(
        &self,
        mesh: &str,
        member: &str,
        list: &TaskList,
    ) -> Result<(Vec<TaskEntry>, bool), RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        let limit = list.limit.map_or(MOST, |limit| limit as usize).clamp(1, MOST);
        let (prefix, now) = (key(mesh, ""), self.inner.leases.now_ms());
        let mut after = list.after.as_deref().map(|after| key(mesh, after)).unwrap_or_default();
        let (mut tasks, mut size) = (Vec::new(), 0);
        loop {
            let found = self.inner.engine.page(bucket::TASK, &prefix, &after, PAGE, PAGE_BYTES).await?;
            let Some(last) = found.last() else { return Ok((tasks, false)) };
            last.key.clone_into(&mut after);
            for entry in &found {
                let task = as_it_stands(&snapshot, parse(bucket::TASK, entry)?, now);
                if list.status.is_some_and(|status| status != task.status) {
                    continue;
                }
                size += entry.value.len();
                if tasks.len() >= limit || (size > LIST_BYTES && !tasks.is_empty()) {
                    return Ok((tasks, true));
                }
                tasks.push(task);
            }
        }
    }
}

/// A task as it stands now: one whose lease is over, or whose claimer is gone, is open.
pub(super) fn as_it_stands(mesh: &Mesh, task: TaskEntry, now: u64) -> TaskEntry {
    if task.status == TaskStatus::Claimed && !is_held(mesh, &task, now) {
        return TaskEntry {
            status: TaskStatus::Open,
            claimed_by: None,
            claimed_ms: None,
            lease_until_ms: None,
            ..task
        };
    }
    task
}

fn is_held(mesh: &Mesh, task: &TaskEntry, now: u64) -> bool {
    let there = task.claimed_by.as_deref().and_then(|id| mesh.member(id)).is_some_and(|member| member.is_active());
    there && task.lease_until_ms.is_none_or(|until| now < until)
}

/// The word of a step that was taken.
fn word(step: Step) -> &'static str {
    match step {
        Step::Claim => "claimed",
        Step::Release => "released",
        Step::Complete => "completed",
    }
}

/// What a step makes of a task, or why it may not be.
fn taken(mesh: &Mesh, by: &str, task: &TaskEntry, step: &TaskStep, now: u64) -> Result<TaskEntry, &'static str> {
    if task.status == TaskStatus::Completed {
        return Err("already_completed");
    }
    let mine = task.claimed_by.as_deref() == Some(by) && task.status == TaskStatus::Claimed;
    match step.step {
        Step::Claim => {
            if task.status == TaskStatus::Claimed && is_held(mesh, task, now) {
                return Err("already_claimed");
            }
            let gone = |id: &str| mesh.member(id).is_none_or(|member| !member.is_active());
            if task.assignee.as_deref().is_some_and(|assignee| assignee != by && !gone(assignee)) {
                return Err("not_the_assignee");
            }
            let lease_until_ms = step.lease_s.map(|seconds| now + seconds.clamp(1, LONGEST_S) * 1000);
            let (status, claimed_by) = (TaskStatus::Claimed, Some(by.to_owned()));
            Ok(TaskEntry { status, claimed_by, claimed_ms: Some(now), lease_until_ms, ..task.clone() })
        }
        Step::Release => {
            if task.status != TaskStatus::Claimed {
                return Err("not_claimed");
            }
            if !mine && !mesh.member(by).is_some_and(|member| member.is_admin()) {
                return Err("not_the_claimer");
            }
            let (status, claimed_by) = (TaskStatus::Open, None);
            Ok(TaskEntry { status, claimed_by, claimed_ms: None, lease_until_ms: None, ..task.clone() })
        }
        Step::Complete => {
            if task.status != TaskStatus::Claimed {
                return Err("not_claimed");
            }
            // Who has claimed it may also be late, as long as nobody else has taken it on.
            if !mine {
                return Err("not_the_claimer");
            }
            let (status, completed_ms) = (TaskStatus::Completed, Some(now));
            Ok(TaskEntry { status, completed_ms, lease_until_ms: None, ..task.clone() })
        }
    }
}

impl<E: Engine> Inner<E> {
    async fn task(&self, mesh: &str, id: &str) -> Result<TaskEntry, RegistryError> {
        if !ids::is_ulid(id) {
            return Err(RegistryError::TaskNotFound);
        }
        self.record(bucket::TASK, mesh, id).await?.ok_or(RegistryError::TaskNotFound)
    }

    /// What an id came to when it was first used.
    async fn stepped(&self, mesh: &str, told: &Value, id: &str) -> Result<Stepped, RegistryError> {
        let task = told.get("task").cloned().and_then(|task| serde_json::from_value(task).ok());
        let task = match task {
            Some(task) => task,
            None => self.task(mesh, id).await?,
        };
        Ok(Stepped::Done(Box::new(task), true))
    }

    /// A claim that comes again: it is answered as it was only while the task has not gone to another since. Or there
    /// would be two who believe that it is theirs.
    async fn claimed_again(&self, mesh: &Mesh, by: &str, first: Stepped) -> Result<Stepped, RegistryError> {
        let Stepped::Done(claimed, _) = &first else { return Ok(first) };
        let Some(task) = self.record::<TaskEntry>(bucket::TASK, mesh.id(), &claimed.id).await? else {
            return Ok(first);
        };
        if task.claimed_by.as_deref() == Some(by) && task.claimed_ms == claimed.claimed_ms {
            return Ok(first);
        }
        let task = as_it_stands(mesh, task, self.leases.now_ms());
        let code = match task.status {
            TaskStatus::Open => "not_claimed",
            TaskStatus::Claimed => "already_claimed",
            TaskStatus::Completed => "already_completed",
        };
        Ok(Stepped::Refused(code, Box::new(task)))
    }

    async fn task_create(&self, mesh_id: &str, by: &By, new: TaskCreate) -> Result<Stepped, RegistryError> {
        let mesh = self.snapshot(mesh_id)?;
        mesh.active_member(&by.member)?;
        let fingerprint = request(&new.client_id, &new.fingerprint)?;
        if !ids::is_ulid(&new.id) {
            return invalid("the task's id must be a ULID in lower case");
        }
        if !well_formed(&new.title, NAME) || new.body.as_ref().is_some_and(|body| !well_formed(body, CONTENT)) {
            return invalid("`title` and `body` must be sealed, and not too long");
        }
        let client_id = format!("task:{}", new.client_id);
        if let Some(told) = self.told(mesh_id, &by.member, &client_id, &fingerprint).await? {
            return self.stepped(mesh_id, &told, &new.id).await;
        }
        mesh.sealed_now(new.body.iter().chain([&new.title]))?;
        if let Some(assignee) = &new.assignee
            && !mesh.member(assignee).is_some_and(|member| member.is_active())
        {
            return Err(RegistryError::NotFound(format!("no member `{assignee}`")));
        }
        if self.record::<TaskEntry>(bucket::TASK, mesh_id, &new.id).await?.is_some() {
            return Err(RegistryError::Taken("a task of this id exists".to_owned()));
        }
        let mut book = self.book(mesh_id).await?;
        let mut writes = self.room_for_task(mesh_id, &mut book).await?;
        book.version += 1;
        book.tasks += 1;
        let task = TaskEntry {
            id: new.id,
            version: book.version,
            priority: new.priority,
            title: new.title,
            assignee: new.assignee,
            created_by: by.member.clone(),
            created_ms: self.clock.now_ms(),
            ..TaskEntry::default()
        };
        let place = key(mesh_id, &task.id);
        writes.push(KvOp::put(bucket::TASK, &place, bytes(&task)));
        if new.body.is_some() {
            let content = Content { body: new.body, result: None };
            writes.push(KvOp::put(bucket::CONTENT, &place, bytes(&content)));
        }
        let event = json!({"step": "created", "task": task});
        let change = Entry { kind: Kind::Task, client_id, fingerprint, event, writes };
        self.write_shared(&mesh, by, &book, change).await?;
        Ok(Stepped::Done(Box::new(task), false))
    }

    /// Removes tasks that are done, the oldest first, where there is no room for another.
    async fn room_for_task(&self, mesh: &str, book: &mut Book) -> Result<Vec<KvOp>, RegistryError> {
        let mut writes = Vec::new();
        if book.tasks < self.settings.tasks {
            return Ok(writes);
        }
        let (prefix, mut after, mut pruned) = (key(mesh, ""), String::new(), 0);
        while pruned < PRUNED {
            let found = self.engine.page(bucket::TASK, &prefix, &after, PAGE, PAGE_BYTES).await?;
            let Some(last) = found.last() else { break };
            last.key.clone_into(&mut after);
            for entry in &found {
                let task: TaskEntry = parse(bucket::TASK, entry)?;
                if task.status == TaskStatus::Completed && pruned < PRUNED {
                    writes.push(KvOp::delete(bucket::TASK, &entry.key));
                    writes.push(KvOp::delete(bucket::CONTENT, &entry.key));
                    pruned += 1;
                }
            }
        }
        book.tasks = book.tasks.saturating_sub(pruned);
        match pruned {
            0 => Err(RegistryError::Full(format!("the mesh has {} tasks, and none of them is done", book.tasks))),
            _ => Ok(writes),
        }
    }

    async fn task_step(&self, mesh_id: &str, by: &By, step: TaskStep) -> Result<Stepped, RegistryError> {
        let mesh = self.snapshot(mesh_id)?;
        mesh.active_member(&by.member)?;
        let fingerprint = request(&step.client_id, &step.fingerprint)?;
        if step.result.as_ref().is_some_and(|result| step.step != Step::Complete || !well_formed(result, CONTENT)) {
            return invalid("`result` must be sealed, not too long, and belongs to a completion");
        }
        let client_id = format!("task:{}", step.client_id);
        if let Some(told) = self.told(mesh_id, &by.member, &client_id, &fingerprint).await? {
            let first = self.stepped(mesh_id, &told, &step.id).await?;
            return match step.step {
                Step::Claim => self.claimed_again(&mesh, &by.member, first).await,
                Step::Release | Step::Complete => Ok(first),
            };
        }
        let mut before = self.task(mesh_id, &step.id).await?;
        if self.lease_over_of(mesh_id, by, &before).await? {
            before = self.task(mesh_id, &step.id).await?;
        }
        let now = self.leases.now_ms();
        let mut task = match taken(&mesh, &by.member, &before, &step, now) {
            Ok(task) => task,
            Err(code) => return Ok(Stepped::Refused(code, Box::new(as_it_stands(&mesh, before, now)))),
        };
        mesh.sealed_now(&step.result)?;
        let mut book = self.book(mesh_id).await?;
        book.version += 1;
        task.version = book.version;
        let place = key(mesh_id, &task.id);
        let mut writes = noted(mesh_id, &before, &task);
        writes.push(KvOp::put(bucket::TASK, &place, bytes(&task)));
        if let Some(result) = step.result {
            let content = self.record::<Content>(bucket::CONTENT, mesh_id, &task.id).await?.unwrap_or_default();
            let content = Content { result: Some(result), ..content };
            writes.push(KvOp::put(bucket::CONTENT, &place, bytes(&content)));
        }
        let event = json!({"step": word(step.step), "task": task});
        let change = Entry { kind: Kind::Task, client_id, fingerprint, event, writes };
        self.write_shared(&mesh, by, &book, change).await?;
        Ok(Stepped::Done(Box::new(task), false))
    }
}
