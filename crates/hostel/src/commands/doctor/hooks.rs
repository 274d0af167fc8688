//! Which hooks of a mesh would be refused, and why.
//!
//! Invariant: none is run. What is said is what the daemon itself would say.

use hostel_mesh::home::MeshDir;
use hostel_mesh::hooks;

use super::Findings;
use crate::text;

pub(super) fn check(dir: &MeshDir, slug: &str, enabled: bool, findings: &mut Findings) {
    let inspection = hooks::inspect(&dir.hooks(), enabled);
    if inspection.hooks.is_empty() {
        return;
    }
    let hint = format!("see more with `hostel mesh daemon hooks check --mesh {slug}`");
    if let Some(problem) = inspection.problem {
        return findings.warn("hooks", format!("{slug}: none is run: {}", text::printable(&problem)), hint);
    }
    for hook in &inspection.hooks {
        if let Some(reason) = &hook.reason {
            let why = format!("{slug}: {} is not run: {}", hook.hook, text::printable(reason));
            findings.warn("hooks", why, hint.clone());
        }
    }
    let fit = inspection.hooks.iter().filter(|hook| hook.runs).count();
    if fit > 0 {
        findings.good("hooks", format!("{slug}: {fit} would run"));
    }
}
