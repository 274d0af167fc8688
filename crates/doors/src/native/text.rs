//! Text as the operating system has it: paths, arguments and variables need not be UTF-8.

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde::de::Error as _;

/// Text that need not be UTF-8: a JSON string where it is, `{"base64":"…"}` where it is not.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Text(pub Vec<u8>);

#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum TextForm {
    Plain(String),
    Encoded { base64: String },
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                TextForm::Encoded { base64: base64_simd::STANDARD.encode_to_string(&self.0) }.serialize(serializer)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match TextForm::deserialize(deserializer)? {
            TextForm::Plain(text) => Ok(Text(text.into_bytes())),
            TextForm::Encoded { base64 } => {
                base64_simd::STANDARD.decode_to_vec(base64).map(Text).map_err(|_| D::Error::custom("invalid base64"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_whatever_its_bytes() {
        for bytes in [&b"plain"[..], b"\xff\x00raw", b""] {
            let encoded = serde_json::to_string(&Text(bytes.to_vec())).unwrap();
            let decoded: Text = serde_json::from_str(&encoded).unwrap();
            assert_eq!(decoded.0, bytes);
        }
        assert_eq!(serde_json::to_string(&Text(b"\xff".to_vec())).unwrap(), r#"{"base64":"/w=="}"#);
    }
}
