//! What a supervisor is to keep up, and how systemd is told.
//!
//! Invariant: every word is quoted so that systemd reads it as it is: no `%`, `$`, `"` or `\` of a path means anything.
//! A mesh daemon is confined as its contract says. A house is not: it runs agents, which do whatever their user may do,
//! through sudo too.

use std::path::PathBuf;

use super::Scope;
use super::text_of;
use crate::mesh::failure::Failure;

/// How hard a service is confined.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Confinement {
    /// A mesh daemon: this much memory, and writing to these directories alone.
    Daemon { memory: u64, writable: Vec<PathBuf> },
    /// A house with its keeper, broker, mesh daemons and agents.
    House,
}

/// A service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Unit {
    /// The file's name without its ending.
    pub(crate) name: String,
    /// Its name for launchd.
    pub(crate) label: String,
    pub(crate) description: String,
    /// Who wrote it, for who finds the file.
    pub(crate) written_by: &'static str,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// What has it read its settings again, if it can.
    pub(crate) reload: Option<Vec<String>>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) scope: Scope,
    /// Who it runs as, of a service of the machine.
    pub(crate) user: Option<String>,
    pub(crate) confinement: Confinement,
}

impl Unit {
    pub(crate) fn file_name(&self) -> String {
        format!("{}.service", self.name)
    }

    /// The text of the unit file.
    pub(crate) fn systemd(&self) -> Result<String, Failure> {
        let mut lines = vec![
            format!("# Written by `{}`, which replaces it. Changes of yours belong into a drop-in:", self.written_by),
            format!("#   {} edit {}", self.scope.systemctl(), self.name),
            "[Unit]".to_owned(),
            format!("Description={}", self.description.replace('%', "%%")),
        ];
        if self.scope == Scope::System {
            lines.extend(["After=network-online.target", "Wants=network-online.target"].map(str::to_owned));
        }
        lines.extend(
            ["StartLimitIntervalSec=5min", "StartLimitBurst=5", "", "[Service]", "Type=exec"].map(str::to_owned),
        );
        if let Some(user) = &self.user {
            lines.push(format!("User={user}"));
        }
        let line = |words: &[String]| words.iter().map(|word| argument(word)).collect::<Vec<_>>().join(" ");
        lines.push(format!("ExecStart={}", line(&self.command)));
        lines.extend(self.reload.as_deref().map(|words| format!("ExecReload={}", line(words))));
        for (name, value) in &self.environment {
            lines.push(format!("Environment={}", quoted(&format!("{name}={value}"))));
        }
        lines.extend(["Restart=on-failure", "RestartSec=5s"].map(str::to_owned));
        lines.extend(self.confine()?);
        let target = match self.scope {
            Scope::User => "default.target",
            Scope::System => "multi-user.target",
        };
        lines.extend([String::new(), "[Install]".to_owned(), format!("WantedBy={target}"), String::new()]);
        Ok(lines.join("\n"))
    }

    fn confine(&self) -> Result<Vec<String>, Failure> {
        match &self.confinement {
            Confinement::Daemon { memory, writable } => {
                let paths: Result<Vec<String>, Failure> =
                    writable.iter().map(|path| text_of(path).map(|path| quoted(&path))).collect();
                let mut lines = vec![
                    // A copied identity and a revoked member do not come right by being tried again.
                    "RestartPreventExitStatus=4 78".to_owned(),
                    format!("MemoryMax={memory}"),
                    "# A hook that ran out of memory is that hook's end, not the daemon's.".to_owned(),
                    "OOMPolicy=continue".to_owned(),
                ];
                lines.extend(
                    [
                        "TasksMax=128",
                        "LimitNOFILE=4096",
                        "StandardOutput=journal",
                        "StandardError=journal",
                        "NoNewPrivileges=yes",
                        "PrivateTmp=yes",
                        "ProtectSystem=strict",
                        "ProtectHome=read-only",
                    ]
                    .map(str::to_owned),
                );
                lines.push(
                    "# Files that are fetched are written below these alone; add a directory in a drop-in.".to_owned(),
                );
                lines.push(format!("ReadWritePaths={}", paths?.join(" ")));
                Ok(lines)
            }
            Confinement::House => Ok([
                "# Ending the daemon must not end the keeper, nor the broker and mesh daemons beside it.",
                "KillMode=process",
                "# The keeper makes a control group for each process.",
                "Delegate=yes",
                "# An agent that ran out of memory is that agent's end, not the house's.",
                "OOMPolicy=continue",
                "TasksMax=infinity",
                "LimitNOFILE=65536",
                "TimeoutStopSec=30s",
                "StandardOutput=journal",
                "StandardError=journal",
                "# Nothing here confines what agents may do: they work in your directories, in /tmp, and where you",
                "# approve it as root. NoNewPrivileges would take sudo away, PrivateTmp what they share with you.",
            ]
            .map(str::to_owned)
            .to_vec()),
        }
    }
}

/// A word of a command line.
fn argument(word: &str) -> String {
    quoted(&word.replace('$', "$$"))
}

/// A word as systemd reads it back.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%");
    let plain = |letter: char| letter.is_alphanumeric() || "/._-+=:@,%$".contains(letter);
    match !escaped.is_empty() && escaped.chars().all(plain) {
        true => escaped,
        false => format!("\"{escaped}\""),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample(scope: Scope) -> Unit {
        Unit {
            name: "claudemesh-daemon-lab".to_owned(),
            label: "com.claudemesh.daemon.lab".to_owned(),
            description: "claudemesh daemon of mesh lab".to_owned(),
            written_by: "claudemesh daemon install-service",
            command: ["/opt/my tools/hostel", "as", "claudemesh", "daemon", "up", "--mesh", "100%$x"]
                .map(str::to_owned)
                .to_vec(),
            reload: None,
            environment: vec![("HOSTEL_HOME".to_owned(), "/home/a & \"b\"".to_owned())],
            scope,
            user: (scope == Scope::System).then(|| "ada".to_owned()),
            confinement: Confinement::Daemon {
                memory: 256 << 20,
                writable: vec!["/home/ada/.claudemesh".into(), "/srv/mesh daemons".into()],
            },
        }
    }

    #[test]
    fn the_unit_of_a_daemon_says_what_its_contract_does() {
        let text = sample(Scope::User).systemd().unwrap();
        for line in [
            "Restart=on-failure",
            "RestartSec=5s",
            "RestartPreventExitStatus=4 78",
            "StartLimitBurst=5",
            "StartLimitIntervalSec=5min",
            "MemoryMax=268435456",
            "OOMPolicy=continue",
            "TasksMax=128",
            "LimitNOFILE=4096",
            "StandardOutput=journal",
            "StandardError=journal",
            "NoNewPrivileges=yes",
            "PrivateTmp=yes",
            "ProtectSystem=strict",
            "ProtectHome=read-only",
            "ReadWritePaths=/home/ada/.claudemesh \"/srv/mesh daemons\"",
            "ExecStart=\"/opt/my tools/hostel\" as claudemesh daemon up --mesh 100%%$$x",
            "Environment=\"HOSTEL_HOME=/home/a & \\\"b\\\"\"",
            "WantedBy=default.target",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        assert!(!text.contains("User="));
        let system = sample(Scope::System).systemd().unwrap();
        for line in ["User=ada", "WantedBy=multi-user.target", "After=network-online.target"] {
            assert!(system.lines().any(|other| other == line), "{line}\n{system}");
        }
    }

    #[test]
    fn a_house_is_not_confined_and_its_keeper_lives_on() {
        let unit = Unit { confinement: Confinement::House, ..sample(Scope::User) };
        let text = unit.systemd().unwrap();
        for line in ["KillMode=process", "Delegate=yes", "OOMPolicy=continue"] {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
        for word in ["NoNewPrivileges=", "PrivateTmp=", "ProtectSystem=", "ProtectHome=", "MemoryMax="] {
            assert!(!text.lines().any(|line| line.starts_with(word)), "{word}");
        }
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let mut unit = sample(Scope::User);
        unit.confinement = Confinement::Daemon { memory: 1, writable: vec!["/a\nExecStart=/bin/evil".into()] };
        assert_eq!(unit.systemd().unwrap_err().word(), "path");
    }
}
