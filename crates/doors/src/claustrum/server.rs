//! `server.*`: what the daemon says of itself.
//!
//! The answers never change while the daemon runs, so they are written once when the door opens.

use super::gojson::Object;

/// The optional parts of the contract that this door has.
const FEATURES: [&str; 1] = ["process.stdin.offset"];

/// The result of `server.ping`.
pub(crate) const PONG: &[u8] = b"{\"pong\":true}";

/// The result of `server.version`.
pub(crate) fn version(version: &str) -> Vec<u8> {
    let mut out = Vec::new();
    Object::open(&mut out)
        .string("version", version)
        .string("platform", platform(std::env::consts::OS))
        .string("arch", architecture(std::env::consts::ARCH))
        .close();
    out
}

/// The result of `server.capabilities`.
pub(crate) fn capabilities<const COUNT: usize>(version: &str, methods: [&str; COUNT]) -> Vec<u8> {
    let mut out = Vec::new();
    Object::open(&mut out).string("version", version).strings("methods", methods).strings("features", FEATURES).close();
    out
}

/// An operating system as Go calls it.
pub fn platform(os: &str) -> &str {
    match os {
        "macos" => "darwin",
        other => other,
    }
}

/// A processor as Go calls it.
pub fn architecture(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64",
        "loongarch64" => "loong64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::METHODS;
    use super::*;

    #[test]
    fn the_answers() {
        let version = String::from_utf8(version("v<1>")).unwrap();
        assert!(version.starts_with(r#"{"version":"v\u003c1\u003e","platform":""#), "{version}");
        let capabilities = capabilities("v", METHODS.map(|(_, name)| name));
        assert_eq!(
            String::from_utf8(capabilities).unwrap(),
            concat!(
                r#"{"version":"v","methods":["server.ping","server.version","server.capabilities","#,
                r#""server.shutdown","files.list","files.validate","files.stat","files.read","#,
                r#""files.extract_tar","git.info","git.status","git.list_branches","#,
                r#""git.worktree_create","git.worktree_remove","process.spawn","process.stdin","#,
                r#""process.kill","process.killAndWait","process.reattach"],"#,
                r#""features":["process.stdin.offset"]}"#
            )
        );
    }

    #[test]
    fn names_as_go_has_them() {
        assert_eq!([platform("linux"), platform("macos")], ["linux", "darwin"]);
        assert_eq!(["x86_64", "aarch64", "x86", "riscv64"].map(architecture), ["amd64", "arm64", "386", "riscv64"]);
    }
}
