//! The model of approvals, looked at in every state it can reach; and found out when it is made wrong on purpose.
//!
//! What it proves and what it does not is said in the library.

use std::time::Instant;

use hostel_models::approvals::flaws::Flaw;
use hostel_models::approvals::steps::{Action, Approvals};
use hostel_models::approvals::world::{Kind, World};
use hostel_models::explore::{Explored, explore};

/// A bound on memory, well above what is there.
const MOST_STATES: usize = 10_000_000;

/// Where it begins: what the two requests are, how many requests a grant on disk is good for, and whether the keeper may
/// die.
type Beginning = ([Kind; 2], u8, bool);

/// The first request is the one that is also repeated.
const BEGINNINGS: [Beginning; 5] = [
    ([Kind::Plain, Kind::Plain], 0, false),
    ([Kind::Plain, Kind::Plain], 1, true),
    ([Kind::Privileged, Kind::Plain], 0, true),
    ([Kind::Tool, Kind::Plain], 0, true),
    ([Kind::Tool, Kind::Privileged], 0, true),
];

fn look_at((kinds, counted, keeper_dies): Beginning, flaw: Option<Flaw>) -> Explored<Action> {
    explore(&Approvals { initial: vec![World::new(kinds, counted, keeper_dies)], flaw }, MOST_STATES)
}

fn holds(beginning: usize) {
    let begun = Instant::now();
    let (kinds, counted, keeper_dies) = BEGINNINGS[beginning];
    let Explored { states, steps, depth, fault } = look_at((kinds, counted, keeper_dies), None);
    if let Some((fault, story)) = fault {
        panic!("{kinds:?}, a grant for {counted}: {fault}: {story:#?}");
    }
    let took = begun.elapsed();
    eprintln!("{kinds:?}, a grant for {counted}: {states} states, {steps} steps, up to {depth} deep, {took:.1?}");
    assert!(states > 10_000, "that is not all there is");
}

#[test]
fn two_commands() {
    holds(0);
}

#[test]
fn two_commands_and_a_grant_for_one() {
    holds(1);
}

#[test]
fn a_privileged_command_and_a_plain_one() {
    holds(2);
}

#[test]
fn an_agents_question_and_a_command() {
    holds(3);
}

#[test]
fn an_agents_question_and_a_privileged_command() {
    holds(4);
}

/// The model with one mistake in it is found out, by a fault the mistake was made for.
fn is_found(flaw: Flaw) {
    // Where it shows; most do with any two commands.
    let beginning = match flaw {
        Flaw::CountsLater | Flaw::StartsOnAnotherKeeper | Flaw::DeniesTheLost => 1,
        Flaw::GrantCoversPrivileged | Flaw::AlwaysForPrivileged => 2,
        _ => 0,
    };
    let Some((fault, story)) = look_at(BEGINNINGS[beginning], Some(flaw)).fault else {
        panic!("{flaw:?} is not found")
    };
    eprintln!("{flaw:?}: {fault}, after {} steps", story.len());
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
    decides_without_looking: DecidesWithoutLooking,
    credits_everybody: CreditsEverybody,
    acts_before_the_write: ActsBeforeTheWrite,
    requester_decides: RequesterDecides,
    forgets_to_withdraw: ForgetsToWithdraw,
    starts_the_withdrawn: StartsTheWithdrawn,
    leaves_children_behind: LeavesChildrenBehind,
    fresh_id_after_restart: FreshIdAfterRestart,
    forgets_too_early: ForgetsTooEarly,
    starts_on_another_keeper: StartsOnAnotherKeeper,
    denies_the_lost: DeniesTheLost,
    forgets_ids: ForgetsIds,
    admits_in_two_steps: AdmitsInTwoSteps,
    rejoins_twice: RejoinsTwice,
    rejoins_with_other_bytes: RejoinsWithOtherBytes,
    rejoins_too_late: RejoinsTooLate,
    fails_open: FailsOpen,
    judges_again: JudgesAgain,
    grant_covers_privileged: GrantCoversPrivileged,
    grant_survives: GrantSurvives,
    grant_needs_no_eligibility: GrantNeedsNoEligibility,
    always_for_privileged: AlwaysForPrivileged,
    counts_later: CountsLater,
}
