//! Flags as Go reads them, the mode that must be there, and `-version`.

use std::os::unix::fs::symlink;
use std::process::Command;

use hostel_tests::binary;
use hostel_tests::house::{self, House, Options, path_text};

use super::{Ran, claustrum};

fn house() -> House {
    House::prepare(Options::default())
}

#[test]
fn without_a_mode_one_line_and_exit_code_2() {
    let house = house();
    for arguments in [&[][..], &["-socket", "/nowhere"], &["serve"], &["--"], &["-keep-children"], &["-serve=false"]] {
        let ran = claustrum(&house, arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}");
        assert_eq!(
            ran.stderr, "claustrum: one of --version/--install/--serve/--bridge/--stop is required\n",
            "{arguments:?}"
        );
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
}

#[test]
fn an_unknown_flag_gets_the_error_the_usage_and_exit_code_2() {
    let house = house();
    for (arguments, complaint) in [
        (&["-nope"][..], "flag provided but not defined: -nope\n"),
        (&["--nope=3"], "flag provided but not defined: -nope\n"),
        (&["-serve", "-nope"], "flag provided but not defined: -nope\n"),
        (&["-version", "-nope"], "flag provided but not defined: -nope\n"),
        (&["-socket"], "flag needs an argument: -socket\n"),
        (&["-serve=maybe"], "invalid boolean value \"maybe\" for -serve: parse error\n"),
        (&["-token-fd", "x"], "invalid value \"x\" for flag -token-fd: parse error\n"),
        (&["-cli-keep=1.5"], "invalid value \"1.5\" for flag -cli-keep: parse error\n"),
        (&["---serve"], "bad flag syntax: ---serve\n"),
        (&["-=x"], "bad flag syntax: -=x\n"),
    ] {
        let ran = claustrum(&house, arguments);
        assert_eq!(ran.code, Some(2), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(&format!("{complaint}Usage of ")), "{arguments:?}: {}", ran.stderr);
        for flag in [
            "-serve",
            "-bridge",
            "-stop",
            "-version",
            "-install",
            "-socket",
            "-token-file",
            "-token-fd",
            "-metrics-addr",
            "-keep-children",
            "-cli-dir",
            "-cli-version",
            "-cli-url",
            "-cli-checksum",
            "-cli-zst",
            "-cli-keep",
        ] {
            let shown = ran.stderr.lines().any(|line| line.trim_start().split([' ', '\t']).next() == Some(flag));
            assert!(shown, "the usage does not show {flag}:\n{}", ran.stderr);
        }
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
}

#[test]
fn help_prints_the_usage_and_is_no_error() {
    let house = house();
    for flag in ["-h", "--help", "-help"] {
        let ran = claustrum(&house, &[flag]);
        assert_eq!(ran.code, Some(0), "{flag}");
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains("Usage of ") && text.contains("-serve"), "{flag}: {text}");
    }
}

/// The id between `claustrum ` and ` (built …)`.
fn version_of(ran: &Ran) -> String {
    let line = ran.stdout.strip_suffix('\n').expect("one line");
    assert!(!line.contains('\n'), "{line}");
    let (id, time) =
        line.strip_prefix("claustrum ").expect("the program's name").split_once(" (built ").expect("a build time");
    assert!(time.ends_with(')') && time.len() > 1, "{line}");
    assert!(!id.is_empty() && !id.contains(' '), "{line}");
    id.to_owned()
}

#[test]
fn version_is_one_line_and_wins_over_every_other_mode() {
    let house = house();
    let ran = claustrum(&house, &["-version"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let version = version_of(&ran);
    for arguments in [
        &["--version"][..],
        &["-version=true"],
        &["-version=1"],
        &["-serve", "-bridge", "-stop", "-install", "-version"],
        &["-version", "no", "flags", "here"],
    ] {
        let ran = claustrum(&house, arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {}", ran.stderr);
        assert_eq!(version_of(&ran), version, "{arguments:?}");
    }
}

#[test]
fn the_daemon_and_the_installer_tell_the_same_version() {
    let house = House::start();
    let version = version_of(&claustrum(&house, &["-version"]));
    let result = house.connect().ask("server.version", "{}");
    assert!(result.starts_with(&format!(r#"{{"version":"{version}","#)), "{result}");
    let ran = claustrum(&house, &["-install"]);
    assert!(ran.stdout.starts_with(&format!(r#"__INSTALL_RESULT__{{"serverVersion":"{version}","#)), "{}", ran.stdout);
}

#[test]
fn modes_have_an_order() {
    let house = house();
    let socket = house.socket();
    // install before stop, stop before bridge, bridge before serve.
    let ran = claustrum(&house, &["-stop", "-bridge", "-serve", "-install", "-socket", path_text(&socket)]);
    assert!(ran.stdout.starts_with("__INSTALL_RESULT__"), "{}{}", ran.stdout, ran.stderr);
    let ran = claustrum(&house, &["-serve", "-bridge", "-stop", "-socket", path_text(&socket)]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (Some(0), "", ""));
    let ran = claustrum(&house, &["-serve", "-bridge", "-socket", path_text(&socket)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.starts_with("claustrum: dial server: "), "{}", ran.stderr);
}

#[test]
fn a_home_that_cannot_be_found_is_fatal_in_every_mode() {
    let house = house();
    for arguments in [&["-version"][..], &["-stop"], &["-bridge"], &["-serve"], &["-install"]] {
        let mut command = house.command(arguments);
        command.env_remove("HOME");
        let ran = Ran::from(house::run(command));
        assert_eq!(ran.code, Some(1), "{arguments:?}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("claustrum: cannot resolve home directory: "), "{arguments:?}: {}", ran.stderr);
    }
}

#[test]
fn a_link_named_claustrum_is_the_same_program() {
    let house = house();
    let link = house.path().join("claustrum");
    symlink(binary::hostel(), &link).expect("a symbolic link");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&link);
        command.args(arguments);
        house.set_environment(&mut command);
        Ran::from(house::run(command))
    };
    let ran = run(&["-version"]);
    assert_eq!(version_of(&ran), version_of(&claustrum(&house, &["-version"])));
    let ran = run(&[]);
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr, "claustrum: one of --version/--install/--serve/--bridge/--stop is required\n");
    let ran = run(&["-bridge", "-socket", "/nowhere/s"]);
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (Some(1), "claustrum: dial server: dial unix /nowhere/s: connect: no such file or directory\n")
    );
}
