//! What there is: three rows, a log, an inbox, and what is underway between them.

/// How many messages there are; 0 and 1 share a lane, 2 is urgent and has its own.
pub(crate) const MESSAGES: u8 = 3;

/// The most a list holds; more than can be there unless something is wrong.
const ROOM: usize = 6;

/// A short list that can be compared and copied.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct List {
    length: u8,
    items: [u8; ROOM],
}

impl List {
    pub(crate) fn push(&mut self, item: u8) {
        if usize::from(self.length) < ROOM {
            self.items[usize::from(self.length)] = item;
            self.length += 1;
        }
    }

    pub(crate) fn pop_front(&mut self) -> Option<u8> {
        let first = *self.as_slice().first()?;
        self.items.copy_within(1.., 0);
        self.items[ROOM - 1] = 0;
        self.length -= 1;
        Some(first)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.items[..usize::from(self.length)]
    }

    pub(crate) fn has(&self, item: u8) -> bool {
        self.as_slice().contains(&item)
    }

    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.length) == ROOM
    }

    pub(crate) fn len(&self) -> u8 {
        self.length
    }
}

/// A row of the outbox.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    /// Nobody has asked for it yet.
    #[default]
    None,
    Pending,
    Inflight,
    Done,
    /// Too old.
    Dead,
}

/// A frame or an answer on its way: the message, its place in the lane, and whether it is refused for now.
pub(crate) fn parcel(message: u8, place: u8, again: bool) -> u8 {
    message | (place << 2) | (u8::from(again) << 7)
}

pub(crate) fn message_of(parcel: u8) -> u8 {
    parcel & 3
}

pub(crate) fn place_of(parcel: u8) -> u8 {
    (parcel >> 2) & 31
}

pub(crate) fn is_again(parcel: u8) -> bool {
    parcel & 128 != 0
}

/// The sender's side of a lane, on one connection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    /// The last place that was used.
    pub(crate) last: u8,
    /// Messages under way.
    pub(crate) flying: u8,
    /// The first place that was refused for now; 0 if none. Until all are answered nothing is sent.
    pub(crate) refused: u8,
}

/// The sender's connection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Sending {
    pub(crate) up: bool,
    /// Frames on their way to the broker.
    pub(crate) frames: List,
    /// Answers on their way back.
    pub(crate) answers: List,
    pub(crate) lanes: [Lane; 2],
    /// The broker's note, per lane: this place is refused for now; 0 if none.
    pub(crate) shut: [u8; 2],
    /// What the broker will answer once it is committed.
    pub(crate) owed: List,
}

/// The reader's connection.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Reading {
    pub(crate) up: bool,
    /// Places of the log that were pushed on this connection, a bit each.
    pub(crate) pushed: u8,
    /// Pushes on their way.
    pub(crate) pushes: List,
}

/// Everything.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) rows: [Row; MESSAGES as usize],
    pub(crate) sending: Sending,
    /// What is committed, in order.
    pub(crate) log: List,
    /// Appended and not committed.
    pub(crate) appended: List,
    /// Ids the broker has forgotten, a bit each.
    pub(crate) forgotten: u8,
    pub(crate) reading: Reading,
    pub(crate) inbox: List,
    /// Places of the log the reader has, a bit each: the cursor is the run of low bits.
    pub(crate) cursor: u8,
    /// Places received and not committed.
    pub(crate) received: List,
    /// How often something may still break, be killed, be refused.
    pub(crate) breaks: u8,
    pub(crate) kills: u8,
    pub(crate) refusals: u8,
    /// How often the sender may still get another identity.
    pub(crate) remints: u8,
    /// Which of its identities sends.
    pub(crate) identity: u8,
    /// Which one the broker has each message from, a bit each.
    pub(crate) sent_by: u8,
}

pub(crate) fn lane(message: u8) -> usize {
    usize::from(message == 2)
}

impl World {
    pub(crate) fn new(breaks: u8, kills: u8, refusals: u8) -> Self {
        Self { breaks, kills, refusals, ..Self::default() }
    }

    /// The same, and the sender gets another identity at some time.
    pub(crate) fn reminted(self) -> Self {
        Self { remints: 1, ..self }
    }

    /// Whether the broker has a message from the identity that sends now.
    pub(crate) fn is_from_now(&self, message: u8) -> bool {
        (self.sent_by >> message) & 1 == self.identity
    }

    /// Everything before this place of the log is the reader's.
    pub(crate) fn low_water(&self) -> u8 {
        u8::try_from(self.cursor.trailing_ones()).unwrap_or(0)
    }
}
