//! Who a client is: `tui_` and eight hex digits, proved with a signature where the data directory has a key.
//!
//! Invariant: with a key, nobody gets an identity that was not issued to them. A key that cannot be read protects what
//! it protected before: claims are refused.

use std::path::Path;

use hmac::Hmac;
use hmac::KeyInit as _;
use hmac::Mac as _;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::code;
use crate::rpc::Failure;

/// The file in the data directory.
const FILE: &str = ".secret_key";

/// The longest key file that is read.
const FILE_LIMIT: u64 = 4096;

/// The longest identity that is taken.
const LONGEST: usize = 128;

/// What a data directory has for a key.
pub(crate) enum Key {
    /// None: nothing is signed, and claims are believed.
    Missing,
    /// One that cannot be used: nothing is signed, and claims are refused.
    Broken,
    /// One.
    Ready(Zeroizing<Vec<u8>>),
}

impl Key {
    /// Reads the key of a data directory.
    pub(crate) fn load(data_dir: &Path) -> Key {
        let path = data_dir.join(FILE);
        let text = match std::fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Key::Missing,
            Ok(found) if found.is_file() && found.len() <= FILE_LIMIT => std::fs::read_to_string(&path),
            _ => return Key::Broken,
        };
        let bytes = text.ok().map(Zeroizing::new).and_then(|text| unhex(text.trim()));
        bytes.filter(|bytes| !bytes.is_empty()).map_or(Key::Broken, |bytes| Key::Ready(Zeroizing::new(bytes)))
    }

    fn mac(&self, id: &str) -> Option<Hmac<Sha256>> {
        let Key::Ready(key) = self else { return None };
        let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
        mac.update(id.as_bytes());
        Some(mac)
    }

    /// The signature of an identity.
    pub(crate) fn sign(&self, id: &str) -> Option<String> {
        self.mac(id).map(|mac| hex(&mac.finalize().into_bytes()))
    }

    /// The identity of a client that claims one, or a fresh one.
    pub(crate) fn identify(&self, claimed: Option<&str>, signature: Option<&str>) -> Result<String, Failure> {
        let Some(claimed) = claimed else { return Ok(fresh()) };
        if claimed.is_empty() || claimed.len() > LONGEST || claimed.chars().any(char::is_control) {
            return Err(Failure::new(code::PARAMS, "`tui_id` is not an identity"));
        }
        let proved = match self {
            Key::Missing => true,
            Key::Broken => false,
            Key::Ready(_) => self.proves(claimed, signature.unwrap_or_default()),
        };
        match proved {
            true => Ok(claimed.to_owned()),
            false => Err(Failure::new(code::AUTH, "`tui_sig` does not prove this `tui_id`")),
        }
    }

    fn proves(&self, id: &str, signature: &str) -> bool {
        let shown = unhex(signature);
        self.mac(id).zip(shown).is_some_and(|(mac, shown)| mac.verify_slice(&shown).is_ok())
    }
}

fn fresh() -> String {
    let random = uuid::Uuid::new_v4();
    format!("tui_{}", hex(random.as_bytes().get(..4).unwrap_or_default()))
}

/// Bytes as lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_key_claims_are_believed() {
        let dir = tempfile::tempdir().unwrap();
        let key = Key::load(dir.path());
        assert!(matches!(key, Key::Missing));
        assert_eq!(key.identify(Some("tui_0a0b0c0d"), None), Ok("tui_0a0b0c0d".to_owned()));
        assert_eq!(key.sign("tui_0a0b0c0d"), None);
        let fresh = key.identify(None, None).unwrap();
        assert!(fresh.len() == 12 && fresh.starts_with("tui_"), "{fresh}");
        assert!(key.identify(Some(""), None).is_err());
    }

    #[test]
    fn with_a_key_they_are_proved() {
        let dir = tempfile::tempdir().unwrap();
        // RFC 4231, case 2: the key is "Jefe".
        std::fs::write(dir.path().join(FILE), "4a656665\n").unwrap();
        let key = Key::load(dir.path());
        let id = "what do ya want for nothing?";
        let signature = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(key.sign(id).as_deref(), Some(signature));
        assert_eq!(key.identify(Some(id), Some(signature)), Ok(id.to_owned()));
        for wrong in [None, Some(""), Some("zz"), Some(&signature[..62]), Some(&signature.replace('5', "6"))] {
            assert_eq!(key.identify(Some(id), wrong).unwrap_err().code, code::AUTH, "{wrong:?}");
        }
    }

    #[test]
    fn a_broken_key_protects_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "xyz", "abc"] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let key = Key::load(dir.path());
            assert!(matches!(key, Key::Broken), "{text:?}");
            assert_eq!(key.identify(Some("tui_00000000"), None).unwrap_err().code, code::AUTH);
            assert!(key.identify(None, None).is_ok());
        }
    }
}
