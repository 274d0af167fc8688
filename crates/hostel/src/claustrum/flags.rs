//! The claustrum personality's command line, read the way Go's `flag` package reads one.
//!
//! Invariant: the same words give the same outcome, message and exit code as that package; parsing has no effect.
//!
//! It knows nothing of what a mode does, only which one was asked for and with what.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use hostel_house::workspace::paths::quoted;

/// What the command line asked for, defaults filled in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Flags {
    pub(crate) serve: bool,
    pub(crate) bridge: bool,
    pub(crate) stop: bool,
    pub(crate) version: bool,
    pub(crate) install: bool,
    pub(crate) keep_children: bool,
    pub(crate) socket: OsString,
    pub(crate) token_file: OsString,
    pub(crate) token_fd: i64,
    pub(crate) metrics_addr: OsString,
    pub(crate) cli_dir: OsString,
    pub(crate) cli_version: OsString,
    pub(crate) cli_url: OsString,
    pub(crate) cli_checksum: OsString,
    pub(crate) cli_zst: OsString,
    pub(crate) cli_keep: i64,
}

impl Default for Flags {
    fn default() -> Self {
        Flags {
            serve: false,
            bridge: false,
            stop: false,
            version: false,
            install: false,
            keep_children: false,
            socket: OsString::new(),
            token_file: OsString::new(),
            token_fd: -1,
            metrics_addr: OsString::new(),
            cli_dir: OsString::new(),
            cli_version: OsString::new(),
            cli_url: OsString::new(),
            cli_checksum: OsString::new(),
            cli_zst: OsString::new(),
            cli_keep: 3,
        }
    }
}

/// The mode that wins when several are given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    Version,
    Install,
    Stop,
    Bridge,
    Serve,
}

impl Flags {
    /// The mode, by the contract's precedence; none if no mode flag is set.
    pub(crate) fn mode(&self) -> Option<Mode> {
        [
            (self.version, Mode::Version),
            (self.install, Mode::Install),
            (self.stop, Mode::Stop),
            (self.bridge, Mode::Bridge),
            (self.serve, Mode::Serve),
        ]
        .into_iter()
        .find_map(|(asked, mode)| asked.then_some(mode))
    }
}

/// Why there are no flags to act on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Refusal {
    /// `-h` or `-help`: usage, and no error.
    Help,
    /// A mistake: this line, then usage.
    Bad(String),
}

enum Target<'a> {
    Boolean(&'a mut bool),
    Number(&'a mut i64),
    Text(&'a mut OsString),
}

impl Flags {
    fn target(&mut self, name: &[u8]) -> Option<Target<'_>> {
        Some(match name {
            b"serve" => Target::Boolean(&mut self.serve),
            b"bridge" => Target::Boolean(&mut self.bridge),
            b"stop" => Target::Boolean(&mut self.stop),
            b"version" => Target::Boolean(&mut self.version),
            b"install" => Target::Boolean(&mut self.install),
            b"keep-children" => Target::Boolean(&mut self.keep_children),
            b"socket" => Target::Text(&mut self.socket),
            b"token-file" => Target::Text(&mut self.token_file),
            b"token-fd" => Target::Number(&mut self.token_fd),
            b"metrics-addr" => Target::Text(&mut self.metrics_addr),
            b"cli-dir" => Target::Text(&mut self.cli_dir),
            b"cli-version" => Target::Text(&mut self.cli_version),
            b"cli-url" => Target::Text(&mut self.cli_url),
            b"cli-checksum" => Target::Text(&mut self.cli_checksum),
            b"cli-zst" => Target::Text(&mut self.cli_zst),
            b"cli-keep" => Target::Number(&mut self.cli_keep),
            _ => return None,
        })
    }
}

/// Reads the words after the program's name, up to the first that is no flag.
pub(crate) fn parse(words: &[OsString]) -> Result<Flags, Refusal> {
    let mut flags = Flags::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes.len() < 2 || bytes.first() != Some(&b'-') {
            break;
        }
        let name = match bytes.strip_prefix(b"--") {
            // A bare `--` ends the flags.
            Some(b"") => break,
            Some(name) => name,
            None => bytes.get(1..).unwrap_or_default(),
        };
        if matches!(name.first(), None | Some(b'-' | b'=')) {
            return Err(Refusal::Bad(format!("bad flag syntax: {}", word.to_string_lossy())));
        }
        let (name, value) = match name.iter().position(|byte| *byte == b'=') {
            Some(equals) => (name.get(..equals).unwrap_or_default(), name.get(equals + 1..).map(OsStr::from_bytes)),
            None => (name, None),
        };
        let shown = String::from_utf8_lossy(name).into_owned();
        let Some(target) = flags.target(name) else {
            if name == b"h" || name == b"help" {
                return Err(Refusal::Help);
            }
            return Err(Refusal::Bad(format!("flag provided but not defined: -{shown}")));
        };
        match target {
            Target::Boolean(flag) => {
                *flag = match value {
                    None => true,
                    Some(text) => boolean(text.as_bytes()).ok_or_else(|| {
                        Refusal::Bad(format!("invalid boolean value {} for -{shown}: parse error", quoted(text)))
                    })?,
                };
            }
            Target::Number(number) => {
                let text = argument(value, &mut words, &shown)?;
                *number = integer(text.as_bytes()).map_err(|reason| {
                    Refusal::Bad(format!("invalid value {} for flag -{shown}: {reason}", quoted(text)))
                })?;
            }
            Target::Text(slot) => *slot = argument(value, &mut words, &shown)?.to_owned(),
        }
    }
    Ok(flags)
}

/// The value after `=`, else the next word, whatever it looks like.
fn argument<'a>(
    value: Option<&'a OsStr>,
    words: &mut std::slice::Iter<'a, OsString>,
    name: &str,
) -> Result<&'a OsStr, Refusal> {
    match value {
        Some(value) => Ok(value),
        None => words
            .next()
            .map(OsString::as_os_str)
            .ok_or_else(|| Refusal::Bad(format!("flag needs an argument: -{name}"))),
    }
}

fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        b"1" | b"t" | b"T" | b"true" | b"TRUE" | b"True" => Some(true),
        b"0" | b"f" | b"F" | b"false" | b"FALSE" | b"False" => Some(false),
        _ => None,
    }
}

/// Go's base-0 integer: sign, `0x`, `0o`, `0b` or a leading zero, underscores between digits.
fn integer(text: &[u8]) -> Result<i64, &'static str> {
    const WRONG: &str = "parse error";
    let text = std::str::from_utf8(text).map_err(|_| WRONG)?;
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, body, prefixed) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, lower.get(2..), true),
        [b'0', b'o', ..] => (8, lower.get(2..), true),
        [b'0', b'b', ..] => (2, lower.get(2..), true),
        [b'0', _, ..] => (8, lower.get(1..), true),
        _ => (10, Some(lower.as_str()), false),
    };
    let body = body.unwrap_or_default();
    let body = underscores(body, prefixed).ok_or(WRONG)?;
    if body.is_empty() || !body.chars().all(|digit| digit.is_digit(radix)) {
        return Err(WRONG);
    }
    let magnitude = i128::from_str_radix(&body, radix).map_err(|_| "value out of range")?;
    i64::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| "value out of range")
}

/// Underscores may stand between digits and after a base prefix, nowhere else.
fn underscores(body: &str, prefixed: bool) -> Option<String> {
    if !body.contains('_') {
        return Some(body.to_owned());
    }
    let body = if prefixed { body.strip_prefix('_').unwrap_or(body) } else { body };
    if body.starts_with('_') || body.ends_with('_') || body.contains("__") {
        return None;
    }
    Some(body.replace('_', ""))
}

/// Name, kind of value (empty for a switch), what it does, default worth printing.
const USAGE: [(&str, &str, &str, &str); 16] = [
    ("bridge", "", "relay stdin and stdout to the daemon's socket", ""),
    ("cli-checksum", "string", "SHA-256 the compressed CLI must have", ""),
    ("cli-dir", "string", "where the CLI versions are kept, one file each", ""),
    ("cli-keep", "int", "number of newest CLI versions to keep", "3"),
    ("cli-url", "string", "where to download the compressed CLI", ""),
    ("cli-version", "string", "the CLI version that must be present", ""),
    ("cli-zst", "string", "compressed CLI that is already on this host", ""),
    ("install", "", "make sure the CLI is present, then print the facts as JSON", ""),
    ("keep-children", "", "leave processes running when the daemon shuts down", ""),
    ("metrics-addr", "string", "serve counters at http://ADDR/metrics", ""),
    ("serve", "", "run the daemon in the background", ""),
    ("socket", "string", "unix socket of the daemon", ""),
    ("stop", "", "ask the running daemon to shut down", ""),
    ("token-fd", "int", "read the auth token from this open descriptor", "-1"),
    ("token-file", "string", "read the auth token from this file, then remove the file", ""),
    ("version", "", "print the version", ""),
];

/// The usage text, laid out as Go prints it; `program` is the name the program was called by.
pub(crate) fn usage(program: &OsStr) -> Vec<u8> {
    let mut text = b"Usage of ".to_vec();
    text.extend_from_slice(program.as_bytes());
    text.extend_from_slice(b":\n");
    for (name, kind, what, default) in USAGE {
        text.extend_from_slice(format!("  -{name}").as_bytes());
        if !kind.is_empty() {
            text.extend_from_slice(format!(" {kind}").as_bytes());
        }
        text.extend_from_slice(format!("\n    \t{what}").as_bytes());
        if !default.is_empty() {
            text.extend_from_slice(format!(" (default {default})").as_bytes());
        }
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<OsString> {
        text.iter().map(OsString::from).collect()
    }

    fn bad(text: &[&str]) -> String {
        match parse(&words(text)) {
            Err(Refusal::Bad(message)) => message,
            other => panic!("{text:?} gave {other:?}"),
        }
    }

    #[test]
    fn every_spelling_of_a_flag() {
        for spelling in [&["-socket", "/s"][..], &["--socket", "/s"], &["-socket=/s"], &["--socket=/s"]] {
            assert_eq!(parse(&words(spelling)).unwrap().socket, "/s", "{spelling:?}");
        }
        let flags = parse(&words(&["-serve", "-keep-children=true", "-stop=F", "-socket", "-bridge"])).unwrap();
        assert!(flags.serve && flags.keep_children && !flags.stop && !flags.bridge);
        assert_eq!(flags.socket, "-bridge");
        assert_eq!(parse(&words(&["-socket=", "-socket=a=b"])).unwrap().socket, "a=b");
        assert_eq!(parse(&[]).unwrap(), Flags::default());
    }

    #[test]
    fn parsing_stops_at_the_first_word() {
        let flags = parse(&words(&["-serve", "word", "-nonsense"])).unwrap();
        assert!(flags.serve);
        // A switch takes no separate value: `true` is a word and ends the flags.
        let flags = parse(&words(&["-serve", "true", "-stop"])).unwrap();
        assert!(flags.serve && !flags.stop);
        assert!(!parse(&words(&["--", "-serve"])).unwrap().serve);
        assert!(!parse(&words(&["-", "-serve"])).unwrap().serve);
        assert!(!parse(&words(&["", "-serve"])).unwrap().serve);
    }

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("+3", 3),
            ("0x10", 16),
            ("0X_10", 16),
            ("010", 8),
            ("0o17", 15),
            ("0b101", 5),
            ("-0x8000000000000000", i64::MIN),
        ] {
            let flag = format!("-token-fd={text}");
            assert_eq!(parse(&words(&[&flag])).unwrap().token_fd, value, "{text}");
        }
        for text in ["", "x", "1.0", "1e3", "0x", "08", "1_000_", "__1", " 1"] {
            let flag = format!("-cli-keep={text}");
            assert_eq!(bad(&[&flag]), format!("invalid value \"{text}\" for flag -cli-keep: parse error"));
        }
        assert_eq!(
            bad(&["-cli-keep", "9223372036854775808"]),
            "invalid value \"9223372036854775808\" for flag -cli-keep: value out of range"
        );
    }

    #[test]
    fn mistakes_have_the_packages_words() {
        assert_eq!(bad(&["-foo"]), "flag provided but not defined: -foo");
        assert_eq!(bad(&["--foo=1"]), "flag provided but not defined: -foo");
        assert_eq!(bad(&["-socket"]), "flag needs an argument: -socket");
        assert_eq!(bad(&["---x"]), "bad flag syntax: ---x");
        assert_eq!(bad(&["-=x"]), "bad flag syntax: -=x");
        assert_eq!(bad(&["--=x"]), "bad flag syntax: --=x");
        assert_eq!(bad(&["-serve=yes"]), "invalid boolean value \"yes\" for -serve: parse error");
        assert_eq!(bad(&["-serve=a\"b\n"]), "invalid boolean value \"a\\\"b\\n\" for -serve: parse error");
        for help in ["-h", "--help", "-help", "-h=1"] {
            assert_eq!(parse(&words(&[help])), Err(Refusal::Help));
        }
    }

    #[test]
    fn one_mode_wins() {
        let mode = |text: &[&str]| parse(&words(text)).unwrap().mode();
        assert_eq!(mode(&["-serve", "-bridge", "-stop", "-install", "-version"]), Some(Mode::Version));
        assert_eq!(mode(&["-serve", "-bridge", "-stop", "-install"]), Some(Mode::Install));
        assert_eq!(mode(&["-serve", "-bridge", "-stop"]), Some(Mode::Stop));
        assert_eq!(mode(&["-serve", "-bridge"]), Some(Mode::Bridge));
        assert_eq!(mode(&["-serve"]), Some(Mode::Serve));
        assert_eq!(mode(&["-socket", "/s"]), None);
    }

    #[test]
    fn usage_lists_every_flag_in_order() {
        let text = String::from_utf8(usage(OsStr::new("claustrum"))).unwrap();
        assert!(text.starts_with("Usage of claustrum:\n  -bridge\n    \trelay"), "{text}");
        assert!(text.contains("  -cli-keep int\n    \tnumber of newest CLI versions to keep (default 3)\n"));
        assert!(text.contains("(default -1)\n"));
        let names: Vec<&str> = USAGE.iter().map(|row| row.0).collect();
        assert!(names.is_sorted());
        for name in names {
            assert!(Flags::default().target(name.as_bytes()).is_some());
        }
    }
}
