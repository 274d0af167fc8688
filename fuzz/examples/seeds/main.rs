//! Writes the seeds that are checked in: `cargo run --no-default-features --example seeds` in this directory.
//!
//! Request lines come from the black-box tests' data files, everything else is made by the project's own encoders, so
//! that a changed format needs no more than another run of this.

mod broker;
mod doors;
mod mesh;
mod processes;
mod wire;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    doors::claustrum()?;
    doors::sessions("zeroclaw", "zeroclaw_envelope")?;
    doors::sessions("codecast", "codecast_request")?;
    doors::claudemesh()?;
    doors::sudo_proxy()?;
    doors::native()?;
    processes::agents()?;
    processes::archives()?;
    processes::keeper()?;
    processes::journal()?;
    wire::all()?;
    mesh::all()?;
    broker::http()?;
    broker::frames()?;
    program()
}

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn put(target: &str, name: &str, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    let directory = project().join("fuzz/seeds").join(target);
    fs::create_dir_all(&directory)?;
    Ok(fs::write(directory.join(name), bytes)?)
}

/// Every so many of them: neighbours in this order differ little.
fn some(target: &str, texts: &BTreeSet<String>) -> Result<(), Failure> {
    let step = texts.len().div_ceil(40).max(1);
    texts.iter().step_by(step).enumerate().try_for_each(|(number, text)| put(target, &format!("{number:02}"), text))
}

fn program() -> Result<(), Failure> {
    put("hostel_flags", "serve", "-serve\0-socket\0/tmp/s\0--token-fd=0x3\0-keep-children=true\0word")?;
    put("hostel_flags", "zeroclaw", "daemon\0--ephemeral\0--config-dir=/c\0--host\0127.0.0.1\0-p\00")?;
    put("hostel_flags", "install", "-install\0-cli-dir=/d\0-cli-keep\0-1\0-cli-url=u\0--\0-h")?;
    let settings = "[doors.claustrum]\nlisten = [\"/tmp/a.sock\"]\nshutdown_needs_auth = false\n\n[journal]\nquota = \"5 GiB\"\n\
                    on_full = \"drop-oldest\"\nkeep_age = \"1d 12h\"\nfloor = 4096\n\n[limits]\nconnections = 5\n";
    put("hostel_settings", "hostel.toml", settings)?;
    let agents = "[agents.mine]\nkind = \"acp\"\ncommand = [\"my-agent\", \"--acp\"]\nenv = { A = \"1\" }\nmode = \"ask\"\n\
                  memory = \"2 GiB\"\ncpu = \"50%\"\n\n[doors.codecast]\nlisten = \"127.0.0.1:9100\"\n";
    put("hostel_settings", "agents.toml", agents)?;
    let daemon = "port: 9200\nbind: 0.0.0.0\ntokens_file: ~/t\ntls_cert: /c\ntls_key: \"/k\"\nother: [1]\n";
    put("hostel_yaml", "daemon.yaml", daemon)?;
    let tokens = "tokens:\n- token: ccast_1\n  label: phone\n  created: '2026-01-01'\n- {token: ccast_2}\n";
    put("hostel_yaml", "tokens.yaml", tokens)?;
    put("hostel_yaml", "anchors.yaml", "a: &a [x, &b y]\ntokens: [{token: *b}]\nbind: |\n  ::1\n")?;
    put("hostel_settings", "inline.toml", "journal = { quota = 2097152, keep_count = 1 }\nlimits.start = \"1m\"\n")
}
