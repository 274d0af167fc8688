//! Completion scripts and manual pages, made from the command line's definition.
//!
//! Invariant: the output depends on the definitions alone (no date, no machine, no version number), so the
//! copies under `docs/` can be compared byte for byte.

use std::io;

use clap::CommandFactory as _;
use clap_complete::Shell as Generator;

use super::Cli;
use super::Shell;

/// The completion script of one shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let generator = match shell {
        Shell::Bash => Generator::Bash,
        Shell::Zsh => Generator::Zsh,
        Shell::Fish => Generator::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut Cli::command(), "hostel", &mut script);
    script
}

/// Every manual page: file name and text, the program's own first.
pub(crate) fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Cli::command();
    command.build();
    let mut pages = Vec::new();
    add(&command, "hostel", &mut pages)?;
    Ok(pages)
}

fn add(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let page = clap_mangen::Man::new(command.clone().version(None::<&str>).display_name(name.to_owned()))
        .title(name.to_uppercase())
        .section("1")
        .date("")
        .source("hostel")
        .manual("hostel");
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((format!("{name}.1"), text));
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        add(verb, &format!("{name}-{}", verb.get_name()), pages)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_verb_has_examples_and_a_page() {
        let mut command = Cli::command();
        command.build();
        let mut names = Vec::new();
        collect(&command, "hostel", &mut names);
        let pages: Vec<String> = pages().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(pages, names);
    }

    fn collect(command: &clap::Command, name: &str, names: &mut Vec<String>) {
        names.push(format!("{name}.1"));
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(help.contains("Examples:\n"), "{name} has no examples");
        for verb in command.get_subcommands() {
            collect(verb, &format!("{name}-{}", verb.get_name()), names);
        }
    }
}
