//! The integration tests of this crate, as one program.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod enrol_broker;
mod link_authorship;
mod link_hostile;
mod link_messages;
mod link_outages;
mod link_remint;
mod link_reseal;
mod link_rotation;
mod link_sessions;
mod link_set_back;
mod link_shared;
mod link_support;
mod link_tls;
mod link_topics;
mod simulation;
mod store_claims;
mod store_events;
mod store_group;
mod store_inbox;
mod store_inbox_life;
mod store_lanes;
mod store_outbox;
mod store_outbox_life;
mod store_owner;
mod store_recover;
mod store_schema;
mod store_support;
