//! `/v1/file/…`: files go by their path on this host, never through the request.

use hostel_mesh::{Refusal, ShareRequest};
use serde_json::json;

use super::super::access::Named;
use super::super::answer;
use super::super::fields::Fields;
use super::super::respond::Asked;
use super::{Outcome, this_mesh};

pub(super) async fn share(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let request = ShareRequest {
        path: fields.required("path")?,
        to: fields.text("to")?,
        message: fields.text("message")?,
        persistent: fields.flag("persistent")?.unwrap_or(false),
        tags: fields.texts("tags")?.unwrap_or_default(),
    };
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    let mesh = &asked.door.mesh;
    let shared = match &asked.named {
        Some(Named::Opened(file)) => {
            let file = file.try_clone().map_err(Refusal::internal)?;
            mesh.file_share_opened(request, file, &asked.caller).await?
        }
        _ => mesh.file_share(request, &asked.caller).await?,
    };
    Ok(answer::ok(&shared))
}

pub(super) async fn get(asked: &Asked) -> Outcome {
    let query = asked.query();
    let (id, out) = (query.required("id")?, query.required("out")?);
    let take_unverified = query.flag("unverified", false)?;
    let mesh = &asked.door.mesh;
    let fetched = match &asked.named {
        Some(Named::Place(place)) => mesh.file_get_to(&id, &out, place, take_unverified).await?,
        _ => mesh.file_get(&id, &out, take_unverified).await?,
    };
    Ok(answer::ok(&fetched))
}

pub(super) async fn list(asked: &Asked) -> Outcome {
    Ok(answer::ok(&json!({"files": asked.door.mesh.file_list().await?})))
}
