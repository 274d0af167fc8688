//! A model of a hostile insider against what the house stores, small enough to look at every state it can reach.
//!
//! The insider may do what the table of insiders allows (ask for something, send it again, guess at the passphrase as
//! anybody outside could) and everything that a process of the same user can do to files and processes: write any row of
//! `state.db`, while the daemon runs and while it does not; put back a row that the house wrote earlier; remove rows;
//! replace the file with the approver's digest; change `hostel.toml`; append records to the audit; end the daemon at any
//! moment, also between two steps of a write; start the daemon again; end the keeper. It cannot make a seal, cannot look into
//! the keeper's memory, and cannot sign with a passphrase that it does not know.
//!
//! The world has one request, one grant for one request, the count of wrong passphrases, the digest of the passphrase, which
//! the approver changes at most once, what the audit says of that change, and the settings about consent. A write of the house is three steps: the keeper is told what is coming, the database commits,
//! the keeper is told that it happened; only then anybody acts on it or hears of it.
//!
//! Proved of every reachable state and step:
//! - nothing runs without a decision of a person, or of a grant that was given, is not used up and was not taken back;
//! - nothing runs more often than it was decided, whatever is put back;
//! - a grant for one request approves one, and none once its revocation was acknowledged;
//! - while the key is the same, no more wrong passphrases are taken than the count allows;
//! - no other digest is in force than the approver's newest, also after the key was lost;
//! - settings that ask less of people are in force only if the approver has confirmed them, also after the key was lost;
//! - without interference a decision survives every crash: it is carried out, and once.
//!
//! # Bounds, and why they are enough
//!
//! Every state within these bounds is looked at, about 400,000.
//!
//! - **One request, one grant, one confirmation, three guesses, two keepers, at most two runs.** The house judges each row
//!   by its own seal and its own sum, so a second row of a kind adds nothing that the first does not show. One replay shows
//!   in the first run too many, and a third key is to the second what the second is to the first. The person agrees once:
//!   a second agreement would be a second decision, and would allow the second run that the model looks for.
//! - **The insider writes rows at the moment at which a daemon starts to read them, all five at once.** A daemon that runs
//!   reads no row for an effect, so what was written earlier and written over again shows nowhere. This leaves out the
//!   states in which rows are half changed, and none of those that a daemon can find.
//! - **The insider has a copy, with a valid seal of the present key, of each content that a row can have,** also of those
//!   that the house never wrote. That is more than a real insider has, and makes the history of the database no part of the
//!   state. Rows that a starting daemon treats alike are tried once: all that carry no valid seal, and all whose content is
//!   neither the confirmed nor the announced one (a pending request is told apart). After a lost key each content is tried.
//! - **Records are appended to the audit at the moment at which a daemon starts after a lost key.** While the keeper knows the
//!   end of the audit, what comes behind it is told from what the house wrote. The appended records name whatever the row
//!   says, which is all that they are good for.
//! - **`hostel.toml` says whatever suits the insider at each moment at which it is read.** It can be changed at any time, so
//!   it is a choice at the reading and no part of the state.
//!
//! The models with a mistake in them (`flaws`) have the weaker, real insider, who has copies only of what the house wrote
//! under the present key. The model without a mistake includes everything that this one can do. So that each mistake is
//! found shows that the model can see it.
//!
//! Not proved here: that seals cannot be forged, that the program does what the model does (the tests in
//! `tests/approvals/tampering` attack the program itself), and whatever needs two sessions or two houses. The insider here
//! appends to the audit and does not cut it off: whoever ends the keeper and puts back an earlier `state.db` brings the
//! passphrase of then back. That is a documented limit, as is the count after a lost key.

pub mod flaws;
pub mod steps;
pub mod world;
