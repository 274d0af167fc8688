//! The zeroclaw contract, from data files: the frames of `tests/zeroclaw/data` over the real socket.

use hostel_tests::contract::script::Script;
use hostel_tests::contract::zeroclaw::{LANGUAGE, Zeroclaw};
use hostel_tests::zeroclaw::Options;
use hostel_tests::{binary, contract_tests};

/// Beside the built-in agent one that first writes a variable of its environment into its directory, and one of
/// another name.
fn settings() -> String {
    let program = binary::hostel();
    let program = program.display();
    format!(
        "[agents.second]\nkind = \"echo\"\n\n\
         [agents.env]\nkind = \"acp\"\ncommand = [\"/bin/sh\", \"-c\", \"echo \\\"$COLOUR\\\" > colour; exec '{program}' echo-agent\"]\n\n\
         [doors.zeroclaw]\nsession_limit = 1000\n"
    )
}

fn start(_script: &Script, _variant: &str) -> Zeroclaw {
    Zeroclaw::start(Options { settings: settings(), ..Options::default() })
}

contract_tests! {
    LANGUAGE, start;
    approve, attach, attachments, cancel, envelope, initialize, listing, prompt, session_new,
}
