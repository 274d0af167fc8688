//! Starts asynchronous tasks and blocking work of any type through one type each.
//!
//! tokio's functions of the same names are generic: each caller gets a copy of the code that runs, ends and drops a task,
//! once for each kind of runtime. With a hundred callers that was a seventh of the program. Here the future or the
//! closure goes into a box first, so that the copy depends only on the type of the result.
//!
//! The promises are tokio's: work starts at once, whether or not its result is awaited, and a panic ends only the work.

#![forbid(unsafe_code)]

use std::any::Any;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::{AbortHandle, JoinError, JoinHandle, JoinSet};

/// A future whose own type is hidden.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Hides the type of a future, where one large future awaits another in a cold path.
pub fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// Starts a task, as `tokio::spawn` does.
///
/// # Panics
///
/// Outside of a runtime.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(boxed(future))
}

/// Starts tasks of a set.
pub trait SpawnBoxed<T> {
    /// Starts a task, as `JoinSet::spawn` does.
    ///
    /// # Panics
    ///
    /// Outside of a runtime.
    fn spawn_boxed(&mut self, future: impl Future<Output = T> + Send + 'static) -> AbortHandle;
}

impl<T: Send + 'static> SpawnBoxed<T> for JoinSet<T> {
    fn spawn_boxed(&mut self, future: impl Future<Output = T> + Send + 'static) -> AbortHandle {
        self.spawn(boxed(future))
    }
}

/// Starts work that may wait for the disk or for other processes, on a thread where it may.
///
/// # Panics
///
/// Outside of a runtime.
pub fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    let result = PhantomData;
    Blocking { handle: spawn_erased(Box::new(move || Box::new(work()))), result }
}

type Erased = Box<dyn Any + Send>;

fn spawn_erased(work: Box<dyn FnOnce() -> Erased + Send>) -> JoinHandle<Erased> {
    tokio::task::spawn_blocking(work)
}

/// The result of blocking work, once there is one. Dropping it does not stop the work.
#[must_use = "the work goes on, and nobody learns whether it failed"]
pub struct Blocking<T> {
    handle: JoinHandle<Erased>,
    result: PhantomData<fn() -> T>,
}

/// Why blocking work has no result.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct BlockingError(Reason);

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    Join(JoinError),
    /// Cannot happen: the box is filled where its type is known.
    #[error("the result has another type")]
    Type,
}

impl BlockingError {
    /// What the work panicked with, if it did.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        match self.0 {
            Reason::Join(error) => error.try_into_panic().map_err(|error| Self(Reason::Join(error))),
            Reason::Type => Err(self),
        }
    }
}

impl<T: 'static> Future for Blocking<T> {
    type Output = Result<T, BlockingError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        Pin::new(&mut this.handle).poll(context).map(|done| {
            let result = done.map_err(|error| BlockingError(Reason::Join(error)))?;
            result.downcast().map(|result| *result).map_err(|_| BlockingError(Reason::Type))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_and_blocking_work_have_results() {
        assert_eq!(spawn(async { 7 }).await.unwrap(), 7);
        assert_eq!(spawn_blocking(|| "seven".to_owned()).await.unwrap(), "seven");
    }

    #[tokio::test]
    async fn blocking_work_starts_without_being_awaited() {
        let (told, hear) = tokio::sync::oneshot::channel();
        drop(spawn_blocking(move || told.send(())));
        hear.await.unwrap();
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        assert!(spawn(async { panic!("task") }).await.unwrap_err().is_panic());
        let failed = spawn_blocking(|| panic!("work")).await.map(|()| unreachable!()).unwrap_err();
        assert!(failed.to_string().contains("panicked"), "{failed}");
    }
}
