//! Groups: words that members carry.

use std::sync::Arc;

use hostel_wire::frames::Group;
use hostel_wire::topic;

use super::change::What;
use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::MemberRecord;
use super::update::Update;
use super::{Engine, Registry};

/// A role in a group is a word.
const ROLE: usize = 64;

pub(super) fn check(groups: &[Group], most: usize) -> Result<(), RegistryError> {
    let invalid = |text: String| Err(RegistryError::Invalid(text));
    if groups.len() > most {
        return invalid(format!("more than {most} groups"));
    }
    for group in groups {
        match topic::group_name(&group.name) {
            Ok(name) if name == group.name => {}
            Ok(_) => return invalid(format!("`{}` is no group name", group.name)),
            Err(error) => return invalid(error.to_string()),
        }
        if group.role.as_ref().is_some_and(|role| role.len() > ROLE) {
            return invalid("a role in a group is too long".to_owned());
        }
    }
    Ok(())
}

impl<E: Engine> Registry<E> {
    /// Puts a member into a group, or changes its role there.
    pub async fn join_group(
        &self,
        mesh: &str,
        member: &str,
        name: &str,
        role: Option<String>,
    ) -> Result<Arc<Mesh>, RegistryError> {
        let name = topic::group_name(name).map_err(|error| RegistryError::Invalid(error.to_string()))?;
        self.edit_groups(mesh, member, move |groups| {
            groups.retain(|group| group.name != name);
            groups.push(Group { name, role });
        })
        .await
    }

    /// Takes a member out of a group.
    pub async fn leave_group(&self, mesh: &str, member: &str, name: &str) -> Result<Arc<Mesh>, RegistryError> {
        let name = name.strip_prefix('@').unwrap_or(name).to_owned();
        self.edit_groups(mesh, member, move |groups| groups.retain(|group| group.name != name)).await
    }

    /// Puts a member into these groups and no others.
    pub async fn set_groups(&self, mesh: &str, member: &str, wanted: Vec<Group>) -> Result<Arc<Mesh>, RegistryError> {
        self.edit_groups(mesh, member, move |groups| *groups = wanted).await
    }

    async fn edit_groups(
        &self,
        mesh: &str,
        member: &str,
        edit: impl FnOnce(&mut Vec<Group>) + Send + 'static,
    ) -> Result<Arc<Mesh>, RegistryError> {
        let (mesh, member) = (mesh.to_owned(), member.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            let found = snapshot.active_member(&member)?;
            if !snapshot.record.policy.self_editable.groups {
                return Err(RegistryError::Forbidden("members may not change their groups in this mesh".to_owned()));
            }
            let mut groups = found.groups.clone();
            edit(&mut groups);
            check(&groups, inner.settings.groups)?;
            if groups == found.groups {
                return Ok(snapshot);
            }
            let mut update = Update::of(&mesh);
            update.member(MemberRecord { groups, ..found.record.clone() });
            update.news(What::Changed { member });
            inner.commit(update).await
        })
        .await
    }
}
