//! `/v1/task`: what is to be done in the mesh, each by one member.

use hostel_mesh::{NewTask, TaskQuery, TaskStatus, TaskStep, TaskStepRequest};
use hyper::header::HeaderMap;
use serde_json::json;

use super::super::answer::{self, Refused};
use super::super::fields::Fields;
use super::super::query::Query;
use super::super::respond::Asked;
use super::super::route::Endpoint;
use super::messages::{client_message_id, priority};
use super::state::paged;
use super::{Outcome, this_mesh};

const DEFAULT_LIMIT: usize = 100;
const MOST: usize = 1000;

pub(super) async fn create(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let new = new_task(&fields, &asked.head.headers)?;
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    Ok(answer::ok(&asked.door.mesh.task_create(new).await?))
}

/// Reads what is to be done.
pub(in super::super) fn new_task(fields: &Fields<'_>, headers: &HeaderMap) -> Result<NewTask, Refused> {
    Ok(NewTask {
        title: fields.required("title")?,
        body: fields.text("body")?,
        assignee: fields.text("assignee")?.filter(|who| !who.is_empty()),
        priority: priority(fields)?,
        client_id: client_message_id(fields, headers)?,
    })
}

pub(super) async fn step(asked: &Asked) -> Outcome {
    let step = match asked.endpoint {
        Endpoint::TaskRelease => TaskStep::Release,
        Endpoint::TaskComplete => TaskStep::Complete,
        _ => TaskStep::Claim,
    };
    let fields = Fields::read(&asked.body)?;
    let request = step_request(&fields, &asked.head.headers, step)?;
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    Ok(answer::ok(&asked.door.mesh.task_step(request).await?))
}

/// Reads what is to be done to a task; what does not belong to it is passed over.
pub(in super::super) fn step_request(
    fields: &Fields<'_>,
    headers: &HeaderMap,
    step: TaskStep,
) -> Result<TaskStepRequest, Refused> {
    let lease_s = match step {
        TaskStep::Claim => fields.number(&["lease_s", "leaseS"])?,
        _ => None,
    };
    let result = match step {
        TaskStep::Complete => fields.exact("result")?,
        _ => None,
    };
    let (id, client_id) = (fields.required("id")?, client_message_id(fields, headers)?);
    Ok(TaskStepRequest { id, step, lease_s, result, client_id })
}

pub(super) async fn get(asked: &Asked) -> Outcome {
    let query = asked.query();
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    Ok(answer::ok(&json!({"task": asked.door.mesh.task_get(&query.required("id")?).await?})))
}

pub(super) async fn list(asked: &Asked) -> Outcome {
    let query = asked.query();
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    let which = which(&query)?;
    let turn = asked.live.page().await?;
    let page = asked.door.mesh.task_list(which).await?;
    paged(asked, turn, &page).await
}

/// Reads which tasks are wanted.
pub(in super::super) fn which(query: &Query<'_>) -> Result<TaskQuery, Refused> {
    let status = match query.text("status")?.as_deref() {
        None | Some("all") => None,
        Some(word) => {
            let wrong = || Refused::field("status", "`status` is `open`, `claimed`, `completed` or `all`");
            Some(TaskStatus::parse(word).ok_or_else(wrong)?)
        }
    };
    Ok(TaskQuery {
        status,
        cursor: query.text("cursor")?.map(std::borrow::Cow::into_owned),
        limit: query.clamped("limit", DEFAULT_LIMIT, 1, MOST)?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn what_can_be_said_of_a_task() {
        let body = br#"{"title":"fix it","body":"now","assignee":"ada","priority":"low","client_message_id":"k"}"#;
        let new = new_task(&Fields::read(body).unwrap(), &HeaderMap::new()).unwrap();
        assert_eq!((new.title.as_str(), new.assignee.as_deref()), ("fix it", Some("ada")));
        assert_eq!((new.priority.as_str(), new.client_id.as_deref()), ("low", Some("k")));
        for (body, field) in [(r#"{"body":"x"}"#, "title"), (r#"{"title":"x","priority":"soon"}"#, "priority")] {
            let fields = Fields::read(body.as_bytes()).unwrap();
            assert_eq!(new_task(&fields, &HeaderMap::new()).unwrap_err().field.as_deref(), Some(field));
        }
    }

    #[test]
    fn a_step_takes_what_belongs_to_it() {
        let fields = Fields::read(br#"{"id":"t","lease_s":60,"result":{"ok":true}}"#).unwrap();
        let claim = step_request(&fields, &HeaderMap::new(), TaskStep::Claim).unwrap();
        assert_eq!((claim.lease_s, claim.result), (Some(60), None));
        let complete = step_request(&fields, &HeaderMap::new(), TaskStep::Complete).unwrap();
        assert_eq!((complete.lease_s, complete.result), (None, Some(json!({"ok": true}))));
        assert_eq!(which(&Query::new("status=claimed")).unwrap().status, Some(TaskStatus::Claimed));
        assert_eq!(which(&Query::new("status=all")).unwrap().status, None);
        assert_eq!(which(&Query::new("status=done")).unwrap_err().field.as_deref(), Some("status"));
    }
}
