//! `config.toml`: what is read, what is skipped with a word, what is an error with a line.

use super::*;

fn parse(text: &str) -> Settings {
    let (settings, notices) = Settings::parse(text).unwrap();
    assert_eq!(notices, []);
    settings
}

fn wrong(text: &str) -> String {
    Settings::parse(text).unwrap_err().to_string()
}

#[test]
fn nothing_means_what_is_built_in() {
    assert_eq!(parse(""), Settings::default());
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Settings::load(&dir.path().join("config.toml")).unwrap(), (Settings::default(), vec![]));
}

#[test]
fn the_file_that_is_written_tells_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    assert!(write_default_settings(&path).unwrap());
    assert!(!write_default_settings(&path).unwrap());
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap()) & 0o777, 0o644);
    assert_eq!(Settings::load(&path).unwrap(), (Settings::default(), vec![]));

    // With the comments taken away it says the same, but for the keys that have no value of their own.
    let uncommented: String = text::DEFAULT
        .lines()
        .filter_map(|line| {
            line.strip_prefix("# ").filter(|rest| rest.contains(" = ")).or(line.starts_with('[').then_some(line))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let mut settings = parse(&uncommented);
    assert_eq!(settings.daemon.mesh.take().as_deref(), Some("lab"));
    assert_eq!(settings.daemon.display_name.take().as_deref(), Some("worker-3"));
    assert_eq!(settings.outbox.max_age_hours.take(), Some(168));
    assert_eq!(settings, Settings::default());
    // And it names every key there is.
    let mut reader = Reader::new("").unwrap();
    Settings::default().read(&mut reader).unwrap();
    for (section, key) in reader.known() {
        let (_, rest) = text::DEFAULT.split_once(&format!("[{section}]\n")).expect(section);
        let section = rest.split("\n[").next().unwrap();
        assert!(section.lines().any(|line| line.starts_with(&format!("# {key} = "))), "{key}");
    }
}

#[test]
fn values() {
    let (settings, notices) = Settings::parse(
        r#"
        [daemon]
        display_name = "ada"
        log_level = "debug"
        [ipc]
        http_port = 0x1234
        http_bind = "::1"
        uds_mode = "0660"
        max_body_bytes = "2MiB"
        [broker]
        urls = ["wss://a/ws", "wss://b/ws"]
        ca_file = "/etc/ca.pem"
        [outbox]
        max_age_hours = 24
        max_bytes = "1.5GB"
        fsync_mode = "batched_50ms"
        [reconnect]
        backoff_multiplier = 3
        [clone]
        policy = "warn"
        [capabilities]
        tasks = true
        "#,
    )
    .unwrap();
    assert_eq!(notices.len(), 1, "batched: {notices:?}");
    assert_eq!(settings.daemon.display_name.as_deref(), Some("ada"));
    assert_eq!(settings.daemon.log_level, LogLevel::Debug);
    assert_eq!((settings.ipc.http_port, settings.ipc.uds_mode), (0x1234, 0o660));
    assert!(settings.ipc.http_bind.is_loopback());
    assert_eq!(settings.ipc.max_body_bytes, 2 * 1024 * 1024);
    assert_eq!(settings.broker.urls.len(), 2);
    assert_eq!(settings.outbox.max_age_hours, Some(24));
    assert_eq!(settings.outbox.max_bytes, 1_500_000_000);
    assert_eq!(settings.outbox.fsync_mode, FsyncMode::Batched);
    assert!((settings.reconnect.backoff_multiplier - 3.0).abs() < f64::EPSILON);
    assert_eq!(settings.clone.policy, ClonePolicy::Warn);
    assert!(settings.capabilities.tasks && !settings.capabilities.state);
}

#[test]
fn switches_with_nothing_behind_them_are_told() {
    let (settings, notices) =
        Settings::parse("[capabilities]\nstate = true\nmemory = true\nmcp_host = true\n").unwrap();
    assert!(settings.capabilities.state && settings.capabilities.memory);
    let told: Vec<_> = notices.iter().map(|notice| (notice.line, notice.text.as_str())).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].0 == 3 && told[0].1.contains("`capabilities.memory = true` has no effect"));
    assert!(told[1].0 == 4 && told[1].1.contains("mcp_host"));
    assert_eq!(Settings::default().capabilities, super::Capabilities::default());
    assert!(Settings::parse("[capabilities]\nstate = 1\n").is_err());
}

#[test]
fn what_is_not_known_is_said_and_skipped() {
    let (settings, notices) = Settings::parse("[ipc]\nmax_sse = 3\nshoe_size = 43\n\n[sauna]\nheat = 90\n").unwrap();
    assert_eq!(settings.ipc.max_sse, 3);
    let said: Vec<_> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        ["line 3: `ipc.shoe_size` is not known and was skipped", "line 5: `sauna` is not known and was skipped"]
    );
}

#[test]
fn what_has_no_effect_is_said() {
    let text = "[inbox]\nretention_days = 3\nfts_enabled = false\n[outbox]\nfsync_mode = \"batched\"\n\
                [fleet]\nmax_daemons = 3\n";
    let (_, notices) = Settings::parse(text).unwrap();
    let said: Vec<_> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "line 3: `inbox.fts_enabled = false` has no effect: what was received can always be searched",
            "line 5: `outbox.fsync_mode = \"batched\"` has no effect: what was accepted is always on the disk",
            "line 6: `fleet` counts for all daemons: it belongs into the `config.toml` of the directory above",
        ]
    );
    let idle = "[inbox]\nfts_enabled = true\n[outbox]\nfsync_mode = \"strict\"\n[metrics]\notel_endpoint = \"\"\n";
    assert!(Settings::parse(idle).unwrap().1.is_empty());
}

#[test]
fn what_is_wrong_names_its_line() {
    for (text, line, part) in [
        ("[ipc]\n\nmax_inflight = \"many\"\n", 3, "a number from 1 to 65536"),
        ("[ipc]\nmax_inflight = 0\n", 2, "a number from 1"),
        ("[ipc]\nmax_inflight = -1\n", 2, "a number from 1"),
        ("[ipc]\ntcp_enabled = 1\n", 2, "`true` or `false`"),
        ("[ipc]\nhttp_port = 65536\n", 2, "to 65535"),
        ("[ipc]\nuds_mode = \"0666\"\n", 2, "closed to others"),
        ("[ipc]\nuds_mode = 600\n", 2, "closed to others"),
        ("[ipc]\nhttp_bind = \"0.0.0.0\"\n", 2, "http_external_auth"),
        ("[ipc]\nhttp_bind = \"here\"\n", 2, "an IP address"),
        ("[ipc]\nallowed_origins = [1]\n", 2, "a list of texts"),
        ("[outbox]\nmax_bytes = \"5 apples\"\n", 2, "a size"),
        ("[outbox]\nfsync_mode = \"never\"\n", 2, "\"strict\""),
        ("[broker]\nca_file = \"ca.pem\"\n", 2, "an absolute path"),
        ("[reconnect]\ninitial_backoff_ms = 5000\nmax_backoff_ms = 100\n", 3, "shorter"),
        ("[reconnect]\nbackoff_multiplier = nan\n", 2, "a number from 1 to 100"),
        ("[broker]\nping_s = 5\nsilence_s = 5\n", 3, "longer than `ping_s`"),
        ("[broker]\nping_s = 80\n", 1, "longer than `ping_s`"),
        ("[disk]\nreserved_bytes = 63999999\n", 2, "at least 64000000"),
        ("[outbox]\nmax_bytes = \"1MB\"\n", 2, "at least 64000000"),
        ("[daemon]\nmesh = 7\n", 2, "a text"),
        ("ipc = 7\n", 1, "is a section"),
        ("[ipc\n", 1, ""),
        ("[ipc]\nmax_sse = 1\nmax_sse = 2\n", 3, "duplicate"),
    ] {
        let said = wrong(text);
        assert!(said.starts_with(&format!("line {line}: ")) && said.contains(part), "{text}: {said}");
        assert!(!said.contains('\n'));
    }
}

#[test]
fn an_outside_address_with_a_token_of_its_own() {
    let settings = parse("[ipc]\nhttp_bind = \"0.0.0.0\"\nhttp_external_auth = \"/etc/token\"\n");
    assert!(!settings.ipc.http_bind.is_loopback());
}

#[test]
fn what_needs_a_restart() {
    let old = Settings::default();
    let mut new = old.clone();
    new.ipc.max_sse = 1;
    assert!(old.needs_restart(&new).is_empty());
    new.ipc.http_port = 1;
    new.daemon.mesh = Some("x".into());
    assert_eq!(old.needs_restart(&new), ["daemon.mesh", "ipc.http_port"]);
}

#[test]
fn the_caps_of_all_daemons_have_a_file_of_their_own() {
    assert_eq!(Fleet::parse("").unwrap(), (Fleet::default(), vec![]));
    let (fleet, notices) =
        Fleet::parse("[fleet]\nmax_daemons = 2\ntotal_memory_budget = \"512MB\"\n[ipc]\nmax_sse = 1\n").unwrap();
    assert_eq!((fleet.max_daemons, fleet.total_memory_budget), (2, 512_000_000));
    assert_eq!(fleet.total_disk_budget, Fleet::default().total_disk_budget);
    assert_eq!(
        notices.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["line 4: `ipc` is not known and was skipped"]
    );
    let wrong = Fleet::parse("[fleet]\nmax_daemons = 0\n").unwrap_err().to_string();
    assert_eq!(wrong, "line 2: `fleet.max_daemons` must be a number from 1 to 1000");
}
