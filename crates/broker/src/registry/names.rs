//! Names that nobody else has.

use super::mesh::Mesh;

/// The wanted name, or the first of `name-2`, `name-3`, … that is free. The cut keeps it within 64 characters.
pub(super) fn unique(wanted: &str, taken: impl Fn(&str) -> bool) -> String {
    if !taken(wanted) {
        return wanted.to_owned();
    }
    let stem: String = wanted.chars().take(48).collect();
    let stem = stem.trim_end_matches('-');
    // Whoever has all these names has more members than a mesh may have.
    let free = (2..u32::MAX).map(|number| format!("{stem}-{number}")).find(|name| !taken(name));
    free.unwrap_or_else(|| wanted.to_owned())
}

impl Mesh {
    /// Whether another member that is there has the name.
    pub(super) fn name_taken(&self, name: &str, but_for: &str) -> bool {
        self.by_name.get(&name.to_lowercase()).is_some_and(|id| id != but_for)
    }
}
