//! `GET /v1/events`: what happens, as server-sent events.
//!
//! Invariant: nothing is queued here. The subscription holds what a slow reader has not taken, within its limits; who
//! exceeds them is cut off. An event is three lines: its id, its name, its data.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::stream;
use hostel_mesh::events::{Event, EventFilter, Subscription};
use hyper::Response;
use hyper::header::{self, HeaderMap, HeaderValue};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::answer::Refused;
use super::connection::Connection;
use super::outgoing::Body;
use super::query::Query;
use super::respond::Asked;
use super::route::Endpoint;

/// A piece of the stream is sent when it has this many bytes, or when there is nothing to add.
const PIECE: usize = 64 * 1024;
/// Names a filter may have.
const MOST_NAMES: usize = 64;

const CONNECTED: &[u8] = b": connected\n\n";
const KEEPALIVE: &[u8] = b": keepalive\n\n";

/// Opens a stream.
pub(super) async fn open(
    asked: &Asked,
    connection: &Connection,
    slot: OwnedSemaphorePermit,
) -> Result<Response<Body>, Refused> {
    let query = asked.query();
    let filter = match asked.endpoint {
        Endpoint::StateWatch => watched(&query)?,
        _ => filter(&query)?,
    };
    let last = last_id(&asked.head.headers, &query)?;
    let subscription = asked.door.mesh.events(filter, &asked.caller, last.as_deref()).await?;
    let begins = HeaderValue::from_str(subscription.begins()).ok();
    let mut cut = subscription.cut();
    connection.streams(Box::pin(async move { cut.wait().await }));
    let following = Following {
        subscription,
        keepalive: asked.live.settings.limits.keepalive,
        stop: asked.door.stop.subscribe(),
        greeted: false,
    };
    let pieces = stream::unfold(following, |mut following| async move {
        let piece = following.next().await?;
        Some((piece, following))
    });
    let mut response = Response::new(Body::pieces(Box::pin(pieces)).holding(Some(slot)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    // Ours: who loses the stream before its first event knows where to go on all the same.
    if let Some(begins) = begins {
        headers.insert("last-event-id", begins);
    }
    Ok(response)
}

/// Which events are wanted.
pub(super) fn filter(query: &Query<'_>) -> Result<EventFilter, Refused> {
    let names: Vec<String> = match query.text("events")? {
        Some(names) => names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
        None => Vec::new(),
    };
    let is_name =
        |name: &String| name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if names.len() > MOST_NAMES || !names.iter().all(is_name) {
        return Err(Refused::field("events", "`events` is a list of event names with commas between"));
    }
    let topic = query
        .text("topic")?
        .map(|topic| hostel_wire::topic::topic_name(&topic).map_err(|error| Refused::field("topic", error.to_string())))
        .transpose()?;
    Ok(EventFilter { events: names, topic, ..EventFilter::default() })
}

/// Changes of the shared state that are wanted; also that some were missed for good.
fn watched(query: &Query<'_>) -> Result<EventFilter, Refused> {
    let prefix = query.text("prefix")?.map(std::borrow::Cow::into_owned).unwrap_or_default();
    let events = ["state_changed", "history_gap"].map(str::to_owned).to_vec();
    Ok(EventFilter { events, state: Some(prefix), ..EventFilter::default() })
}

/// The last event the client has, by header or by query; the header is what browsers send when they come back.
fn last_id(headers: &HeaderMap, query: &Query<'_>) -> Result<Option<String>, Refused> {
    let name = "Last-Event-ID";
    let wrong = || Refused::field(name, "`Last-Event-ID` is no id of an event");
    match headers.get("last-event-id") {
        Some(value) if !value.is_empty() => {
            let text = value.to_str().map_err(|_| wrong())?;
            Ok(Some(text.to_owned()))
        }
        _ => Ok(query.text("last_event_id")?.map(std::borrow::Cow::into_owned)),
    }
}

/// A stream that follows the events.
struct Following {
    subscription: Subscription,
    keepalive: Duration,
    stop: watch::Receiver<bool>,
    greeted: bool,
}

impl Following {
    /// The next piece; `None` when the reader fell behind or the daemon ends.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.greeted {
            self.greeted = true;
            return Some(Bytes::from_static(CONNECTED));
        }
        let first = tokio::select! {
            biased;
            event = self.subscription.next() => event?,
            _ = self.stop.wait_for(|stop| *stop) => return None,
            () = tokio::time::sleep(self.keepalive) => return Some(Bytes::from_static(KEEPALIVE)),
        };
        let mut piece = Vec::new();
        write(&mut piece, &first);
        // What is there already goes out together.
        while piece.len() < PIECE
            && let Some(Some(event)) = self.subscription.next().now_or_never()
        {
            write(&mut piece, &event);
        }
        Some(piece.into())
    }
}

/// Writes an event. Ids, names and data are the mesh's own and have one line each; a line end that came in all the same
/// must not begin another field.
pub(super) fn write(out: &mut Vec<u8>, event: &Event) {
    let mut field = |name: &str, value: &str| {
        out.extend_from_slice(name.as_bytes());
        out.extend(value.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }));
        out.push(b'\n');
    };
    // A gap is no event of the log: it must not become the last one the client has.
    if !event.id.is_empty() {
        field("id: ", &event.id);
    }
    field("event: ", &event.name);
    field("data: ", &event.data);
    out.push(b'\n');
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;

    #[test]
    fn filters_are_read() {
        let of = |text: &str| filter(&Query::new(text));
        assert_eq!(of("").unwrap(), EventFilter::default());
        let some = of("events=message,%20peer_join,&topic=%23Alerts").unwrap();
        assert_eq!(
            (some.events, some.topic.as_deref()),
            (vec!["message".to_owned(), "peer_join".to_owned()], Some("alerts"))
        );
        assert_eq!(of("events=Dance!").unwrap_err().field.as_deref(), Some("events"));
        assert_eq!(of("topic=a+b").unwrap_err().field.as_deref(), Some("topic"));
        assert!(of(&format!("events={}", vec!["a"; 65].join(","))).is_err());
    }

    #[test]
    fn the_header_comes_before_the_query() {
        let mut headers = HeaderMap::new();
        assert_eq!(last_id(&headers, &Query::new("last_event_id=a-1")).unwrap().as_deref(), Some("a-1"));
        assert_eq!(last_id(&headers, &Query::new("")).unwrap(), None);
        headers.insert("last-event-id", HeaderValue::from_static("b-2"));
        assert_eq!(last_id(&headers, &Query::new("last_event_id=a-1")).unwrap().as_deref(), Some("b-2"));
    }
}
