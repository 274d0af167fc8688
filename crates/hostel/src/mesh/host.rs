//! What this host has of meshes: which are joined, and where their daemons live.
//!
//! Invariant: a mesh is named by a slug that is joined or has a directory here; nothing else becomes part of a path.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use hostel_mesh::home::Membership;
use hostel_mesh::home::Memberships;
use hostel_mesh::home::MeshDir;
use hostel_mesh::home::Places;
use hostel_wire::topic::is_mesh_slug;
use sha2::Digest as _;
use sha2::Sha256;

use super::failure::Code;
use super::failure::Failure;
use crate::text;
use crate::ui::Ui;

/// Where meshes are kept on this host.
#[derive(Debug)]
pub(crate) struct Host {
    places: Places,
}

impl Host {
    /// As the environment says.
    pub(crate) fn of_environment(ui: &Ui) -> Result<Self, Failure> {
        let places = Places::from_environment().map_err(|error| Failure::arguments(error.to_string()))?;
        if let Some(gone) = places.stale_config_dir()
            && std::io::stderr().is_terminal()
        {
            ui.note(&format!(
                "CLAUDEMESH_CONFIG_DIR names `{}`, which is not there; using the default",
                gone.display()
            ));
        }
        Ok(Host { places })
    }

    /// The same where nobody is to be told about it.
    pub(crate) fn quiet() -> Result<Self, Failure> {
        let places = Places::from_environment().map_err(|error| Failure::arguments(error.to_string()))?;
        Ok(Host { places })
    }

    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The directory of a mesh's daemon.
    pub(crate) fn dir(&self, mesh: &str) -> MeshDir {
        self.places.mesh(mesh)
    }

    /// Where an ephemeral daemon has its socket and nothing else: gone with the machine's next start.
    pub(crate) fn runtime_dir(&self, mesh: &str) -> PathBuf {
        let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|base| !base.is_empty());
        let base = base.map_or_else(std::env::temp_dir, PathBuf::from);
        let digest = Sha256::digest(self.places.daemon_root().as_os_str().as_encoded_bytes());
        let home: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        base.join(format!("claudemesh-{}-{home}", rustix::process::geteuid().as_raw())).join(mesh)
    }

    /// The sockets a daemon of a mesh may have, the usual one first.
    pub(crate) fn sockets(&self, mesh: &str) -> Vec<PathBuf> {
        let ephemeral = self.own_runtime_dir(mesh).map(|dir| dir.join("sock"));
        std::iter::once(self.dir(mesh).sock()).chain(ephemeral).collect()
    }

    /// What a daemon of a mesh holds locked while it lives.
    pub(crate) fn locks(&self, mesh: &str) -> Vec<PathBuf> {
        std::iter::once(self.dir(mesh).pid()).chain(self.own_runtime_dir(mesh)).collect()
    }

    /// The same directory, if it is there and nobody else's: its parent's parent is open to everybody.
    fn own_runtime_dir(&self, mesh: &str) -> Option<PathBuf> {
        let dir = self.runtime_dir(mesh);
        let metadata = dir.parent()?.symlink_metadata().ok()?;
        let private = metadata.is_dir() && metadata.mode() & 0o077 == 0;
        (private && metadata.uid() == rustix::process::geteuid().as_raw() && dir.is_dir()).then_some(dir)
    }

    /// Every mesh that is joined.
    pub(crate) fn meshes(&self) -> Result<Vec<Membership>, Failure> {
        let known = Memberships::load(&self.places).map_err(|error| Failure::io(error.to_string()))?;
        Ok(known.all().to_vec())
    }

    /// What is wrong with entries that were passed over.
    pub(crate) fn problems(&self) -> Vec<String> {
        Memberships::load(&self.places).map(|known| known.problems().to_vec()).unwrap_or_default()
    }

    /// The slugs of every mesh that is joined or has left a directory. A guarded agent sees a directory for each mesh, with
    /// the daemon's socket while that runs, and neither keys nor memberships.
    pub(crate) fn slugs(&self) -> Result<Vec<String>, Failure> {
        let mut slugs: BTreeSet<String> = self.meshes()?.into_iter().map(|joined| joined.slug).collect();
        let guarded = self.is_guarded();
        for entry in std::fs::read_dir(self.places.daemon_root()).into_iter().flatten().flatten() {
            if let Ok(name) = entry.file_name().into_string()
                && (self.dir(&name).pid().exists() || guarded && is_mesh_slug(&name))
            {
                slugs.insert(name);
            }
        }
        Ok(slugs.into_iter().collect())
    }

    /// The slugs of the meshes that this process can use: those that are joined, or those that the guard shows.
    pub(crate) fn usable(&self) -> Result<Vec<String>, Failure> {
        match self.is_guarded() {
            true => self.slugs(),
            false => Ok(self.meshes()?.into_iter().map(|joined| joined.slug).collect()),
        }
    }

    /// Whether a guard hides the memberships from this process. Its view of the daemons' directory is the directory for
    /// agents, so that one is not there a second time.
    pub(crate) fn is_guarded(&self) -> bool {
        !self.places.config_file().exists() && !self.places.agents_root().exists()
    }

    /// The slug that is meant: the one asked for, else the only one.
    pub(crate) fn slug(&self, asked: Option<&str>) -> Result<String, Failure> {
        let slugs = self.slugs()?;
        choose(asked, &slugs).cloned()
    }

    /// The mesh that is meant: the one asked for, else the only one.
    pub(crate) fn joined(&self, asked: Option<&str>) -> Result<Membership, Failure> {
        let meshes = self.meshes()?;
        let slugs: Vec<String> = meshes.iter().map(|joined| joined.slug.clone()).collect();
        let slug = choose(asked, &slugs)?.clone();
        let found = meshes.into_iter().find(|joined| joined.slug == slug);
        found.ok_or_else(none_joined)
    }

    /// The same for `daemon up`, whose exit codes are its own.
    pub(crate) fn joined_for_daemon(&self, asked: Option<&str>) -> Result<Membership, Failure> {
        self.joined(asked).map_err(|failure| match failure.code() {
            Code::NotFound => failure.with_exit(2),
            Code::Arguments => failure.with_exit(3),
            _ => failure.with_exit(1),
        })
    }
}

fn none_joined() -> Failure {
    Failure::new(Code::NotFound, "no_mesh", "no mesh is joined on this host")
        .hint("join one with `claudemesh join INVITE`, or make one with `claudemesh create NAME`")
}

fn choose<'a>(asked: Option<&str>, slugs: &'a [String]) -> Result<&'a String, Failure> {
    let listed = || format!("there are: {}", slugs.join(", "));
    match (asked, slugs) {
        (_, []) => Err(none_joined()),
        (Some(asked), slugs) => slugs.iter().find(|slug| *slug == asked).ok_or_else(|| {
            let asked = text::printable(asked).into_owned();
            Failure::new(Code::NotFound, "mesh_not_found", format!("there is no mesh `{asked}` here")).hint(listed())
        }),
        (None, [only]) => Ok(only),
        (None, _) => {
            Err(Failure::arguments("several meshes are joined")
                .hint(format!("say which with `--mesh MESH`; {}", listed())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_mesh_needs_no_name() {
        let slugs = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(choose(None, &slugs(&["lab"])).unwrap(), "lab");
        assert_eq!(choose(Some("b"), &slugs(&["a", "b"])).unwrap(), "b");
        let several = choose(None, &slugs(&["a", "b"])).unwrap_err();
        assert_eq!(
            (several.exit_code(), several.text()),
            (3, "several meshes are joined\n  say which with `--mesh MESH`; there are: a, b".to_owned())
        );
        assert_eq!(choose(Some("../x"), &slugs(&["a"])).unwrap_err().exit_code(), 5);
        assert_eq!(choose(None, &[]).unwrap_err().exit_code(), 5);
    }
}
