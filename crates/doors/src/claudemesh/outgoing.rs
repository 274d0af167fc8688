//! Bodies of answers: all at once, or a stream of events.
//!
//! Invariant: a slot that an answer holds is given back when its last byte was taken or its client is gone, not earlier.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::Stream;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// What the HTTP layer takes at once: it takes the next piece when it has room again.
const PIECE: usize = 64 * 1024;

/// Pieces of a stream.
pub(super) type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The body of an answer, with the slot it holds.
pub(super) struct Body {
    kind: Kind,
    _slot: Option<OwnedSemaphorePermit>,
    _room: Option<OwnedSemaphorePermit>,
}

enum Kind {
    Whole(Bytes),
    Pieces(Pieces),
}

impl Body {
    /// Of known length.
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { kind: Kind::Whole(bytes), _slot: None, _room: None }
    }

    /// Until there is no more.
    pub(super) fn pieces(pieces: Pieces) -> Self {
        Self { kind: Kind::Pieces(pieces), _slot: None, _room: None }
    }

    /// Takes up room until it is over.
    pub(super) fn taking(self, room: Option<OwnedSemaphorePermit>) -> Self {
        Self { _room: room, ..self }
    }

    /// Holds a slot until it is over.
    pub(super) fn holding(self, slot: Option<OwnedSemaphorePermit>) -> Self {
        Self { _slot: slot, ..self }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let piece = match &mut self.kind {
            Kind::Whole(bytes) if bytes.is_empty() => None,
            Kind::Whole(bytes) => Some(bytes.split_to(bytes.len().min(PIECE))),
            Kind::Pieces(pieces) => ready!(pieces.as_mut().poll_next(context)),
        };
        Poll::Ready(piece.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.kind, Kind::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Pieces(_) => SizeHint::default(),
        }
    }
}
