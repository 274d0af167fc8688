//! The sudo-proxy contract, from data files: the lines and keys of `tests/sudo_proxy/data` against ours.

use hostel_tests::contract::script::Script;
use hostel_tests::contract::sudo_proxy::{LANGUAGE, SudoProxy};
use hostel_tests::contract_tests;
use hostel_tests::sudo_proxy::Options;

fn start(_script: &Script, _variant: &str) -> SudoProxy {
    SudoProxy::new(Options::default())
}

contract_tests! {
    LANGUAGE, start;
    approval, content, control, decoding, environment, execution, framing, grant, order, output, time,
}
