//! A process of the same user that writes to the house's files, while the daemon runs and while it does not.
//!
//! Each attack is judged by its effect: what ran, what was answered, which passphrase was taken. Beside each attack stands
//! the control: the same house without interference does what the attack wanted. Whatever is noticed has to be in the audit
//! as `tampered` and among the alarms.

mod agents;
mod attacker;
mod audit;
mod keys;
mod passphrase;
mod prompts;
mod record;
mod rows;
mod settings;
