//! `/v1/topic/…`, but for posting.

use hostel_mesh::Subscribed;
use hyper::StatusCode;
use serde_json::json;

use super::super::answer;
use super::super::fields::Fields;
use super::super::respond::Asked;
use super::{Outcome, this_mesh};

pub(super) async fn subscribe(asked: &Asked) -> Outcome {
    let topic = topic(asked)?;
    told(&asked.door.mesh.subscribe(&topic).await?)
}

pub(super) async fn unsubscribe(asked: &Asked) -> Outcome {
    let topic = topic(asked)?;
    told(&asked.door.mesh.unsubscribe(&topic).await?)
}

pub(super) async fn list(asked: &Asked) -> Outcome {
    this_mesh(asked, asked.query().text("mesh")?.as_deref())?;
    Ok(answer::ok(&json!({"topics": asked.door.mesh.topics().await?})))
}

fn topic(asked: &Asked) -> Result<String, answer::Refused> {
    let fields = Fields::read(&asked.body)?;
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    fields.required("topic")
}

/// Done, or taken and told to the broker later.
fn told(subscribed: &Subscribed) -> Outcome {
    let status = if subscribed.pending { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok(answer::json(status, subscribed))
}
