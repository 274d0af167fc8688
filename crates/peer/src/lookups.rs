//! The few threads that may read `/proc`.
//!
//! Guarantee: a caller waits at most [`LOOKUP_TIMEOUT`]; a lookup that takes longer, or that finds no thread, has no
//! result. A lookup that hangs in the kernel keeps its thread, so there are several, and no more than that.

use std::time::Duration;

use tokio::sync::Semaphore;

/// Lookups at once.
const MAX_LOOKUPS: usize = 8;

/// How long a caller waits for a lookup, the wait for a thread included.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

static PLACES: Semaphore = Semaphore::const_new(MAX_LOOKUPS);

/// Runs a lookup on a thread where it may block. `None` if it did not end in time.
pub(crate) async fn run<T: Send + 'static>(lookup: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    run_in(&PLACES, LOOKUP_TIMEOUT, lookup).await
}

async fn run_in<T: Send + 'static>(
    places: &'static Semaphore,
    limit: Duration,
    lookup: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let looked = async {
        let place = places.acquire().await.ok()?;
        let work = hostel_tasks::spawn_blocking(move || {
            let found = lookup();
            drop(place);
            found
        });
        work.await.ok()
    };
    tokio::time::timeout(limit, looked).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lookup_that_hangs_has_no_result_and_keeps_one_place() {
        static FEW: Semaphore = Semaphore::const_new(2);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let soon = Duration::from_millis(10);
        assert_eq!(run_in(&FEW, soon, move || held.recv().is_err()).await, None, "the time is over");
        assert_eq!(FEW.available_permits(), 1);
        assert_eq!(run_in(&FEW, LOOKUP_TIMEOUT, || 7).await, Some(7), "the others go on");
        drop(release);
        drop(FEW.acquire_many(2).await.unwrap());
    }

    #[tokio::test]
    async fn a_lookup_that_fails_gives_its_place_back() {
        static ONE: Semaphore = Semaphore::const_new(1);
        assert_eq!(run_in(&ONE, LOOKUP_TIMEOUT, || panic!("no")).await, None::<()>);
        assert_eq!(run_in(&ONE, LOOKUP_TIMEOUT, || 7).await, Some(7));
    }
}
