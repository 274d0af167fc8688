//! How the daemon is, and what it logs.

use std::sync::Arc;

use serde_json::Value;
use serde_json::json;

use super::time;
use super::visitor::Visitor;

/// Clock ticks in `/proc` are hundredths of a second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// `health`.
pub(crate) fn health(visitor: &Visitor) -> Value {
    let house = visitor.house();
    let uptime = house.settings.started.elapsed();
    let now = time::now();
    let component =
        || json!({"status": "ok", "updated_at": now, "last_ok": now, "last_error": null, "restart_count": 0});
    let mut keeper = component();
    keeper["pid"] = json!(house.processes.keeper_status().pid);
    let cpu = processor_seconds().map(|seconds| 100.0 * seconds / uptime.as_secs_f64().max(1.0));
    json!({
        "pid": std::process::id(),
        "updated_at": now,
        "uptime_seconds": uptime.as_secs(),
        "components": {"daemon": component(), "keeper": keeper},
        "process": {
            "rss_bytes": resident_bytes().unwrap_or(0),
            "system_ram_total_bytes": memory_bytes(),
            "cpu_percent": cpu.map_or(0.0, |percent| (percent * 10.0).round() / 10.0),
            "num_cpus": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        },
    })
}

fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(u64::from(system.mem_unit))
}

fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    let ticks: f64 = rest.split_ascii_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    Some(ticks / TICKS_PER_SECOND)
}

/// Sends log lines as they come, until the client leaves.
pub(crate) async fn show_logs(visitor: Arc<Visitor>) {
    let logs = visitor.house().settings.logs.clone();
    let mut seen = logs.newest();
    loop {
        for event in logs.next(&mut seen).await {
            if visitor.notify("logs/event", event).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_can_be_measured() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(memory_bytes() > 64 << 20);
        assert!(processor_seconds().is_some());
    }
}
