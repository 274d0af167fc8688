//! How fast granted requests are made; run by hand: `cargo test --release --test approvals -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use hostel_house::approvals::{Action, Covered, GrantTerms, Scope};
use hostel_peer::Peer;

use super::house::{House, command, connected, finished, rule, terminal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn granted_requests_per_second() {
    const CLIENTS: usize = 8;
    const EACH: usize = 500;
    let house = House::with(|options| options.rules = vec![rule("other", Action::Allow, &["other"])]).await;
    let asked = house.ask(command(&["true"])).await;
    let terms = GrantTerms {
        scope: Scope::Session,
        covered: Covered::Exact,
        lasts: Duration::from_secs(600),
        count: Some(1_000_000),
        privileged: false,
    };
    house.approvals.decide_with_grant(&asked.id, terms, &terminal()).await.unwrap();
    for clients in [1, CLIENTS] {
        let begun = Instant::now();
        let mut many = tokio::task::JoinSet::new();
        for client in 0..clients {
            let approvals = house.approvals.clone();
            many.spawn(async move {
                for number in 0..EACH {
                    let id = format!("{clients} {client} {number}");
                    let granted = approvals.request(connected(&id, &["true"])).await.unwrap();
                    assert!(!granted.runs.is_empty());
                    drop(approvals.note_started(&granted.id).await.unwrap());
                    approvals.record_outcome(&granted.id, &finished(0)).await.unwrap();
                }
            });
        }
        many.join_all().await;
        let took = begun.elapsed();
        let rate = (clients * EACH) as f64 / took.as_secs_f64();
        eprintln!("{clients} clients: {rate:.0} granted requests/s, each with start and outcome recorded");
    }
    let begun = Instant::now();
    let records = house.verified().await;
    eprintln!("{records} records looked through in {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn what_a_passphrase_costs() {
    use hostel_house::approvals::{Cost, Passphrase};
    let house = House::with(|options| options.cost = Cost::default()).await;
    let passphrase = || Passphrase::new("correct horse".to_owned());
    house.approvals.approver().set(passphrase(), None, &Peer::own(), "me").await.unwrap();
    let begun = Instant::now();
    house.approvals.approver().unlock(&passphrase(), &Peer::own(), "me").await.unwrap();
    eprintln!("a passphrase is compared in {:?}", begun.elapsed());
}
