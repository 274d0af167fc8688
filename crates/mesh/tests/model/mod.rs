//! A model of delivery: an outbox, a broker and an inbox, the connections between them, and everything that may go wrong.
//!
//! Three messages of one sender to one reader: two of one lane and an urgent one. Rows are claimed in the lane's order and
//! pipelined; the broker takes frames in order, dedupes, refuses some for now and shuts their lane, commits in
//! groups; the reader stores in groups, with the cursor in the same write. Connections break and lose what is underway,
//! each of the three is killed and loses what is not committed. The sender may come back with another identity.
//!
//! What it proves, for every order of these steps within the budget of faults: nothing is twice in the log or in the inbox;
//! a lane's order is kept in both; what the sender holds for done is in the log; nothing arrives that nobody sent; and
//! when nothing is left to do, everything that was accepted and did not expire has arrived.
//!
//! What it does not: more than three messages, more faults at once than the budget, time, topics, keys. The real code is
//! driven through the same kinds of faults by the simulator and the storm.

pub(crate) mod flaws;
pub(crate) mod steps;
pub(crate) mod world;

pub(crate) use hostel_model::explore;
