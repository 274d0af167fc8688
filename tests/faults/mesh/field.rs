//! Where the storm takes place: five hosts and a broker whose limits are out of the way, three topics, and who hears
//! what.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use hostel_tests::claudemesh::{Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::json;

/// The members.
pub(super) const NAMES: [&str; 5] = ["alice", "bob", "carol", "dave", "erin"];

/// The topics, and whose they are; `general` is everybody's from the start.
pub(super) const TOPICS: [(&str, &[usize]); 3] =
    [("general", &[0, 1, 2, 3, 4]), ("everyone", &[0, 1, 2, 3, 4]), ("some", &[0, 2, 4])];

/// Where a message goes.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Destination {
    Member(usize),
    Topic(usize),
    All,
}

impl Destination {
    /// Who has it in the inbox.
    pub(super) fn hearers(self, sender: usize) -> BTreeSet<usize> {
        let all: Vec<usize> = match self {
            Self::Member(member) => vec![member],
            Self::Topic(topic) => TOPICS[topic].1.to_vec(),
            Self::All => (0..NAMES.len()).collect(),
        };
        all.into_iter().filter(|member| *member != sender).collect()
    }
}

/// What a caller must know of a host.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) socket: PathBuf,
    pub(super) key: String,
}

/// Reconnecting is quick and nobody is limited: what is looked for here is loss, not patience.
const DAEMON: &str = "[ipc]\nrate_per_s = 0\n[reconnect]\ninitial_backoff_ms = 50\nmax_backoff_ms = 500\n";
const BROKER: &str = "[broker]\nrate_per_s = 0\nburst = 1000000\n";

/// Five hosts that are connected and have subscribed.
pub(super) fn prepare() -> (Lab, Vec<Place>) {
    let mut lab = Lab::prepare(&Options { config: DAEMON.to_owned(), ..Options::of(&NAMES) });
    lab.kill_broker();
    fs::write(lab.path().join("broker/hostel.toml"), BROKER).expect("the broker's settings");
    lab.start_broker();
    for host in &mut lab.hosts {
        host.start();
    }
    for host in &lab.hosts {
        host.wait_connected();
    }
    for (topic, members) in TOPICS {
        for member in members {
            let client = lab.hosts[*member].client(Transport::Socket);
            wait::until_true(wait::LIMIT, "a subscription", || {
                let answer = client.post("/v1/topic/subscribe", &json!({"topic": topic}));
                answer.status == 200 && answer.json()["subscribed"] == true
            });
        }
    }
    let place = |host: &hostel_tests::claudemesh::Host| Place {
        socket: host.directory().join("sock"),
        key: host.member("pubkey"),
    };
    let places = lab.hosts.iter().map(place).collect();
    (lab, places)
}
