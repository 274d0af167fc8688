//! A model of a hostile insider against what the house stores, small enough to look at every state it can reach.
//!
//! The insider may do what the table of insiders allows (ask for something, send it again, guess at the passphrase as
//! anybody outside could) and everything that a process of the same user can do to files and processes: write any row of
//! `state.db`, while the daemon runs and while it does not; put back a row that the house wrote earlier; remove rows;
//! replace the file with the approver's digest; change `hostel.toml`; end the daemon at any moment, also between two steps
//! of a write; start the daemon again; end the keeper. It cannot make a seal and cannot look into the keeper's memory.
//!
//! The world has one request, one grant for one request, the count of wrong passphrases, the digest of the passphrase and
//! the settings about consent. A write of the house is three steps: the keeper is told what is coming, the database commits,
//! the keeper is told that it happened; only then anybody acts on it or hears of it.
//!
//! Proved of every reachable state and step:
//! - nothing runs without a decision of a person, or of a grant that was given, is not used up and was not taken back;
//! - nothing runs twice, whatever is put back;
//! - a grant for one request approves one, and none once its revocation was acknowledged;
//! - while the key is the same, no more wrong passphrases are taken than the count allows, and no other digest is in force
//!   than the approver's;
//! - settings that ask less of people are in force only if the approver has confirmed them, also after the key was lost;
//! - without interference a decision survives every crash: it is carried out, and once.
//!
//! Not proved here: that seals cannot be forged, that the program does what the model does (the tests in
//! `tests/approvals/tampering` attack the program itself), and whatever needs two sessions or two houses. After a lost key
//! the insider can replace the digest in the file and in the row, and the count: that is a documented limit.

pub mod flaws;
pub mod steps;
pub mod world;
