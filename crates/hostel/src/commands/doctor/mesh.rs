//! What `hostel doctor` says of meshes: nothing where there are none.

use std::path::Path;

use super::Findings;
use crate::broker;
use crate::broker::place::Place;
use crate::mesh;
use crate::mesh::fleet::Standing;
use crate::ui::Ui;

pub(super) async fn check(ui: &Ui, home: &Path, findings: &mut Findings) {
    let standing = mesh::fleet::standing(ui, home).await;
    if standing.is_empty() {
        return;
    }
    match broker::running(&Place::of(home)).await {
        Some(health) => findings.good("broker", format!("answers on {}, process {}", health.url(), health.pid)),
        None => {
            findings.warn(
                "broker",
                "is not up; meshes of this machine wait for it",
                "start it with `hostel broker up`",
            );
        }
    }
    for Standing { mesh, pid, connected } in standing {
        match (pid, connected) {
            (Some(pid), true) => findings.good("mesh", format!("{mesh}: connected, process {pid}")),
            (Some(pid), false) => findings.warn(
                "mesh",
                format!("{mesh}: process {pid} has no connection to its broker"),
                format!("see why with `hostel mesh daemon logs --mesh {mesh}`"),
            ),
            (None, _) => findings.warn(
                "mesh",
                format!("{mesh}: its daemon is not up"),
                format!("start it with `hostel mesh daemon up --mesh {mesh}`"),
            ),
        }
    }
}
