//! A story: what people ask of the hosts while the network, the clocks and the power fail, then peace, then the account.
//!
//! Invariant: the seed decides everything. After peace has come everything must be where it belongs within `PEACE`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use hostel_wire::frames::Priority;

use crate::simulation::beginning::{MOST, beginning};
use crate::simulation::ledger::{FICKLE, Message, STEADY, To};
use crate::simulation::network::{Break, Cut};
use crate::simulation::world::{Order, World};

/// How long it may take after the last fault until all is well, in milliseconds.
const PEACE: u64 = 30 * 60_000;

/// How long a story is troubled.
const TROUBLE: u64 = 120_000;

/// What is yet to be undone.
#[derive(Default)]
struct Wounds {
    /// When a host is switched on again; the broker is `usize::MAX`.
    dark: BTreeMap<usize, u64>,
    /// When a host's network is whole again.
    cut: BTreeMap<usize, u64>,
}

pub struct Told {
    pub lines: u64,
    pub digest: String,
    pub messages: usize,
    pub promised: usize,
    pub crashes: usize,
}

struct Story {
    world: World,
    wounds: Wounds,
    messages: Vec<Message>,
    crashes: usize,
}

/// Lives through the story of a seed. On a thread that has that seed.
pub fn tell(seed: u64) -> Result<Told, String> {
    let hosts = usize::try_from(2 + seed % (MOST as u64 - 1)).unwrap();
    let mut story =
        Story { world: beginning(hosts).world(seed), wounds: Wounds::default(), messages: Vec::new(), crashes: 0 };
    story.begin();
    story.trouble();
    story.mend();
    story.calm_down()?;
    story.last_words();
    story.calm_down()?;
    // A duplicate may come late.
    story.world.pass(100_000);
    story.world.reports();
    let ledger = story.world.ledger.lock();
    let wrong = ledger.judge(hosts);
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    for (host, report) in &ledger.reports {
        let inbox: Vec<&str> = report.inbox.iter().map(|item| item.client_message_id.as_str()).collect();
        story.world.trace.note(format_args!("h{host} has {inbox:?}"));
    }
    let (lines, digest) = story.world.trace.digest();
    let promised = ledger.messages.values().filter(|message| message.promised.is_some()).count();
    Ok(Told { lines, digest, messages: ledger.messages.len(), promised, crashes: story.crashes })
}

impl Story {
    fn begin(&mut self) {
        for whose in 0..=self.world.hosts.len() {
            self.skew(whose, 300_000);
        }
        self.world.start_broker();
        (0..self.world.hosts.len()).for_each(|host| self.world.start(host));
        if self.world.chance.percent(80) {
            self.world.pass(5_000);
        }
        self.world.network.calm(false);
    }

    /// A clock is set.
    fn skew(&mut self, whose: usize, most: u64) {
        let skew = self.world.chance.below(2 * most + 1).cast_signed() - most.cast_signed();
        self.world.trace.note(format_args!("clock {whose} is {skew} ms off"));
        self.world.skews[whose].store(skew, Ordering::Relaxed);
    }

    fn trouble(&mut self) {
        let end = self.world.now_ms() + TROUBLE;
        while self.world.now_ms() < end {
            let wait = self.world.chance.steep(12);
            let next = self.world.now_ms() + wait;
            self.act();
            self.world.settle();
            self.heal();
            while self.world.now_ms() < next {
                self.world.advance(next);
                self.heal();
            }
        }
    }

    /// Switches on what was dark for long enough, and joins what was cut.
    fn heal(&mut self) {
        let now = self.world.now_ms();
        for who in std::mem::take(&mut self.world.fallen) {
            self.crashes += 1;
            let dark = self.world.chance.steep(15);
            self.wounds.dark.insert(who.unwrap_or(usize::MAX), now + dark);
        }
        let lit: Vec<usize> = self.wounds.dark.iter().filter(|(_, at)| **at <= now).map(|(who, _)| *who).collect();
        for who in lit {
            self.wounds.dark.remove(&who);
            self.switch_on(who);
        }
        let whole: Vec<usize> = self.wounds.cut.iter().filter(|(_, at)| **at <= now).map(|(who, _)| *who).collect();
        for host in whole {
            self.wounds.cut.remove(&host);
            self.world.trace.note(format_args!("h{host} is not cut off any more"));
            self.world.network.cut(host, Cut::No);
        }
    }

    fn switch_on(&mut self, who: usize) {
        if who == usize::MAX {
            self.world.trace.note("the broker is switched on");
            return self.world.start_broker();
        }
        self.world.trace.note(format_args!("h{who} is switched on"));
        if self.world.chance.percent(20) {
            self.skew(who, 120_000);
        }
        self.world.start(who);
    }

    fn act(&mut self) {
        let host = self.world.chance.index(self.world.hosts.len());
        match self.world.chance.below(100) {
            0..45 => self.say(host),
            45..55 => self.repeat(),
            55..60 => self.other_text(),
            60..66 => {
                let on = self.world.chance.percent(60);
                self.world.order(host, Order::Subscribe(FICKLE, on));
            }
            66..74 => {
                let how = *self.world.chance.pick(&[Break::Clean, Break::HostHears, Break::BrokerHears]);
                let any = self.world.network.break_all(host, how);
                self.world.trace.note(format_args!("streams of h{host} break, {how:?}: {any}"));
            }
            74..80 => {
                let cut = *self.world.chance.pick(&[Cut::Whole, Cut::Whole, Cut::Mute, Cut::Deaf]);
                let long = self.world.chance.steep(17);
                self.world.trace.note(format_args!("h{host} is cut off, {cut:?}, for {long} ms"));
                self.world.network.cut(host, cut);
                self.wounds.cut.insert(host, self.world.now_ms() + long);
            }
            80..84 => {
                let any = self.world.network.replay(host);
                self.world.trace.note(format_args!("somebody says again what h{host} said: {any}"));
            }
            84..92 => self.last_steps(Some(host)),
            92..97 => self.last_steps(None),
            _ => self.skew(host, 120_000),
        }
    }

    /// The power goes after some more steps: at some await of whatever it does then.
    fn last_steps(&mut self, who: Option<usize>) {
        let steps = self.world.chance.steep(9);
        let machine = match who {
            Some(host) => &mut self.world.hosts[host].machine,
            None => &mut self.world.broker.machine,
        };
        if let Some(machine) = machine {
            machine.until = Some(machine.steps + steps);
            self.world.trace.note(format_args!("{who:?} has {steps} more steps"));
        }
    }

    fn say(&mut self, host: usize) {
        // Several at once, often: order and batches matter then.
        let count = self.world.chance.steep(4);
        let to = match self.world.chance.below(10) {
            0..5 => {
                let other = self.world.chance.index(self.world.hosts.len() - 1);
                To::Host(if other >= host { other + 1 } else { other })
            }
            5..7 => To::All,
            7 => To::Topic("general"),
            8 => To::Topic(STEADY),
            _ => To::Topic(FICKLE),
        };
        for _ in 0..count {
            let priority = *self.world.chance.pick(&[Priority::Now, Priority::Next, Priority::Next, Priority::Low]);
            self.send(host, to.clone(), priority, false);
        }
    }

    fn send(&mut self, from: usize, to: To, priority: Priority, certain: bool) {
        let number = self.messages.len();
        let message = Message {
            key: format!("m{number}"),
            body: format!("text of m{number}"),
            from,
            to,
            priority,
            asked: 0,
            promised: None,
            refused: None,
            certain,
        };
        self.messages.push(message.clone());
        self.world.order(from, Order::Send(message));
    }

    /// The same once more, under the same key: what a script does that has not heard the answer.
    fn repeat(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let message = self.world.chance.pick(&self.messages).clone();
        self.world.order(message.from, Order::Send(message));
    }

    /// Something else under a key that has been promised: must be refused, whenever it comes.
    fn other_text(&mut self) {
        let promised: Vec<Message> =
            self.world.ledger.lock().messages.values().filter(|message| message.promised.is_some()).cloned().collect();
        if promised.is_empty() {
            return;
        }
        let mut message = self.world.chance.pick(&promised).clone();
        message.body = "another text".to_owned();
        self.world.order(message.from, Order::Send(message));
    }

    /// All faults end.
    fn mend(&mut self) {
        self.world.trace.note("peace");
        self.world.network.calm(true);
        for host in 0..self.world.hosts.len() {
            self.world.network.cut(host, Cut::No);
            if let Some(machine) = &mut self.world.hosts[host].machine {
                machine.until = None;
            }
        }
        if let Some(machine) = &mut self.world.broker.machine {
            machine.until = None;
        }
        self.world.fallen.clear();
        for who in std::mem::take(&mut self.wounds).dark.into_keys() {
            self.switch_on(who);
        }
    }

    /// Waits until everything is where it belongs.
    fn calm_down(&mut self) -> Result<(), String> {
        let end = self.world.now_ms() + PEACE;
        let hosts = self.world.hosts.len();
        loop {
            self.world.pass(2_000);
            self.world.reports();
            let ledger = self.world.ledger.lock();
            if !ledger.wrong.is_empty() {
                return Err(ledger.wrong.join("\n"));
            }
            let outstanding = ledger.outstanding(hosts);
            if outstanding.is_empty() && ledger.reports.len() == hosts {
                return Ok(());
            }
            if self.world.now_ms() >= end {
                return Err(format!("it does not become quiet:\n{}", outstanding.join("\n")));
            }
        }
    }

    /// Everybody can still reach everybody.
    fn last_words(&mut self) {
        let hosts = self.world.hosts.len();
        for host in 0..hosts {
            self.world.order(host, Order::Subscribe(FICKLE, true));
        }
        // A broker that lost power without a word is missed after a while of silence; only then is the wish heard.
        self.world.pass(120_000);
        for from in 0..hosts {
            for to in (0..hosts).filter(|to| *to != from) {
                self.send(from, To::Host(to), Priority::Next, false);
            }
            for to in [To::All, To::Topic("general"), To::Topic(STEADY), To::Topic(FICKLE)] {
                self.send(from, to, Priority::Next, true);
            }
        }
        self.world.settle();
        let sent: Vec<String> =
            self.messages.iter().rev().take(hosts * (hosts + 3)).map(|last| last.key.clone()).collect();
        let mut ledger = self.world.ledger.lock();
        let lost: Vec<String> = sent
            .into_iter()
            .filter(|key| ledger.messages.get(key).is_none_or(|message| message.promised.is_none()))
            .map(|key| format!("{key} was not taken in peace: {:?}", ledger.messages.get(&key)))
            .collect();
        ledger.wrong.extend(lost);
    }
}
