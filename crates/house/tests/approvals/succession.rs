//! Who the approver is once the key is lost: what the audit proves, over all changes of the passphrase.

use hostel_house::approvals::{Cost, DecideError, Passphrase};
use hostel_peer::Peer;
use hostel_syncpoint::SyncPoint;

use super::house::{CHEAP, House};
use crate::support::until;

fn passphrase(text: &str) -> Passphrase {
    Passphrase::new(text.to_owned())
}

async fn lose_key(house: House) -> House {
    house.vault.lose().unwrap();
    house.restart().await
}

async fn unlock(house: &House, text: &str) -> Result<(), DecideError> {
    house.approvals.approver().unlock(&passphrase(text), &Peer::own(), "me").await.map(drop)
}

async fn set(house: &House, new: &str, old: Option<&str>) -> Result<(), DecideError> {
    house.approvals.approver().set(passphrase(new), old.map(passphrase), &Peer::own(), "me").await
}

/// Waits until the audit holds this many endorsements.
async fn endorsed(house: &House, times: usize) {
    let count = async || {
        let records = house.approvals.audit().show(0, 10_000).await.unwrap();
        records.iter().filter(|record| record.kind == "endorsed").count()
    };
    until("endorsements", count, |found| *found == times).await;
}

async fn sql(house: &House, statements: &'static str) {
    house.store.write(SyncPoint::NONE, |transaction| transaction.execute_batch(statements)).await.unwrap();
}

const UNTRIGGERED: &str = "DROP TRIGGER audit_is_not_changed; DROP TRIGGER audit_is_not_deleted;";

#[tokio::test(flavor = "multi_thread")]
async fn each_change_counts_after_a_lost_key() {
    let mut house = House::new().await;
    set(&house, "the first one", None).await.unwrap();
    for (old, new) in [("the first one", "the second one"), ("the second one", "the third one")] {
        house = lose_key(house).await;
        // Changed before this daemon has seen the old one used.
        set(&house, new, Some(old)).await.unwrap();
        house = lose_key(house).await;
        // A wrong one first would lead to a pause.
        unlock(&house, new).await.unwrap();
        assert!(unlock(&house, old).await.is_err(), "{old} counts");
        unlock(&house, new).await.unwrap();
    }
    house.approvals.approver().clear(passphrase("the third one"), &Peer::own(), "me").await.unwrap();
    house = lose_key(house).await;
    assert!(!house.approvals.approver().is_set());
    set(&house, "the fourth one", None).await.unwrap();
    house = lose_key(lose_key(house).await).await;
    unlock(&house, "the fourth one").await.unwrap();
    house.verified().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_cost_is_taken_over_with_a_signature() {
    let house = House::new().await;
    set(&house, "the first one", None).await.unwrap();
    endorsed(&house, 1).await;
    house.vault.lose().unwrap();
    let dearer = Cost { passes: CHEAP.passes + 1, ..CHEAP };
    let house = house.restart_with(|options| options.cost = dearer).await;
    unlock(&house, "the first one").await.unwrap();
    endorsed(&house, 2).await;
    let house = lose_key(house).await;
    unlock(&house, "the first one").await.unwrap();
    endorsed(&house, 3).await;
    set(&house, "the second one", Some("the first one")).await.unwrap();
    let house = lose_key(house).await;
    unlock(&house, "the second one").await.unwrap();
    house.verified().await;
}

/// Records are missing. The passphrase that was in force before puts it right, and is believed from then on.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_gap_the_passphrase_of_before_puts_it_right() {
    let house = House::new().await;
    set(&house, "the first one", None).await.unwrap();
    endorsed(&house, 1).await;
    for _ in 0..2 {
        assert!(unlock(&house, "a wrong one").await.is_err());
    }
    sql(&house, UNTRIGGERED).await;
    sql(&house, "DELETE FROM audit WHERE no = (SELECT min(no) FROM audit WHERE kind = 'wrong_passphrase')").await;
    let house = lose_key(house).await;
    let refused = unlock(&house, "the first one").await;
    assert!(matches!(&refused, Err(DecideError::Refused(why)) if why.contains("hostel approver set")), "{refused:?}");
    assert!(set(&house, "another one", None).await.is_err());
    assert!(set(&house, "another one", Some("not the first")).await.is_err());
    set(&house, "the second one", Some("the first one")).await.unwrap();
    let house = lose_key(house).await;
    unlock(&house, "the second one").await.unwrap();
}

/// The row of the passphrase, as an earlier version has left it, has no key. The first use gives it one.
#[tokio::test(flavor = "multi_thread")]
async fn a_passphrase_without_a_key_gets_one_when_it_is_used() {
    let house = House::new().await;
    set(&house, "the first one", None).await.unwrap();
    endorsed(&house, 1).await;
    // No record tells of the passphrase.
    sql(&house, UNTRIGGERED).await;
    sql(&house, "DELETE FROM audit; DELETE FROM audit_segments; DELETE FROM audit_endorsements").await;
    sql(&house, "UPDATE audit_head SET no = 0, digest = zeroblob(32); UPDATE approver SET key = NULL").await;
    let house = lose_key(house).await;
    unlock(&house, "the first one").await.unwrap();
    endorsed(&house, 1).await;
    let house = house.restart().await;
    set(&house, "the second one", Some("the first one")).await.unwrap();
    let house = lose_key(house).await;
    unlock(&house, "the second one").await.unwrap();
    house.verified().await;
}
