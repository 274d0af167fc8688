//! Layers, mistakes and what is shown.

use std::time::Duration;

use hostel_agents::Mode;

use super::*;

fn read(text: &str) -> Result<Settings, CommandError> {
    let mut settings = Settings::default();
    settings.apply_file(text, Path::new("hostel.toml"))?;
    settings.check()?;
    Ok(settings)
}

#[test]
fn a_whole_file_is_understood() {
    let settings = read(
        "[doors.claustrum]\nlisten = [\"/tmp/a.sock\", \"/tmp/b.sock\"]\nreported_version = \"7c2f88d\"\n\
         shutdown_needs_auth = false\n\n[journal]\ndir = \"/var/j\"\nquota = \"5 GiB\"\nper_process_quota = 2097152\n\
         on_full = \"drop-oldest\"\nkeep_count = 5\nkeep_age = \"1d 12h\"\nkeep_bytes = \"1 GB\"\nfloor = \"2 GiB\"\n\n\
         [limits]\nconnections = 5\nreconnect = \"1m\"\n",
    )
    .unwrap();
    assert_eq!(settings.claustrum.listen, ["/tmp/a.sock", "/tmp/b.sock"].map(PathBuf::from));
    assert_eq!(settings.claustrum.reported_version.as_deref(), Some("7c2f88d"));
    assert!(!settings.claustrum.shutdown_needs_auth);
    assert_eq!(settings.journal.quota, 5 << 30);
    assert_eq!(settings.journal.per_process_quota(), 2 << 20);
    assert_eq!(settings.journal.on_full, OnFull::DropOldest);
    assert_eq!(settings.journal.keep_age, Duration::from_secs(129_600));
    assert_eq!(settings.journal.keep_bytes(), 1_000_000_000);
    assert_eq!(settings.journal.floor, Some(2 << 30));
    assert_eq!(settings.limits.reconnect, Duration::from_secs(60));
    assert_eq!(
        read("[doors.claustrum]\nlisten = \"/tmp/a.sock\"\n").unwrap().claustrum.listen,
        [PathBuf::from("/tmp/a.sock")]
    );
}

#[test]
fn errors_name_the_line_and_the_way_out() {
    let cases = [
        (
            "[journal]\nquota = \"1 GiB\"\nquotta = 3\n",
            "hostel.toml:3: unknown key `quotta`, the keys here are `dir`, `quota`, `per_process_quota`, `on_full`, \
             `floor`, `keep_count`, `keep_age`, `keep_bytes`, `age_delay`; see every setting with `hostel config show`",
        ),
        (
            "\n[jornal]\n",
            "hostel.toml:2: unknown key `jornal`, the keys here are `doors`, `sessions`, `agents`, `approvals`, `mesh`, \
             `broker`, `guard`, `journal`, `limits`; see every setting with `hostel config show`",
        ),
        (
            "[journal]\n\nquota = \"lots\"\n",
            "hostel.toml:3: `lots` is not a size, write for example \"10 GiB\"; see every setting with `hostel config show`",
        ),
        (
            "[journal]\nkeep_age = 7\n",
            "hostel.toml:2: a duration is written as text, for example \"7d\" or \"1h 30m\"; see every setting with \
             `hostel config show`",
        ),
        (
            "[journal]\non_full = \"panic\"\n",
            "hostel.toml:2: `panic` is not one of \"hold\", \"drop-oldest\"; see every setting with `hostel config show`",
        ),
        ("[journal]\nquota = \"1 KiB\"\n", "hostel.toml: `journal.quota` must be at least 1 MiB"),
        ("[journal]\ndir = \"here\"\n", "hostel.toml: `journal.dir` must be an absolute path"),
    ];
    for (text, expected) in cases {
        let error = read(text).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.exit_code(), 2);
    }
    let broken = read("[journal\n").unwrap_err().to_string();
    assert!(broken.starts_with("hostel.toml:1: "), "{broken}");
}

#[test]
fn flag_beats_environment_beats_file() {
    let mut settings = read("[journal]\nquota = \"1 GiB\"\nkeep_count = 1\nkeep_age = \"1d\"\n").unwrap();
    settings
        .apply_environment(|name| match name {
            "HOSTEL_JOURNAL_QUOTA" => Some("2 GiB".to_owned()),
            "HOSTEL_JOURNAL_KEEP_COUNT" => Some("2".to_owned()),
            "HOSTEL_DOORS_CLAUSTRUM_LISTEN" => Some("/a, /b".to_owned()),
            _ => None,
        })
        .unwrap();
    settings.apply_flags(&["journal.quota=3GiB".to_owned()]).unwrap();
    assert_eq!(settings.journal.quota, 3 << 30);
    assert_eq!(settings.journal.keep_count, 2);
    assert_eq!(settings.journal.keep_age, Duration::from_secs(86_400));
    assert_eq!(settings.claustrum.listen, [PathBuf::from("/a"), PathBuf::from("/b")]);
    let row = |key: &str| settings.rows().into_iter().find(|row| row.0 == key).unwrap();
    assert_eq!(row("journal.quota"), ("journal.quota".to_owned(), "3 GiB".to_owned(), "--set".to_owned()));
    assert_eq!(row("journal.keep_count").2, "HOSTEL_JOURNAL_KEEP_COUNT");
    assert_eq!(row("journal.keep_age").2, "hostel.toml");
    assert_eq!(row("limits.start").2, "built in");
}

#[test]
fn wrong_flags_and_variables_say_so() {
    let mut settings = Settings::default();
    let flag = |settings: &mut Settings, text: &str| settings.apply_flags(&[text.to_owned()]).unwrap_err().to_string();
    assert_eq!(
        flag(&mut settings, "journal.quota"),
        "`--set journal.quota` has no `=`; write for example `--set journal.quota=5GiB`"
    );
    assert_eq!(
        flag(&mut settings, "nope=1"),
        "there is no setting `nope`; see every setting with `hostel config show`"
    );
    assert_eq!(
        flag(&mut settings, "journal.quota=much"),
        "--set journal.quota: `much` is not a size, write for example \"10 GiB\""
    );
    let error =
        settings.apply_environment(|name| (name == "HOSTEL_LIMITS_START").then(|| "soon".to_owned())).unwrap_err();
    assert_eq!(
        error.to_string(),
        "HOSTEL_LIMITS_START: `soon` is not a duration, write for example \"7d\" or \"1h 30m\"; correct or unset the variable"
    );
}

#[test]
fn doors_sessions_and_agents_are_understood() {
    let settings = read(
        "[doors.codecast]\nlisten = [\"localhost:9200\", \"[::1]:9201\"]\nreported_version = \"0.4.0\"\n\
         tls_cert = \"/c.pem\"\ntls_key = \"/k.pem\"\n\
         [doors.zeroclaw]\nsession_limit = 3\napproval_wait = \"1m\"\nwss_enabled = true\nwss_bind = \"localhost\"\n\
         [sessions]\nqueue = 1\nwarm = 2\nidle = \"1m\"\nturn_limit = \"2m\"\nstop_grace = \"1s\"\nline_limit = \"1MiB\"\n\
         prompt_limit = \"2KiB\"\nkeep_archived = \"1d\"\napproval_wait = \"1h\"\nmesh = \"ask\"\n\
         [agents.claude]\nmodel = \"small\"\nmode = \"ask\"\nmemory = \"2GiB\"\ncpu = \"150%\"\nenv = { A = \"1\", B = \"2\" }\n\
         [agents.\"my.helper\"]\nkind = \"acp\"\ncommand = [\"helper\", \"--acp\"]\ncwd = \"/src\"\n",
    )
    .unwrap();
    assert_eq!(settings.codecast.listen, ["127.0.0.1:9200", "[::1]:9201"].map(|text| text.parse().unwrap()));
    assert_eq!(settings.codecast.reported_version, "0.4.0");
    assert!(settings.zeroclaw.wss.enabled && settings.zeroclaw.wss.bind.is_loopback());
    assert_eq!((settings.zeroclaw.session_limit, settings.sessions.queue), (3, 1));
    assert_eq!((settings.sessions.line_limit, settings.sessions.mesh.word()), (1 << 20, "ask"));
    let specs = agents::specs(&settings.agents, &settings.guard, agents::Defaults::Found, Path::new("/hostel"), None);
    let claude = &specs[0];
    assert_eq!((claude.kind, claude.mode, claude.model.as_deref()), (Kind::Claude, Some(Mode::Ask), Some("small")));
    assert_eq!((claude.limits.memory, claude.limits.cpu_percent), (Some(2 << 30), Some(150)));
    assert_eq!(claude.env, [("A", "1"), ("B", "2")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!((specs[2].alias.as_str(), specs[2].command.len()), ("my.helper", 2));
    let rows = settings.rows();
    let row = |key: &str| rows.iter().find(|row| row.0 == key).map(|row| (row.1.as_str(), row.2.as_str())).unwrap();
    assert_eq!(row("agents.claude.cpu"), ("150%", "hostel.toml:22"));
    assert_eq!(row("agents.my.helper.command"), ("helper,--acp", "hostel.toml:28"));
    assert_eq!(row("doors.codecast.listen"), ("127.0.0.1:9200,[::1]:9201", "hostel.toml"));
}

#[test]
fn mistakes_about_doors_and_agents_name_their_line() {
    let more = "; see every setting with `hostel config show`";
    let cases = [
        (
            "[doors.codecast]\nlisten = \"9100\"\n",
            "hostel.toml:2: `9100` is not an address with a port, write for example \"127.0.0.1:9100\"",
            more,
        ),
        (
            "[doors.zeroclaw]\nwss_bind = \"my-host\"\n",
            "hostel.toml:2: `my-host` is not an address, write for example \"0.0.0.0\"",
            more,
        ),
        ("[doors.zeroclaw]\nlisten = \"here\"\n", "hostel.toml: `doors.zeroclaw.listen` must hold absolute paths", ""),
        (
            "[doors.codecast]\ntls_key = \"/k\"\n",
            "hostel.toml: `doors.codecast.tls_cert` and `doors.codecast.tls_key` belong together",
            "",
        ),
        ("[sessions]\nwarm = 0\n", "hostel.toml: `sessions.warm` must be at least 1", ""),
        (
            "[agents.claude]\n\nmodle = \"x\"\n",
            "hostel.toml:3: unknown key `modle`, the keys here are `kind`, `command`, `env`, `model`, `mode`, `cwd`, `memory`, `cpu`, \
             `guard`, `grant`",
            more,
        ),
        (
            "[agents.claude]\nmode = \"yolo\"\n",
            "hostel.toml:2: `yolo` is not one of \"plan\", \"ask\", \"code\", \"auto\"",
            more,
        ),
        (
            "[agents.claude]\ncpu = \"lots\"\n",
            "hostel.toml:2: `lots` is not a share of a core, write for example \"200%\" for two",
            more,
        ),
        (
            "\n\n[agents.helper]\nmodel = \"x\"\n",
            "hostel.toml:3: `agents.helper` has no `kind`; it is one of \"claude\", \"codex\", \"gemini\", \"opencode\", \"acp\", \"echo\"",
            "",
        ),
        (
            "[agents.helper]\nkind = \"acp\"\n",
            "hostel.toml:1: `agents.helper` has no `command`; write for example `command = [\"my-agent\", \"--acp\"]`",
            "",
        ),
        (
            "[agents.\"a b\"]\nkind = \"echo\"\n",
            "hostel.toml:1: `a b` cannot be the name of an agent; use up to 64 letters, digits, `-`, `_` and `.`",
            "",
        ),
        ("[agents.echo]\ncwd = \"src\"\n", "hostel.toml:1: `agents.echo.cwd` must be an absolute path", ""),
    ];
    for (text, expected, end) in cases {
        let error = read(text).unwrap_err();
        assert_eq!((error.to_string(), error.exit_code()), (format!("{expected}{end}"), 2));
    }
}

#[test]
fn agents_can_be_set_by_flag_and_environment() {
    let mut settings = read("[agents.my-helper]\nkind = \"acp\"\ncommand = \"helper\"\n").unwrap();
    settings
        .apply_environment(|name| match name {
            "HOSTEL_AGENTS_MY_HELPER_MODEL" => Some("large".to_owned()),
            "HOSTEL_AGENTS_CODEX_ENV" => Some("A=1,B=x=y".to_owned()),
            _ => None,
        })
        .unwrap();
    settings.apply_flags(&["agents.gemini.mode=plan".to_owned(), "agents.my-helper.command=a,b".to_owned()]).unwrap();
    settings.check().unwrap();
    let rows = settings.rows();
    let row = |key: &str| rows.iter().find(|row| row.0 == key).map(|row| (row.1.as_str(), row.2.as_str())).unwrap();
    assert_eq!(row("agents.my-helper.model"), ("large", "HOSTEL_AGENTS_MY_HELPER_MODEL"));
    assert_eq!(row("agents.my-helper.command"), ("a,b", "--set"));
    assert_eq!(row("agents.codex.env"), ("A=1,B=x=y", "HOSTEL_AGENTS_CODEX_ENV"));
    assert_eq!(row("agents.gemini.mode"), ("plan", "--set"));
    let error = settings.apply_flags(&["agents.gemini.modle=x".to_owned()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no setting `agents.gemini.modle`; see every setting with `hostel config show`"
    );
}

#[test]
fn every_key_is_read_applied_and_shown() {
    let shown = Settings::default();
    for (key, shape) in KEYS {
        let sample = match (shown.value(key).as_str(), key) {
            (_, "journal.floor") => "1 GiB".to_owned(),
            (_, "doors.zeroclaw.wss_proxy_users") => "33,1000".to_owned(),
            ("", _) => "/some/path".to_owned(),
            (value, _) => value.to_owned(),
        };
        let layer = Layer::read(&document(key, shape, &sample)).unwrap_or_else(|problem| panic!("{key}: {problem:?}"));
        let mut settings = Settings::default();
        settings.apply(layer, "here", None);
        assert_eq!((settings.value(key), settings.origin(key)), (sample, "here".to_owned()), "{key}");
    }
}

#[test]
fn consent_is_understood() {
    let settings = read(
        "[approvals]\nstrict = true\nwait = \"1h\"\nmax_pending = 5\nkeep = 7\n\
         [approvals.lockout]\nattempts = 3\nwait = \"1m\"\nlongest = \"2m\"\n\
         [approvals.notify]\ndesktop = false\nbell = false\nwebhook = \"https://example.org/hook\"\n\
         secret_file = \"/key\"\non = [\"turn\"]\n\
         [[approvals.rules]]\naction = \"allow\"\nargv = [\"make\", \"**\"]\ncwd = \"/src/*\"\n\
         [[approvals.rules]]\nname = \"no root\"\naction = \"deny\"\nprivileged = true\n\
         [doors.sudo-proxy]\nenabled = false\nlisten = \"/tmp/s.sock\"\nunattended_eligible = true\nin_flight = 2\n\
         exec_timeout = \"5s\"\noutput = \"1MiB\"\n[doors.mcp]\nlisten = \"[::1]:7\"\n",
    )
    .unwrap();
    let approvals = &settings.approvals;
    assert!(approvals.strict && (approvals.max_pending, approvals.keep) == (5, 7));
    assert_eq!((approvals.lockout.attempts, approvals.lockout.longest), (3, Duration::from_secs(120)));
    assert_eq!(approvals.notify.on, [Occasion::Turn]);
    assert_eq!(settings.sudo_proxy.listen, [PathBuf::from("/tmp/s.sock")]);
    assert!(settings.sudo_proxy.unattended_eligible && !settings.sudo_proxy.enabled);
    assert_eq!((settings.sudo_proxy.output, settings.mcp.listen.port()), (1 << 20, 7));
    let rows = settings.rows();
    let row = |key: &str| rows.iter().find(|row| row.0 == key).map(|row| (row.1.as_str(), row.2.as_str())).unwrap();
    assert_eq!(
        row("approvals.rules.1"),
        (r#"rule 1: action = "allow", cwd = "/src/*", argv = ["make", "**"]"#, "hostel.toml:16")
    );
    assert_eq!(row("approvals.rules.2"), (r#"no root: action = "deny", privileged = true"#, "hostel.toml:20"));
    assert_eq!(row("approvals.notify.on"), ("turn", "hostel.toml"));
}

#[test]
fn mistakes_about_consent_name_their_line() {
    let more = "; see every setting with `hostel config show`";
    let cases = [
        (
            "[[approvals.rules]]\naction = \"allow\"\n\nargw = [\"make\"]\n",
            "hostel.toml:4: unknown key `argw`, the keys here are `name`, `action`, `requester`, `session`, `cwd`, `tool`, \
             `argv`, `env`, `privileged`",
            more,
        ),
        (
            "[[approvals.rules]]\naction = \"permit\"\n",
            "hostel.toml:2: `permit` is not one of \"allow\", \"ask\", \"deny\"",
            more,
        ),
        ("[[approvals.rules]]\nname = \"x\"\n", "hostel.toml:1: missing field `action`", more),
        (
            "\n[[approvals.rules]]\naction = \"allow\"\n",
            "hostel.toml:2: `rule 1` allows everything; say what with `argv`, `tool`, `cwd`, `session` or `requester`",
            "",
        ),
        (
            "[[approvals.rules]]\naction = \"allow\"\nargv = [\"*\"]\n",
            "hostel.toml:1: `rule 1` allows any program; the first word of `argv` must name one",
            "",
        ),
        (
            "[[approvals.rules]]\naction = \"deny\"\nargv = [\"a\", \"**\", \"b\"]\n",
            "hostel.toml:1: `**` can only be the last word of `argv` in `rule 1`",
            "",
        ),
        (
            "[[approvals.rules]]\naction = \"deny\"\ntool = \"[a\"\n",
            "hostel.toml:1: in `rule 1`: `[` without `]` in the pattern `[a`",
            "",
        ),
        (
            "[[approvals.rules]]\nname = \"x\"\naction = \"ask\"\n[[approvals.rules]]\nname = \"x\"\naction = \"deny\"\n",
            "hostel.toml:4: two rules are called `x`; `hostel approvals why` could not tell them apart",
            "",
        ),
        (
            "[approvals.notify]\non = [\"lunch\"]\n",
            "hostel.toml:2: `lunch` is not one of \"request\" or \"turn\"",
            more,
        ),
        (
            "[approvals.notify]\nwebhook = \"ftp://x\"\nsecret_file = \"/k\"\n",
            "hostel.toml: `approvals.notify.webhook` must start with `https://` or `http://`",
            "",
        ),
        (
            "[approvals.lockout]\nwait = \"1h\"\nlongest = \"1m\"\n",
            "hostel.toml: `approvals.lockout.longest` must not be shorter than the first wait",
            "",
        ),
        (
            "[doors.mcp]\nlisten = \"0.0.0.0:80\"\n",
            "hostel.toml: `doors.mcp.listen` must be on this machine, such as 127.0.0.1:0",
            "",
        ),
        ("[doors.sudo-proxy]\nlisten = \"x\"\n", "hostel.toml: `doors.sudo-proxy.listen` must hold absolute paths", ""),
    ];
    for (text, expected, end) in cases {
        let error = read(text).unwrap_err();
        assert_eq!((error.to_string(), error.exit_code()), (format!("{expected}{end}"), 2));
    }
}
