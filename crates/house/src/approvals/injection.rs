//! Variables that a rule which allows a program does not cover, because they could make the program run other code.
//!
//! Guarantee: a rule that allows a command by its words matches only if every variable of the command is known to be
//! harmless, or is named by the rule itself (`env`). Otherwise the request is asked about. A variable that this module does
//! not know is not harmless: programs are made to run other code by far more variables than anybody could list.
//!
//! The doors admit few variables, and the house adds those that every command has: this module knows all of them. Most are
//! harmless whatever their value is; `PATH`, `HOME` and `DEBIAN_FRONTEND` only with some values. Judging a value takes no
//! look at a disk.

use super::glob::Glob;
use crate::pipelines::{EXECUTION_PATH, Pipeline, is_home_of_root, is_known_home};

/// Variables that are harmless whatever their value is, because no program runs code that they name. A last `*` stands for
/// anything.
const HARMLESS: [&str; 10] =
    ["DISPLAY", "LANG", "LC_*", "LOGNAME", "SSH_AUTH_SOCK", "TERM", "TZ", "USER", "WAYLAND_DISPLAY", "XAUTHORITY"];

/// Values of `DEBIAN_FRONTEND`.
const HARMLESS_FRONTENDS: [&str; 5] = ["dialog", "noninteractive", "readline", "teletype", "text"];

/// The first variable of a command that is not harmless and that the rule does not name.
pub(super) fn first_unnamed<'a>(pipeline: &'a Pipeline, named: Option<&[Glob]>) -> Option<&'a str> {
    let is_named = |name: &str| named.is_some_and(|globs| globs.iter().any(|glob| glob.covers(name)));
    let is_root = pipeline.privilege.is_privileged();
    let doubtful = pipeline.env.iter().filter(|(name, value)| !is_harmless(name, value, is_root));
    doubtful.map(|(name, _)| name.as_str()).find(|name| !is_named(name))
}

fn is_harmless(name: &str, value: &str, is_root: bool) -> bool {
    match name {
        "PATH" => is_part_of_execution_path(value),
        // Programs read their configuration there, which can name code. Root's is nobody else's to write.
        "HOME" if is_root => is_home_of_root(value),
        "HOME" => is_known_home(value),
        // debconf evaluates the value as Perl code. Other frontends than these let others than the user answer.
        "DEBIAN_FRONTEND" => HARMLESS_FRONTENDS.contains(&value),
        _ => HARMLESS.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *known == name,
        }),
    }
}

/// Whether a program that searches `path` finds only what the house itself would find: all its directories are those in
/// which the house looks for programs.
fn is_part_of_execution_path(path: &str) -> bool {
    path.split(':').all(|directory| EXECUTION_PATH.split(':').any(|known| known == directory))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::pipelines::{PlanRequest, Privilege, plan};

    fn with(env: &[(&str, &str)], privilege: Privilege) -> Pipeline {
        Pipeline {
            stages: Vec::new(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            cwd: PathBuf::from("/"),
            privilege,
            forward_agent: false,
        }
    }

    fn is_harmless_as(privilege: Privilege, name: &str, value: &str) -> bool {
        let pipeline = with(&[("TZ", "UTC"), (name, value)], privilege);
        let found = first_unnamed(&pipeline, None);
        assert!(found.is_none_or(|found| found == name), "{found:?}");
        found.is_none()
    }

    #[test]
    fn only_what_is_known_is_harmless() {
        for privilege in [Privilege::None, Privilege::Sudo] {
            for name in [
                "LD_PRELOAD",
                "LD_LIBRARY_PATH",
                "LD_AUDIT",
                "GLIBC_TUNABLES",
                "BASH_ENV",
                "ENV",
                "BASH_FUNC_ls%%",
                "PYTHONPATH",
                "PERL5OPT",
                "RUBYOPT",
                "NODE_OPTIONS",
                "JAVA_TOOL_OPTIONS",
                "GIT_SSH_COMMAND",
                "GIT_CONFIG_COUNT",
                "MAKEFLAGS",
                "PAGER",
                "A_VARIABLE_OF_TOMORROW",
                "LANGUAGES",
                "tz",
                "LC",
                "",
            ] {
                assert!(!is_harmless_as(privilege, name, "x"), "{name}");
            }
            for name in ["LANG", "LC_ALL", "TZ", "TERM", "USER", "LOGNAME", "SSH_AUTH_SOCK", "DISPLAY"] {
                assert!(is_harmless_as(privilege, name, "/tmp/x"), "{name}");
            }
        }
    }

    #[test]
    fn a_search_path_is_harmless_if_the_house_searches_the_same_directories() {
        let is_harmless = |value: &str| is_harmless_as(Privilege::None, "PATH", value);
        for value in [EXECUTION_PATH, "/usr/bin:/bin", "/bin", "/bin:/usr/sbin:/bin"] {
            assert!(is_harmless(value), "{value}");
        }
        // An empty entry is the working directory.
        for value in
            ["", ":/bin", "/bin:", "/usr/bin::/bin", ".", "bin", "/tmp", "/tmp/x:/usr/bin", "/bin:/home/me/bin"]
        {
            assert!(!is_harmless(value), "{value}");
        }
        for value in ["/bin/", "/bin/../tmp", "/usr/bin/.", "/proc/self/cwd", "/BIN"] {
            assert!(!is_harmless(value), "{value}");
        }
    }

    #[test]
    fn debconf_gets_the_name_of_a_frontend_and_no_code() {
        let is_harmless = |value: &str| is_harmless_as(Privilege::Sudo, "DEBIAN_FRONTEND", value);
        for value in ["noninteractive", "readline", "dialog"] {
            assert!(is_harmless(value), "{value}");
        }
        for value in ["Noninteractive; BEGIN { system 'id' }", "a b", "a::b", "../x", "x\u{e4}", "x'"] {
            assert!(!is_harmless(value), "{value}");
        }
    }

    #[tokio::test]
    async fn what_the_house_gives_every_command_is_harmless_and_another_home_is_not() {
        let planned = async |privilege, keeps_user| {
            let stages = vec![vec!["true".to_owned()]];
            let request = PlanRequest { stages, privilege, keeps_user, ..PlanRequest::default() };
            plan(request).await
        };
        for privilege in [Privilege::None, Privilege::Sudo, Privilege::Pkexec] {
            assert_eq!(first_unnamed(&planned(privilege, false).await, None), None, "{privilege:?}");
        }
        // With the setting `keep_user_for_root` root reads what the user can write.
        let kept = planned(Privilege::Sudo, true).await;
        let home = kept.env.iter().find(|(name, _)| name == "HOME").map(|(_, value)| value.as_str());
        let expected = if home.is_some_and(is_home_of_root) { None } else { Some("HOME") };
        assert_eq!(first_unnamed(&kept, None), expected);
        for privilege in [Privilege::None, Privilege::Sudo] {
            for home in ["/tmp/x", "", "/", "/home"] {
                assert!(!is_harmless_as(privilege, "HOME", home), "{home}");
            }
        }
    }

    #[test]
    fn a_rule_may_name_what_it_takes() {
        let named = [Glob::new("GIT_AUTHOR_*").unwrap(), Glob::new("PATH").unwrap()];
        let unnamed =
            |env: &[(&str, &str)]| first_unnamed(&with(env, Privilege::None), Some(&named)).map(str::to_owned);
        assert_eq!(unnamed(&[("GIT_AUTHOR_NAME", "a"), ("PATH", "/opt/tools/bin")]), None);
        assert_eq!(unnamed(&[("GIT_AUTHOR_NAME", "a"), ("GIT_SSH", "x")]), Some("GIT_SSH".to_owned()));
    }
}
