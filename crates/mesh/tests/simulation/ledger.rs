//! The account of who was promised what, kept outside the machines, and the judgement at the end.
//!
//! Invariant: a promise is noted when the mesh's answer has come, never before; what was asked and not answered may
//! arrive once or not at all. What happened first has the smaller stamp.

use std::collections::{BTreeMap, BTreeSet};

use hostel_mesh::{InboxItem, OutboxItem};
use hostel_wire::frames::Priority;

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum To {
    Host(usize),
    All,
    Topic(&'static str),
}

/// Everybody is subscribed to this from the beginning to the end.
pub const STEADY: &str = "alpha";
/// Hosts come to this and go.
pub const FICKLE: &str = "beta";

/// A message somebody asked to send.
#[derive(Debug, Clone)]
pub struct Message {
    pub key: String,
    pub body: String,
    pub from: usize,
    pub to: To,
    pub priority: Priority,
    /// When it was first asked.
    pub asked: u64,
    /// When it was first promised.
    pub promised: Option<u64>,
    /// With which word it was refused, if it was.
    pub refused: Option<String>,
    /// Everybody it is for is certain to be subscribed.
    pub certain: bool,
}

/// What a host has in the end.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Oldest first.
    pub inbox: Vec<InboxItem>,
    pub outbox: Vec<OutboxItem>,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub messages: BTreeMap<String, Message>,
    pub reports: BTreeMap<usize, Report>,
    /// What must not be: found on the way.
    pub wrong: Vec<String>,
}

impl Ledger {
    /// What still is to come; nothing if all has come.
    pub fn outstanding(&self, hosts: usize) -> Vec<String> {
        let mut out = Vec::new();
        for (host, report) in &self.reports {
            for row in report.outbox.iter().filter(|row| row.status == "pending" || row.status == "inflight") {
                out.push(format!("h{host} owes {row:?}"));
            }
        }
        for message in self.messages.values().filter(|message| message.promised.is_some()) {
            for host in self.addressees(message, hosts) {
                let here =
                    self.reports.get(&host).is_some_and(|report| report.inbox.iter().any(|item| is(item, message)));
                if !here {
                    out.push(format!("h{host} lacks {message:?}"));
                }
            }
        }
        out
    }

    /// Who must get it.
    fn addressees(&self, message: &Message, hosts: usize) -> BTreeSet<usize> {
        if self.is_dead(message) {
            return BTreeSet::new();
        }
        match message.to {
            To::Host(host) => BTreeSet::from([host]),
            To::Topic(FICKLE) if !message.certain => BTreeSet::new(),
            To::All | To::Topic(_) => (0..hosts).filter(|host| *host != message.from).collect(),
        }
    }

    fn is_dead(&self, message: &Message) -> bool {
        let Some(report) = self.reports.get(&message.from) else { return false };
        report.outbox.iter().any(|row| row.client_message_id == message.key && row.status == "dead")
    }

    /// Everything that is not as it must be.
    pub fn judge(&self, hosts: usize) -> Vec<String> {
        let mut wrong = self.wrong.clone();
        wrong.extend(self.outstanding(hosts));
        for (host, report) in &self.reports {
            wrong.extend(report.outbox.iter().filter(|row| row.status == "dead").map(|row| {
                // Nothing that happens in a story is a reason to give a message up.
                format!("h{host} gave up {row:?}")
            }));
            let mut seen = BTreeSet::new();
            for item in &report.inbox {
                if !seen.insert(&item.client_message_id) {
                    wrong.push(format!("h{host} has twice: {item:?}"));
                }
                match self.messages.get(&item.client_message_id) {
                    None => wrong.push(format!("h{host} has what nobody sent: {item:?}")),
                    Some(message) => wrong.extend(misplaced(*host, item, message)),
                }
            }
            wrong.extend(self.disorder(*host, report));
        }
        wrong
    }

    /// Two messages of one sender, destination and priority came in another order than they were promised in.
    fn disorder(&self, host: usize, report: &Report) -> Vec<String> {
        let mut lanes: BTreeMap<_, Vec<&Message>> = BTreeMap::new();
        for message in report.inbox.iter().filter_map(|item| self.messages.get(&item.client_message_id)) {
            let lane = (message.from, message.to.clone(), message.priority as u8);
            lanes.entry(lane).or_default().push(message);
        }
        let mut wrong = Vec::new();
        for lane in lanes.values() {
            for (place, later) in lane.iter().enumerate() {
                // Had it been promised before an earlier arrival was even asked for, it would have to be first.
                let ahead = lane[..place].iter().find(|other| later.promised.is_some_and(|at| at < other.asked));
                wrong.extend(ahead.map(|other| format!("h{host} has {other:?} before {later:?}")));
            }
        }
        wrong
    }
}

fn is(item: &InboxItem, message: &Message) -> bool {
    item.client_message_id == message.key && item.body.as_deref() == Some(&message.body)
}

fn misplaced(host: usize, item: &InboxItem, message: &Message) -> Option<String> {
    let meant = match &message.to {
        To::Host(to) => *to == host && item.kind == "dm",
        To::All => message.from != host && item.kind == "all",
        To::Topic(name) => message.from != host && item.kind == "topic" && item.topic.as_deref() == Some(name),
    };
    let as_sent = item.body.as_deref() == Some(&message.body)
        && item.priority == message.priority
        && item.sender_name == format!("h{}", message.from)
        && item.verified;
    if !meant || !as_sent {
        return Some(format!("h{host} has {item:?} for {message:?}"));
    }
    (message.refused.is_some() && message.promised.is_none())
        .then(|| format!("h{host} has what was refused: {message:?}"))
}
