//! TLS for the test client. The daemon's certificate is its own authority: whoever has the file knows the daemon.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::http::Connection;
use crate::wait;

/// What a client needs to trust this certificate alone; it offers these protocols.
///
/// # Panics
/// If the certificate cannot be read.
pub fn config(certificate: &Path, protocols: &[&str]) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).expect("a certificate")).expect("it can be trusted");
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config
}

/// Connects and trusts this certificate alone.
///
/// # Errors
/// Why there is no secure connection.
///
/// # Panics
/// If the certificate cannot be read.
pub fn connect(address: SocketAddr, certificate: &Path) -> Result<Connection, String> {
    let name = ServerName::try_from("localhost").expect("a name");
    let session = ClientConnection::new(Arc::new(config(certificate, &[])), name).expect("a client");
    let socket = TcpStream::connect(address).map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(wait::limit())).map_err(|error| error.to_string())?;
    let mut stream = StreamOwned::new(session, socket.try_clone().map_err(|error| error.to_string())?);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|error| error.to_string())?;
    }
    Ok(Connection::over(Box::new(stream), socket))
}
