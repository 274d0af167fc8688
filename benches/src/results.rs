//! A suite from beginning to end: subjects, scenarios, table, files.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use anyhow::Result;

use crate::machine::Machine;
use crate::options::Options;
use crate::report;
use crate::report::Report;
use crate::scenarios::Bench;
use crate::subject;

/// Stands at the top of a results file when it is made.
const HEADING: &str = "\
# Results

Appended by `scripts/bench`. A cell is the median of the interleaved runs with their range in brackets;
a ratio is one of medians, with the range of the ratios of neighbouring runs. Read the ratios: the
absolute figures belong to the machine named above them.
";

/// Runs what was asked for. False when a run failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let (subjects, missing) = subject::find(options)?;
    let machine = Machine::describe(&options.dir)?;
    let size = if options.quick { ", quick (small sizes)" } else { "" };
    let headline = format!("{} suite, interleaved runs: {}{size}", options.suite.name(), options.runs);
    println!("{headline}: {}", machine.line());
    for line in &missing {
        println!("*** NOT MEASURED: {line} ***");
    }

    let bench = Bench {
        runs: options.runs,
        quick: options.quick,
        dir: fs::canonicalize(&options.dir).context("--dir")?,
        subjects,
        own_program: std::env::current_exe().context("finding this program")?,
    };
    let mut report = Report { notes: missing, ..Report::default() };
    for (name, scenario) in options.suite.scenarios() {
        if options.only.iter().any(|chosen| chosen == *name) {
            eprintln!("{name} …");
            if let Err(problem) = scenario(&bench, &mut report) {
                report.failures.push(format!("{name}: {problem:#}"));
            }
        }
    }

    let markdown = report::markdown(options.suite, &report, &machine, &bench.subjects, &headline);
    print!("\n{}", report::aligned(&markdown));
    if let Some(path) = &options.json {
        let json = report::to_json(&report, &machine, &headline);
        fs::write(path, format!("{json:#}\n")).with_context(|| format!("writing {}", path.display()))?;
    }
    match &options.results {
        Some(_) if options.quick => println!("quick figures are not written to the results"),
        Some(path) => append(path, &markdown)?,
        None => {}
    }
    Ok(report.failures.is_empty())
}

fn append(path: &Path, section: &str) -> Result<()> {
    let fresh = fs::metadata(path).map_or(true, |found| found.len() == 0);
    let mut file = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))?;
    let heading = if fresh { HEADING } else { "" };
    file.write_all(format!("{heading}\n{section}").as_bytes()).with_context(|| format!("writing {}", path.display()))
}
