//! What was measured, what was asked for, and how both are written down.
//!
//! A metric keeps every sample of every subject; medians and ratios are made when it is printed.
//! A subject that was not measured is said to be so in every place where its figure would stand.

use serde_json::Value;
use serde_json::json;

use crate::machine::Machine;
use crate::options::Suite;
use crate::stats;
use crate::stats::Ratio;
use crate::subject::PEER;
use crate::subject::PROXY;
use crate::subject::Subject;

/// What stands over figures that were not taken in this run.
const QUOTED: &str = "codecast-daemon 0.2.21 (quoted, other machine run)";

/// Samples of one quantity.
pub(crate) struct Metric {
    pub(crate) scenario: &'static str,
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) decimals: usize,
    /// What the real codecast daemon was seen to do, elsewhere.
    pub(crate) quoted: Option<&'static str>,
    pub(crate) samples: Vec<(&'static str, Vec<f64>)>,
}

impl Metric {
    /// The samples of a subject, if it was measured.
    pub(crate) fn of(&self, label: &str) -> Option<&[f64]> {
        let (_, samples) = self.samples.iter().find(|(subject, _)| *subject == label)?;
        (!samples.is_empty()).then_some(samples)
    }

    /// The median of a subject.
    pub(crate) fn median_of(&self, label: &str) -> Option<f64> {
        self.of(label).map(stats::median)
    }

    /// The same with a figure from elsewhere beside it, if there is one.
    pub(crate) fn quoted(self, figure: impl Into<Option<&'static str>>) -> Metric {
        Metric { quoted: figure.into(), ..self }
    }

    /// One subject over another.
    pub(crate) fn ratio(&self, above: &str, below: &str) -> Option<Ratio> {
        stats::ratio(self.of(above)?, self.of(below)?)
    }
}

/// How a measure stands to what was asked.
pub(crate) enum Verdict {
    Met(String),
    Missed(String),
    NotMeasured(String),
}

/// Something that was asked for.
pub(crate) struct Bar {
    pub(crate) scenario: &'static str,
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
}

/// Which side of a limit is the good one.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    AtLeast(f64),
    AtMost(f64),
}

/// Everything a suite found out.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) metrics: Vec<Metric>,
    pub(crate) bars: Vec<Bar>,
    pub(crate) failures: Vec<String>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Adds a bar on a number; `None` means that it could not be measured, and why.
    pub(crate) fn bar(
        &mut self,
        scenario: &'static str,
        text: impl Into<String>,
        value: Result<f64, String>,
        wanted: Wanted,
    ) {
        let verdict = match (value, wanted) {
            (Err(why), _) => Verdict::NotMeasured(why),
            (Ok(value), Wanted::AtLeast(limit)) if value >= limit => Verdict::Met(format!("{value:.2}")),
            (Ok(value), Wanted::AtLeast(limit)) => {
                Verdict::Missed(format!("{value:.2}, short by {:.2}", limit - value))
            }
            (Ok(value), Wanted::AtMost(limit)) if value <= limit => Verdict::Met(format!("{value:.2}")),
            (Ok(value), Wanted::AtMost(limit)) => Verdict::Missed(format!("{value:.2}, over by {:.2}", value - limit)),
        };
        self.bars.push(Bar { scenario, text: text.into(), verdict });
    }

    /// Adds a bar on the ratio of two subjects of a metric.
    pub(crate) fn ratio_bar(
        &mut self,
        metric: &Metric,
        text: impl Into<String>,
        (above, below): (&str, &str),
        wanted: Wanted,
    ) {
        let value =
            metric.ratio(above, below).map(|ratio| ratio.of_medians).ok_or_else(|| unmeasured(metric, above, below));
        self.bar(metric.scenario, text, value, wanted);
    }
}

/// Why a ratio is missing.
pub(crate) fn unmeasured(metric: &Metric, above: &str, below: &str) -> String {
    [above, below]
        .into_iter()
        .filter(|label| metric.of(label).is_none())
        .map(unavailable)
        .collect::<Vec<_>>()
        .join(", ")
}

fn unavailable(label: &str) -> String {
    match label {
        PEER => "real claustrum unavailable".to_owned(),
        PROXY => "real sudo-proxy unavailable".to_owned(),
        label => format!("{label} not run"),
    }
}

fn cell(metric: &Metric, label: &str) -> String {
    let Some(samples) = metric.of(label) else {
        return "–".to_owned();
    };
    let decimals = metric.decimals;
    let (low, high) = stats::range(samples);
    format!("{:.decimals$} [{low:.decimals$}–{high:.decimals$}]", stats::median(samples))
}

fn ratio_cell(metric: &Metric, below: &str, expected: bool) -> String {
    match metric.ratio("hostel", below) {
        Some(ratio) => format!("{:.2} [{:.2}–{:.2}]", ratio.of_medians, ratio.low, ratio.high),
        None if expected && metric.of(below).is_none() => {
            format!("not measured: {}", unavailable(below))
        }
        None => "–".to_owned(),
    }
}

/// The whole report as Markdown, for the terminal and for the results file alike.
pub(crate) fn markdown(
    suite: Suite,
    report: &Report,
    machine: &Machine,
    subjects: &[Subject],
    headline: &str,
) -> String {
    let mut text = String::new();
    let mut labels: Vec<&str> = subjects.iter().map(|subject| subject.label).collect();
    if let Some(peer) = suite.peer().filter(|peer| !labels.contains(peer)) {
        labels.push(peer);
    }
    let mut line = |content: String| {
        text.push_str(&content);
        text.push('\n');
    };
    line(format!("## {}, {headline}\n", machine.date));
    line(format!("{}.\n", machine.line()));
    // What stands beside hostel and the bare limit.
    let beside = match suite {
        Suite::Claustrum => Some("hostel / claustrum 1.4.0"),
        Suite::Sessions => Some(QUOTED),
        Suite::Consent => Some("hostel / sudo-proxy 1.2.0"),
        Suite::Mesh => None,
    };
    let header: Vec<&str> = ["scenario", "measure", "unit"]
        .into_iter()
        .chain(labels.iter().copied())
        .chain(["hostel / bare"])
        .chain(beside)
        .collect();
    line(format!("| {} |", header.join(" | ")));
    line(format!("|{}", "---|".repeat(header.len())));
    let measured = report.metrics.iter().filter(|metric| {
        let mut samples = metric.samples.iter();
        samples.any(|(_, values)| !values.is_empty())
    });
    for metric in measured {
        let mut cells = vec![metric.scenario.to_owned(), metric.name.clone(), metric.unit.to_owned()];
        cells.extend(labels.iter().map(|label| cell(metric, label)));
        let listed = |label: &str| metric.samples.iter().any(|(subject, _)| *subject == label);
        cells.push(ratio_cell(metric, "bare", listed("bare")));
        if beside.is_some() {
            cells.push(match suite.peer() {
                // A metric that lists the peer without samples was to be compared with it.
                Some(peer) => ratio_cell(metric, peer, listed(peer)),
                None => metric.quoted.unwrap_or("–").to_owned(),
            });
        }
        line(format!("| {} |", cells.join(" | ")));
    }
    line(String::new());
    for bar in &report.bars {
        let (mark, detail) = match &bar.verdict {
            Verdict::Met(detail) => ("met", detail),
            Verdict::Missed(detail) => ("MISSED", detail),
            Verdict::NotMeasured(detail) => ("not measured", detail),
        };
        line(format!("- {}: {}: {mark}: {detail}", bar.scenario, bar.text));
    }
    for note in &report.notes {
        line(format!("- note: {note}"));
    }
    for failure in &report.failures {
        line(format!("- FAILED: {failure}"));
    }
    text
}

/// The whole report with every sample.
pub(crate) fn to_json(report: &Report, machine: &Machine, headline: &str) -> Value {
    let metrics: Vec<Value> = report
        .metrics
        .iter()
        .map(|metric| {
            let samples: serde_json::Map<String, Value> =
                metric.samples.iter().map(|(label, values)| ((*label).to_owned(), json!(values))).collect();
            json!({
                "scenario": metric.scenario, "name": metric.name,
                "unit": metric.unit, "quoted": metric.quoted, "samples": samples,
            })
        })
        .collect();
    let bars: Vec<Value> = report
        .bars
        .iter()
        .map(|bar| {
            let (verdict, detail) = match &bar.verdict {
                Verdict::Met(detail) => ("met", detail),
                Verdict::Missed(detail) => ("missed", detail),
                Verdict::NotMeasured(detail) => ("not measured", detail),
            };
            json!({
                "scenario": bar.scenario, "text": bar.text,
                "verdict": verdict, "detail": detail,
            })
        })
        .collect();
    json!({
        "date": machine.date, "suite": headline,
        "machine": {
            "cores": machine.cores, "memory_gib": machine.memory_gib,
            "kernel": machine.kernel, "journals_on": machine.file_system,
            "load_at_start": machine.load,
        },
        "metrics": metrics, "bars": bars,
        "notes": report.notes, "failures": report.failures,
    })
}

/// The Markdown table with its columns padded, for a terminal.
pub(crate) fn aligned(markdown: &str) -> String {
    let rows: Vec<Vec<&str>> = markdown
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| rows.iter().filter_map(|row| Some(row.get(column)?.chars().count())).max().unwrap_or_default())
        .collect();
    let mut text = String::new();
    for line in markdown.lines() {
        if line.starts_with("|-") {
            continue;
        }
        if line.starts_with("| ") {
            let cells = line.trim_matches('|').split('|').map(str::trim);
            let padded: Vec<String> = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text.push_str(padded.join("  ").trim_end());
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// A size for texts, in whole units.
pub(crate) fn bytes(count: u64) -> String {
    if count >= 1 << 30 { format!("{} GiB", count >> 30) } else { format!("{} MiB", count >> 20) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(samples: Vec<(&'static str, Vec<f64>)>) -> Metric {
        Metric { scenario: "ping", name: "1 connection".to_owned(), unit: "1/s", decimals: 0, quoted: None, samples }
    }

    #[test]
    fn a_missing_peer_is_said_and_a_bar_is_judged() {
        let mut report = Report::default();
        let metric = metric(vec![("bare", vec![100.0, 110.0]), ("hostel", vec![90.0, 95.0]), (PEER, vec![])]);
        report.ratio_bar(&metric, "half", ("hostel", "bare"), Wanted::AtLeast(0.5));
        report.ratio_bar(&metric, "all", ("hostel", "bare"), Wanted::AtLeast(1.0));
        report.ratio_bar(&metric, "peer", ("hostel", PEER), Wanted::AtLeast(1.2));
        report.metrics.push(metric);
        let machine = Machine {
            cores: 2,
            memory_gib: 4,
            kernel: "Linux 6".to_owned(),
            file_system: "ext4",
            load: 0.0,
            date: "2000-01-01".to_owned(),
        };
        let text = markdown(Suite::Claustrum, &report, &machine, &[], "claustrum");
        assert!(text.contains("| 0.88 [0.86–0.90] | not measured: real claustrum unavailable |"));
        assert!(text.contains("- ping: half: met: 0.88"));
        assert!(text.contains("- ping: all: MISSED: 0.88, short by 0.12"));
        assert!(text.contains("- ping: peer: not measured: real claustrum unavailable"));
        report.metrics = report.metrics.into_iter().map(|metric| metric.quoted("50–60")).collect();
        let text = markdown(Suite::Sessions, &report, &machine, &[], "sessions");
        assert!(text.contains("| 0.88 [0.86–0.90] | 50–60 |") && text.contains(QUOTED), "{text}");
    }
}
