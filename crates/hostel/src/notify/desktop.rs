//! The desktop: `notify-send`, where there is a session to show it and the program to do it.
//!
//! Invariant: only arguments, never a shell; text is escaped for the markup that desktops read; a program that hangs is
//! ended.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use hostel_doors::claustrum::Log;
use hostel_guard::OwnPrograms;
use hostel_house::processes::program::own;
use tokio::process::Command;

use super::Queue;
use super::news::News;

/// The program that shows something on a desktop.
pub(crate) const PROGRAM: &str = "notify-send";

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(5);

/// The program, if somebody could see what it shows.
pub(super) fn program(from: OwnPrograms) -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let session = ["DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"].into_iter().any(set);
    own(PROGRAM, from, std::env::var_os("PATH").as_deref()).filter(|_| session).map(|found| found.file)
}

/// Shows news, one after the other.
pub(super) async fn tell(program: PathBuf, queue: Arc<Queue>, log: Log) {
    let mut failed = false;
    loop {
        let (news, _) = queue.next().await;
        let mut command = Command::new(&program);
        command.args(arguments(&news)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        hostel_peer::marks::mark_children_of(command.kill_on_drop(true).as_std_mut());
        let shown = command.status();
        let outcome = match tokio::time::timeout(LIMIT, shown).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(status.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it took longer than {} s", LIMIT.as_secs())),
        };
        // Once is enough: a desktop that is gone stays gone.
        if let Err(error) = outcome
            && !std::mem::replace(&mut failed, true)
        {
            log.warn(format_args!("[hostel] {PROGRAM} does not work: {error}"));
        }
    }
}

fn arguments(news: &News) -> Vec<String> {
    let (title, urgency) = match news.event {
        "request" => ("A request waits for you", "critical"),
        "alarm" => ("Somebody may have tampered with the house", "critical"),
        _ => ("A turn has ended", "normal"),
    };
    let body = format!("{}\n{}", escape(&news.summary), escape(&format!("hostel approvals show {}", id(news))));
    let body = if news.event == "request" { body } else { escape(&news.summary) };
    let options = ["--app-name=hostel".to_owned(), format!("--urgency={urgency}"), "--".to_owned()];
    options.into_iter().chain([title.to_owned(), body]).collect()
}

/// As much of an id as people type.
fn id(news: &News) -> &str {
    crate::conversation::short(&news.id)
}

/// Text for desktops that read markup.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_never_an_option() {
        let news = News {
            event: "request",
            id: "7c1e0d52".to_owned(),
            summary: "asks to run <b>x</b> & y".to_owned(),
            ..News::default()
        };
        let words = arguments(&news);
        assert_eq!(words[2..4], ["--", "A request waits for you"]);
        assert_eq!(words[4], "asks to run &lt;b&gt;x&lt;/b&gt; &amp; y\nhostel approvals show 7c1e0d52");
    }
}
