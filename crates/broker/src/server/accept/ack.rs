//! What a sender hears of its message.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hostel_wire::frames::Priority;
use hostel_wire::frames::server::{Ack, ServerFrame};

use crate::engine::{AppendError, AppendTicket, Appended, Known};
use crate::registry::Refusal;
use crate::server::metrics::Metrics;
use crate::server::rate::Bucket;

/// When a sender is to come back after the log could not be written.
const SOON: Duration = Duration::from_secs(1);

/// When a sender is to come back after the log had no room: what is delivered goes meanwhile.
const ROOM: Duration = Duration::from_secs(5);

/// Why a message is refused.
#[derive(Debug, Clone)]
pub(super) enum No {
    /// An earlier one of its lane was.
    LaneBlocked,
    /// The sender sends too fast; it may come back then.
    Rate(Duration),
    /// Its body is too long.
    TooLarge(usize),
    /// Its id stands for another message, of this id.
    Reused(String),
    /// It makes no sense.
    Invalid(&'static str),
    Forbidden,
    /// The member that had accepted it is none whose place the sender has taken.
    OriginUnknown,
    TopicNotFound,
    RecipientUnknown,
    /// Where it goes says no.
    Destination(Refusal),
    /// Who is who has changed while it was on its way.
    Changed,
    /// The log has no room.
    Full,
    /// The log cannot be written.
    Unavailable,
}

impl From<Refusal> for No {
    fn from(refusal: Refusal) -> Self {
        Self::Destination(refusal)
    }
}

impl No {
    fn code(&self) -> &'static str {
        match self {
            Self::LaneBlocked => "lane_blocked",
            Self::Rate(_) => "rate_limited",
            Self::TooLarge(_) => "message_too_large",
            Self::Reused(_) => "idempotency_key_reused",
            Self::Invalid(_) => "invalid",
            Self::Forbidden => "forbidden",
            Self::OriginUnknown => "origin_unknown",
            Self::TopicNotFound => "topic_not_found",
            Self::RecipientUnknown => "recipient_unknown",
            Self::Destination(refusal) => refusal.code(),
            Self::Changed => "roster_changed",
            Self::Full => "insufficient_storage",
            Self::Unavailable => "unavailable",
        }
    }

    /// Coming again is of no use.
    pub(super) fn is_permanent(&self) -> bool {
        match self {
            Self::LaneBlocked | Self::Rate(_) | Self::Changed | Self::Full | Self::Unavailable => false,
            Self::Destination(refusal) => refusal.is_permanent(),
            _ => true,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::LaneBlocked => "an earlier message of the lane was refused for now".to_owned(),
            Self::Rate(_) => "too many messages".to_owned(),
            Self::TooLarge(most) => format!("the body is longer than {most} bytes"),
            Self::Reused(id) => format!("the id stands for message {id} already"),
            Self::Invalid(text) => (*text).to_owned(),
            Self::Forbidden => "you may not send this".to_owned(),
            Self::OriginUnknown => {
                "the member that had accepted it is none whose place you have taken; it may have been sent already"
                    .to_owned()
            }
            Self::TopicNotFound => "no such topic".to_owned(),
            Self::RecipientUnknown => "no such member".to_owned(),
            Self::Destination(refusal) => refusal.to_string(),
            Self::Changed => "members or topics have changed meanwhile".to_owned(),
            Self::Full => {
                "the broker's log of this mesh is full; it takes messages again when there is room".to_owned()
            }
            Self::Unavailable => "the log cannot be written".to_owned(),
        }
    }

    /// The ack that says so, and one more on the counter.
    pub(super) fn ack(&self, metrics: &Metrics, id: &str) -> String {
        metrics.rejected_send(self.code());
        let retry_after = match self {
            Self::Rate(wait) => Some(*wait),
            Self::LaneBlocked | Self::Changed => Some(Duration::ZERO),
            Self::Unavailable => Some(SOON),
            Self::Full => Some(ROOM),
            _ => None,
        };
        // The older word for the one code that older daemons look for.
        let code = if matches!(self, Self::Rate(_)) { "rate_limit" } else { self.code() };
        encode(Ack {
            id: id.to_owned(),
            error: Some(format!("{code}: {}", self.text())),
            code: Some(self.code().to_owned()),
            retry_after_ms: retry_after.map(|wait| u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)),
            permanent: Some(self.is_permanent()),
            ..Ack::default()
        })
    }
}

/// The ack of a message that was in the log before.
pub(super) fn duplicate(id: &str, known: &Known) -> String {
    encode(Ack {
        id: id.to_owned(),
        message_id: known.id.clone(),
        queued: true,
        seq: Some(known.seq),
        duplicate: true,
        history_available: Some(known.history_available),
        ..Ack::default()
    })
}

fn encode(ack: Ack) -> String {
    ServerFrame::Ack(Box::new(ack)).encode()
}

/// What is needed to write the ack once the log has spoken.
pub(crate) struct Promise {
    pub(super) id: String,
    pub(super) priority: Priority,
    /// Whom it was charged to, if it was.
    pub(super) charged: Option<Arc<Bucket>>,
}

/// A message that is in line for the log.
pub(crate) struct Pending {
    promise: Promise,
    ticket: Pin<Box<dyn Future<Output = Result<Appended, AppendError>> + Send>>,
}

impl Pending {
    pub(super) fn new(promise: Promise, ticket: AppendTicket) -> Self {
        Self { promise, ticket: Box::pin(ticket.done()) }
    }

    /// The ack, once there is one.
    pub(crate) fn poll_ack(&mut self, metrics: &Metrics, context: &mut Context<'_>) -> Poll<String> {
        let appended = ready!(self.ticket.as_mut().poll(context));
        Poll::Ready(self.promise.keep(metrics, appended))
    }
}

impl Promise {
    fn keep(&self, metrics: &Metrics, appended: Result<Appended, AppendError>) -> String {
        let no = match appended {
            Ok(appended) => {
                if appended.duplicate {
                    Metrics::count(&metrics.duplicates);
                    if let Some(bucket) = &self.charged {
                        bucket.give_back();
                    }
                } else {
                    metrics.routed(self.priority);
                }
                return encode(Ack {
                    id: self.id.clone(),
                    message_id: appended.id,
                    queued: true,
                    seq: Some(appended.seq),
                    duplicate: appended.duplicate,
                    history_available: appended.duplicate.then_some(appended.history_available),
                    ..Ack::default()
                });
            }
            Err(AppendError::Reused { id }) => No::Reused(id),
            Err(AppendError::Blocked) => No::LaneBlocked,
            Err(AppendError::Stale(_)) => No::Changed,
            Err(AppendError::Full) => No::Full,
            Err(AppendError::Engine(_)) => No::Unavailable,
        };
        no.ack(metrics, &self.id)
    }
}
