//! Entry points for fuzz targets: everything here is a pure function of a stranger's bytes.
//!
//! They return what was produced so that a target can check it; they never check by themselves.

use hostel_mesh::events::Event;
use hostel_mesh::{
    InboxRequest, NewTask, PostRequest, ProfileChange, RegisterRequest, SendRequest, StateChange, StateList, TaskQuery,
    TaskStep, TaskStepRequest,
};
use hyper::header::{HeaderMap, HeaderValue};

use super::answer::Refused;
use super::endpoints::{inbox, messages, people, sessions, state, tasks};
use super::fields::Fields;
use super::query::{self, Query};
use super::stream;

/// Status, word and field of a refusal.
pub type Refusal = (u16, String, Option<String>);

/// What a body could ask for, each read on its own.
#[derive(Debug)]
pub struct Readings {
    /// As `POST /v1/send`.
    pub send: Result<SendRequest, Refusal>,
    /// As `POST /v1/topic/post`.
    pub post: Result<PostRequest, Refusal>,
    /// As `POST /v1/profile`.
    pub profile: Result<ProfileChange, Refusal>,
    /// As `POST /v1/sessions/register`.
    pub register: Result<RegisterRequest, Refusal>,
    /// As `POST /v1/state/set`.
    pub state: Result<StateChange, Refusal>,
    /// As `POST /v1/task/create`.
    pub task: Result<NewTask, Refusal>,
    /// As `POST /v1/task/complete`.
    pub step: Result<TaskStepRequest, Refusal>,
}

fn shown(refused: Refused) -> Refusal {
    (refused.status.as_u16(), refused.code.into_owned(), refused.field.map(std::borrow::Cow::into_owned))
}

/// Reads a body in every way there is, with an `Idempotency-Key` if one is given and a header can have it.
///
/// # Errors
/// What is said about a body that is no object.
pub fn body(body: &[u8], key: Option<&[u8]>) -> Result<Readings, Refusal> {
    let fields = Fields::read(body).map_err(shown)?;
    let mut headers = HeaderMap::new();
    if let Some(value) = key.and_then(|key| HeaderValue::from_bytes(key).ok()) {
        headers.insert("idempotency-key", value);
    }
    Ok(Readings {
        send: messages::send_request(&fields, &headers).map_err(shown),
        post: messages::post_request(&fields, &headers).map_err(shown),
        profile: people::profile_change(&fields).map_err(shown),
        register: sessions::register_request(&fields).map_err(shown),
        state: state::change(&fields, &headers).map_err(shown),
        task: tasks::new_task(&fields, &headers).map_err(shown),
        step: tasks::step_request(&fields, &headers, TaskStep::Complete).map_err(shown),
    })
}

/// Reads a query as that of the inbox, and as that of the events (names and topic).
#[expect(clippy::type_complexity, reason = "two results side by side")]
pub fn query(text: &str) -> (Result<InboxRequest, Refusal>, Result<(Vec<String>, Option<String>), Refusal>) {
    let query = Query::new(text);
    let events = stream::filter(&query).map(|filter| (filter.events, filter.topic));
    (inbox::request(&query).map_err(shown), events.map_err(shown))
}

/// Reads a query as that of lists of the shared state and of tasks.
pub fn lists(text: &str) -> (Result<StateList, Refusal>, Result<TaskQuery, Refusal>) {
    let query = Query::new(text);
    (state::which(&query).map_err(shown), tasks::which(&query).map_err(shown))
}

/// A text as it stands in a query, and read again.
#[must_use]
pub fn encoded(text: &str) -> (String, Option<String>) {
    let encoded = query::encode(text);
    let decoded = query::decode(&encoded).map(std::borrow::Cow::into_owned);
    (encoded, decoded)
}

/// An event as it is written.
#[must_use]
pub fn event(event: &Event) -> Vec<u8> {
    let mut out = Vec::new();
    stream::write(&mut out, event);
    out
}
