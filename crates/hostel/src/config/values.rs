//! What a setting may hold: sizes, durations, words, lists and addresses, each with its own way of being wrong.
//!
//! Invariant: a value is read here and nowhere else, so that a file, a variable and a flag take and refuse the same.

use std::fmt;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::time::Duration;

use hostel_house::sessions::MeshPolicy;
use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error as _;
use serde::de::SeqAccess;
use serde::de::Visitor;

use crate::text;

/// What a reattach does to those who already receive the process.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reattach {
    /// They go on receiving.
    Share,
    /// Only the newest receives.
    Transfer,
}

impl Reattach {
    /// As it is written in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reattach::Share => "share",
            Reattach::Transfer => "transfer",
        }
    }
}

/// What happens when the journals have used up their space.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OnFull {
    /// The process waits until there is room.
    Hold,
    /// The oldest output is given up.
    DropOldest,
}

impl OnFull {
    /// As it is written in the file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            OnFull::Hold => "hold",
            OnFull::DropOldest => "drop-oldest",
        }
    }
}

impl<'de> Deserialize<'de> for OnFull {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match String::deserialize(deserializer)?.as_str() {
            "hold" => Ok(OnFull::Hold),
            "drop-oldest" => Ok(OnFull::DropOldest),
            other => Err(D::Error::custom(format!("`{other}` is not one of \"hold\", \"drop-oldest\""))),
        }
    }
}

/// What becomes of messages from meshes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy(pub(super) MeshPolicy);

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        let unknown = || D::Error::custom(format!("`{word}` is not one of \"off\", \"ask\", \"on\""));
        MeshPolicy::named(&word).map(Policy).ok_or_else(unknown)
    }
}

/// A number of bytes, as text with a unit or as a plain number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size(pub(super) u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Size;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a size such as \"10 GiB\"")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Size, E> {
                text::parse_size(value).map(Size).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Size, E> {
                u64::try_from(value).map(Size).map_err(|_| E::custom("a size cannot be negative"))
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Size, E> {
                Ok(Size(value))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A length of time, as text with units.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Time;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a duration such as \"7d\"")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Time, E> {
                text::parse_duration(value).map(Time).map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, _value: i64) -> Result<Time, E> {
                Err(E::custom("a duration is written as text, for example \"7d\" or \"1h 30m\""))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A share of the processors: hundredths of one core.
#[derive(Clone, Copy, Debug)]
pub(super) struct Percent(pub(super) u32);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
        match number {
            Some(percent) if percent > 0 => Ok(Percent(percent)),
            _ => {
                Err(D::Error::custom(format!("`{text}` is not a share of a core, write for example \"200%\" for two")))
            }
        }
    }
}

/// One text or a list of texts.
#[derive(Clone, Debug)]
pub(super) struct OneOrMany(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = OneOrMany;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a list of texts")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![value.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OneOrMany, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element::<String>()? {
                    list.push(item);
                }
                Ok(OneOrMany(list))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// One network address with a port, or several.
#[derive(Clone, Debug)]
pub(super) struct Addresses(pub(super) Vec<SocketAddr>);

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OneOrMany(list) = OneOrMany::deserialize(deserializer)?;
        let read = list.iter().map(|text| parse_address(text).ok_or(text)).collect::<Result<_, _>>();
        read.map(Addresses).map_err(|text| {
            D::Error::custom(format!("`{text}` is not an address with a port, write for example \"127.0.0.1:9100\""))
        })
    }
}

/// Users by number.
#[derive(Clone, Debug)]
pub(super) struct Users(pub(super) Vec<u32>);

impl<'de> Deserialize<'de> for Users {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OneOrMany(list) = OneOrMany::deserialize(deserializer)?;
        let read = list.iter().map(|text| text.trim().parse().map_err(|_| text)).collect::<Result<_, _>>();
        read.map(Users).map_err(|text| {
            D::Error::custom(format!(
                "`{text}` is not the number of a user, write for example \"33\" (see `id -u NAME`)"
            ))
        })
    }
}

/// One network address with a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address(pub(super) SocketAddr);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_address(&text).map(Address).ok_or_else(|| {
            D::Error::custom(format!("`{text}` is not an address with a port, write for example \"127.0.0.1:0\""))
        })
    }
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let text = text.trim();
    text.parse().ok().or_else(|| {
        let (host, port) = text.rsplit_once(':')?;
        Some(SocketAddr::new(parse_host(host)?, port.parse().ok()?))
    })
}

/// An address as people and contracts write it: a number, one in brackets, or the name every machine has for itself.
/// Other names are not looked up: what a server binds must not depend on somebody else's answer.
pub(crate) fn parse_host(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("localhost") {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok()
}

/// A network address without a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host(pub(super) IpAddr);

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_host(&text)
            .map(Host)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is not an address, write for example \"0.0.0.0\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_people_write_them() {
        for (text, address) in [
            ("127.0.0.1:9100", "127.0.0.1:9100"),
            (" localhost:1 ", "127.0.0.1:1"),
            ("[::1]:80", "[::1]:80"),
            ("::1:80", "[::1]:80"),
        ] {
            assert_eq!(parse_address(text), Some(address.parse().unwrap()), "{text}");
        }
        for text in ["", "9100", ":9100", "example.org:80", "127.0.0.1", "127.0.0.1:70000"] {
            assert_eq!(parse_address(text), None, "{text}");
        }
        assert_eq!(parse_host("[::1]"), Some("::1".parse().unwrap()));
        assert_eq!(parse_host("LOCALHOST"), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(parse_host("my-host"), None);
    }
}
