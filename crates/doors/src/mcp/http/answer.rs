//! Bodies of responses, and refusals.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Frame;
use hyper::body::SizeHint;
use hyper::header;
use hyper::header::HeaderValue;

use crate::mcp::visits::Held;

/// A body. While a client holds it, the client is here.
pub(super) struct Body {
    inner: BoxBody<Bytes, Infallible>,
    _held: Option<Held>,
}

impl Body {
    pub(super) fn new(inner: BoxBody<Bytes, Infallible>, held: Held) -> Self {
        Body { inner, _held: Some(held) }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// A response that says no.
pub(super) fn refuse(status: StatusCode, sentence: &'static str) -> Response<Body> {
    let mut response = Response::new(Body { inner: Full::from(sentence).boxed(), _held: None });
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
