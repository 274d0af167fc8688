//! Tasks of the mesh: somebody makes one, exactly one claims it, and says when it is done.

use hostel_wire::authorship::RecordPart;
use hostel_wire::frames::Priority;
use hostel_wire::frames::client::Call;
use hostel_wire::frames::server::Answer;
use hostel_wire::frames::shared::{Boxed, Step, TaskCreate, TaskEntry, TaskGet, TaskList, TaskStatus, TaskStep};
use hostel_wire::sealed::SharedKey;
use hostel_wire::{ids, iso};
use serde::Serialize;
use serde_json::{Value, json};

use super::keys::Opening;
use super::{
    MemberRef, change, client_id, hand_on, is_by, is_none, is_of_entry, member, open, read, seal, sign, unreadable,
};
use crate::hooks::gate;
use crate::mesh::core::Core;
use crate::mesh::{Mesh, Refusal};
use crate::resolve;

/// A title has this many bytes at most, a body, and a result as JSON.
const TITLE: usize = 512;
const BODY: usize = 64 * 1024;

/// The longest lease.
const LONGEST_S: u64 = 7 * 24 * 3600;

/// `POST /v1/task/create`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewTask {
    /// For people, on one line.
    pub title: String,
    /// The rest.
    pub body: Option<String>,
    /// Who is to do it: a key, a prefix or a name; anybody if absent.
    pub assignee: Option<String>,
    /// How urgent it is.
    pub priority: Priority,
    /// The caller's id; one is made if there is none.
    pub client_id: Option<String>,
}

/// `POST /v1/task/claim`, `/release` and `/complete`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskStepRequest {
    /// Which task.
    pub id: String,
    /// What is done.
    pub step: Step,
    /// For a claim: after so many seconds others may claim it.
    pub lease_s: Option<u64>,
    /// For a completion: what came of it.
    pub result: Option<Value>,
    /// The caller's id; one is made if there is none.
    pub client_id: Option<String>,
}

/// `GET /v1/task/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskQuery {
    /// Only those that are so.
    pub status: Option<TaskStatus>,
    /// Those that come after this one.
    pub cursor: Option<String>,
    /// How many.
    pub limit: usize,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskItem {
    /// Its id.
    pub id: String,
    /// For people.
    pub title: String,
    /// The rest, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// `open`, `claimed` or `completed`.
    pub status: &'static str,
    /// `now`, `next` or `low`.
    pub priority: &'static str,
    /// Who is to do it.
    pub assignee: Option<MemberRef>,
    /// Who made it.
    pub created_by: MemberRef,
    /// When.
    pub created_at: String,
    /// Who is at it, or has done it.
    pub claimed_by: Option<MemberRef>,
    /// Since when.
    pub claimed_at: Option<String>,
    /// When others may claim it.
    pub lease_until: Option<String>,
    /// When it was done.
    pub completed_at: Option<String>,
    /// What came of it, where it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Rises with every change.
    pub version: u64,
    /// Whether what is told of title, body and result is proven to be of those who are named. Who is at it is the broker's
    /// word.
    pub verified: bool,
}

/// A task after a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskStepped {
    /// Always.
    pub ok: bool,
    /// It.
    pub task: TaskItem,
    /// The step had been taken before.
    pub duplicate: bool,
}

/// Some of the tasks, by age.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskPage {
    /// They.
    pub items: Vec<TaskItem>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
    /// Tasks in between that are left out because they do not open here.
    #[serde(skip_serializing_if = "is_none")]
    pub unreadable: usize,
}

fn check_texts(new: &NewTask) -> Result<(), Refusal> {
    if new.title.is_empty() || new.title.len() > TITLE || new.title.chars().any(char::is_control) {
        return Err(Refusal::field("title", format!("a title is one line of 1 to {TITLE} bytes")));
    }
    if new.body.as_ref().is_some_and(|body| body.len() > BODY) {
        return Err(Refusal::new("value_too_large", format!("a body has at most {BODY} bytes")).about("body"));
    }
    Ok(())
}

fn check_result(result: Option<&Value>) -> Result<(), Refusal> {
    match result {
        Some(result) if result.to_string().len() > BODY => {
            Err(Refusal::new("value_too_large", format!("a result has at most {BODY} bytes")).about("result"))
        }
        _ => Ok(()),
    }
}

impl Mesh {
    /// Makes a task.
    pub async fn task_create(&self, new: NewTask) -> Result<TaskStepped, Refusal> {
        let core = &self.core;
        core.check()?;
        let mut new = NewTask { title: new.title.trim().to_owned(), ..new };
        check_texts(&new)?;
        let assignee = match &new.assignee {
            Some(who) => Some(resolve::member(&core.roster, who).map_err(|refusal| refusal.about("assignee"))?.id),
            None => None,
        };
        let (id, client_id) = (ids::ulid(core.broker_now_ms()), client_id(core, new.client_id.take())?);
        let request = json!(["task", new.title, new.body, assignee, new.priority]);
        let fingerprint = core.shared.fingerprint(&request)?;
        if gate::is_there(core) {
            core.check_sending()?;
            let changing = gate::Changing {
                kind: "task",
                step: "create",
                to: json!({"task": id, "assignee": assignee.as_ref().map(|id| member(core, id))}),
                title: Some(&new.title),
                // A text that is not there may be put there.
                body: Some(new.body.clone().unwrap_or_default()),
                priority: Some(new.priority.as_str()),
                client_message_id: &client_id,
            };
            let changed = gate::ask_shared(core, changing).await?;
            new.title = changed.title.map_or(new.title, |title| title.trim().to_owned());
            new.body = changed.body.or(new.body);
            check_texts(&new)?;
        }
        // What the broker sees of it, and could change, is signed with the title.
        let title = json!({"i": id, "t": new.title, "p": new.priority, "w": assignee});
        let title = sign(core, RecordPart::TaskTitle, &id, title);
        let body = |body: &String| sign(core, RecordPart::TaskBody, &id, json!({"i": id, "b": body}));
        let body = new.body.as_ref().map(body);
        let call = |epoch: u64, key: &SharedKey| {
            Call::TaskCreate(Box::new(TaskCreate {
                id: id.clone(),
                title: seal(epoch, key, &title),
                body: body.as_ref().map(|body| seal(epoch, key, body)),
                assignee: assignee.clone(),
                priority: new.priority,
                client_id: client_id.clone(),
                fingerprint: fingerprint.clone(),
            }))
        };
        let answer =
            change(core, call).await.map_err(|refusal| refusal.with("client_message_id", client_id.clone()))?;
        if let Ok(line) = core.line() {
            hand_on(core, &line).await;
        }
        let mut stepped = stepped(core, &answer).await?;
        stepped.task.body = new.body;
        Ok(stepped)
    }

    /// Claims, lets go or completes a task.
    pub async fn task_step(&self, asked: TaskStepRequest) -> Result<TaskStepped, Refusal> {
        let core = &self.core;
        core.check()?;
        let TaskStepRequest { id, step, lease_s, result, client_id: given } = asked;
        if !ids::is_ulid(&id) {
            return Err(missing(&id));
        }
        if lease_s.is_some_and(|seconds| !(1..=LONGEST_S).contains(&seconds)) {
            return Err(Refusal::field("lease_s", format!("a lease has 1 to {LONGEST_S} seconds")));
        }
        let mut result = result.filter(|result| !result.is_null());
        check_result(result.as_ref())?;
        let client_id = client_id(core, given)?;
        let request = json!(["step", step, id, lease_s, result]);
        let fingerprint = core.shared.fingerprint(&request).map_err(|refusal| refusal.about("result"))?;
        if gate::is_there(core) {
            core.check_sending()?;
            let changing = gate::Changing {
                kind: "task",
                step: step.as_str(),
                to: json!({"task": id}),
                title: None,
                body: result.as_ref().map(gate::text_of),
                priority: None,
                client_message_id: &client_id,
            };
            if let (Some(body), Some(before)) = (gate::ask_shared(core, changing).await?.body, &result) {
                result = Some(gate::value_of(before, body)?);
                check_result(result.as_ref())?;
            }
        }
        let signed = |result: &Value| sign(core, RecordPart::TaskResult, &id, json!({"i": id, "r": result}));
        let signed = result.as_ref().map(signed);
        let call = |epoch: u64, key: &SharedKey| {
            Call::TaskStep(Box::new(TaskStep {
                id: id.clone(),
                step,
                lease_s,
                result: signed.as_ref().map(|result| seal(epoch, key, result)),
                client_id: client_id.clone(),
                fingerprint: fingerprint.clone(),
            }))
        };
        let answer = change(core, call).await;
        let answer = answer.map_err(|refusal| not_found(refusal, &id).with("client_message_id", client_id.clone()))?;
        if answer.r#type == "task_refused" {
            return Err(refused(core, &answer));
        }
        let mut stepped = stepped(core, &answer).await?;
        stepped.task.result = result;
        Ok(stepped)
    }

    /// A task with all of its content.
    pub async fn task_get(&self, id: &str) -> Result<TaskItem, Refusal> {
        let core = &self.core;
        if !ids::is_ulid(id) {
            return Err(missing(id));
        }
        let answer = read(core, Call::TaskGet(TaskGet { id: id.to_owned() })).await;
        let entry = entry(&answer.map_err(|refusal| not_found(refusal, id))?)?;
        item(core, &mut Opening::default(), &entry).await
    }

    /// Tasks without their bodies and results, the oldest first.
    pub async fn task_list(&self, asked: TaskQuery) -> Result<TaskPage, Refusal> {
        let core = &self.core;
        let (mut items, mut after) = (Vec::new(), asked.cursor);
        let (mut opening, mut left_out) = (Opening::default(), 0);
        loop {
            let left = asked.limit.saturating_sub(items.len());
            let limit = Some(u32::try_from(left).unwrap_or(u32::MAX));
            let answer = read(core, Call::TaskList(TaskList { status: asked.status, after, limit })).await?;
            let tasks = answer.fields.get("tasks").cloned().ok_or_else(unreadable)?;
            let tasks: Vec<TaskEntry> = serde_json::from_value(tasks).map_err(|_| unreadable())?;
            let more = answer.fields.get("more").and_then(Value::as_bool).unwrap_or_default();
            after = tasks.last().map(|task| task.id.clone());
            for task in &tasks {
                match item(core, &mut opening, task).await {
                    Err(refusal) if is_of_entry(&refusal) => left_out += 1,
                    opened => items.push(opened?),
                }
            }
            if !more || after.is_none() {
                return Ok(TaskPage { items, next: None, unreadable: left_out });
            }
            if items.len() >= asked.limit {
                return Ok(TaskPage { items, next: after, unreadable: left_out });
            }
        }
    }
}

fn missing(id: &str) -> Refusal {
    Refusal::new("task_not_found", format!("there is no task `{}`", id.chars().take(64).collect::<String>()))
        .about("id")
}

fn not_found(refusal: Refusal, id: &str) -> Refusal {
    if refusal.code() == "task_not_found" { missing(id) } else { refusal }
}

fn entry(answer: &Answer) -> Result<TaskEntry, Refusal> {
    let task = answer.fields.get("task").cloned().ok_or_else(unreadable)?;
    serde_json::from_value(task).map_err(|_| unreadable())
}

async fn stepped(core: &Core, answer: &Answer) -> Result<TaskStepped, Refusal> {
    let duplicate = answer.fields.get("duplicate").and_then(Value::as_bool).unwrap_or_default();
    let task = item(core, &mut Opening::default(), &entry(answer)?).await?;
    Ok(TaskStepped { ok: true, task, duplicate })
}

/// Why a step may not be taken.
fn refused(core: &Core, answer: &Answer) -> Refusal {
    let code = answer.fields.get("code").and_then(Value::as_str);
    let (Ok(task), Some(code)) = (entry(answer), code) else { return unreadable() };
    let who = |id: Option<&str>| id.map(|id| member(core, id));
    let name = |who: &Option<MemberRef>| {
        who.as_ref().map_or_else(String::new, |who| who.name.clone().unwrap_or_else(|| who.member_id.clone()))
    };
    let (claimer, assignee) = (who(task.claimed_by.as_deref()), who(task.assignee.as_deref()));
    let detail = match code {
        "already_claimed" => format!("`{}` is at it already", name(&claimer)),
        "already_completed" => "the task is done already".to_owned(),
        "not_claimed" => "nobody has claimed the task; claim it first".to_owned(),
        "not_the_claimer" => format!("the task is claimed by `{}`", name(&claimer)),
        "not_the_assignee" => format!("the task is for `{}`", name(&assignee)),
        other => other.replace('_', " "),
    };
    let shown = |who: Option<MemberRef>| serde_json::to_value(who).unwrap_or_default();
    Refusal::of_broker(code, &detail)
        .with("id", task.id)
        .with("status", task.status.as_str())
        .with("claimed_by", shown(claimer))
        .with("lease_until", task.lease_until_ms.map(iso))
}

/// What is known of a task's sealed parts.
#[derive(Default)]
pub(super) struct Content {
    title: String,
    body: Option<String>,
    result: Option<Value>,
    /// All of it is proven to be of those who are named.
    verified: bool,
}

/// Opens a task.
async fn item(core: &Core, opening: &mut Opening, task: &TaskEntry) -> Result<TaskItem, Refusal> {
    let mut keys = [None, None, None];
    for (key, boxed) in keys.iter_mut().zip([Some(&task.title), task.body.as_ref(), task.result.as_ref()]) {
        if let Some(boxed) = boxed {
            *key = Some(opening.key(core, boxed.epoch).await?);
        }
    }
    let forged = || Refusal::new("hash_mismatch", "what the broker has is not what a member wrote there");
    let content = opened(core, task, keys).ok_or_else(forged)?;
    Ok(shown(core, task, content))
}

/// Opens those parts of a task whose keys are given: title, body, result. None if a part is none of this task.
fn opened(core: &Core, task: &TaskEntry, keys: [Option<SharedKey>; 3]) -> Option<Content> {
    let [title, body, result] = keys;
    let mut content = Content { verified: true, ..Content::default() };
    let author = Some(task.created_by.as_str());
    if let Some(key) = title {
        let mut plain = part(&key, &task.title, &task.id)?;
        content.verified &= is_of(core, author, RecordPart::TaskTitle, task, &mut plain) && fits(task, &plain);
        content.title = plain.get("t")?.as_str()?.to_owned();
    }
    if let (Some(key), Some(boxed)) = (body, &task.body) {
        let mut plain = part(&key, boxed, &task.id)?;
        content.verified &= is_of(core, author, RecordPart::TaskBody, task, &mut plain);
        content.body = plain.get("b").and_then(Value::as_str).map(str::to_owned);
    }
    if let (Some(key), Some(boxed)) = (result, &task.result) {
        let mut plain = part(&key, boxed, &task.id)?;
        content.verified &= is_of(core, task.claimed_by.as_deref(), RecordPart::TaskResult, task, &mut plain);
        content.result = plain.get_mut("r").map(Value::take);
    }
    Some(content)
}

/// Opens a box, if it is one of this task.
fn part(key: &SharedKey, boxed: &Boxed, id: &str) -> Option<Value> {
    open(key, boxed).filter(|plain| plain.get("i").and_then(Value::as_str) == Some(id))
}

fn is_of(core: &Core, member: Option<&str>, part: RecordPart, task: &TaskEntry, plain: &mut Value) -> bool {
    is_by(core, member.unwrap_or_default(), part, &task.id, plain)
}

/// Whether what the broker says of a task beside its boxes is what its maker signed.
fn fits(task: &TaskEntry, title: &Value) -> bool {
    let assignee = title.get("w").and_then(Value::as_str);
    title.get("p").and_then(Value::as_str) == Some(task.priority.as_str()) && assignee == task.assignee.as_deref()
}

/// A task whose title is open, as far as that can be done without asking anybody.
pub(super) fn at_hand(core: &Core, task: &TaskEntry) -> Option<TaskItem> {
    let key = core.shared.key(core, task.title.epoch)?;
    Some(shown(core, task, opened(core, task, [Some(key), None, None])?))
}

pub(super) fn shown(core: &Core, task: &TaskEntry, content: Content) -> TaskItem {
    let Content { title, body, result, verified } = content;
    let who = |id: &Option<String>| id.as_deref().map(|id| member(core, id));
    TaskItem {
        id: task.id.clone(),
        title,
        body,
        status: task.status.as_str(),
        priority: task.priority.as_str(),
        assignee: who(&task.assignee),
        created_by: member(core, &task.created_by),
        created_at: iso(task.created_ms),
        claimed_by: who(&task.claimed_by),
        claimed_at: task.claimed_ms.map(iso),
        lease_until: task.lease_until_ms.map(iso),
        completed_at: task.completed_ms.map(iso),
        result,
        version: task.version,
        verified,
    }
}
