//! The model of a hostile insider, looked at in every state it can reach; and found out when it is made wrong on purpose.
//!
//! What it proves and what it does not is said in the library.

use std::time::Instant;

use hostel_models::explore::{Explored, explore};
use hostel_models::insider::flaws::Flaw;
use hostel_models::insider::steps::Insider;

/// A bound on time and memory, above what is there.
const MOST_STATES: usize = 3_000_000;

fn holds(is_honest: bool) {
    let begun = Instant::now();
    let Explored { states, steps, depth, fault } = explore(&Insider { flaw: None, is_honest }, MOST_STATES);
    if let Some((fault, story)) = fault {
        panic!("{fault}: {story:#?}");
    }
    let took = begun.elapsed();
    eprintln!("honest {is_honest}: {states} states, {steps} steps, up to {depth} deep, {took:.1?}");
    assert!(states > if is_honest { 5_000 } else { 300_000 }, "that is not all there is");
}

#[test]
fn whatever_is_written_nothing_runs_that_was_not_decided() {
    holds(false);
}

#[test]
fn without_interference_no_crash_loses_a_decision() {
    holds(true);
}

/// The model with one mistake in it is found out, by a fault the mistake was made for.
fn is_found(flaw: Flaw) {
    let Some((fault, story)) = explore(&Insider { flaw: Some(flaw), is_honest: false }, MOST_STATES).fault else {
        panic!("{flaw:?} is not found")
    };
    eprintln!("{flaw:?}: {fault}, after {} steps: {story:?}", story.len());
    assert!(flaw.shows().contains(&fault), "{flaw:?} was found as: {fault}, by {story:#?}");
}

macro_rules! mistakes {
    ($($name:ident: $flaw:ident,)*) => {
        mod mistake {
            $(#[test]
            fn $name() {
                super::is_found(super::Flaw::$flaw);
            })*
        }

        /// Each of them has a test.
        #[test]
        fn no_mistake_is_left_out() {
            let tested = [$(Flaw::$flaw),*];
            assert!(Flaw::ALL.iter().all(|flaw| tested.contains(flaw)));
        }
    };
}

mistakes! {
    believes_rows: BelievesRows,
    believes_seals: BelievesSeals,
    believes_everything: BelievesEverything,
    never_confirms: NeverConfirms,
    tells_too_early: TellsTooEarly,
    mixes_commits: MixesCommits,
    believes_lost_keys: BelievesLostKeys,
    counts_on_disk: CountsOnDisk,
    reads_the_file: ReadsTheFile,
    believes_settings: BelievesSettings,
    believes_settings_once: BelievesSettingsOnce,
    believes_appended_testimony: BelievesAppendedTestimony,
}
