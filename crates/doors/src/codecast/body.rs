//! Bodies of answers: all at once, or as a stream.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::parcel::{Connection, Parcel};
use super::stream::{Following, Piece};

type Pieces = Pin<Box<dyn Stream<Item = Piece> + Send>>;

/// The body of an answer.
pub(super) enum Body {
    /// Of known length.
    Whole(Option<Bytes>),
    /// Of a stream that has only this to say.
    Short(Option<Bytes>),
    /// Of a session's events.
    Stream { pieces: Pieces, ended: bool },
    /// Events that were owed, to be owed again if this does not arrive.
    Owed { bytes: Option<Bytes>, connection: Arc<Connection>, parcel: Option<Parcel> },
}

impl Body {
    pub(super) fn empty() -> Self {
        Self::Whole(None)
    }

    pub(super) fn following(following: Following) -> Self {
        let pieces = stream::unfold(following, |mut following| async move {
            let piece = following.next().await?;
            Some((piece, following))
        });
        Self::Stream { pieces: Box::pin(pieces), ended: false }
    }

    pub(super) fn owed(bytes: Vec<u8>, connection: Arc<Connection>, parcel: Parcel) -> Self {
        Self::Owed { bytes: Some(bytes.into()), connection, parcel: Some(parcel) }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let bytes = match self.get_mut() {
            Self::Whole(bytes) | Self::Short(bytes) => bytes.take(),
            Self::Owed { bytes, connection, .. } => {
                let bytes = bytes.take();
                connection.line.give(bytes.as_ref().map_or(0, Bytes::len));
                bytes
            }
            Self::Stream { ended: true, .. } => None,
            Self::Stream { pieces, ended } => match ready!(pieces.as_mut().poll_next(context)) {
                Some(piece) => {
                    *ended = piece.last;
                    Some(piece.bytes)
                }
                None => {
                    *ended = true;
                    None
                }
            },
        };
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) | Self::Short(bytes) | Self::Owed { bytes, .. } => bytes.is_none(),
            // Known with the last piece, so that both go out together: a client that stops reading at the last
            // frame then leaves nothing unread behind.
            Self::Stream { ended, .. } => *ended,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Owed { bytes, .. } => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Short(_) | Self::Stream { .. } => SizeHint::default(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if let Self::Owed { bytes, connection, parcel } = self
            && let Some(parcel) = parcel.take()
        {
            match bytes {
                None => connection.hand_in(parcel),
                // Nobody even asked for it.
                Some(_) => parcel.take_back(),
            }
        }
    }
}
