//! What `hostel approvals approve` shows before anything is approved, and how somebody says that it was read.
//!
//! Guarantee: nothing is approved that was not shown in full right before. On a terminal the passphrase, or a yes, comes
//! after the end of the last page, and a page that is longer than the screen is shown in parts. Where nobody is at a
//! terminal, the caller has to say what is approved: by the digest of the request, or that it may be anything (`--yes`).
//!
//! The digest of the page is the one that is sent with the decision, so that the house refuses if the request is another.

use std::io::IsTerminal as _;
use std::io::Write as _;

use super::PAGE;
use super::full_page;
use crate::cli::PassphraseFrom;
use crate::cli::Reviewed;
use crate::conversation::short;
use crate::error::CommandError;
use crate::inbox::passphrase;
use crate::inbox::passphrase::Passphrase;
use crate::inbox::passphrase::Terminal;
use crate::inbox::request::Request;
use crate::ui;
use crate::ui::Ui;

/// Characters of a digest that tell one request from all others.
const MIN_DIGEST: usize = 12;

/// Characters of a whole digest.
const WHOLE_DIGEST: usize = 64;

/// Whether the words of the command line say enough to approve something.
pub(super) fn check(reviewed: &Reviewed, ids: &[String], from: PassphraseFrom) -> Result<(), CommandError> {
    if let Some(digest) = &reviewed.digest {
        let is_digest = (MIN_DIGEST..=WHOLE_DIGEST).contains(&digest.len())
            && digest.bytes().all(|digit| digit.is_ascii_hexdigit());
        if !is_digest {
            return Err(CommandError::usage(format!(
                "`--digest` takes {MIN_DIGEST} to {WHOLE_DIGEST} hexadecimal digits"
            ))
            .hint("`hostel approvals show ID` prints the digest of a request"));
        }
        if ids.len() > 1 {
            return Err(CommandError::usage("`--digest` is about one request, and there are several ids")
                .hint("approve them one by one, or all of them with `--yes`"));
        }
    }
    let is_told = reviewed.yes || reviewed.digest.is_some();
    if from.passphrase_fd.is_some() && !is_told && !std::io::stdin().is_terminal() {
        return Err(CommandError::usage("nobody is at a terminal to read what would be approved")
            .hint(
                "read it with `hostel approvals show ID` and add `--digest HEX` with the first 12 or more characters of \
                 its digest",
            )
            .hint("or add `--yes` to approve it whatever it is"));
    }
    Ok(())
}

/// Whether a request is the one that was meant.
pub(super) fn check_digest(reviewed: &Reviewed, row: &Request) -> Result<(), CommandError> {
    let Some(digest) = &reviewed.digest else { return Ok(()) };
    if row.digest.starts_with(&digest.to_ascii_lowercase()) {
        return Ok(());
    }
    let id = short(&row.id);
    Err(CommandError::failure(format!("{id} is not the request with the digest {digest}; nothing was approved"))
        .hint(format!("read it with `hostel approvals show {id}`")))
}

/// Shows requests in full, each with the name of its house, and reads the passphrase that approves them.
pub(super) fn show_and_ask(
    ui: &Ui,
    rows: &[(&str, &Request)],
    reviewed: &Reviewed,
    from: PassphraseFrom,
) -> Result<Passphrase, CommandError> {
    let (_, colour) = ui.colours();
    let pages = |columns: usize| -> Vec<String> {
        let page = |(house, row): &(&str, &Request)| [full_page(row, house, columns, colour), vec![String::new()]];
        rows.iter().flat_map(page).flatten().collect()
    };
    let is_told = reviewed.yes || reviewed.digest.is_some();
    if from.passphrase_fd.is_some() && is_told {
        let columns = ui::columns(std::io::stderr()).unwrap_or(PAGE).max(20);
        let text = pages(columns).join("\n") + "\n";
        // A closed standard error is nobody's problem: nobody would have read it.
        std::io::stderr().lock().write_all(text.as_bytes()).unwrap_or_default();
        return passphrase::obtain(from.passphrase_fd, "");
    }
    let mut terminal = Terminal::open()?;
    terminal.show(&pages(terminal.columns()))?;
    match from.passphrase_fd {
        Some(_) => {
            if !terminal.confirms("Approve this? [y/N] ")? {
                return Err(CommandError::failure("nothing was approved"));
            }
            drop(terminal);
            passphrase::obtain(from.passphrase_fd, "")
        }
        None => terminal
            .ask_given("The passphrase approves what is shown above, Ctrl-C leaves it.\nPassphrase of the approver: "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reviewed(digest: &str) -> Reviewed {
        Reviewed { digest: Some(digest.to_owned()), yes: false }
    }

    #[test]
    fn a_digest_names_one_request() {
        let from = PassphraseFrom { passphrase_fd: Some(0) };
        let ids = ["7c1e".to_owned(), "8d2f".to_owned()];
        for (digest, count, is_enough) in [
            ("0123456789ab", 1, true),
            (&"aB".repeat(32), 1, true),
            ("0123456789a", 1, false),
            ("0123456789xy", 1, false),
            (&"ab".repeat(33), 1, false),
            ("0123456789ab", 2, false),
        ] {
            let checked = check(&reviewed(digest), &ids[..count], from);
            assert_eq!(checked.is_ok(), is_enough, "{digest}");
        }
        check(&Reviewed { digest: None, yes: true }, &ids, from).unwrap();
    }

    #[test]
    fn another_request_than_the_one_that_was_meant_is_refused() {
        let row = Request { id: "7c1e0000".to_owned(), digest: "ab".repeat(32), ..Request::default() };
        check_digest(&reviewed("ABABABABABAB"), &row).unwrap();
        let refused = check_digest(&reviewed("abababababac"), &row).unwrap_err().to_string();
        assert!(refused.contains("is not the request with the digest abababababac"), "{refused}");
    }
}
