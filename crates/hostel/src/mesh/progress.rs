//! A word about what takes long, for people who wait.
//!
//! Invariant: it goes to standard error, only where that is a terminal and nobody asked for data; what it wrote is wiped
//! before anything else is said. What is quick says nothing.

use std::future::Future;
use std::io::IsTerminal as _;
use std::io::Write as _;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;

use crate::text;
use crate::ui::Ui;

/// What is done by then needs no word.
const QUICK: Duration = Duration::from_millis(400);

/// How often the word is written anew.
const STEP: Duration = Duration::from_millis(200);

/// Whether somebody is there to be told.
pub(super) fn is_shown(ui: &Ui) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !ui.json() && !dumb && std::io::stderr().is_terminal()
}

/// Waits for `work`, and says meanwhile what it is and how `far` it got.
pub(super) async fn shown<T>(
    ui: &Ui,
    what: &str,
    far: impl Fn() -> Option<String>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    if !is_shown(ui) {
        return work.await;
    }
    let began = Instant::now();
    let mut wait = QUICK;
    let mut said = false;
    let done = loop {
        match tokio::time::timeout(wait, &mut work).await {
            Ok(done) => break done,
            Err(_) => {
                let far = far().unwrap_or_else(|| text::duration(Duration::from_secs(began.elapsed().as_secs())));
                say(&format!("\r\x1b[K{} {far}", text::printable(what)));
                (said, wait) = (true, STEP);
            }
        }
    };
    if said {
        say("\r\x1b[K");
    }
    done
}

fn say(text: &str) {
    let mut terminal = std::io::stderr().lock();
    // A terminal that is gone is nobody's problem.
    terminal.write_all(text.as_bytes()).and_then(|()| terminal.flush()).unwrap_or_default();
}

/// How much of a whole is there.
pub(super) fn share(part: u64, whole: u64) -> String {
    let percent = part.saturating_mul(100).checked_div(whole).unwrap_or(100).min(100);
    format!("{percent} % of {}", text::size(whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ColorChoice;

    #[test]
    fn a_share_never_exceeds_the_whole() {
        assert_eq!(share(512, 1024), "50 % of 1 KiB");
        assert_eq!(share(2048, 1024), "100 % of 1 KiB");
        assert_eq!(share(0, 0), "100 % of 0 B");
    }

    #[tokio::test]
    async fn whoever_asked_for_data_gets_nothing_else() {
        let ui = Ui::new(true, ColorChoice::Never);
        assert!(!is_shown(&ui));
        assert_eq!(shown(&ui, "x", || None, async { 7 }).await, 7);
    }
}
