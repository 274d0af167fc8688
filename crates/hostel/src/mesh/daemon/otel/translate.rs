//! From Prometheus' text to a request of OTLP.
//!
//! Invariant: it reads what this program wrote itself; a line it does not understand is passed over, not guessed at.
//! Counters become cumulative sums, histograms keep their bounds.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::json;

/// Cumulative, in the words of OTLP.
const CUMULATIVE: u8 = 2;

/// One line: a name, labels, a value.
#[derive(Debug, PartialEq)]
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, &'a str)>,
    value: f64,
}

/// The request that carries these numbers.
pub(super) fn request(text: &str, mesh: &str, began_ns: u128, now_ns: u128) -> Value {
    let times = Times { began: began_ns.to_string(), now: now_ns.to_string() };
    let mut metrics = Vec::new();
    let mut family: Option<(&str, &str, Vec<Sample<'_>>)> = None;
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            metrics.extend(family.take().map(|family| metric(family, &times)));
            family = Some((name, kind, Vec::new()));
        } else if let (Some(sample), Some((_, _, samples))) = (sample(line), family.as_mut()) {
            samples.push(sample);
        }
    }
    metrics.extend(family.take().map(|family| metric(family, &times)));
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes(&[("service.name", "claudemesh-daemon"), ("claudemesh.mesh", mesh)])},
        "scopeMetrics": [{
            "scope": {"name": "hostel", "version": env!("CARGO_PKG_VERSION")},
            "metrics": metrics,
        }],
    }]})
}

struct Times {
    began: String,
    now: String,
}

fn metric((name, kind, samples): (&str, &str, Vec<Sample<'_>>), times: &Times) -> Value {
    match kind {
        "histogram" => json!({"name": name, "histogram": {
            "aggregationTemporality": CUMULATIVE, "dataPoints": histogram(name, &samples, times),
        }}),
        "counter" => json!({"name": name, "sum": {
            "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points(&samples, times),
        }}),
        _ => json!({"name": name, "gauge": {"dataPoints": points(&samples, times)}}),
    }
}

fn points(samples: &[Sample<'_>], times: &Times) -> Vec<Value> {
    let point = |sample: &Sample<'_>| {
        json!({
            "attributes": attributes(&sample.labels), "startTimeUnixNano": times.began, "timeUnixNano": times.now,
            "asDouble": sample.value,
        })
    };
    samples.iter().map(point).collect()
}

/// What is known of one histogram as its lines come.
#[derive(Default)]
struct Buckets {
    bounds: Vec<f64>,
    below: Vec<f64>,
    sum: f64,
    count: f64,
}

fn histogram(name: &str, samples: &[Sample<'_>], times: &Times) -> Vec<Value> {
    let mut all: BTreeMap<Vec<(&str, &str)>, Buckets> = BTreeMap::new();
    for sample in samples {
        let labels: Vec<(&str, &str)> = sample.labels.iter().filter(|(label, _)| *label != "le").copied().collect();
        let buckets = all.entry(labels).or_default();
        match sample.name.strip_prefix(name) {
            Some("_sum") => buckets.sum = sample.value,
            Some("_count") => buckets.count = sample.value,
            Some("_bucket") => {
                let bound = sample.labels.iter().find(|(label, _)| *label == "le").map(|(_, bound)| *bound);
                if let Some(bound) = bound.filter(|bound| *bound != "+Inf").and_then(|bound| bound.parse().ok()) {
                    buckets.bounds.push(bound);
                    buckets.below.push(sample.value);
                }
            }
            _ => {}
        }
    }
    let point = |(labels, buckets): (Vec<(&str, &str)>, Buckets)| {
        // Prometheus counts what is below each bound, OTLP what is between two.
        let mut before = 0.0;
        let mut counts: Vec<String> = Vec::new();
        for below in buckets.below.iter().chain([&buckets.count]) {
            counts.push(whole(below - before));
            before = *below;
        }
        json!({
            "attributes": attributes(&labels), "startTimeUnixNano": times.began, "timeUnixNano": times.now,
            "count": whole(buckets.count), "sum": buckets.sum, "bucketCounts": counts,
            "explicitBounds": buckets.bounds,
        })
    };
    all.into_iter().map(point).collect()
}

/// Whole numbers are texts in OTLP's JSON.
fn whole(number: f64) -> String {
    format!("{:.0}", number.max(0.0))
}

fn attributes(labels: &[(&str, &str)]) -> Vec<Value> {
    labels.iter().map(|(name, value)| json!({"key": name, "value": {"stringValue": value}})).collect()
}

/// `name{label="value",…} number`; our labels hold nothing that is escaped.
fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = series.split_once('{') else {
        return Some(Sample { name: series, labels: Vec::new(), value });
    };
    let mut labels = Vec::new();
    for pair in rest.strip_suffix('}')?.split("\",").filter(|pair| !pair.is_empty()) {
        let (label, text) = pair.split_once("=\"")?;
        labels.push((label, text.trim_end_matches('"')));
    }
    Some(Sample { name, labels, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_keeps_its_meaning() {
        let text = "# HELP a_total So many.\n# TYPE a_total counter\na_total{mesh=\"lab\",kind=\"dm\"} 3\n\
                    # TYPE b gauge\nb 1.5\n\
                    # TYPE c histogram\nc_bucket{x=\"1\",le=\"0.1\"} 1\nc_bucket{x=\"1\",le=\"1\"} 3\n\
                    c_bucket{x=\"1\",le=\"+Inf\"} 4\nc_sum{x=\"1\"} 2.5\nc_count{x=\"1\"} 4\n";
        let request = request(text, "lab", 1, 2);
        let metrics = &request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        assert_eq!(metrics[0]["name"], "a_total");
        assert_eq!(metrics[0]["sum"]["isMonotonic"], true);
        let point = &metrics[0]["sum"]["dataPoints"][0];
        assert_eq!(point["asDouble"], 3.0);
        assert_eq!(point["attributes"][1], json!({"key": "kind", "value": {"stringValue": "dm"}}));
        assert_eq!((&point["startTimeUnixNano"], &point["timeUnixNano"]), (&json!("1"), &json!("2")));
        assert_eq!(metrics[1]["gauge"]["dataPoints"][0]["asDouble"], 1.5);
        let point = &metrics[2]["histogram"]["dataPoints"][0];
        assert_eq!(point["explicitBounds"], json!([0.1, 1.0]));
        assert_eq!(point["bucketCounts"], json!(["1", "2", "1"]));
        assert_eq!((&point["count"], &point["sum"]), (&json!("4"), &json!(2.5)));
        assert_eq!(metrics.as_array().unwrap().len(), 3);
    }

    #[test]
    fn what_is_not_understood_is_passed_over() {
        assert_eq!(sample("no number"), None);
        assert_eq!(sample("# a 1"), None);
        assert_eq!(sample("x{y=\"z\" 1"), None);
        assert!(sample("x{} 1").unwrap().labels.is_empty());
    }
}
