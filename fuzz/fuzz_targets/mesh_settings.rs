//! `config.toml` of any content, a mesh's own and the one for all of them: settings within their bounds, or an error of one line that names its own; what is not
//! known is said by line and skipped.
#![no_main]

use hostel_mesh::home::{Fleet, Settings};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    fleet(text, lines);
    let (settings, notices) = match Settings::parse(text) {
        Ok(parsed) => parsed,
        Err(notice) => {
            assert!((1..=lines).contains(&notice.line), "line {} of {lines}", notice.line);
            assert!(!notice.text.contains('\n'), "{notice}");
            return;
        }
    };
    for notice in &notices {
        assert!((1..=lines).contains(&notice.line) && !notice.text.is_empty(), "{notice}");
    }
    assert!(settings.needs_restart(&settings).is_empty());
    let ipc = &settings.ipc;
    assert!(ipc.uds_mode & 0o607 == 0o600, "{:o}", ipc.uds_mode);
    assert!(ipc.max_inflight >= 1 && ipc.rate_burst >= 1 && (1024..=64 << 20).contains(&ipc.max_body_bytes));
    assert!(ipc.http_bind.is_loopback() || ipc.http_external_auth.is_some());
    assert!(settings.broker.silence_s > settings.broker.ping_s && settings.broker.ping_s >= 1);
    assert!(settings.outbox.max_queue_size >= 1 && settings.outbox.max_bytes >= 64_000_000);
    assert!(settings.disk.reserved_bytes >= 64_000_000);
    let reconnect = &settings.reconnect;
    assert!(reconnect.initial_backoff_ms >= 1 && reconnect.max_backoff_ms >= reconnect.initial_backoff_ms);
    assert!((1.0..=100.0).contains(&reconnect.backoff_multiplier) && reconnect.jitter_pct <= 100);
    let paths = [&settings.broker.ca_file, &ipc.http_external_auth];
    assert!(paths.into_iter().flatten().all(|path| path.is_absolute()));
    // The same text means the same.
    assert!(Settings::parse(text).is_ok_and(|again| again.0 == settings && again.1 == notices));
});

/// What counts for all daemons of a user is in a file of its own.
fn fleet(text: &str, lines: usize) {
    match Fleet::parse(text) {
        Ok((fleet, notices)) => {
            assert!((1..=1000).contains(&fleet.max_daemons) && fleet.total_disk_budget >= 128_000_000);
            assert!(notices.iter().all(|notice| (1..=lines).contains(&notice.line) && !notice.text.is_empty()));
            assert!(Fleet::parse(text).is_ok_and(|again| again == (fleet, notices)));
        }
        Err(notice) => assert!((1..=lines).contains(&notice.line) && !notice.text.contains('\n'), "{notice}"),
    }
}
