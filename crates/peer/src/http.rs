//! The guard in front of HTTP doors: which `Host`, which `Origin`, which `Authorization`.
//!
//! A web page can make a browser of this machine send requests to it. Three things tell such a request from a program's:
//! browsers name the page (`Origin`), they name the host as the page does (`Host`), and they ask before they send a token.
//! So a door that takes no web pages refuses every `Origin` it was not told of, and every `Host` that could be another
//! machine's name.
//!
//! The guard only judges; each door words its own refusals, because those are part of its contract.

use std::net::IpAddr;

use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;

use crate::tcp::Ends;

/// What is wrong with a request, whatever it asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rejection {
    /// A web page asks whether it may send a request.
    Preflight,
    /// A web page sends it.
    Origin,
    /// It names a host that is not this machine, or none.
    Host,
}

/// The rules of a door.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Refuse preflights before anything else is looked at.
    pub refuse_preflights: bool,
    /// Which web pages may ask.
    pub origins: Origins,
    /// Names of this machine.
    pub hosts: Hosts,
}

/// Which web pages may ask.
#[derive(Clone, Debug)]
pub enum Origins {
    /// These, compared to the letter.
    Listed(Vec<String>),
    /// Those that a web server of this machine has served.
    Loopback,
}

impl Default for Origins {
    fn default() -> Self {
        Origins::Listed(Vec::new())
    }
}

/// Names of this machine that a request may use.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// All addresses of the loopback interface count, and `localhost.`, not only the three usual names.
    pub any_loopback: bool,
    /// Further names, without a port.
    pub names: Vec<String>,
    /// The address that the connection was made to counts. Only for doors that others may reach and that want a token.
    pub bound_address: bool,
    /// A request without any name is refused.
    pub required: bool,
}

/// The names of the loopback interface that can mean no other machine.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Guard {
    /// Judges the head of a request that came over this connection, if it came over TCP.
    ///
    /// # Errors
    /// The first rule that it breaks: preflight, origin, host.
    pub fn check(&self, head: &Parts, ends: Option<Ends>) -> Result<(), Rejection> {
        if self.refuse_preflights && head.method == Method::OPTIONS {
            return Err(Rejection::Preflight);
        }
        if !self.origins.admit(&head.headers) {
            return Err(Rejection::Origin);
        }
        if !self.hosts.admit(head, ends) {
            return Err(Rejection::Host);
        }
        Ok(())
    }
}

impl Origins {
    fn admit(&self, headers: &HeaderMap) -> bool {
        headers.get_all(header::ORIGIN).iter().all(|origin| match self {
            Origins::Listed(allowed) => allowed.iter().any(|allowed| allowed.as_bytes() == origin.as_bytes()),
            Origins::Loopback => origin.to_str().is_ok_and(is_loopback_origin),
        })
    }
}

fn is_loopback_origin(origin: &str) -> bool {
    let origin = origin.trim().to_ascii_lowercase();
    let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    named.and_then(name_of).is_some_and(|name| LOOPBACK_NAMES.contains(&name))
}

impl Hosts {
    fn admit(&self, head: &Parts, ends: Option<Ends>) -> bool {
        // An address inside the first line counts beside the header.
        let written = head.headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
        let mut named = written.chain(head.uri.authority().map(|authority| authority.as_str().as_bytes())).peekable();
        let is_missing = named.peek().is_none();
        !(is_missing && self.required) && named.all(|host| self.is_ours(host, ends))
    }

    fn is_ours(&self, host: &[u8], ends: Option<Ends>) -> bool {
        let Some(name) = std::str::from_utf8(host).ok().and_then(name_of) else { return false };
        let known = LOOPBACK_NAMES.into_iter().chain(self.names.iter().map(String::as_str));
        known.into_iter().any(|known| known.eq_ignore_ascii_case(name))
            || (self.any_loopback && is_loopback(name))
            || (self.bound_address && ends.is_some_and(|ends| address_of(name) == Some(ends.ours.ip().to_canonical())))
    }
}

/// The name in a `Host`, without its port; none if that is no port. An IPv6 address has its brackets, if it came with them.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => host.split_at(rest.find(']')? + 2),
        // An address without brackets has no port.
        None if host.matches(':').count() > 1 => (host, ""),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |digits: &str| matches!(digits.len(), 1..=5) && digits.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(name)
}

fn address_of(name: &str) -> Option<IpAddr> {
    let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

fn is_loopback(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address_of(name).is_some_and(|address| address.is_loopback())
}

/// What a request shows to be let in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Authorization<'a> {
    /// Nothing.
    Missing,
    /// More than one header: what one part of a program sees may not be what another does.
    Repeated,
    /// Something without a scheme.
    Malformed,
    /// A scheme and what follows it.
    Given {
        /// Its case means nothing.
        scheme: &'a [u8],
        /// Without blanks around it.
        value: &'a [u8],
    },
}

impl<'a> Authorization<'a> {
    /// Reads the headers of a request.
    #[must_use]
    pub fn of(headers: &'a HeaderMap) -> Self {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(first), second) = (shown.next(), shown.next()) else { return Authorization::Missing };
        if second.is_some() {
            return Authorization::Repeated;
        }
        let value = first.as_bytes().trim_ascii();
        match value.iter().position(|byte| *byte == b' ') {
            Some(end) => {
                let (scheme, rest) = value.split_at(end);
                Authorization::Given { scheme, value: rest.trim_ascii() }
            }
            None => Authorization::Malformed,
        }
    }

    /// What was shown in this scheme.
    #[must_use]
    pub fn in_scheme(self, wanted: &str) -> Option<&'a [u8]> {
        match self {
            Authorization::Given { scheme, value } if scheme.eq_ignore_ascii_case(wanted.as_bytes()) => Some(value),
            _ => None,
        }
    }

    /// The bearer token that was shown.
    #[must_use]
    pub fn bearer(self) -> Option<&'a [u8]> {
        self.in_scheme("bearer")
    }
}

/// Whether the body of a request is JSON, in any of its forms, as its head says. A web page cannot send that without asking.
#[must_use]
pub fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else { return false };
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some(subtype) = essence.strip_prefix("application/") else { return false };
    subtype == "json" || (subtype.len() > 5 && subtype.ends_with("+json"))
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
