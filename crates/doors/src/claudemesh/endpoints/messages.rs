//! `POST /v1/send` and `POST /v1/topic/post`.

use hostel_mesh::{PostRequest, SendRequest, Sent};
use hostel_wire::frames::Priority;
use hyper::StatusCode;
use hyper::header::HeaderMap;

use super::super::answer::{self, Refused};
use super::super::fields::Fields;
use super::super::respond::Asked;
use super::{Outcome, this_mesh};

const KEY_HEADER: &str = "Idempotency-Key";
/// Bytes of an id.
const LONGEST_ID: usize = 256;

pub(super) async fn send(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let request = send_request(&fields, &asked.head.headers)?;
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    let mesh = &asked.door.mesh;
    taken(&match &asked.grant {
        Some(grant) => mesh.send_as_hook(grant, request).await?,
        None => mesh.send(request, &asked.caller).await?,
    })
}

pub(super) async fn post(asked: &Asked) -> Outcome {
    let fields = Fields::read(&asked.body)?;
    let request = post_request(&fields, &asked.head.headers)?;
    this_mesh(asked, fields.text("mesh")?.as_deref())?;
    let mesh = &asked.door.mesh;
    taken(&match &asked.grant {
        Some(grant) => mesh.post_as_hook(grant, request).await?,
        None => mesh.topic_post(request, &asked.caller).await?,
    })
}

/// Reads what is to be sent.
pub(in super::super) fn send_request(fields: &Fields<'_>, headers: &HeaderMap) -> Result<SendRequest, Refused> {
    Ok(SendRequest {
        to: fields.required("to")?,
        message: message(fields)?,
        priority: priority(fields)?,
        meta: fields.object("meta")?,
        reply_to: fields.text_of(&["replyToId", "reply_to_id"])?,
        client_message_id: client_message_id(fields, headers)?,
        mentions: fields.texts("mentions")?.unwrap_or_default(),
    })
}

/// Reads what is to be posted.
pub(in super::super) fn post_request(fields: &Fields<'_>, headers: &HeaderMap) -> Result<PostRequest, Refused> {
    Ok(PostRequest {
        topic: fields.required("topic")?,
        message: message(fields)?,
        priority: priority(fields)?,
        mentions: fields.texts("mentions")?.unwrap_or_default(),
        meta: fields.object("meta")?,
        reply_to: fields.text_of(&["replyToId", "reply_to_id"])?,
        client_message_id: client_message_id(fields, headers)?,
    })
}

/// A text, which may be empty.
fn message(fields: &Fields<'_>) -> Result<String, Refused> {
    fields.text("message")?.ok_or_else(|| Refused::field("message", "`message` is missing"))
}

pub(super) fn priority(fields: &Fields<'_>) -> Result<Priority, Refused> {
    match fields.text("priority")? {
        None => Ok(Priority::default()),
        Some(text) => Priority::parse(&text)
            .ok_or_else(|| Refused::field("priority", "`priority` must be `now`, `next` or `low`")),
    }
}

/// The caller's id: from the header or from the body; from both only if they agree.
pub(super) fn client_message_id(fields: &Fields<'_>, headers: &HeaderMap) -> Result<Option<String>, Refused> {
    let field = "client_message_id";
    let in_body = fields.text_of(&[field, "clientMessageId"])?;
    if in_body.as_deref().is_some_and(|id| !is_id(id)) {
        let detail = format!("`{field}` has 1 to {LONGEST_ID} bytes and no control characters");
        return Err(Refused::field(field, detail));
    }
    let mut shown = headers.get_all(KEY_HEADER).iter();
    let Some(first) = shown.next() else { return Ok(in_body) };
    let in_header = first.to_str().ok().map(str::trim).filter(|id| is_id(id) && shown.next().is_none());
    let Some(in_header) = in_header else {
        let detail = format!("`{KEY_HEADER}` stands once and has 1 to {LONGEST_ID} plain characters");
        return Err(Refused::field(KEY_HEADER, detail));
    };
    match in_body {
        Some(in_body) if in_body != in_header => {
            let detail = format!("`{KEY_HEADER}` and `{field}` name different ids");
            Err(Refused::new(StatusCode::BAD_REQUEST, "idempotency_key_mismatch", detail).about(field))
        }
        _ => Ok(Some(in_header.to_owned())),
    }
}

fn is_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && !id.chars().any(char::is_control)
}

/// Taken: 202, or 200 for what was delivered before.
fn taken(sent: &Sent) -> Outcome {
    let status = if sent.duplicate && sent.status == "done" { StatusCode::OK } else { StatusCode::ACCEPTED };
    Ok(answer::json(status, sent))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use hyper::header::HeaderValue;
    use serde_json::json;

    use super::*;

    fn read(body: &str, keys: &[&'static str]) -> Result<SendRequest, Refused> {
        let mut headers = HeaderMap::new();
        for key in keys {
            headers.append(KEY_HEADER, HeaderValue::from_static(key));
        }
        send_request(&Fields::read(body.as_bytes()).unwrap(), &headers)
    }

    #[test]
    fn everything_that_can_be_said() {
        let body = r##"{"to":"#t","message":"m","priority":"low","meta":{"a":1},"reply_to_id":"r","clientMessageId":"c",
                       "mentions":["b"],"colour":{}}"##;
        let request = read(body, &["c"]).unwrap();
        let expected = SendRequest {
            to: "#t".to_owned(),
            message: "m".to_owned(),
            priority: Priority::Low,
            meta: Some(json!({"a": 1})),
            reply_to: Some("r".to_owned()),
            client_message_id: Some("c".to_owned()),
            mentions: vec!["b".to_owned()],
        };
        assert_eq!(request, expected);
    }

    #[test]
    fn ids_from_header_and_body() {
        let plain = r#"{"to":"a","message":""}"#;
        assert_eq!(read(plain, &[]).unwrap().client_message_id, None);
        assert_eq!(read(plain, &[" k "]).unwrap().client_message_id.as_deref(), Some("k"));
        for (body, keys, word) in [
            (plain, &[""][..], "invalid"),
            (plain, &["a", "a"], "invalid"),
            (r#"{"to":"a","message":"","client_message_id":"x"}"#, &["y"], "idempotency_key_mismatch"),
            (r#"{"to":"a","message":"","client_message_id":""}"#, &[], "invalid"),
            (r#"{"to":"a","message":"","client_message_id":"a\tb"}"#, &[], "invalid"),
        ] {
            assert_eq!(read(body, keys).unwrap_err().code, word, "{body} {keys:?}");
        }
    }
}
