//! The address of a server: `http://` or `https://`, perhaps with a user and a password.
//!
//! Credentials are taken out when an address is parsed, so that what is left may stand in a request line. The `Debug` and
//! error texts contain neither.

use std::borrow::Cow;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::{Authority, InvalidUri, Scheme};

/// Where a request goes.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// Scheme, host, port and path; no user.
    uri: Uri,
    is_tls: bool,
    /// What the user and the password of the address become; it is marked as sensitive.
    authorization: Option<HeaderValue>,
}

/// Why a text is not an address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("{0}")]
    Syntax(#[from] InvalidUri),
    /// No scheme, or another than the two that are known.
    #[error("it must start with `https://` or `http://`")]
    Scheme,
    #[error("there is no host")]
    Host,
    #[error("the user or the password cannot be sent")]
    Credentials,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        // The syntax of a relative path is that of a bare authority, so the scheme is checked first.
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        let is_tls = match scheme.as_deref() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(AddressError::Scheme),
        };
        Self::of(encoded(text).parse()?, is_tls)
    }

    fn of(uri: Uri, is_tls: bool) -> Result<Self, AddressError> {
        let authority = uri.authority().ok_or(AddressError::Host)?;
        let (credentials, place) = match authority.as_str().rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, authority.as_str()),
        };
        let place: Authority = place.parse()?;
        if place.host().is_empty() {
            return Err(AddressError::Host);
        }
        let authorization = credentials.map(basic).transpose()?;
        let mut parts = uri.into_parts();
        parts.scheme = Some(if is_tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(place);
        let uri = Uri::from_parts(parts).map_err(|_| AddressError::Host)?;
        Ok(Self { uri, is_tls, authorization })
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// The host without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        let host = self.uri.host().unwrap_or_default();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, also where the address leaves it out.
    pub(crate) fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_tls { 443 } else { 80 })
    }

    /// Host and port as they stand in a `Host` header.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map_or("", Authority::as_str)
    }

    #[cfg(any(test, feature = "otel"))]
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
    }

    #[cfg(any(test, feature = "otel"))]
    /// The same server, with another path and the same query.
    pub(crate) fn with_path(&self, path: &str) -> Result<Self, AddressError> {
        let path = match self.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        self.with_path_and_query(&path)
    }

    fn with_path_and_query(&self, text: &str) -> Result<Self, AddressError> {
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(encoded(text).parse()?);
        let uri = Uri::from_parts(parts).map_err(|_| AddressError::Host)?;
        Ok(Self { uri, ..self.clone() })
    }

    /// Where a `Location` leads from here. Credentials go along only to the same server.
    pub(crate) fn redirected(&self, location: &str) -> Result<Self, AddressError> {
        let location = location.trim();
        if let Some((scheme, _)) = location.split_once("://")
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        {
            let there = Self::parse(location)?;
            return Ok(self.lending_credentials(there));
        }
        if let Some(rest) = location.strip_prefix("//") {
            let scheme = if self.is_tls { "https" } else { "http" };
            return Ok(self.lending_credentials(Self::parse(&format!("{scheme}://{rest}"))?));
        }
        let location = location.split_once('#').map_or(location, |(before, _)| before);
        if location.starts_with('/') {
            return self.with_path_and_query(location);
        }
        let path = self.uri.path();
        if location.is_empty() || location.starts_with('?') {
            return self.with_path_and_query(&format!("{path}{location}"));
        }
        let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
        self.with_path_and_query(&without_dots(&format!("{folder}{location}")))
    }

    fn lending_credentials(&self, mut there: Self) -> Self {
        let here = (self.is_tls, self.host(), self.port());
        if there.authorization.is_none() && here == (there.is_tls, there.host(), there.port()) {
            there.authorization.clone_from(&self.authorization);
        }
        there
    }
}

/// The path with `.` and `..` resolved; the query is left alone.
fn without_dots(text: &str) -> String {
    let (path, query) = text.split_at(text.find('?').unwrap_or(text.len()));
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        kept.push("");
    }
    format!("/{}{query}", kept.join("/"))
}

/// The text with what may not stand in a request line in percent form. A host is left to fail if it needs that.
fn encoded(text: &str) -> Cow<'_, str> {
    let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'`');
    if text.bytes().all(allowed) {
        return Cow::Borrowed(text);
    }
    let path = text.find("://").map_or(0, |end| end + 3);
    let path = path + text[path..].find(['/', '?', '#']).unwrap_or(text.len() - path);
    let mut encoded = text[..path].to_owned();
    for byte in text[path..].bytes() {
        match allowed(byte) {
            true => encoded.push(char::from(byte)),
            false => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Cow::Owned(encoded)
}

fn basic(credentials: &str) -> Result<HeaderValue, AddressError> {
    let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let plain = [&decoded(user)[..], b":", &decoded(password)[..]].concat();
    let text = format!("Basic {}", base64_simd::STANDARD.encode_to_string(plain));
    let mut value = HeaderValue::from_str(&text).map_err(|_| AddressError::Credentials)?;
    value.set_sensitive(true);
    Ok(value)
}

/// The bytes that a percent form stands for; what is no percent form stands for itself.
fn decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let value = (byte == b'%').then(|| Some(digit(at + 1)? * 16 + digit(at + 2)?)).flatten();
        match value.and_then(|value| u8::try_from(value).ok()) {
            Some(value) => {
                plain.push(value);
                at += 3;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(address: &Address) -> String {
        address.uri().to_string()
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        for wrong in ["", "localhost:4318", "ftp://x/", "http://", "http:///x", "/x", "http://a b/", "http://ü/"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
        let full = Address::parse("HTTPS://example.org:8443/a?b=c#d").unwrap();
        assert_eq!((full.is_tls(), full.host(), full.port(), full.path()), (true, "example.org", 8443, "/a"));
        assert_eq!(text(&full), "https://example.org:8443/a?b=c");
        let short = Address::parse("http://[::1]").unwrap();
        assert_eq!((short.is_tls(), short.host(), short.port(), short.path()), (false, "::1", 80, "/"));
        assert_eq!(text(&Address::parse("http://x/ä b").unwrap()), "http://x/%C3%A4%20b");
    }

    #[test]
    fn credentials_leave_the_address() {
        let address = Address::parse("http://Aladdin:open%20sesame@localhost/x").unwrap();
        assert_eq!(text(&address), "http://localhost/x");
        assert_eq!(address.authorization().unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(!format!("{address:?}").contains("QWxh"));
        assert_eq!(Address::parse("http://one@x/").unwrap().authorization().unwrap(), "Basic b25lOg==");
        assert!(Address::parse("http://x/").unwrap().authorization().is_none());
    }

    #[test]
    fn a_redirect_is_followed_from_where_it_was_met() {
        let here = Address::parse("https://me:pw@a.example/one/two?three").unwrap();
        for (location, there) in [
            ("http://b.example/x", "http://b.example/x"),
            ("//b.example/x", "https://b.example/x"),
            ("/x?y", "https://a.example/x?y"),
            ("x", "https://a.example/one/x"),
            ("../x/./y", "https://a.example/x/y"),
            ("../../..", "https://a.example/"),
            ("?four", "https://a.example/one/two?four"),
            ("#five", "https://a.example/one/two"),
        ] {
            assert_eq!(text(&here.redirected(location).unwrap()), there, "{location}");
        }
        for wrong in ["ftp://x/", "http://"] {
            assert!(here.redirected(wrong).is_err(), "{wrong}");
        }
        let keeps = |location: &str| here.redirected(location).unwrap().authorization().is_some();
        assert!(keeps("/x") && keeps("https://a.example:443/x"));
        assert!(!keeps("http://a.example/x") && !keeps("https://b.example/x") && !keeps("https://a.example:8443/"));
    }

    #[test]
    fn a_path_is_replaced() {
        let address = Address::parse("http://c.example/otlp?key=1").unwrap();
        assert_eq!(text(&address.with_path("/v1/metrics").unwrap()), "http://c.example/v1/metrics?key=1");
    }
}
