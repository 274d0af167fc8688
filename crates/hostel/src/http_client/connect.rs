//! Connections to servers: directly or through a proxy, with or without TLS.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hostel_mesh::link::dial::BoxStream;
use hyper::Uri;
use hyper::service::Service as _;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::Address;

/// The longest answer of a proxy to a request for a tunnel.
const MAX_TUNNEL_ANSWER_BYTES: usize = 8 << 10;

/// A stream to a server, ready for a request.
pub(super) struct Connection {
    pub(super) stream: BoxStream,
    /// The proxy that reads the request itself; a tunnel is not one of these.
    pub(super) proxy: Option<Intercept>,
}

pub(super) struct Connector {
    tcp: TowerToHyperService<HttpConnector>,
    proxies: Matcher,
    limit: Duration,
    tls: OnceLock<TlsConnector>,
}

impl Connector {
    /// Connecting, with everything that belongs to it, takes no longer than the limit.
    pub(super) fn new(limit: Duration) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(limit));
        Self {
            tcp: TowerToHyperService::new(tcp),
            proxies: Matcher::from_env(),
            limit,
            tls: OnceLock::new(),
        }
    }

    pub(super) async fn connect(&self, address: &Address) -> io::Result<Connection> {
        match tokio::time::timeout(self.limit, self.open(address)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it takes too long")),
        }
    }

    async fn open(&self, address: &Address) -> io::Result<Connection> {
        let Some(proxy) = self.proxies.intercept(address.uri()) else {
            let stream = self.dial(address.uri()).await?;
            let stream = if address.is_tls() { self.encrypt(stream, address.host()).await? } else { stream };
            return Ok(Connection { stream, proxy: None });
        };
        let place = Address::parse(&proxy.uri().to_string()).map_err(io::Error::other)?;
        let mut stream = self.dial(place.uri()).await?;
        if place.is_tls() {
            stream = self.encrypt(stream, place.host()).await?;
        }
        if !address.is_tls() {
            return Ok(Connection { stream, proxy: Some(proxy) });
        }
        tunnel(&mut stream, address, &proxy).await?;
        Ok(Connection { stream: self.encrypt(stream, address.host()).await?, proxy: None })
    }

    async fn dial(&self, uri: &Uri) -> io::Result<BoxStream> {
        let stream = self.tcp.call(uri.clone()).await.map_err(io::Error::other)?;
        Ok(Box::new(stream.into_inner()))
    }

    async fn encrypt(&self, stream: BoxStream, host: &str) -> io::Result<BoxStream> {
        let tls = match self.tls.get() {
            Some(tls) => tls,
            None => {
                // Two requests at once may both read the certificates, which is as good.
                let made = hostel_tasks::spawn_blocking(tls_of_system).await.map_err(io::Error::other)??;
                self.tls.get_or_init(|| made)
            }
        };
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}

/// TLS with the authorities that the system trusts.
fn tls_of_system() -> io::Result<TlsConnector> {
    let mut roots = rustls::RootCertStore::empty();
    // Certificates that cannot be read are passed over, as other programs do: one bad file must not end all TLS.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(io::Error::other("the system has no certificates of authorities"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Asks a proxy for a connection to a server.
async fn tunnel(stream: &mut BoxStream, address: &Address, proxy: &Intercept) -> io::Result<()> {
    let host = address.uri().host().unwrap_or_default();
    let place = format!("{host}:{}", address.port());
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n").into_bytes();
    if let Some(authorization) = proxy.basic_auth() {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    stream.write_all(&request).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    // Byte by byte: what follows the head belongs to the server behind the proxy.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MAX_TUNNEL_ANSWER_BYTES {
            return Err(io::Error::other("the proxy's answer is too long"));
        }
        answer.push(stream.read_u8().await?);
    }
    let is_success = |version: &[u8]| answer.strip_prefix(version).is_some_and(|rest| rest.starts_with(b" 2"));
    match is_success(b"HTTP/1.1") || is_success(b"HTTP/1.0") {
        true => Ok(()),
        false => {
            let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
            Err(io::Error::other(format!("the proxy answered `{}`", String::from_utf8_lossy(line).escape_debug())))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A proxy that gives each client one answer, and returns what it was asked.
    async fn proxy(answer: &'static [u8]) -> (Connector, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer).await.unwrap();
            String::from_utf8(request).unwrap()
        });
        let mut connector = Connector::new(Duration::from_secs(60));
        connector.proxies = Matcher::builder().all(format!("http://me:pw@{address}")).no("direct.example").build();
        (connector, asked)
    }

    #[tokio::test]
    async fn a_proxy_is_asked_for_a_tunnel_to_a_server_with_tls() {
        let (connector, asked) = proxy(b"HTTP/1.1 403 No\r\n\r\n").await;
        let address = Address::parse("https://server.example/secret").unwrap();
        let refused = connector.connect(&address).await.err().unwrap();
        assert_eq!(refused.to_string(), "the proxy answered `HTTP/1.1 403 No`");
        let request = asked.await.unwrap();
        assert_eq!(
            request,
            "CONNECT server.example:443 HTTP/1.1\r\nHost: server.example:443\r\nProxy-Authorization: Basic bWU6cHc=\r\n\r\n"
        );
    }

    #[tokio::test]
    async fn a_proxy_reads_requests_without_tls_itself() {
        let (connector, _asked) = proxy(b"").await;
        let connection = connector.connect(&Address::parse("http://server.example/x").unwrap()).await.unwrap();
        assert_eq!(connection.proxy.unwrap().basic_auth().unwrap(), "Basic bWU6cHc=");
    }
}
