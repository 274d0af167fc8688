//! Which machine this is, to notice a key that was copied to another one.
//!
//! Invariant: what changes by itself (boot, host name, randomised and virtual interfaces) never counts: a daemon that
//! refuses to start after a reboot is worse than none. Somebody who copies the record together with the key is not
//! noticed; this catches accidents, it is no defence.

use std::io;
use std::path::{Path, PathBuf};

use hostel_syncpoint::points;
use hostel_wire::{encoding, fingerprint::sha256, iso, random};
use serde::{Deserialize, Serialize};

use super::files;
use super::settings::ClonePolicy;

const LIMIT: u64 = 16 * 1024;
const SCHEMA: u32 = 2;

/// Interfaces that come and go, or that another machine has as well.
const VIRTUAL: &[&str] = &[
    "lo",
    "docker",
    "br-",
    "bridge",
    "veth",
    "tap",
    "tun",
    "tailscale",
    "wg",
    "utun",
    "ppp",
    "vboxnet",
    "vmnet",
    "awdl",
    "llw",
    "anpi",
    "virbr",
    "cni",
    "flannel",
    "cali",
];

/// Where the facts about a machine are read.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Files that may hold the machine's id, the first one that does wins.
    pub machine_ids: Vec<PathBuf>,
    /// A directory with one directory per interface.
    pub interfaces: PathBuf,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            machine_ids: vec!["/etc/machine-id".into(), "/var/lib/dbus/machine-id".into()],
            interfaces: "/sys/class/net".into(),
        }
    }
}

/// What is known about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Host {
    /// `linux:` and the machine's id.
    pub id: Option<String>,
    /// Addresses of real interfaces, by the interfaces' names.
    pub macs: Vec<String>,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        Self::read(&Sources::default())
    }

    /// The machine that `sources` describe.
    #[must_use]
    pub fn read(sources: &Sources) -> Self {
        let id = sources.machine_ids.iter().find_map(|path| {
            let text = files::read_text(path, 256).ok()??;
            let id = text.trim().to_ascii_lowercase();
            // Images that are meant to be copied have an empty file, or this word.
            let good =
                id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) && id.bytes().any(|b| b != b'0');
            good.then(|| format!("linux:{id}"))
        });
        Self { id, macs: macs(&sources.interfaces) }
    }

    fn is_unknown(&self) -> bool {
        self.id.is_none() && self.macs.is_empty()
    }

    /// As it would be recorded; an address that was recorded before is kept while the machine still has it.
    fn record(&self, before: Option<&Record>) -> Record {
        let kept = before.map(|before| &before.stable_mac).filter(|mac| self.macs.contains(mac));
        let mac = kept.or_else(|| self.macs.first()).cloned().unwrap_or_default();
        Record::of(self.id.clone().unwrap_or_default(), mac)
    }
}

fn macs(interfaces: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(interfaces) else { return Vec::new() };
    let mut found: Vec<(String, String)> = entries
        .flatten()
        .take(1024)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let path = entry.path();
            let target = std::fs::canonicalize(&path).ok()?;
            if is_virtual(&name) || target.to_string_lossy().contains("/devices/virtual/") {
                return None;
            }
            let kind = files::read_text(&path.join("type"), 64).ok()??;
            let mac = files::read_text(&path.join("address"), 64).ok()??;
            let mac = mac.trim().to_ascii_lowercase();
            (kind.trim() == "1" && is_stable(&mac)).then_some((name, mac))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, mac)| mac).collect()
}

fn is_virtual(name: &str) -> bool {
    let access_point = name.strip_prefix("ap").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    access_point || VIRTUAL.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether an address was given by the maker: not randomised, not for groups, not zero.
fn is_stable(mac: &str) -> bool {
    let bytes: Option<Vec<u8>> = mac.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
    bytes.is_some_and(|bytes| bytes.len() == 6 && bytes[0] & 0b11 == 0 && bytes.iter().any(|byte| *byte != 0))
}

/// A machine as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    schema_version: u32,
    /// Hex.
    pub fingerprint: String,
    /// Empty if it was not readable.
    pub host_id: String,
    /// Empty if there was none.
    pub stable_mac: String,
    #[serde(default)]
    written_at: String,
}

impl Record {
    fn of(host_id: String, stable_mac: String) -> Self {
        let fingerprint = encoding::hex(&sha256(format!("v2\0{host_id}\0{stable_mac}").as_bytes()));
        Self { schema_version: SCHEMA, fingerprint, host_id, stable_mac, written_at: String::new() }
    }

    fn is_random(&self) -> bool {
        self.host_id.starts_with("random:")
    }

    fn write(&self, path: &Path, now_ms: u64) -> io::Result<()> {
        let dated = Self { written_at: iso(now_ms), ..self.clone() };
        points::FINGERPRINT_WRITTEN.reach_if_ok(files::write_atomic(path, &serde_json::to_vec_pretty(&dated)?, 0o600))
    }
}

/// What the record says about this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There was no record; now there is.
    Written,
    /// The same machine.
    Same,
    /// The same machine with another address; the record follows.
    Rewritten,
    /// Another machine, and that was said to be right; the record follows.
    Accepted,
    /// A record of a version that is not known here: left alone.
    UnknownSchema,
    /// Nothing is known about this machine; nothing can be compared.
    Unavailable,
    /// Another machine.
    Clone {
        /// Where the key belongs.
        recorded: Box<Record>,
        /// Where it is now.
        here: Box<Record>,
        /// What the settings say: with `Refuse` the daemon must not start, with `Allow` the record has followed.
        policy: ClonePolicy,
    },
}

/// A verdict, with what the broker is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The verdict.
    pub verdict: Verdict,
    /// This machine's fingerprint, hex.
    pub fingerprint: Option<String>,
}

/// Compares this machine with the record at `path`, and writes or follows it where that is right.
pub fn check(path: &Path, host: &Host, policy: ClonePolicy, accept: bool, now_ms: u64) -> io::Result<Check> {
    let Some(bytes) = files::read_bounded(path, LIMIT)? else {
        let (record, verdict) = first(host);
        record.write(path, now_ms)?;
        return Ok(Check { verdict, fingerprint: Some(record.fingerprint) });
    };
    let recorded = serde_json::from_slice::<Record>(&bytes).ok().filter(|record| record.schema_version == SCHEMA);
    let Some(recorded) = recorded else {
        if accept {
            let here = first(host).0;
            here.write(path, now_ms)?;
            return Ok(Check { verdict: Verdict::Accepted, fingerprint: Some(here.fingerprint) });
        }
        let fingerprint = (!host.is_unknown()).then(|| host.record(None).fingerprint);
        return Ok(Check { verdict: Verdict::UnknownSchema, fingerprint });
    };
    if host.is_unknown() {
        // Nothing to compare with: what is recorded stays.
        let verdict = if recorded.is_random() { Verdict::Same } else { Verdict::Unavailable };
        return Ok(Check { verdict, fingerprint: Some(recorded.fingerprint) });
    }
    let here = host.record(Some(&recorded));
    let verdict = compare(&recorded, &here, policy, accept);
    let follows = match &verdict {
        Verdict::Rewritten | Verdict::Accepted => true,
        Verdict::Clone { policy, .. } => *policy == ClonePolicy::Allow,
        _ => false,
    };
    if follows {
        here.write(path, now_ms)?;
    }
    Ok(Check { verdict, fingerprint: Some(here.fingerprint) })
}

fn compare(recorded: &Record, here: &Record, policy: ClonePolicy, accept: bool) -> Verdict {
    if recorded.fingerprint == here.fingerprint {
        return Verdict::Same;
    }
    if !recorded.host_id.is_empty() && recorded.host_id == here.host_id {
        return Verdict::Rewritten;
    }
    // The id has appeared or is gone, and the interface is the same one; or nothing was known when it was recorded.
    let one_sided = recorded.host_id.is_empty() != here.host_id.is_empty();
    let same_mac = !recorded.stable_mac.is_empty() && recorded.stable_mac == here.stable_mac;
    if recorded.is_random() || (one_sided && same_mac) {
        return Verdict::Rewritten;
    }
    if accept {
        return Verdict::Accepted;
    }
    Verdict::Clone { recorded: Box::new(recorded.clone()), here: Box::new(here.clone()), policy }
}

fn first(host: &Host) -> (Record, Verdict) {
    if host.is_unknown() {
        let id = format!("random:{}", encoding::hex(&random::bytes::<16>()));
        (Record::of(id, String::new()), Verdict::Unavailable)
    } else {
        (host.record(None), Verdict::Written)
    }
}

/// Records this machine, whatever was recorded before; gives the first 16 digits of its fingerprint.
pub fn accept(path: &Path, host: &Host, now_ms: u64) -> io::Result<String> {
    let (record, _) = first(host);
    record.write(path, now_ms)?;
    Ok(record.fingerprint.chars().take(16).collect())
}

#[cfg(test)]
#[path = "fingerprint_tests.rs"]
mod tests;
