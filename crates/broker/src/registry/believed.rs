//! What time the broker believes it is, over restarts.
//!
//! Invariant: what goes by age goes by a time that was believed. A clock that is more than a day ahead at the start of
//! what the broker believed last counts only after it has shown that for a day of time that passes.
//!
//! It decides nothing about what is old; see `sweep`.

use hostel_wire::{BelievedTime, BelievingClock};
use serde::{Deserialize, Serialize};

use super::error::RegistryError;
use super::{Engine, Registry};

/// Where the believed time is kept.
const BUCKET: &str = "meta";
const KEY: &str = "believed_time";

/// The believed time is written again when it has moved by this much.
const KEEP_EVERY_MS: u64 = 10 * 60_000;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BelievedRecord {
    time_ms: u64,
    #[serde(default)]
    doubted_ms: u64,
}

/// Goes on from what this broker believed before. Where that was never written, the newest entry of the logs tells it.
pub(super) async fn resume(engine: &impl Engine, clock: &BelievingClock) -> Result<(), RegistryError> {
    let kept = engine.get(BUCKET, KEY).await?;
    let kept = kept.and_then(|entry| serde_json::from_slice::<BelievedRecord>(&entry.value).ok());
    match kept {
        Some(BelievedRecord { time_ms, doubted_ms }) => clock.resume(BelievedTime { time_ms, doubted_ms }),
        None => {
            if let Some(time_ms) = newest_entry_ms(engine).await? {
                clock.resume(BelievedTime { time_ms, doubted_ms: 0 });
            }
        }
    }
    Ok(())
}

/// When the newest entry of any log was written.
async fn newest_entry_ms(engine: &impl Engine) -> Result<Option<u64>, RegistryError> {
    let mut newest = None;
    for mesh in engine.scan(super::records::bucket::MESH, "").await? {
        let Some(last) = engine.bounds(&mesh.key).map(|bounds| bounds.last_seq).filter(|last| *last > 0) else {
            continue;
        };
        let entries = engine.read(&mesh.key, last - 1, 1, usize::MAX).await?;
        newest = newest.max(entries.first().map(|entry| entry.ts_ms));
    }
    Ok(newest)
}

impl<E: Engine> Registry<E> {
    /// Writes down what time is believed, if that has changed since it was last written. Often enough is once a minute.
    pub async fn keep_believed_time(&self) -> Result<(), RegistryError> {
        let now = self.inner.believing.believed();
        let is_kept = |kept: &BelievedTime| {
            kept.time_ms.abs_diff(now.time_ms) < KEEP_EVERY_MS
                && kept.doubted_ms.abs_diff(now.doubted_ms) < KEEP_EVERY_MS
        };
        if self.inner.kept_time.lock().as_ref().is_some_and(is_kept) {
            return Ok(());
        }
        let record = BelievedRecord { time_ms: now.time_ms, doubted_ms: now.doubted_ms };
        let value = serde_json::to_vec(&record).unwrap_or_default();
        self.inner.engine.put(BUCKET, KEY, value).await?;
        *self.inner.kept_time.lock() = Some(now);
        Ok(())
    }

    /// For how long the clock has been doubted; 0 if it is believed.
    #[must_use]
    pub fn doubted_ms(&self) -> u64 {
        self.inner.believing.believed().doubted_ms
    }
}
