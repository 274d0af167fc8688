//! How a broker is reached: a byte stream over TCP, or over TLS with the certificate the invite named.
//!
//! Invariant: nothing above this knows sockets; tests and simulators bring a `Dial` of their own. With a pin, only the
//! certificate with that digest is taken, or one that was renewed under the key the pin names, and no other authority is
//! asked; with authorities, only what one of them vouches for; with neither, `wss://` and `https://` are refused rather
//! than left unchecked. Without TLS only this machine is reached.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hostel_wire::invite::CertPin;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// How long reaching a broker may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Certificates of authorities that are looked at beside a broker's own.
const CHAIN: usize = 8;

/// The longest address that is read.
const LONGEST: usize = 2048;

/// A byte stream to a broker.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

/// Any byte stream to a broker.
pub type BoxStream = Box<dyn Stream>;

/// What dialling will give.
pub type Dialling<'a> = Pin<Box<dyn Future<Output = io::Result<BoxStream>> + Send + 'a>>;

/// Reaches brokers.
pub trait Dial: Send + Sync + 'static {
    /// Opens a stream; for `wss` and `https` the handshake is done.
    fn dial<'a>(&'a self, url: &'a BrokerUrl) -> Dialling<'a>;
}

/// Where a broker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerUrl {
    /// Whether the stream is encrypted.
    pub tls: bool,
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// From the first `/`, with the query.
    pub path: String,
}

/// An address that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address of a broker (ws://, wss://, http:// or https://)")]
pub struct BadUrl(pub String);

impl BrokerUrl {
    /// Reads `ws://`, `wss://`, `http://` and `https://` addresses. No user, no fragment.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        Self::read(text).ok_or_else(|| BadUrl(text.chars().filter(|c| !c.is_control()).take(200).collect()))
    }

    fn read(text: &str) -> Option<Self> {
        if text.len() > LONGEST || text.bytes().any(|b| !b.is_ascii_graphic()) || text.contains('#') {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let tls = match scheme {
            "ws" | "http" => false,
            "wss" | "https" => true,
            _ => return None,
        };
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, after) = inner.split_once(']')?;
                (host, after.strip_prefix(':').or(after.is_empty().then_some(""))?)
            }
            None => authority.split_once(':').unwrap_or((authority, "")),
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'%');
        if host.is_empty() || !host.bytes().all(plain) || (!authority.starts_with('[') && host.contains(':')) {
            return None;
        }
        let port = match port {
            "" => {
                if tls {
                    443
                } else {
                    80
                }
            }
            digits => digits.parse().ok().filter(|port| *port != 0)?,
        };
        let path = match path.as_bytes().first() {
            None => "/".to_owned(),
            Some(b'?') => format!("/{path}"),
            Some(_) => path.to_owned(),
        };
        Some(Self { tls, host: host.to_ascii_lowercase(), port, path })
    }

    /// Host and port, as a `Host` header has them.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The WebSocket address.
    #[must_use]
    pub fn websocket(&self) -> String {
        format!("{}://{}{}", if self.tls { "wss" } else { "ws" }, self.authority(), self.path)
    }

    /// Scheme, host and port for HTTP on the same broker, without a path.
    #[must_use]
    pub fn http_base(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }

    /// The same broker with another path.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self.clone() }
    }
}

/// Over the network.
#[derive(Clone)]
pub struct NetDial {
    tls: Option<TlsConnector>,
}

impl NetDial {
    /// With the certificate that `wss` brokers must show; without one only `ws` can be reached.
    pub fn new(pin: Option<CertPin>) -> io::Result<Self> {
        let Some(pin) = pin else { return Ok(Self { tls: None }) };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let pinned = Pinned { pin, provider: Arc::clone(&provider) };
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_no_client_auth();
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    /// With certificates (PEM) of authorities that vouch for `wss` brokers; a pin counts over them.
    pub fn with_authorities(pin: Option<CertPin>, pem: &[u8]) -> io::Result<Self> {
        if pin.is_some() {
            return Self::new(pin);
        }
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
        if roots.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no certificate in the file"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { tls: Some(TlsConnector::from(Arc::new(config))) })
    }

    async fn reach(&self, url: &BrokerUrl) -> io::Result<BoxStream> {
        if url.tls && self.tls.is_none() {
            let text = "the invite names no certificate for this broker, so nothing could be checked";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let stream = match url.tls {
            true => TcpStream::connect((url.host.as_str(), url.port)).await?,
            false => TcpStream::connect(&*on_this_machine(url).await?).await?,
        };
        stream.set_nodelay(true)?;
        match (&self.tls, url.tls) {
            (Some(tls), true) => {
                let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
                Ok(Box::new(tls.connect(name, stream).await?))
            }
            _ => Ok(Box::new(stream)),
        }
    }
}

/// The addresses of a broker that is reached without TLS: those of this machine. What names it may come from an invite, a
/// file or another broker; none of them can talk us into speaking in the clear on a network.
async fn on_this_machine(url: &BrokerUrl) -> io::Result<Vec<SocketAddr>> {
    let all = tokio::net::lookup_host((url.host.as_str(), url.port)).await?;
    let here: Vec<_> = all.filter(|address| address.ip().to_canonical().is_loopback()).collect();
    match here.is_empty() {
        true => {
            let text = "a broker beyond this machine is reached with TLS alone: its address must begin with wss://";
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        false => Ok(here),
    }
}

impl Dial for NetDial {
    fn dial<'a>(&'a self, url: &'a BrokerUrl) -> Dialling<'a> {
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, self.reach(url)).await {
                Ok(result) => result,
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the broker does not answer")),
            }
        })
    }
}

/// Takes one certificate, whatever name and dates it has: the invite's digest says more than an authority could. A renewed
/// one is taken where the invite's key is its own, or that of an authority it comes with, which then vouches for name and
/// dates.
#[derive(Debug)]
struct Pinned {
    pin: CertPin,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    /// Whether a certificate has the key that stays.
    fn has_key(&self, certificate: &CertificateDer<'_>) -> bool {
        let Some(pinned) = &self.pin.key else { return false };
        key_digest(certificate).is_some_and(|digest| digest.ct_eq(pinned).into())
    }

    /// Whether the authority with the key that stays is among those that came along, and vouches for a certificate.
    fn is_vouched_for(
        &self,
        end_entity: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<bool, rustls::Error> {
        let Some(authority) = others.iter().take(CHAIN).find(|one| self.has_key(one)) else { return Ok(false) };
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, others, now, algorithms)?;
        verify_server_name(&certificate, name)?;
        Ok(true)
    }
}

/// SHA-256 of a certificate's public key, as it is pinned; none where the certificate cannot be read.
#[must_use]
pub fn key_digest(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    Some(Sha256::digest(parsed.subject_public_key_info().as_ref()).into())
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let digest: [u8; 32] = Sha256::digest(end_entity.as_ref()).into();
        let known = bool::from(digest.ct_eq(&self.pin.cert)) || self.has_key(end_entity);
        match known || self.is_vouched_for(end_entity, intermediates, server_name, now)? {
            true => Ok(ServerCertVerified::assertion()),
            false => {
                Err(rustls::Error::General("the broker shows another certificate than the invite named".to_owned()))
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_said_in_the_clear_beyond_this_machine() {
        for url in ["ws://192.0.2.1:1/ws", "http://[2001:db8::1]:1/", "ws://0.0.0.0:1/ws"] {
            let url = BrokerUrl::parse(url).unwrap();
            let refused = NetDial::new(None).unwrap().dial(&url).await.err().unwrap();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{url:?}");
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let url = BrokerUrl::parse(&format!("ws://{host}:{port}/ws")).unwrap();
            NetDial::new(None).unwrap().dial(&url).await.unwrap();
        }
    }

    #[test]
    fn addresses_are_read() {
        let url = BrokerUrl::parse("ws://127.0.0.1:4711/ws").unwrap();
        assert_eq!((url.tls, url.host.as_str(), url.port, url.path.as_str()), (false, "127.0.0.1", 4711, "/ws"));
        assert_eq!(url.http_base(), "http://127.0.0.1:4711");
        let url = BrokerUrl::parse("wss://Broker.Example").unwrap();
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("broker.example", 443, "/"));
        let url = BrokerUrl::parse("https://[::1]:9/x?y").unwrap();
        assert_eq!((url.authority().as_str(), url.path.as_str()), ("[::1]:9", "/x?y"));
        for bad in [
            "",
            "ftp://x",
            "ws://",
            "ws://a:0/",
            "ws://a:99999/",
            "ws://u@h/",
            "ws://[::1/",
            "ws://a b/",
            "ws://::1/",
            "ws://a/#b",
        ] {
            assert!(BrokerUrl::parse(bad).is_err(), "{bad}");
        }
    }
}
