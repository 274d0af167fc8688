//! Bodies of answers: a few bytes, or a file as it is read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};

use crate::engine::BlobReader;

/// What is read of a file at a time.
const PIECE: usize = 64 * 1024;

/// The body of an answer.
pub(super) enum Body {
    /// A few bytes.
    Whole(Option<Bytes>),
    /// A file, with what is left of it.
    File {
        /// Its bytes.
        reader: BlobReader,
        /// How many are left.
        left: u64,
        /// Kept while it is sent.
        _place: tokio::sync::OwnedSemaphorePermit,
    },
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::File { left: 0, .. } => Poll::Ready(None),
            Self::File { reader, left, .. } => {
                let most = usize::try_from(*left).unwrap_or(PIECE).min(PIECE);
                let mut piece = BytesMut::zeroed(most);
                let mut buffer = ReadBuf::new(&mut piece);
                if let Err(error) = ready!(Pin::new(reader).poll_read(context, &mut buffer)) {
                    return Poll::Ready(Some(Err(error)));
                }
                let read = buffer.filled().len();
                if read == 0 {
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
                piece.truncate(read);
                *left -= read as u64;
                Poll::Ready(Some(Ok(Frame::data(piece.freeze()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_none(),
            Self::File { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::File { left, .. } => SizeHint::with_exact(*left),
        }
    }
}
