//! Who came and went: told at once when it is rare, together when it is not.
//!
//! Invariant: everything is told, in the order in which it happened. Nothing waits longer than [`GATHERING`].

use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::news::system;

/// After members came or went, further such news are gathered for this long.
const GATHERING: Duration = Duration::from_millis(200);

/// Bytes of the news in one frame, about.
const FRAME_BYTES: usize = 128 * 1024;

/// With this many that wait they are told at once.
const MAX_WAITING: usize = 8192;

/// That a member came or went.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct News {
    pub(crate) member: String,
    pub(crate) event: &'static str,
    pub(crate) data: Value,
    /// Connections with a smaller id were there when it happened.
    pub(crate) stamp: u64,
}

/// News that were not told yet.
#[derive(Default)]
pub(crate) struct PresenceNews(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: Vec<News>,
    told: Option<Instant>,
    /// Somebody will tell what waits.
    is_due: bool,
}

/// What is to be done with a piece of news.
pub(crate) enum Noted {
    TellNow(Value),
    /// What waits is to be told then, by whoever gets this.
    TellAt(Instant),
    /// Somebody else tells it with what waits.
    WillBeTold,
}

impl PresenceNews {
    pub(crate) fn note(&self, news: News) -> Noted {
        let now = Instant::now();
        let mut state = self.0.lock();
        if !state.is_due && state.told.is_none_or(|told| now.duration_since(told) >= GATHERING) {
            state.told = Some(now);
            return Noted::TellNow(news.data);
        }
        state.waiting.push(news);
        if state.waiting.len() >= MAX_WAITING {
            state.is_due = true;
            return Noted::TellAt(now);
        }
        match std::mem::replace(&mut state.is_due, true) {
            true => Noted::WillBeTold,
            false => Noted::TellAt(state.told.unwrap_or(now) + GATHERING),
        }
    }

    /// What waits, oldest first.
    pub(crate) fn take(&self) -> Vec<News> {
        let mut state = self.0.lock();
        state.is_due = false;
        state.told = Some(Instant::now());
        std::mem::take(&mut state.waiting)
    }
}

/// The frames that tell several pieces of news together.
pub(crate) fn batches(mesh: &str, news: &[News], now_ms: u64) -> Vec<Utf8Bytes> {
    let (mut frames, mut items, mut bytes) = (Vec::new(), Vec::new(), 0);
    let mut close = |items: &mut Vec<Value>| {
        if !items.is_empty() {
            frames.push(system(mesh, "peers_changed", json!({"items": std::mem::take(items)}), now_ms));
        }
    };
    for News { event, data, .. } in news {
        let mut item = data.clone();
        item["event"] = (*event).into();
        let size = item.to_string().len();
        if bytes + size > FRAME_BYTES {
            close(&mut items);
            bytes = 0;
        }
        bytes += size;
        items.push(item);
    }
    close(&mut items);
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(member: &str, event: &'static str, data: Value) -> News {
        News { member: member.to_owned(), event, data, stamp: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn rare_news_are_told_at_once_and_many_together() {
        let news = PresenceNews::default();
        assert!(matches!(news.note(of("a", "peer_joined", json!({}))), Noted::TellNow(_)));
        let Noted::TellAt(at) = news.note(of("b", "peer_joined", json!({"n": 1}))) else { panic!("not gathered") };
        assert_eq!(at - Instant::now(), GATHERING);
        assert!(matches!(news.note(of("c", "peer_joined", json!({}))), Noted::WillBeTold));
        assert!(matches!(news.note(of("b", "peer_left", json!({"n": 2}))), Noted::WillBeTold));
        tokio::time::sleep_until(at).await;
        let told = news.take();
        let happened = [
            ("b", "peer_joined", json!({"n": 1})),
            ("c", "peer_joined", json!({})),
            ("b", "peer_left", json!({"n": 2})),
        ];
        assert_eq!(told, happened.map(|(member, event, data)| of(member, event, data)));
        let frames = batches("m", &told, 0);
        assert_eq!(frames.len(), 1);
        assert!(frames[0].contains("peers_changed") && frames[0].contains("peer_left"));
        assert!(matches!(news.note(of("d", "peer_joined", json!({}))), Noted::TellAt(_)), "they were just told");
        news.take();
        tokio::time::sleep(GATHERING).await;
        assert!(matches!(news.note(of("e", "peer_joined", json!({}))), Noted::TellNow(_)));
    }

    #[test]
    fn long_news_are_told_in_several_frames() {
        let long = json!({"summary": "x".repeat(4000)});
        let news: Vec<_> = (0..100).map(|number| of(&number.to_string(), "peer_joined", long.clone())).collect();
        let frames = batches("m", &news, 0);
        assert!(frames.len() > 2 && frames.iter().all(|frame| frame.len() < hostel_wire::frames::FRAME_LIMIT));
    }
}
