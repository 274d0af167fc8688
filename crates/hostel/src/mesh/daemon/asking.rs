//! Questions of verbs that cannot be undone.
//!
//! Invariant: without a terminal nothing is asked and nothing is done unless it was confirmed on the command line.

use std::io::IsTerminal as _;
use std::io::Write as _;

use crate::mesh::Desk;
use crate::mesh::failure::Code;
use crate::mesh::failure::Failure;

/// The longest answer that is read.
const LONGEST: u64 = 1024;

/// Whether somebody can be asked.
pub(super) fn can_ask(desk: &Desk<'_>) -> bool {
    !desk.ui.json() && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks for a word; what was typed, without what is around it.
pub(super) fn ask(question: &str) -> Result<String, Failure> {
    use std::io::BufRead as _;
    use std::io::Read as _;
    let mut terminal = std::io::stderr().lock();
    terminal.write_all(question.as_bytes()).and_then(|()| terminal.flush())?;
    let mut line = String::new();
    std::io::stdin().lock().take(LONGEST).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// Goes on only if it was confirmed, or is now by typing the mesh's name.
pub(super) fn confirm(desk: &Desk<'_>, confirmed: bool, mesh: &str, what: &str) -> Result<(), Failure> {
    if confirmed {
        return Ok(());
    }
    if !can_ask(desk) {
        return Err(Failure::new(Code::Arguments, "confirm", what.to_owned())
            .hint("add `--confirm` if that is what you want")
            .with_exit(3));
    }
    desk.ui.note(what);
    match ask(&format!("Type `{mesh}` to go on: "))?.as_str() == mesh {
        true => Ok(()),
        false => Err(Failure::daemon(1, "cancelled", "nothing was changed")),
    }
}
