//! Waiting for something slow, with the client told that it still goes on.
//!
//! Invariant: a call that was cancelled stops at once; what it held is dropped, and dropping it is leaving. Progress is
//! told only to who asked for it.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use tokio::time::Instant;
use tokio::time::MissedTickBehavior;

use super::server::visit;

/// How often a waiting client is told. Clients give up after a minute of silence or so.
const TICK: Duration = Duration::from_secs(10);

/// How long a call may take before there is anything to tell: news that overtakes the answer is none.
const FIRST: Duration = Duration::from_secs(2);

/// Does the work; none when the call was cancelled.
pub(super) async fn waiting<T>(
    context: &RequestContext<RoleServer>,
    message: &str,
    work: impl Future<Output = T>,
) -> Option<T> {
    let ticks = tell(context, message);
    tokio::select! {
        biased;
        () = context.ct.cancelled() => None,
        () = over(context) => None,
        done = work => Some(done),
        never = ticks => never,
    }
}

/// Comes back when the client's session is over.
async fn over(context: &RequestContext<RoleServer>) {
    match visit(context) {
        Some(visit) => visit.over().await,
        None => std::future::pending().await,
    }
}

/// Tells the client again and again how long it has waited. Never comes to an end.
async fn tell<T>(context: &RequestContext<RoleServer>, message: &str) -> T {
    if let Some(token) = context.meta.get_progress_token() {
        let since = Instant::now();
        let mut ticks = tokio::time::interval_at(since + FIRST, TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            let elapsed = since.elapsed().as_secs_f64();
            let progress = ProgressNotificationParam::new(token.clone(), elapsed).with_message(message.to_owned());
            if context.peer.notify_progress(progress).await.is_err() {
                break;
            }
        }
    }
    std::future::pending().await
}
