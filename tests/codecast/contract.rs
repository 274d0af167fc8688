//! The codecast contract, from data files: requests and answers over real HTTP.

use hostel_tests::contract::codecast::{Codecast, LANGUAGE};
use hostel_tests::contract::script::Script;
use hostel_tests::contract_tests;

fn start(_script: &Script, _variant: &str) -> Codecast {
    Codecast::start()
}

contract_tests! {
    LANGUAGE, start;
    clis,
    create,
    errors,
    guard,
    health,
    http,
    ids,
    interrupt,
    modes,
    queue,
    reconnect,
    resume,
    send,
    skills,
}
