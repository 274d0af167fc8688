//! A broker beyond loopback shows a certificate of its own; only the one the invite named is taken.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

mod link_support;

use std::sync::Arc;

use hostel_mesh::link::dial::{BrokerUrl, Dial as _, NetDial};
use link_support::soon;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

#[tokio::test]
async fn only_the_named_certificate_is_taken() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pin: [u8; 32] = Sha256::digest(made.cert.der()).into();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    stream.write_all(b"hello").await.ok();
                    stream.shutdown().await.ok();
                }
            });
        }
    });
    let url = BrokerUrl::parse(&format!("wss://localhost:{port}/ws")).unwrap();
    let mut stream = soon("dialling", NetDial::new(Some(pin)).unwrap().dial(&url)).await.unwrap();
    let mut heard = Vec::new();
    soon("reading", stream.read_to_end(&mut heard)).await.unwrap();
    assert_eq!(heard, b"hello");

    let wrong = soon("dialling", NetDial::new(Some([7; 32])).unwrap().dial(&url)).await;
    assert!(wrong.err().unwrap().to_string().contains("another certificate"));
    let none = soon("dialling", NetDial::new(None).unwrap().dial(&url)).await;
    assert_eq!(none.err().unwrap().kind(), std::io::ErrorKind::InvalidInput);
    // With authorities: only what one of them vouches for.
    let good = NetDial::with_authorities(None, made.cert.pem().as_bytes()).unwrap();
    soon("dialling", good.dial(&url)).await.unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let bad = NetDial::with_authorities(None, other.cert.pem().as_bytes()).unwrap();
    assert!(soon("dialling", bad.dial(&url)).await.is_err());
    assert!(NetDial::with_authorities(None, b"nothing").is_err());
}
