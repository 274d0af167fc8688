//! The `/v1` surface of a mesh daemon, from data files: requests and answers over both transports.

use hostel_tests::contract::claudemesh::{Claudemesh, LANGUAGE};
use hostel_tests::contract_tests;

contract_tests! {
    LANGUAGE, Claudemesh::start, [socket, tcp];
    admin,
    bodies,
    control,
    files,
    guards,
    idempotency,
    inbox,
    metrics,
    offline,
    origins,
    outbox,
    peers,
    public_health,
    search,
    send,
    sessions,
    settings,
    siblings,
    topics,
}
