//! Hellos of the first protocol that were believed: nobody else is, for the same words.
//!
//! Invariant: what was said within the time in which it would be believed is known. Only what is signed by a member gets
//! here, so nobody else can make it grow.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A timestamp may be a minute ahead, and is believed until it is a minute behind.
const BELIEVED: Duration = Duration::from_secs(130);

/// Forgotten ones are looked for when there are so many more than the last time.
const STEP: usize = 1024;

/// What was signed, with when it came.
#[derive(Default)]
pub(crate) struct Hellos(Mutex<Said>);

#[derive(Default)]
struct Said {
    when: HashMap<String, Instant>,
    /// As many as were left the last time.
    left: usize,
}

impl Hellos {
    /// Notes what was signed; `false` if it was there.
    pub(crate) fn is_new(&self, words: String) -> bool {
        let now = Instant::now();
        let mut said = self.0.lock();
        if said.when.len() >= said.left + STEP {
            said.when.retain(|_, at| now.saturating_duration_since(*at) < BELIEVED);
            said.left = said.when.len();
        }
        said.when.insert(words, now).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_words_are_new_once_and_forgotten_later() {
        let hellos = Hellos::default();
        let is_new = |words: &str| hellos.is_new(words.to_owned());
        assert!(is_new("ab") && !is_new("ab") && is_new("cd"));
        for number in 0..STEP {
            is_new(&number.to_string());
        }
        tokio::time::advance(BELIEVED).await;
        for number in 0..2 * STEP {
            is_new(&format!("later {number}"));
        }
        assert!(hellos.0.lock().when.len() <= 2 * STEP + 1);
    }
}
