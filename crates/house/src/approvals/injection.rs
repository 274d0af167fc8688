//! Variables by which a program runs other code than its own: they make a rule that names a program worth nothing.
//!
//! Guarantee: a rule that allows a command by its words does not match where the command's environment has such a variable,
//! unless the rule names the variable itself. The request is asked about then.
//!
//! The doors admit few variables, most of them harmless. This table holds whatever a door admits.

use super::glob::Glob;
use crate::pipelines::{EXECUTION_PATH, Pipeline, is_known_home};

/// Names; a last `*` stands for anything.
const INJECTING: [&str; 66] = [
    // The dynamic linker and the C library.
    "LD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "LOCPATH",
    "NLSPATH",
    "HOSTALIASES",
    "TERMINFO*",
    // Shells.
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASHOPTS",
    "ENV",
    "FPATH",
    "IFS",
    "PROMPT_COMMAND",
    "PS4",
    "SHELL",
    "SHELLOPTS",
    "ZDOTDIR",
    // Interpreters and their libraries.
    "_JAVA_OPTIONS",
    "CLASSPATH",
    "CORECLR_*",
    "DOTNET_*",
    "ERL_*",
    "GEM_*",
    "GUILE_*",
    "JAVA_*",
    "JDK_*",
    "LUA_*",
    "NODE_*",
    "NPM_*",
    "npm_*",
    "PERL*",
    "PHP*",
    "PYTHON*",
    "RUBY*",
    "TCLLIBPATH",
    // Programs that run what a variable names, or read their configuration where it says.
    "APT_CONFIG",
    "AWKLIBPATH",
    "AWKPATH",
    "AWS_*",
    "BROWSER",
    "BUNDLE_*",
    "CARGO*",
    "CC",
    "CVS_RSH",
    "CXX",
    "DOCKER_*",
    "EDITOR",
    "EXINIT",
    "GIT_*",
    "GNUPGHOME",
    "GO*",
    "KUBECONFIG",
    "LESS*",
    "MAKE*",
    "MANPAGER",
    "OPENSSL_*",
    "PAGER",
    "RSYNC_*",
    "RUST*",
    "SSH_ASKPASS*",
    "SVN_SSH",
    "TAR_OPTIONS",
    "VIMINIT",
    "VISUAL",
    "XDG_*",
];

/// The first variable of a command by which its programs may run other code, and which the rule does not name.
pub(super) fn first_unnamed<'a>(pipeline: &'a Pipeline, named: Option<&[Glob]>) -> Option<&'a str> {
    let is_named = |name: &str| named.is_some_and(|globs| globs.iter().any(|glob| glob.covers(name)));
    let injecting = pipeline.env.iter().filter(|(name, value)| injects(name, value));
    injecting.map(|(name, _)| name.as_str()).find(|name| !is_named(name))
}

fn injects(name: &str, value: &str) -> bool {
    match name {
        // Every command has these two: only another value than the house's own names other programs and settings.
        "PATH" => value != EXECUTION_PATH,
        "HOME" => !is_known_home(value),
        _ => INJECTING.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => *known == name,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::pipelines::Privilege;

    fn with(env: &[(&str, &str)]) -> Pipeline {
        Pipeline {
            stages: Vec::new(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            cwd: PathBuf::from("/"),
            privilege: Privilege::None,
            forward_agent: false,
        }
    }

    #[test]
    fn what_loads_other_code_is_known_and_what_does_not_is_not() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "LD_AUDIT",
            "GLIBC_TUNABLES",
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_ls%%",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PERL5LIB",
            "PERL5OPT",
            "RUBYOPT",
            "RUBYLIB",
            "NODE_OPTIONS",
            "JAVA_TOOL_OPTIONS",
            "GIT_SSH_COMMAND",
            "GIT_CONFIG_COUNT",
            "GIT_EXEC_PATH",
            "MAKEFLAGS",
            "PAGER",
            "HOME",
            "PATH",
        ] {
            assert_eq!(first_unnamed(&with(&[("TZ", "UTC"), (name, "/tmp/x")]), None), Some(name));
        }
        for name in ["LANG", "LC_ALL", "TZ", "TERM", "DEBIAN_FRONTEND", "USER", "LOGNAME", "SSH_AUTH_SOCK", "DISPLAY"] {
            assert_eq!(first_unnamed(&with(&[(name, "/tmp/x")]), None), None, "{name}");
        }
        assert_eq!(first_unnamed(&with(&[("PATH", EXECUTION_PATH)]), None), None);
    }

    #[test]
    fn a_rule_may_name_what_it_takes() {
        let named = [Glob::new("GIT_AUTHOR_*").unwrap(), Glob::new("PAGER").unwrap()];
        let unnamed = |env: &[(&str, &str)]| first_unnamed(&with(env), Some(&named)).map(str::to_owned);
        assert_eq!(unnamed(&[("GIT_AUTHOR_NAME", "a"), ("PAGER", "cat")]), None);
        assert_eq!(unnamed(&[("GIT_AUTHOR_NAME", "a"), ("GIT_SSH", "x")]), Some("GIT_SSH".to_owned()));
    }
}
