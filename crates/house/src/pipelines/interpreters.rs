//! Which programs run a script: the interpreter its first line names, the interpreter of that one, and what `env` finds.
//!
//! Guarantee: a file that the kernel would hand to an interpreter never passes for a program of its own. An interpreter
//! that cannot be told from the first line is listed under the text of that line, as one that was not found.
//!
//! The rules are those of the kernel's `binfmt_script` and of coreutils' `env`. This module reads no file; who calls it
//! does.

use super::digests::HEAD_BYTES;

/// Scripts that may be interpreted by scripts before the kernel gives up.
pub(super) const MAX_DEPTH: usize = 4;

/// The first line of a script.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct FirstLine {
    /// The interpreter's path, as it is written.
    pub(super) interpreter: String,
    /// Everything behind it; the interpreter gets it as one word.
    pub(super) argument: Option<String>,
}

/// The first line of a file that begins with these bytes; none if it is no script. The error is a line that the kernel
/// or this program cannot make sense of.
pub(super) fn first_line(head: &[u8]) -> Option<Result<FirstLine, String>> {
    let rest = head.strip_prefix(b"#!")?;
    let end = rest.iter().position(|byte| *byte == b'\n');
    // The end of a short file ends its line too.
    let is_whole = end.is_some() || head.len() < HEAD_BYTES;
    let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let Some(start) = line.iter().position(|byte| !is_blank(byte)) else {
        return Some(Err("#!".to_owned()));
    };
    let line = line.get(start..).unwrap_or_default();
    let name_end = line.iter().position(is_blank).or(is_whole.then_some(line.len()));
    let shown = || format!("#!{}", String::from_utf8_lossy(line));
    // A name that goes on beyond what the kernel looks at is cut there, so it is not known.
    let Some(name_end) = name_end else { return Some(Err(shown())) };
    let (name, argument) = line.split_at_checked(name_end).unwrap_or_default();
    let argument = argument.trim_ascii();
    let (Ok(name), Ok(argument)) = (str::from_utf8(name), str::from_utf8(argument)) else {
        return Some(Err(shown()));
    };
    let argument = (!argument.is_empty()).then(|| argument.to_owned());
    Some(Ok(FirstLine { interpreter: name.to_owned(), argument }))
}

/// What `env` would run, given its one word from a first line: the name of a program, to be looked for in the path. None
/// if the line runs none; the error is a line whose meaning is not certain.
pub(super) fn program_of_env(argument: Option<&str>) -> Result<Option<String>, String> {
    let Some(word) = argument else { return Ok(None) };
    let unknown = || format!("env {word}");
    let Some(rest) = split_string(word) else {
        // One word: an option, an assignment, or the name of the program, blanks included.
        return match word.starts_with('-') || word.contains('=') {
            true => Err(unknown()),
            false => Ok(Some(word.to_owned())),
        };
    };
    // Quotes, escapes and variables have rules of their own.
    if rest.contains(['"', '\'', '\\', '$', '#']) {
        return Err(unknown());
    }
    let mut words = rest.split_ascii_whitespace();
    while let Some(word) = words.next() {
        match word {
            "-i" | "-" | "-0" | "-v" | "--ignore-environment" | "--debug" => {}
            "-u" => drop(words.next()),
            assignment if !assignment.starts_with('-') && assignment.contains('=') => {
                // Another path finds another program.
                if assignment.starts_with("PATH=") {
                    return Err(unknown());
                }
            }
            option if option.starts_with('-') => return Err(unknown()),
            program => return Ok(Some(program.to_owned())),
        }
    }
    Ok(None)
}

/// The text that `env -S` splits into words, if this word asks for that.
fn split_string(word: &str) -> Option<&str> {
    if let Some(rest) = word.strip_prefix("--split-string") {
        return rest.strip_prefix(['=', ' ']).map(str::trim_start);
    }
    let options = word.strip_prefix('-')?;
    let at = options.find('S')?;
    let (before, rest) = options.split_at_checked(at)?;
    before
        .chars()
        .all(|option| matches!(option, 'i' | 'v' | '0'))
        .then(|| rest.get(1..).unwrap_or_default().trim_start())
}

/// Whether an interpreter is `env`.
pub(super) fn is_env(path: &std::path::Path) -> bool {
    path.file_name().is_some_and(|name| name == "env")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(interpreter: &str, argument: Option<&str>) -> Option<Result<FirstLine, String>> {
        Some(Ok(FirstLine { interpreter: interpreter.to_owned(), argument: argument.map(str::to_owned) }))
    }

    #[test]
    fn a_first_line_is_read_as_the_kernel_reads_it() {
        for (head, expected) in [
            (&b"#!/bin/sh\necho"[..], line("/bin/sh", None)),
            (b"#! \t/bin/sh \t-e -u \t\nx", line("/bin/sh", Some("-e -u"))),
            (b"#!/usr/bin/env python3\n", line("/usr/bin/env", Some("python3"))),
            (b"#!sh\n", line("sh", None)),
            (b"#!/bin/sh", line("/bin/sh", None)),
            (b"\x7fELF", None),
            (b"", None),
            (b"#", None),
            (b" #!/bin/sh\n", None),
            (b"#!\n", Some(Err("#!".to_owned()))),
            (b"#!  \t\n", Some(Err("#!".to_owned()))),
            (b"#!/bin/\xff\n", Some(Err("#!/bin/\u{fffd}".to_owned()))),
        ] {
            assert_eq!(first_line(head), expected, "{:?}", String::from_utf8_lossy(head));
        }
        let mut long = b"#!/".to_vec();
        long.resize(256, b'x');
        assert!(matches!(first_line(&long), Some(Err(_))), "the kernel would cut the name");
        long[100] = b' ';
        assert!(matches!(first_line(&long), Some(Ok(_))), "only the argument is cut");
    }

    #[test]
    fn env_runs_what_its_word_names() {
        let program = |name: &str| Ok(Some(name.to_owned()));
        for (word, expected) in [
            ("python3", program("python3")),
            ("python3 -u", program("python3 -u")),
            ("-S python3 -u", program("python3")),
            ("-Spython3", program("python3")),
            ("-S -i A=b -u C node --x", program("node")),
            ("-iS perl", program("perl")),
            ("--split-string=ruby -w", program("ruby")),
            ("-S A=b", Ok(None)),
        ] {
            assert_eq!(program_of_env(Some(word)), expected, "{word}");
        }
        assert_eq!(program_of_env(None), Ok(None));
        for word in
            ["-S PATH=/tmp x", "-S 'a b'", "-S ${X}", "-S \\_x", "-x", "A=b", "-S --chdir=/ x", "--split-stringx"]
        {
            assert_eq!(program_of_env(Some(word)), Err(format!("env {word}")), "{word}");
        }
    }
}
