//! A webhook: news as a signed body, sent a bounded number of times.
//!
//! Invariant: the signature covers the time and the whole body, and the key is read from its file for each piece of news
//! and wiped afterwards. Redirects are not followed, answers are not read, and the address is in no message: it may hold
//! credentials.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hmac::Hmac;
use hmac::KeyInit as _;
use hmac::Mac as _;
use hostel_doors::claustrum::Log;
use hyper::StatusCode;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Queue;
use super::news::News;
use crate::config::SHORTEST_KEY;
use crate::http_client::{Address, Client};

/// How long one attempt may take, connection and answer together.
const LIMIT: Duration = Duration::from_secs(10);

/// Attempts at one piece of news.
const ATTEMPTS: u32 = 4;

/// The pause before the second attempt; each further one is twice as long.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest key that is read.
const LONGEST_KEY: u64 = 4096;

/// Where news are sent.
pub(super) struct Webhook {
    client: Client,
    address: Address,
    secret: PathBuf,
}

impl Webhook {
    pub(super) fn new(url: &str, secret: PathBuf) -> Result<Self, String> {
        let address = Address::parse(url).map_err(|error| error.to_string())?;
        Ok(Webhook { client: Client::new(LIMIT), address, secret })
    }

    /// Sends news, one after the other.
    pub(super) async fn tell(self, queue: Arc<Queue>, log: Log) {
        loop {
            let (news, lost) = queue.next().await;
            if lost > 0 {
                log.warn(format_args!("[hostel] the webhook is too slow: {lost} pieces of news were not sent"));
            }
            if let Err(error) = self.send(&news).await {
                log.warn(format_args!("[hostel] the webhook did not take {} {}: {error}", news.event, news.id));
            }
        }
    }

    async fn send(&self, news: &News) -> Result<(), String> {
        let body = serde_json::to_string(news).map_err(|error| error.to_string())?;
        let mut pause = PAUSE;
        for attempt in 1..=ATTEMPTS {
            let outcome = self.attempt(&body, &news.id).await;
            match outcome {
                Ok(()) => return Ok(()),
                Err(Refusal { again: true, .. }) if attempt < ATTEMPTS => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                Err(Refusal { why, .. }) => return Err(why),
            }
        }
        Err("too many attempts".to_owned())
    }

    async fn attempt(&self, body: &str, id: &str) -> Result<(), Refusal> {
        let time = jiff::Timestamp::now().as_second().to_string();
        let secret = self.secret.clone();
        let key = hostel_tasks::spawn_blocking(move || read_key(&secret)).await;
        let key = key.map_err(|error| Refusal::last(error.to_string()))?.map_err(Refusal::last)?;
        let signature = sign(&key, &time, body).ok_or_else(|| Refusal::last("no key".to_owned()))?;
        drop(key);
        let headers = [
            ("x-hostel-delivery", id),
            ("x-hostel-timestamp", time.as_str()),
            ("x-hostel-signature", signature.as_str()),
        ];
        let sent = self.client.post_json(&self.address, &headers, body.to_owned());
        let answered = match tokio::time::timeout(LIMIT, sent).await {
            Ok(answered) => answered.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", LIMIT.as_secs())),
        };
        match answered.map_err(|why| Refusal { again: true, why })? {
            status if status.is_success() => Ok(()),
            status => {
                let again = status.is_server_error()
                    || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS);
                Err(Refusal { again, why: format!("it answered {status}") })
            }
        }
    }
}

/// Why an attempt did not work, and whether another may.
struct Refusal {
    again: bool,
    why: String,
}

impl Refusal {
    fn last(why: String) -> Self {
        Refusal { again: false, why }
    }
}

/// `sha256=` and the HMAC of the time, a point and the body.
fn sign(key: &[u8], time: &str, body: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    for part in [time, ".", body] {
        mac.update(part.as_bytes());
    }
    let digest = mac.finalize().into_bytes();
    Some(digest.iter().fold("sha256=".to_owned(), |text, byte| format!("{text}{byte:02x}")))
}

/// The key: what the file holds, without the end of its last line.
fn read_key(path: &std::path::Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let problem = |error: &dyn std::fmt::Display| format!("cannot use `{}`: {error}", path.display());
    let file = File::open(path).map_err(|error| problem(&error))?;
    let about = file.metadata().map_err(|error| problem(&error))?;
    if !about.is_file() || about.mode() & 0o077 != 0 {
        return Err(problem(&"it must be a file that nobody else may read or write (mode 0600)"));
    }
    let mut key = Zeroizing::new(Vec::new());
    file.take(LONGEST_KEY).read_to_end(&mut key).map_err(|error| problem(&error))?;
    while key.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        key.pop();
    }
    if key.len() < SHORTEST_KEY {
        return Err(problem(&format!("a key has at least {SHORTEST_KEY} bytes")));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_signature_is_the_known_one() {
        // RFC 4231, case 2: the point between time and body is part of the text there.
        let known = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_ne!(sign(b"Jefe", "what do ya want for nothing?", "").unwrap(), known);
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(format!("sha256={hex}"), known);
        assert_ne!(sign(b"k", "1", "2"), sign(b"k", "1.", "2"));
    }

    #[test]
    fn a_key_that_others_may_read_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("key");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_key(&path).unwrap_err().contains("mode 0600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_key(&path).unwrap().as_slice(), b"0123456789abcdef");
        std::fs::write(&path, "short\n").unwrap();
        assert!(read_key(&path).unwrap_err().contains("at least 16 bytes"));
    }
}
