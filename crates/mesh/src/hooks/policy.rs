//! `hooks.toml`: which hooks may run, and with what.
//!
//! Invariant: it is strict. A key that is not known, a value of the wrong kind or a name that is no hook's is an error
//! that names line and key: a policy that is only partly understood would be a door somebody believes to be shut. What
//! a section does not say is the careful choice: no token, no network, nothing to write to.
//!
//! It reads; what is enforceable on this host is not its business.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::name::HookName;
use super::redact::Field;
use crate::home::files;

/// The file's name, in the hooks' directory.
pub const FILE: &str = "hooks.toml";

/// Its most bytes.
const LIMIT: u64 = 256 * 1024;

/// Sections it may have: topics are many, but not that many.
const MOST_SECTIONS: usize = 512;

/// Entries a list may have.
const MOST_ENTRIES: usize = 64;

/// What a hook may print, unless its section says otherwise.
const OUTPUT: usize = 64 * 1024;

/// What a hook may have of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Network {
    /// None.
    #[default]
    Deny,
    /// All of it.
    Allow,
}

/// What a hook may do to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Files {
    /// Read them, and write below its own directory in `/tmp`.
    #[default]
    ReadOnly,
    /// What the user may.
    ReadWrite,
    /// Read programs and libraries, and write below its own directory in `/tmp`.
    Sandbox,
}

/// What a token may be used for. Each counts only for an event that fits it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Answering where the event came from.
    Reply,
    /// Writing to who sent it; with a key: only if it was that one.
    Sender(Option<String>),
    /// Posting to a topic, if the event came from it.
    Topic(String),
}

/// What one hook may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whether it runs.
    pub enabled: bool,
    /// How long; the daemon's own setting if absent.
    pub timeout_s: Option<u64>,
    /// What of its output is kept, in bytes; each of stdout and stderr.
    pub output_size_limit: usize,
    /// What it is not told.
    pub redact: Vec<Field>,
    /// Whether what it prints is sent.
    pub allow_reply: bool,
    /// What it may ask of the daemon.
    pub scopes: Vec<Scope>,
    /// What it has of the network.
    pub network: Network,
    /// What it may do to files.
    pub files: Files,
    /// Whether everything it started is ended with it when its time is up.
    pub kill_group: bool,
    /// Whether each run is written to the log.
    pub audit: bool,
    /// Whether it runs under bubblewrap.
    pub bubblewrap: bool,
    /// Where its section begins.
    pub line: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            enabled: true,
            timeout_s: None,
            output_size_limit: OUTPUT,
            redact: Vec::new(),
            allow_reply: true,
            scopes: Vec::new(),
            network: Network::default(),
            files: Files::default(),
            kill_group: true,
            audit: true,
            bubblewrap: false,
            line: 1,
        }
    }
}

/// Everything the file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    rules: BTreeMap<HookName, Rule>,
}

/// Why the file could not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// It cannot be read.
    #[error("{}: {reason}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Something in it is wrong.
    #[error("{}: line {line}: {text}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What, with the key.
        text: String,
    },
}

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Counted from 1.
    pub line: usize,
    /// With the key it is about.
    pub text: String,
}

impl Policy {
    /// Reads the file of a hooks' directory; `None` if there is none.
    pub fn load(hooks: &Path) -> Result<Option<Self>, PolicyError> {
        let path = hooks.join(FILE);
        let io = |reason: String| PolicyError::Io { path: path.clone(), reason };
        let Some(bytes) = files::read_bounded(&path, LIMIT).map_err(|error| io(error.to_string()))? else {
            return Ok(None);
        };
        let text = String::from_utf8(bytes).map_err(|_| io("it is not UTF-8".to_owned()))?;
        match Self::parse(&text) {
            Ok(policy) => Ok(Some(policy)),
            Err(Mistake { line, text }) => Err(PolicyError::Wrong { path, line, text }),
        }
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let root = DeTable::parse(text).map_err(|error| Mistake {
            line: error.span().map_or(1, |span| line_of(text, span.start)),
            text: error.message().lines().collect::<Vec<_>>().join(" "),
        })?;
        let root = root.into_inner();
        if root.len() > MOST_SECTIONS {
            return Err(Mistake { line: 1, text: format!("it has more than {MOST_SECTIONS} sections") });
        }
        let mut rules = BTreeMap::new();
        for (key, value) in &root {
            let at = line_of(text, key.span().start);
            let written: &str = key.get_ref();
            let Some(name) = HookName::parse(written) else {
                return Err(Mistake { line: at, text: format!("`{}` is no hook; {KNOWN}", short(written)) });
            };
            let Some(table) = value.get_ref().as_table() else {
                return Err(Mistake { line: at, text: format!("`{name}` is a section: write `[{name}]`") });
            };
            let rule = section(text, &name, at, table)?;
            rules.insert(name, rule);
        }
        Ok(Self { rules })
    }

    /// What is said of a hook.
    #[must_use]
    pub fn rule(&self, name: &HookName) -> Option<&Rule> {
        self.rules.get(name)
    }

    /// Everything that is said.
    pub fn rules(&self) -> impl Iterator<Item = (&HookName, &Rule)> {
        self.rules.iter()
    }

    /// Whether a hook has a section and is switched on in it.
    #[must_use]
    pub fn runs(&self, name: &HookName) -> bool {
        self.rule(name).is_some_and(|rule| rule.enabled)
    }
}

const KNOWN: &str = "there are on-message, on-dm, on-mention, on-topic-<name>, on-file-share, on-disconnect, \
     on-reconnect, on-startup and pre-send (a topic with a dot is written [\"on-topic-a.b\"])";

const NO_ALLOWLIST: &str = "asks for a list of hosts, which nothing here can enforce; say `network_policy = \"deny\"`, or \
     \"allow\" for all of the network";

const KEYS: [&str; 12] = [
    "enabled",
    "timeout_s",
    "output_size_limit",
    "redact_payload",
    "allow_reply",
    "capability_token_scope",
    "network_policy",
    "network_allowlist",
    "fs_policy",
    "killpg_on_timeout",
    "audit",
    "sandbox",
];

fn section(text: &str, name: &HookName, at: usize, table: &DeTable<'_>) -> Result<Rule, Mistake> {
    for key in table.keys() {
        let written: &str = key.get_ref();
        if !KEYS.contains(&written) {
            let text_of = format!("`{name}.{}` is not known; there are {}", short(written), KEYS.join(", "));
            return Err(Mistake { line: line_of(text, key.span().start), text: text_of });
        }
    }
    let read = Reader { text, name, table };
    let mut rule = Rule { line: at, ..Rule::default() };
    read.flag("enabled", &mut rule.enabled)?;
    let mut seconds = 0;
    if read.number("timeout_s", 1..=3600, &mut seconds)? {
        rule.timeout_s = Some(seconds);
    }
    let mut bytes = rule.output_size_limit as u64;
    read.number("output_size_limit", 0..=16 << 20, &mut bytes)?;
    rule.output_size_limit = usize::try_from(bytes).unwrap_or(OUTPUT);
    rule.redact = read.list("redact_payload", |path| Field::parse(path).map_err(str::to_owned))?;
    read.flag("allow_reply", &mut rule.allow_reply)?;
    rule.scopes = read.list("capability_token_scope", scope)?;
    let networks = [("deny", Some(Network::Deny)), ("allow", Some(Network::Allow)), ("allowlist", None)];
    let mut network = Some(rule.network);
    read.one_of("network_policy", &networks, &mut network)?;
    // A policy that looks like a restriction and is none would let a hook reach everything.
    rule.network = network.ok_or_else(|| read.wrong("network_policy", NO_ALLOWLIST))?;
    let hosts = read.list("network_allowlist", |host| Ok(host.to_owned()))?;
    if !hosts.is_empty() {
        return Err(read.wrong("network_allowlist", NO_ALLOWLIST));
    }
    let kinds = [("readonly", Files::ReadOnly), ("rw", Files::ReadWrite), ("sandbox", Files::Sandbox)];
    read.one_of("fs_policy", &kinds, &mut rule.files)?;
    read.flag("killpg_on_timeout", &mut rule.kill_group)?;
    read.flag("audit", &mut rule.audit)?;
    let mut sandbox = "none";
    let sandboxes = [("none", "none"), ("bubblewrap", "bubblewrap"), ("sandbox-exec", "sandbox-exec")];
    read.one_of("sandbox", &sandboxes, &mut sandbox)?;
    if sandbox == "sandbox-exec" {
        return Err(read.wrong("sandbox", "names `sandbox-exec`, which only macOS has; here it is \"bubblewrap\""));
    }
    rule.bubblewrap = sandbox == "bubblewrap";
    if *name == HookName::PreSend && !rule.scopes.is_empty() {
        return Err(read.wrong("capability_token_scope", "is for hooks of events; a gate has none to answer"));
    }
    Ok(rule)
}

fn scope(text: &str) -> Result<Scope, String> {
    if text == "reply:event" {
        return Ok(Scope::Reply);
    }
    if text == "dm:send:sender" {
        return Ok(Scope::Sender(None));
    }
    if let Some(key) = text.strip_prefix("dm:send:") {
        let whole = key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        if whole {
            return Ok(Scope::Sender(Some(key.to_ascii_lowercase())));
        }
    }
    if let Some(name) = text.strip_prefix("topic:").and_then(|rest| rest.strip_suffix(":post"))
        && let Ok(name) = hostel_wire::topic::topic_name(name)
    {
        return Ok(Scope::Topic(name));
    }
    Err("is no scope; there are `reply:event`, `dm:send:sender`, `dm:send:<public key>` and `topic:<name>:post`".into())
}

/// One section, read key by key.
struct Reader<'a, 'b> {
    text: &'a str,
    name: &'a HookName,
    table: &'a DeTable<'b>,
}

impl Reader<'_, '_> {
    fn get(&self, key: &str) -> Option<&Spanned<DeValue<'_>>> {
        self.table.get(key)
    }

    /// A mistake at the line of a key.
    fn wrong(&self, key: &str, what: &str) -> Mistake {
        let line = self.get(key).map_or(1, |value| line_of(self.text, value.span().start));
        Mistake { line, text: format!("`{}.{key}` {what}", self.name) }
    }

    fn flag(&self, key: &str, target: &mut bool) -> Result<(), Mistake> {
        let Some(value) = self.get(key) else { return Ok(()) };
        *target = value.get_ref().as_bool().ok_or_else(|| self.wrong(key, "must be `true` or `false`"))?;
        Ok(())
    }

    fn number(&self, key: &str, range: RangeInclusive<u64>, target: &mut u64) -> Result<bool, Mistake> {
        let Some(value) = self.get(key) else { return Ok(false) };
        let number = value.get_ref().as_integer();
        let number =
            number.and_then(|number| u64::from_str_radix(number.as_str().trim_start_matches('+'), number.radix()).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => {
                *target = number;
                Ok(true)
            }
            None => {
                let (least, most) = (range.start(), range.end());
                Err(self.wrong(key, &format!("must be a whole number from {least} to {most}")))
            }
        }
    }

    fn one_of<T: Copy>(&self, key: &str, words: &[(&str, T)], target: &mut T) -> Result<(), Mistake> {
        let Some(value) = self.get(key) else { return Ok(()) };
        let found = value.get_ref().as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        match found {
            Some((_, value)) => {
                *target = *value;
                Ok(())
            }
            None => {
                let known: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                Err(self.wrong(key, &format!("must be one of {}", known.join(", "))))
            }
        }
    }

    fn list<T>(&self, key: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, Mistake> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let Some(entries) = value.get_ref().as_array().filter(|entries| entries.len() <= MOST_ENTRIES) else {
            return Err(self.wrong(key, &format!("must be a list of at most {MOST_ENTRIES} texts")));
        };
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            let Some(text) = entry.get_ref().as_str() else {
                return Err(self.wrong(key, "must be a list of texts"));
            };
            let item = read(text).map_err(|what| Mistake {
                line: line_of(self.text, entry.span().start),
                text: format!("`{}.{key}`: `{}` {what}", self.name, short(text)),
            })?;
            list.push(item);
        }
        Ok(list)
    }
}

/// A stranger's text in an error: one line, and not a long one.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let Mistake { line, text } = Policy::parse(text).unwrap_err();
        format!("line {line}: {text}")
    }

    #[test]
    fn everything_that_can_be_said() {
        let text = "[on-mention]\nenabled = true\ntimeout_s = 30\noutput_size_limit = 65536\n\
            redact_payload = [\"body.password\", \"meta.api_key\"]\nallow_reply = true\n\
            capability_token_scope = [\"topic:alerts:post\", \"reply:event\", \"dm:send:sender\"]\n\
            network_policy = \"deny\"\nnetwork_allowlist = []\nfs_policy = \"readonly\"\nkillpg_on_timeout = true\n\
            audit = true\nsandbox = \"bubblewrap\"\n\n[\"on-topic-a.b\"]\nenabled = false\n[on-topic-x]\n";
        let policy = Policy::parse(text).unwrap();
        let rule = policy.rule(&HookName::Mention).unwrap();
        assert_eq!(rule.scopes, [Scope::Topic("alerts".into()), Scope::Reply, Scope::Sender(None)]);
        assert!(rule.bubblewrap && rule.redact.len() == 2 && rule.timeout_s == Some(30));
        assert!(!policy.runs(&HookName::Topic("a.b".into())) && policy.runs(&HookName::Topic("x".into())));
        let bare = policy.rule(&HookName::Topic("x".into())).unwrap();
        assert_eq!((bare.network, bare.files), (Network::Deny, Files::ReadOnly));
        assert!(bare.scopes.is_empty() && bare.allow_reply && bare.kill_group && bare.audit);
        assert!(Policy::parse("").unwrap().rules().next().is_none());
    }

    #[test]
    fn what_is_wrong_names_line_and_key() {
        for (text, line, part) in [
            ("[on-mentions]\n", 1, "`on-mentions` is no hook"),
            ("[on-topic-a.b]\n", 1, "`on-topic-a.b` is not known"),
            ("on-dm = true\n", 1, "is a section"),
            ("[on-dm]\n\ntimeout = 3\n", 3, "`on-dm.timeout` is not known"),
            ("[on-dm]\ntimeout_s = 0\n", 2, "`on-dm.timeout_s` must be a whole number from 1 to 3600"),
            ("[on-dm]\ntimeout_s = \"5\"\n", 2, "whole number"),
            ("[on-dm]\nenabled = 1\n", 2, "`true` or `false`"),
            ("[on-dm]\nnetwork_policy = \"none\"\n", 2, "\"deny\", \"allow\", \"allowlist\""),
            ("[on-dm]\nnetwork_allowlist = [\"a\"]\n", 2, "which nothing here can enforce"),
            ("[on-dm]\nnetwork_policy = \"allowlist\"\n", 2, "`on-dm.network_policy` asks for a list of hosts"),
            ("[on-dm]\nenabled = false\nnetwork_policy = \"allowlist\"\n", 3, "which nothing here can enforce"),
            ("[on-dm]\nfs_policy = true\n", 2, "\"readonly\""),
            ("[on-dm]\nsandbox = \"sandbox-exec\"\n", 2, "only macOS has"),
            ("[on-dm]\ncapability_token_scope = [\n\"reply:event\",\n\"inbox:read\"]\n", 4, "`inbox:read` is no scope"),
            ("[on-dm]\ncapability_token_scope = \"reply:event\"\n", 2, "must be a list"),
            ("[on-dm]\nredact_payload = [\"event_id\"]\n", 2, "`event_id`"),
            ("[pre-send]\ncapability_token_scope = [\"reply:event\"]\n", 2, "a gate has none"),
            ("[on-dm\n", 1, ""),
            ("[on-dm]\naudit = true\naudit = true\n", 3, "duplicate"),
        ] {
            let said = wrong(text);
            assert!(said.starts_with(&format!("line {line}: ")) && said.contains(part), "{text}: {said}");
            assert!(!said.contains('\n'));
        }
    }
}
