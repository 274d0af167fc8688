//! Panics of request handlers, turned into values.
//!
//! A fault in one handler must cost its own request and nothing else: not the connection, not the
//! daemon, not the children.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a panic said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Panicked(pub(crate) String);

impl Panicked {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let words = payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| payload.downcast_ref::<String>().cloned());
        Self(words.unwrap_or_else(|| "unknown".to_owned()))
    }
}

/// Calls `work`, which must leave nothing half done that others see.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::new(&*payload))
}

/// A future whose panics end it with an error.
pub(crate) struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Caught<F> {
    /// Wraps `future`.
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match catch(|| self.0.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(panicked) => Poll::Ready(Err(panicked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panics_become_words() {
        assert_eq!(catch(|| 1), Ok(1));
        assert_eq!(catch(|| panic!("boom")), Err::<(), _>(Panicked("boom".into())));
        let caught = Caught::new(async {
            tokio::task::yield_now().await;
            let place = std::hint::black_box(3);
            [1, 2][place]
        });
        let Err(Panicked(words)) = caught.await else {
            panic!("not caught");
        };
        assert!(words.contains("index out of bounds"), "{words}");
        assert_eq!(Caught::new(async { 2 }).await, Ok(2));
    }
}
