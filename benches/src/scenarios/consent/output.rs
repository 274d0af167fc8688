//! 8 MiB that a command prints, in short lines and on one line, until the client has the whole answer.

use std::fs;

use anyhow::Result;

use super::super::Bench;
use crate::consent::client;
use crate::consent::client::Room;
use crate::consent::proxy::Proxy;
use crate::report::Report;
use crate::report::Wanted;
use crate::server;
use crate::stats;
use crate::subject;
use crate::subject::Kind;
use crate::subject::PROXY;

/// What is printed.
pub(super) const BYTES: usize = 8 << 20;

/// Text in lines of 64 bytes, or on one.
pub(super) fn text(short_lines: bool) -> Vec<u8> {
    let mut text: Vec<u8> = (0..BYTES).map(|at| b'a' + (at % 26) as u8).collect();
    if short_lines {
        text.iter_mut().skip(63).step_by(64).for_each(|byte| *byte = b'\n');
    }
    text
}

/// Measures both.
pub(super) fn run(bench: &Bench, report: &mut Report) -> Result<()> {
    let repeats = bench.size(8, 2);
    let dir = server::scratch(&bench.dir)?;
    let mut room = Room::new(2 * BYTES);
    for (short_lines, name, bar) in [(true, "8 MiB in short lines", 5.0), (false, "8 MiB on one line", 10.0)] {
        let expected = text(short_lines);
        let file = dir.path().join("text");
        fs::write(&file, &expected)?;
        let command = [subject::program("cat")?, file.display().to_string()];
        let collected = bench.interleave("output", &[Kind::Hostel, Kind::SudoProxy], report, |subject| {
            let proxy = Proxy::granted(subject, &bench.dir)?;
            let mut rates = Vec::new();
            for _ in 0..repeats {
                let took = client::output(proxy.socket(), &command, &expected, &mut room)?;
                rates.push(BYTES as f64 / 1e6 / took.as_secs_f64());
            }
            proxy.stop()?;
            Ok(stats::median(&rates))
        });
        let rate = collected.metric("output", name, ("MB/s", 1), |rate| *rate);
        let wanted = Wanted::AtLeast(bar);
        report.ratio_bar(&rate, format!("{name}: at least {bar:.0} times {PROXY}"), ("hostel", PROXY), wanted);
        report.metrics.push(rate);
    }
    Ok(())
}
