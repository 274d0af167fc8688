//! `pre-send`: the last gate for what this host is about to send.
//!
//! Invariant: it fails shut. A gate that is configured and cannot be asked, ends badly, takes too long or says what
//! nobody understands lets nothing through. It is asked once for each message: a request whose id is known is answered
//! from the outbox. About shared state and tasks it is asked each time, for only the broker knows which ids were used; a
//! change of something that they have not is refused.

use hostel_wire::topic as names;
use hostel_wire::{ids, iso};
use serde_json::{Value, json};

use super::invoke::{self, Invoked, Occasion};
use super::name::HookName;
use super::reply::{self, Verdict};
use super::run::Exit;
use super::{Standing, files};
use crate::mesh::Refusal;
use crate::mesh::core::Core;
use crate::outbox::Payload;

/// What is about to be sent.
pub(crate) struct Leaving<'a> {
    /// For whom, as an object.
    pub(crate) to: Value,
    /// `dm`, `topic`, `group`, `all` or `file`.
    pub(crate) kind: &'static str,
    /// The topic's name.
    pub(crate) topic: Option<&'a str>,
    /// How urgent.
    pub(crate) priority: &'static str,
    /// The caller's id for it.
    pub(crate) client_message_id: Option<&'a str>,
    /// The session that sends.
    pub(crate) session: Option<&'a str>,
}

/// Whether there is a gate at all: without one nothing has to be looked up.
pub(crate) fn is_there(core: &Core) -> bool {
    let state = core.hooks.state();
    match &state.standing {
        Standing::Off(_) => false,
        Standing::Ready(policy) => policy.runs(&HookName::PreSend),
        // Nobody knows what the policy would say; a gate that lies there is taken for one that counts.
        Standing::Broken(_) => {
            core.hooks.place.as_ref().is_some_and(|place| files::lies_there(&place.directory, &HookName::PreSend))
        }
    }
}

/// A change of the shared state or of a task that is about to be sent.
pub(crate) struct Changing<'a> {
    /// `state` or `task`.
    pub(crate) kind: &'static str,
    /// `set`, `remove`, `create`, `claim`, `release` or `complete`.
    pub(crate) step: &'static str,
    /// Of what, as an object.
    pub(crate) to: Value,
    /// A new task's title.
    pub(crate) title: Option<&'a str>,
    /// A value, a task's body, or its result.
    pub(crate) body: Option<String>,
    /// How urgent a task is.
    pub(crate) priority: Option<&'static str>,
    /// The caller's id for it.
    pub(crate) client_message_id: &'a str,
}

/// What the gate put in the place of what a change had.
#[derive(Default)]
pub(crate) struct Changed {
    pub(crate) title: Option<String>,
    pub(crate) body: Option<String>,
}

/// Other words than those that were about to be sent.
struct Instead {
    body: Option<String>,
    meta: Option<Value>,
    title: Option<String>,
}

/// Asks the gate. The payload may be another one afterwards; `true` says so.
pub(crate) async fn ask(core: &Core, payload: &mut Payload, leaving: Leaving<'_>) -> Result<bool, Refusal> {
    let told = json!({
        "to": leaving.to, "kind": leaving.kind, "topic": leaving.topic,
        "body": payload.body, "meta": payload.meta.clone().unwrap_or_else(|| json!({})),
        "priority": leaving.priority, "mentions": payload.mentions, "reply_to_id": payload.reply_to,
        "client_message_id": leaving.client_message_id, "session": leaving.session,
    });
    let Some(instead) = decide(core, told).await? else { return Ok(false) };
    replace(payload, instead.body, instead.meta);
    Ok(true)
}

/// Asks the gate about a change of the shared state or of a task.
pub(crate) async fn ask_shared(core: &Core, changing: Changing<'_>) -> Result<Changed, Refusal> {
    let told = json!({
        "to": changing.to, "kind": changing.kind, "step": changing.step, "topic": null, "title": changing.title,
        "body": changing.body, "meta": {}, "priority": changing.priority, "mentions": [], "reply_to_id": null,
        "client_message_id": changing.client_message_id, "session": null,
    });
    let Some(Instead { body, meta, title }) = decide(core, told).await? else { return Ok(Changed::default()) };
    let beside = meta.is_some_and(|meta| meta.as_object().is_some_and(|meta| !meta.is_empty()));
    let strange = [
        ("body", body.is_some() && changing.body.is_none()),
        ("title", title.is_some() && changing.title.is_none()),
        ("meta", beside),
    ];
    match strange.into_iter().find(|(_, strange)| *strange) {
        Some((what, _)) => Err(blocked(&format!("it replaced `{what}`, and there is none"))),
        None => Ok(Changed { title, body }),
    }
}

/// The text of a value that the gate is asked about: a string as it is, anything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The value that a text stands for which the gate put in the place of another's.
pub(crate) fn value_of(before: &Value, text: String) -> Result<Value, Refusal> {
    if before.is_string() {
        return Ok(Value::String(text));
    }
    match serde_json::from_str(&text) {
        Ok(Value::Null) | Err(_) => Err(blocked("it replaced a value of JSON by something that is none")),
        Ok(value) => Ok(value),
    }
}

/// Asks the gate about what it is told beside the event's own fields; what is to be sent instead, if anything.
async fn decide(core: &Core, mut told: Value) -> Result<Option<Instead>, Refusal> {
    let state = core.hooks.state();
    let policy = match &state.standing {
        Standing::Ready(policy) => policy,
        Standing::Off(_) => return Ok(None),
        Standing::Broken(error) => return Err(blocked(&format!("its policy cannot be read: {error}"))),
    };
    let hook = HookName::PreSend;
    let Some(rule) = policy.rule(&hook).filter(|rule| rule.enabled) else { return Ok(None) };
    let _place = state.gates.acquire().await.map_err(|_| blocked("the daemon is ending"))?;
    let event_id = ids::ulid(core.clock.now_ms());
    let own = json!({
        "event": "pre_send", "event_id": event_id, "hook": hook.to_string(), "mesh": core.me.slug,
        "ts": iso(core.clock.now_ms()), "_truncated": false,
    });
    if let (Some(told), Value::Object(own)) = (told.as_object_mut(), own) {
        told.extend(own);
    }
    let occasion = Occasion { hook: &hook, rule, event_id: &event_id, payload: told, row: None };
    let invoked = invoke::invoke(core, &state, occasion).await.map_err(|reason| blocked(&reason))?;
    let verdict = verdict(&invoked);
    invoke::record(core, &hook, rule, &event_id, &invoked, false).await;
    match verdict.map_err(|reason| blocked(&reason))? {
        Verdict::Allow => Ok(None),
        Verdict::Drop(reason) => Err(refused(&reason)),
        Verdict::Replace { body, meta, title } => Ok(Some(Instead { body, meta, title })),
    }
}

fn verdict(invoked: &Invoked) -> Result<Verdict, String> {
    match &invoked.ran.exit {
        Exit::Code(0) if invoked.ran.overflow => Err("it printed more than it may".to_owned()),
        Exit::Code(0) => reply::verdict(&invoked.ran.stdout).map_err(str::to_owned),
        Exit::Code(code) => Err(format!("it ended with {code}")),
        Exit::Signal(signal) => Err(format!("it was ended by signal {signal}")),
        Exit::TimedOut => Err("it took too long".to_owned()),
        Exit::Failed(reason) => Err(reason.clone()),
    }
}

/// Puts other words into a message. A file's announcement keeps what says which file it is.
fn replace(payload: &mut Payload, body: Option<String>, meta: Option<Value>) {
    if let Some(body) = body {
        // Names that stood in the text are those of the new text; names that were given stay.
        if payload.mentions == names::mentions(&payload.body) {
            payload.mentions = names::mentions(&body);
        }
        payload.body = body;
    }
    if let Some(mut meta) = meta {
        let file = payload.meta.as_ref().and_then(|old| old.get("file")).cloned();
        if payload.file_id.is_some()
            && let Some(file) = file
        {
            if meta.is_null() {
                meta = json!({});
            }
            meta["file"] = file;
        }
        payload.meta = Some(meta).filter(|meta| !meta.is_null());
    }
}

/// The gate said no.
fn refused(reason: &str) -> Refusal {
    let detail = match reason {
        "" => "the hook `pre-send` of this host does not let it through".to_owned(),
        reason => format!("the hook `pre-send` of this host does not let it through: {reason}"),
    };
    Refusal::new("blocked_by_pre_send", detail)
}

/// The gate could not be asked.
fn blocked(reason: &str) -> Refusal {
    let detail = format!("the hook `pre-send` of this host could not be asked, so nothing is sent: {reason}");
    Refusal::new("blocked_by_pre_send", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_replaced_and_what_stays() {
        let mut payload = Payload {
            body: "ask @ada".into(),
            meta: Some(json!({"file": {"id": "f"}, "secret": 1})),
            mentions: vec!["ada".into()],
            file_id: Some("f".into()),
            ..Payload::default()
        };
        replace(&mut payload, Some("ask @bob".into()), Some(Value::Null));
        assert_eq!((payload.body.as_str(), payload.mentions.as_slice()), ("ask @bob", &["bob".to_owned()][..]));
        assert_eq!(payload.meta, Some(json!({"file": {"id": "f"}})));
        let mut payload = Payload { body: "x".into(), mentions: vec!["given".into()], ..Payload::default() };
        replace(&mut payload, Some("y @z".into()), Some(Value::Null));
        assert_eq!((payload.mentions, payload.meta), (vec!["given".to_owned()], None));
    }

    #[test]
    fn a_value_stays_of_its_kind() {
        assert_eq!((text_of(&json!("5")), text_of(&json!({"a": 5}))), ("5".to_owned(), "{\"a\":5}".to_owned()));
        assert_eq!(value_of(&json!("5"), "7".into()).unwrap(), json!("7"));
        assert_eq!(value_of(&json!(5), "{\"b\":1}".into()).unwrap(), json!({"b": 1}));
        for text in ["seven", "null", ""] {
            assert_eq!(value_of(&json!(5), text.into()).unwrap_err().code(), "blocked_by_pre_send", "{text}");
        }
    }
}
