//! The few threads that may read `/proc`.
//!
//! They are threads of their own: the blocking threads of a runtime may all be busy with long reads of a database, and
//! whoever cannot be looked up in time is refused.
//!
//! Guarantee: a caller waits at most [`LOOKUP_TIMEOUT`]; a lookup that takes longer, or that finds no thread, has no
//! result. A lookup that hangs in the kernel keeps its thread, so there are several, and no more than that.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, mpsc};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};

/// Lookups at once.
const MAX_LOOKUPS: usize = 8;

/// Threads at most. A thread that has given its place back may not be free yet.
const MAX_THREADS: usize = 2 * MAX_LOOKUPS;

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
        let (tell, found) = oneshot::channel();
        THREADS.begin(Box::new(move || {
            let looked = catch_unwind(AssertUnwindSafe(lookup));
            drop(place);
            if let Ok(looked) = looked {
                // Whoever asked may have gone.
                tell.send(looked).ok();
            }
        }));
        found.await.ok()
    };
    tokio::time::timeout(limit, looked).await.ok().flatten()
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that are started when all others are busy, and kept.
struct Threads {
    jobs: mpsc::Sender<Job>,
    queue: Arc<Mutex<mpsc::Receiver<Job>>>,
    started: AtomicUsize,
    busy: Arc<AtomicUsize>,
}

static THREADS: LazyLock<Threads> = LazyLock::new(|| {
    let (jobs, queue) = mpsc::channel();
    Threads { jobs, queue: Arc::new(Mutex::new(queue)), started: AtomicUsize::new(0), busy: Arc::default() }
});

impl Threads {
    /// Hands a lookup to a thread. Where none can be started it waits for one that is there.
    fn begin(&self, job: Job) {
        let started = self.started.load(Ordering::SeqCst);
        if self.busy.fetch_add(1, Ordering::SeqCst) >= started && started < MAX_THREADS {
            let (queue, busy) = (Arc::clone(&self.queue), Arc::clone(&self.busy));
            let work = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    job();
                    busy.fetch_sub(1, Ordering::SeqCst);
                }
            };
            if std::thread::Builder::new().name("lookup".to_owned()).spawn(work).is_ok() {
                self.started.fetch_add(1, Ordering::SeqCst);
            }
        }
        self.jobs.send(job).ok();
    }
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
