//! How long a message is tried, and how long until the next try.
//!
//! Invariant: nothing is sent under an id that the broker may have forgotten: the time to live ends inside the broker's
//! window for ids.

/// Hours a message is tried if nobody says otherwise.
pub const DEFAULT_HOURS: u32 = 168;

/// Hours at most, where the broker never forgets an id.
const MOST_HOURS: u32 = 720;

/// A broker must remember ids for this many days.
const LEAST_DAYS: u32 = 7;

const FIRST_MS: u64 = 500;
const LAST_MS: u64 = 30_000;

/// Why a time to live cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgeError {
    /// The broker forgets too soon.
    #[error("the broker remembers ids for {days} days only; at least {LEAST_DAYS} are needed")]
    WindowTooShort {
        /// How long it remembers.
        days: u32,
    },
    /// The setting reaches beyond the broker's window.
    #[error("max_age_hours = {asked} is more than the broker's window for ids allows ({most})")]
    TooLong {
        /// The setting.
        asked: u32,
        /// What is possible.
        most: u32,
    },
}

/// Hours a message may be tried at most, with a broker that remembers ids for `dedupe_days` (0: for ever).
pub fn most_hours(dedupe_days: u32) -> Result<u32, AgeError> {
    match dedupe_days {
        0 => Ok(MOST_HOURS),
        days if days < LEAST_DAYS => Err(AgeError::WindowTooShort { days }),
        // A day, or a tenth of the window if that is more: room for clocks and for the last try.
        days => Ok(days.saturating_mul(24) - 24.max(days.saturating_mul(12).div_ceil(5))),
    }
}

/// Hours a message is tried: what was asked for (refused if it is too long), else the default within the window.
pub fn hours(asked: Option<u32>, dedupe_days: u32) -> Result<u32, AgeError> {
    let most = most_hours(dedupe_days)?;
    match asked {
        Some(asked) if asked > most => Err(AgeError::TooLong { asked, most }),
        Some(asked) => Ok(asked),
        None => Ok(DEFAULT_HOURS.min(most)),
    }
}

/// Milliseconds until the next try after `attempts` refusals (at least one): doubling, capped, up to a quarter less by `chance`,
/// so that daemons that were refused together do not come back together.
pub(crate) fn backoff(attempts: u32, chance: u64) -> u64 {
    let doublings = attempts.saturating_sub(1).min(16);
    let base = (FIRST_MS << doublings).min(LAST_MS);
    base - chance % (base / 4 + 1)
}

/// A number that looks random and is the same for the same inputs: a simulation can be run again.
pub(crate) fn chance(seed: u64, no: i64, attempts: u32) -> u64 {
    let mut mixed = seed ^ no.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(attempts) << 32);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_live_ends_inside_the_window() {
        assert_eq!(most_hours(7), Ok(144));
        assert_eq!(most_hours(8), Ok(168));
        assert_eq!(most_hours(10), Ok(216));
        assert_eq!(most_hours(11), Ok(264 - 27));
        assert_eq!(most_hours(30), Ok(648));
        assert_eq!(most_hours(0), Ok(720));
        assert_eq!(most_hours(6), Err(AgeError::WindowTooShort { days: 6 }));
        for days in 7..400 {
            assert!(most_hours(days).unwrap() + 24 <= days * 24);
        }
    }

    #[test]
    fn a_setting_beyond_the_window_is_refused() {
        assert_eq!(hours(None, 30), Ok(168));
        assert_eq!(hours(None, 7), Ok(144));
        assert_eq!(hours(Some(648), 30), Ok(648));
        assert_eq!(hours(Some(649), 30), Err(AgeError::TooLong { asked: 649, most: 648 }));
        assert_eq!(hours(Some(721), 0), Err(AgeError::TooLong { asked: 721, most: 720 }));
    }

    #[test]
    fn tries_get_rarer_and_stay_within_their_bounds() {
        for attempts in 1..40 {
            let base = (500_u64 << (attempts - 1).min(6)).min(30_000);
            for no in 0..200 {
                let wait = backoff(attempts, chance(7, no, attempts));
                assert!(wait <= base && wait >= base - base / 4 - 1, "{attempts}: {wait} of {base}");
            }
        }
        assert_eq!(backoff(u32::MAX, 0), 30_000);
    }

    #[test]
    fn waits_differ() {
        let waits: std::collections::BTreeSet<u64> = (0..100).map(|no| backoff(7, chance(1, no, 7))).collect();
        assert!(waits.len() > 90, "{}", waits.len());
    }
}
