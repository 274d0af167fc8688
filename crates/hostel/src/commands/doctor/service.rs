//! Whether house and meshes are services, and whether those services can do their work.
//!
//! Invariant: supervisors are asked, never told.

use std::path::Path;

use super::Findings;
use crate::mesh::Desk;
use crate::mesh::daemon;
use crate::mesh::host::Host;
use crate::service::Scope;
use crate::service::cli::Kind;
use crate::service::house;
use crate::service::manager;
use crate::service::manager::Manager;
use crate::service::place;
use crate::service::unit::Unit;
use crate::ui::Ui;

pub(super) async fn check(ui: &Ui, home: &Path, findings: &mut Findings) {
    let mut services: Vec<(Unit, Scope, String)> = Vec::new();
    if let Some(scope) = house::installed(home)
        && let Ok(unit) = house::unit(home, scope)
    {
        services.push((unit, scope, "hostel service install".to_owned()));
    }
    if let Ok(host) = Host::of_environment(ui) {
        let desk = Desk { ui, home: home.to_owned(), host, mesh: None, called: "hostel mesh" };
        for slug in desk.host.slugs().unwrap_or_default() {
            if let Some((unit, scope)) = daemon::service::installed(&desk, &slug) {
                services.push((unit, scope, format!("hostel mesh daemon install-service --mesh {slug}")));
            }
        }
    }
    if services.is_empty() {
        return findings.good("service", "none is installed; `hostel service install` has the house start at boot");
    }
    let any_user = services.iter().any(|(_, scope, _)| *scope == Scope::User);
    for (unit, scope, again) in services {
        one(&unit, scope, &again, findings).await;
    }
    if any_user {
        match manager::lingers().await {
            Some(false) => findings.warn(
                "lingering",
                "your services end at logout and start at login",
                "`loginctl enable-linger` has them run from boot on",
            ),
            Some(true) => findings.good("lingering", "your services run without a login"),
            None => {}
        }
    }
}

async fn one(unit: &Unit, scope: Scope, again: &str, findings: &mut Findings) {
    let name = unit.file_name();
    let Ok(directory) = place::directory(Kind::Systemd, scope) else { return };
    let text = std::fs::read_to_string(directory.join(&name)).unwrap_or_default();
    let program = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).map(first_word).unwrap_or_default();
    if !Path::new(&program).is_file() {
        return findings.bad(
            "service",
            format!("{name} starts {program}, which is not there"),
            format!("write it anew with `{again}`"),
        );
    }
    let manager = Manager::of(scope);
    if let Some(absence) = manager.absence().await {
        return findings.warn(
            "service",
            format!("{name} is installed and nobody starts it: {absence}"),
            "start things by hand with `hostel up`",
        );
    }
    match manager.word("is-active", &name).await.as_deref() {
        Some("active") => findings.good("service", format!("{name} is active")),
        Some(state) => findings.warn(
            "service",
            format!("{name} is {state}"),
            format!("`{} status {}` says why", scope.systemctl(), unit.name),
        ),
        None => {}
    }
    let current = unit.systemd().unwrap_or_default();
    let rules = |text: &str| -> Vec<String> {
        let kept = |line: &&str| !line.starts_with("Environment=") && !line.starts_with('#');
        text.lines().filter(kept).map(str::to_owned).collect()
    };
    if rules(&text) != rules(&current) && !text.contains("--persistent") {
        findings.warn(
            "service",
            format!("{name} is not what this version would write"),
            format!("write it anew with `{again}`; changes of your own belong into a drop-in"),
        );
    }
}

/// The program of a command line, without quotes.
fn first_word(line: &str) -> String {
    match line.strip_prefix('"') {
        Some(rest) => rest.split('"').next().unwrap_or_default().to_owned(),
        None => line.split(' ').next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_unit_is_found() {
        assert_eq!(first_word("/usr/bin/hostel --home /x up"), "/usr/bin/hostel");
        assert_eq!(first_word("\"/opt/my tools/hostel\" up"), "/opt/my tools/hostel");
        assert_eq!(first_word(""), "");
    }
}
