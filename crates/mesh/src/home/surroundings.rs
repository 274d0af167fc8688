//! Where the daemon has been put: on a build server, in a container, or on a machine of its own.

use std::ffi::OsString;
use std::path::Path;

use super::files;

/// Variables that build servers set.
const BUILD_SERVERS: &[&str] = &["CI", "GITHUB_ACTIONS", "GITLAB_CI", "BUILDKITE", "CIRCLECI", "JENKINS_URL"];

/// Variables that containers have.
const CONTAINERS: &[&str] = &["KUBERNETES_SERVICE_HOST", "RUNPOD_POD_ID", "container"];

/// Files that containers have.
const MARKERS: &[&str] = &[".dockerenv", "run/.containerenv"];

/// Names of control groups of containers.
const GROUPS: &[&str] = &["docker", "kubepods", "containerd", "libpod", "lxc", "crio"];

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Surroundings {
    /// The variable that says it is a build server: its identities are ephemeral unless asked otherwise.
    pub ci: Option<&'static str>,
    /// What says it is a container: it has no TCP door unless asked otherwise.
    pub container: Option<&'static str>,
}

impl Surroundings {
    /// Of this process.
    #[must_use]
    pub fn here() -> Self {
        let get = |name: &str| std::env::var_os(name);
        Self { ci: ci(get), container: container(get, Path::new("/")) }
    }
}

/// Which variable says that this is a build server. Kubernetes is a container, not a build server.
pub fn ci(get: impl Fn(&str) -> Option<OsString>) -> Option<&'static str> {
    let off = |value: &OsString| value.is_empty() || value == "0" || value.eq_ignore_ascii_case("false");
    BUILD_SERVERS.iter().copied().find(|name| get(name).is_some_and(|value| !off(&value)))
}

/// What says that this is a container, below the root directory `root`.
pub fn container(get: impl Fn(&str) -> Option<OsString>, root: &Path) -> Option<&'static str> {
    let variable = CONTAINERS.iter().copied().find(|name| get(name).is_some_and(|value| !value.is_empty()));
    let marker = || MARKERS.iter().copied().find(|name| root.join(name).exists());
    let group = || {
        let text = files::read_text(&root.join("proc/1/cgroup"), 64 * 1024).ok()??;
        GROUPS.iter().copied().find(|name| text.contains(name))
    };
    variable.or_else(marker).or_else(group)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn with<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).into())
    }

    #[test]
    fn build_servers() {
        assert_eq!(ci(with(&[])), None);
        assert_eq!(ci(with(&[("CI", "true")])), Some("CI"));
        assert_eq!(ci(with(&[("CI", "false"), ("GITLAB_CI", "1")])), Some("GITLAB_CI"));
        assert_eq!(ci(with(&[("CI", ""), ("JENKINS_URL", "0")])), None);
        assert_eq!(ci(with(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")])), None);
    }

    #[test]
    fn containers() {
        let root = tempfile::tempdir().unwrap();
        let none = with(&[]);
        assert_eq!(container(&none, root.path()), None);
        assert_eq!(
            container(with(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]), root.path()),
            Some("KUBERNETES_SERVICE_HOST")
        );
        fs::create_dir_all(root.path().join("proc/1")).unwrap();
        fs::write(root.path().join("proc/1/cgroup"), "0::/init.scope\n").unwrap();
        assert_eq!(container(&none, root.path()), None);
        fs::write(root.path().join("proc/1/cgroup"), "0::/system.slice/docker-abc.scope\n").unwrap();
        assert_eq!(container(&none, root.path()), Some("docker"));
        fs::write(root.path().join(".dockerenv"), "").unwrap();
        assert_eq!(container(&none, root.path()), Some(".dockerenv"));
    }
}
