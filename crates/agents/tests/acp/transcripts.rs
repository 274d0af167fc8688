//! Every recorded conversation comes to its events, also when the driver is saved and restored at every step.

use hostel_agents::{Hosting, Kind, Mode, Setup, driver, restore};

use crate::acp::replay::Recording;
use crate::support::{check, exit, names, setup};

/// The agents, and the mode in which the recorded client had them.
const AGENTS: [(&str, Kind, Mode); 4] = [
    ("gemini", Kind::Gemini, Mode::Ask),
    ("opencode", Kind::Opencode, Mode::Ask),
    ("claude", Kind::Acp, Mode::Ask),
    ("codex", Kind::Acp, Mode::Code),
];

fn all() -> Vec<(&'static str, String, Recording, Setup)> {
    let mut all = Vec::new();
    for (program, kind, mode) in AGENTS {
        for name in names(program).into_iter().filter(|name| name.starts_with("acp-")) {
            let recording = Recording::read(program, &name);
            let mut setup = setup(kind, Hosting::Warm, mode);
            setup.resume = recording.resumed();
            all.push((program, name, recording, setup));
        }
    }
    assert_eq!(all.len(), 29);
    all
}

#[test]
fn every_transcript_comes_to_its_events() {
    for (program, name, recording, setup) in all() {
        let heard = recording.replay(driver(&setup), exit(0), |driver| driver);
        check(program, &name, &heard);
    }
}

#[test]
fn a_restored_driver_goes_on_where_the_saved_one_was() {
    for (program, name, recording, setup) in all() {
        let whole = recording.replay(driver(&setup), exit(0), |driver| driver);
        let swapped = recording.replay(driver(&setup), exit(0), |driver| restore(&setup, &driver.save()).unwrap());
        assert_eq!(whole, swapped, "{program} {name}");
    }
}
