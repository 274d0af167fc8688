//! What a broker is told about where to listen, checked: nothing beyond loopback without TLS.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;

use super::place::Listening;
use crate::mesh::failure::Failure;

/// Where a broker listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Addresses {
    /// Loopback, in plain; port 0 is any, preferably the last one.
    pub(super) local: SocketAddr,
    /// Other machines, with TLS.
    pub(super) beyond: Listening,
}

/// Reads what was asked for, over what was said the last time.
pub(super) fn read(listen: Option<&str>, url: Option<&str>, before: &Listening) -> Result<Addresses, Failure> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let url = url.map(check_url).transpose()?;
    let Some(listen) = listen else {
        if url.is_some() && before.listen.is_none() {
            return Err(Failure::arguments("`--url` needs to know where to listen")
                .hint("add `--listen ADDR`, for example `--listen 0.0.0.0:7443`"));
        }
        let beyond = Listening { listen: before.listen, url: url.or_else(|| before.url.clone()) };
        return Ok(Addresses { local: any, beyond });
    };
    let address = parse_address(listen)?;
    if address.ip().is_loopback() {
        if url.is_some() {
            return Err(Failure::arguments(format!("nobody reaches `{listen}` from another machine"))
                .hint("with `--url` listen on an address that others reach, for example `--listen 0.0.0.0:7443`"));
        }
        return Ok(Addresses { local: address, beyond: Listening::default() });
    }
    let Some(url) = url.or_else(|| before.url.clone()) else {
        return Err(Failure::arguments(format!("`{listen}` is beyond this machine, and others have to know its name"))
            .hint("add `--url wss://HOST:PORT/ws`: other machines are served with TLS only"));
    };
    Ok(Addresses { local: any, beyond: Listening { listen: Some(address), url: Some(url) } })
}

fn parse_address(text: &str) -> Result<SocketAddr, Failure> {
    let with_name = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    with_name.as_deref().unwrap_or(text).parse().map_err(|_| {
        Failure::arguments(format!("`{text}` is no address to listen on"))
            .hint("write an IP address and a port, for example `0.0.0.0:7443` or `[::]:7443`")
    })
}

/// A way for other machines: always TLS.
fn check_url(text: &str) -> Result<String, Failure> {
    let example = "write for example `wss://lab.example.org:7443/ws`";
    let Some(rest) = text.strip_prefix("wss://") else {
        return Err(Failure::arguments(format!(
            "`{text}` does not begin with wss://: other machines are served with TLS only"
        ))
        .hint(example));
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, "ws"));
    let clean = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | ':' | '[' | ']');
    if host.is_empty() || !host.chars().all(clean) || path != "ws" {
        return Err(Failure::arguments(format!("`{text}` is no way to a broker")).hint(example));
    }
    Ok(format!("wss://{host}/ws"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(listen: Option<&str>, url: Option<&str>) -> Result<Addresses, String> {
        read(listen, url, &Listening::default()).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn loopback_is_plain_and_everything_else_needs_tls() {
        let local = said(None, None).unwrap();
        assert_eq!((local.local.to_string().as_str(), local.beyond), ("127.0.0.1:0", Listening::default()));
        assert_eq!(said(Some("127.0.0.1:9000"), None).unwrap().local.port(), 9000);
        assert_eq!(said(Some("localhost:9000"), None).unwrap().local.port(), 9000);
        assert_eq!(said(Some("[::1]:0"), None).unwrap().local.to_string(), "[::1]:0");
        let wide = said(Some("0.0.0.0:7443"), Some("wss://lab.example.org:7443")).unwrap();
        assert_eq!(wide.local.to_string(), "127.0.0.1:0");
        assert_eq!(wide.beyond.url.as_deref(), Some("wss://lab.example.org:7443/ws"));
        for (listen, url) in [
            (Some("0.0.0.0:7443"), None),
            (Some("0.0.0.0:7443"), Some("ws://lab:7443/ws")),
            (Some("127.0.0.1:7443"), Some("wss://lab:7443/ws")),
            (None, Some("wss://lab:7443/ws")),
            (Some("7443"), None),
            (Some("0.0.0.0:7443"), Some("wss://")),
            (Some("0.0.0.0:7443"), Some("wss://a b/ws")),
            (Some("0.0.0.0:7443"), Some("wss://a/other")),
        ] {
            assert!(said(listen, url).is_err(), "{listen:?} {url:?}");
        }
    }

    #[test]
    fn what_was_said_before_counts_until_it_is_said_otherwise() {
        let before = Listening { listen: Some("0.0.0.0:1".parse().unwrap()), url: Some("wss://a/ws".to_owned()) };
        assert_eq!(read(None, None, &before).unwrap().beyond, before);
        let after = read(Some("0.0.0.0:2"), None, &before).unwrap().beyond;
        assert_eq!((after.listen.unwrap().port(), after.url.as_deref()), (2, Some("wss://a/ws")));
        assert_eq!(read(Some("127.0.0.1:0"), None, &before).unwrap().beyond, Listening::default());
    }
}
