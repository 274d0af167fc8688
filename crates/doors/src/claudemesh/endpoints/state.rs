//! `/v1/state`: values that all members share.

use hostel_mesh::{StateChange, StateList};
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use super::super::answer::{self, Refused};
use super::super::fields::Fields;
use super::super::query::Query;
use super::super::respond::Asked;
use super::messages::client_message_id;
use super::{Outcome, this_mesh};

const DEFAULT_LIMIT: usize = 100;
const MOST: usize = 1000;

pub(super) async fn set(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let change = change(&fields, &asked.head.headers)?;
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    Ok(answer::ok(&asked.door.mesh.state_set(change).await?))
}

/// Reads what is to be written. A null removes; but it must be said.
pub(in super::super) fn change(fields: &Fields<'_>, headers: &HeaderMap) -> Result<StateChange, Refused> {
    if !fields.has("value") {
        return Err(Refused::field("value", "`value` is missing; null removes the entry"));
    }
    Ok(StateChange {
        key: fields.required("key")?,
        value: fields.exact("value")?,
        if_version: fields.number(&["if_version", "ifVersion"])?,
        client_id: client_message_id(fields, headers)?,
    })
}

pub(super) async fn delete(asked: &Asked) -> Outcome {
    let query = asked.query();
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    let change = StateChange {
        key: query.required("key")?.into_owned(),
        value: None,
        if_version: query.number("if_version")?,
        client_id: client_message_id(&Fields::read(b"{}")?, &asked.head.headers)?,
    };
    Ok(answer::ok(&asked.door.mesh.state_set(change).await?))
}

pub(super) async fn get(asked: &Asked) -> Outcome {
    let query = asked.query();
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    Ok(answer::ok(&asked.door.mesh.state_get(&query.required("key")?).await?))
}

pub(super) async fn list(asked: &Asked) -> Outcome {
    let query = asked.query();
    this_mesh(asked, query.text("mesh")?.as_deref())?;
    let which = which(&query)?;
    let turn = asked.live.page().await?;
    let page = asked.door.mesh.state_list(which).await?;
    paged(asked, turn, &page).await
}

/// A page as an answer, once there is room for it: few are made at a time, and few wait to be taken.
pub(super) async fn paged(asked: &Asked, turn: OwnedSemaphorePermit, page: &impl Serialize) -> Outcome {
    let text = serde_json::to_vec(page)
        .map_err(|error| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", error.to_string()))?;
    let space = asked.live.room(text.len()).await?;
    drop(turn);
    Ok(answer::written(text).map(|body| body.taking(space)))
}

/// Reads which entries are wanted.
pub(in super::super) fn which(query: &Query<'_>) -> Result<StateList, Refused> {
    Ok(StateList {
        prefix: query.text("prefix")?.map(std::borrow::Cow::into_owned).unwrap_or_default(),
        cursor: query.text("cursor")?.map(std::borrow::Cow::into_owned),
        limit: query.clamped("limit", DEFAULT_LIMIT, 1, MOST)?,
        values: query.flag("values", false)?,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(body: &str) -> Result<StateChange, Refused> {
        change(&Fields::read(body.as_bytes()).unwrap(), &HeaderMap::new())
    }

    #[test]
    fn a_value_must_be_said_and_may_be_anything() {
        let change = read(r#"{"key":"a","value":{"n":[1,2.5,"x"]},"if_version":0,"client_message_id":"c"}"#).unwrap();
        assert_eq!(change.value, Some(json!({"n": [1, 2.5, "x"]})));
        assert_eq!((change.if_version, change.client_id.as_deref()), (Some(0), Some("c")));
        assert_eq!(read(r#"{"key":"a","value":null}"#).unwrap().value, None);
        assert_eq!(read(r#"{"key":"a","value":false}"#).unwrap().value, Some(Value::Bool(false)));
        for (body, field) in [
            (r#"{"key":"a"}"#, "value"),
            (r#"{"value":1}"#, "key"),
            (r#"{"key":"","value":1}"#, "key"),
            (r#"{"key":"a","value":1,"if_version":-1}"#, "if_version"),
            (r#"{"key":"a","value":1,"if_version":"1"}"#, "if_version"),
            (r#"{"key":"a","value":123456789012345678901234567890}"#, "value"),
        ] {
            assert_eq!(read(body).unwrap_err().field.as_deref(), Some(field), "{body}");
        }
    }

    #[test]
    fn lists_are_bounded() {
        let list = which(&Query::new("prefix=a%2F&limit=5000&values=1&cursor=a%2Fb")).unwrap();
        assert_eq!((list.prefix.as_str(), list.limit, list.values), ("a/", MOST, true));
        assert_eq!(list.cursor.as_deref(), Some("a/b"));
        assert!(which(&Query::new("limit=x")).is_err());
    }
}
