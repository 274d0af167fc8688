//! The rule for resumable input: every byte is accepted once, at its own place, and the mark never goes back.
#![no_main]

use arbitrary::Arbitrary;
use hostel_keeper::proto::Outcome;
use hostel_keeper::stdin_rule::judge;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Offset {
    Append,
    /// From the mark.
    Near(i16),
    At(u64),
}

#[derive(Arbitrary, Debug)]
struct Offer {
    offset: Offset,
    len: u16,
    room: u16,
    queue_is_empty: bool,
}

fuzz_target!(|input: (u64, Vec<Offer>)| {
    // A process that has read half of all numbers is out of reach; the rule adds without looking further.
    let mut mark = input.0 / 2;
    for offer in &input.1 {
        let offset = match offer.offset {
            Offset::Append => None,
            Offset::Near(distance) => Some(mark.saturating_add_signed(i64::from(distance))),
            Offset::At(offset) => Some(offset),
        };
        let len = usize::from(offer.len);
        let verdict = judge(mark, offset, len, usize::from(offer.room), offer.queue_is_empty);
        let offset = offset.unwrap_or(mark);
        let end = u128::from(offset) + u128::from(offer.len);
        let fresh = u64::try_from(end.saturating_sub(u128::from(mark))).unwrap_or(u64::MAX);
        let refused = verdict.applied == mark && verdict.skip == len;
        match verdict.outcome {
            Outcome::Gap => assert!(offset > mark && refused),
            Outcome::Duplicate => assert!(offset < mark && fresh == 0 && refused),
            Outcome::Full => {
                assert!(offset <= mark && fresh > u64::from(offer.room) && !offer.queue_is_empty && refused);
            }
            Outcome::Accepted => {
                assert!(offset <= mark && verdict.skip <= len);
                assert_eq!(u128::from(verdict.applied), end.max(u128::from(mark)));
                assert_eq!(verdict.applied - mark, (len - verdict.skip) as u64);
                assert!(fresh == 0 || offset + verdict.skip as u64 == mark, "a byte out of its place");
                assert!(offer.queue_is_empty || fresh <= u64::from(offer.room));
            }
            Outcome::NotRunning | Outcome::Unknown | Outcome::Owned => panic!("the rule does not know processes"),
        }
        mark = verdict.applied;
    }
});
