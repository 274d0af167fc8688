//! What the command lines of all CLIs have in common.
//!
//! Invariant: a prompt is an argument only where no CLI could take it for anything else.

use crate::launch::{Hosting, Launch, Setup};

/// The longest prompt that is passed as an argument; the kernel's limit for one argument is 128 KiB.
const ARGUMENT_LIMIT: usize = 100_000;

/// A launch without the CLI's own arguments yet.
pub(crate) fn base(setup: &Setup, program: &str) -> Launch {
    let mut words = setup.command.iter();
    Launch {
        program: words.next().map_or_else(|| program.to_owned(), Clone::clone),
        args: words.cloned().collect(),
        env: vec![("TERM".to_owned(), "dumb".to_owned())],
        prompt_in_args: false,
    }
}

/// The prompt of a `PerMessage` process, if it can be an argument. Otherwise it goes by standard input.
pub(crate) fn prompt_argument(setup: &Setup) -> Option<&str> {
    let prompt = setup.prompt.as_deref().filter(|_| setup.hosting == Hosting::PerMessage)?;
    let fits = !prompt.is_empty() && prompt.len() <= ARGUMENT_LIMIT;
    (fits && !prompt.starts_with('-') && !prompt.contains('\0')).then_some(prompt)
}

/// Adds words to the arguments.
pub(crate) fn add<const N: usize>(launch: &mut Launch, words: [&str; N]) {
    launch.args.extend(words.map(str::to_owned));
}
