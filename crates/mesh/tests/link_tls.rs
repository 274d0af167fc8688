//! A broker beyond loopback shows a certificate of its own; only the one the invite named is taken, or one that was renewed
//! under the key the invite named.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // test code

use crate::link_support;

use std::io;
use std::sync::Arc;

use hostel_mesh::link::dial::{BrokerUrl, Dial as _, NetDial, key_digest};
use hostel_wire::invite::CertPin;
use link_support::soon;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Somebody who shows these certificates to whoever comes, and says hello.
async fn shows(chain: Vec<CertificateDer<'static>>, key: &KeyPair) -> BrokerUrl {
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
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
    BrokerUrl::parse(&format!("wss://localhost:{port}/ws")).unwrap()
}

/// Reaches it and hears it out.
async fn reach(dial: &NetDial, url: &BrokerUrl) -> io::Result<()> {
    let mut stream = soon("dialling", dial.dial(url)).await?;
    let mut heard = Vec::new();
    soon("reading", stream.read_to_end(&mut heard)).await?;
    assert_eq!(heard, b"hello");
    Ok(())
}

async fn with_pin(pin: CertPin, url: &BrokerUrl) -> io::Result<()> {
    reach(&NetDial::new(Some(pin)).unwrap(), url).await
}

fn refused(reached: io::Result<()>) -> String {
    reached.expect_err("it must not be taken").to_string()
}

fn params() -> CertificateParams {
    CertificateParams::new(vec!["localhost".to_owned()]).unwrap()
}

fn pin(certificate: &CertificateDer<'_>, with_key: &CertificateDer<'_>) -> CertPin {
    CertPin { cert: Sha256::digest(certificate).into(), key: key_digest(with_key) }
}

#[tokio::test]
async fn only_the_named_certificate_is_taken() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let named = CertPin::from(<[u8; 32]>::from(Sha256::digest(made.cert.der())));
    let url = shows(vec![made.cert.der().clone()], &made.signing_key).await;
    with_pin(named, &url).await.unwrap();
    assert!(refused(with_pin([7; 32].into(), &url).await).contains("another certificate"));
    let other = CertPin { cert: [7; 32], key: Some([8; 32]) };
    assert!(refused(with_pin(other, &url).await).contains("another certificate"));
    let none = soon("dialling", NetDial::new(None).unwrap().dial(&url)).await;
    assert_eq!(none.err().unwrap().kind(), std::io::ErrorKind::InvalidInput);
    // With authorities: only what one of them vouches for.
    reach(&NetDial::with_authorities(None, made.cert.pem().as_bytes()).unwrap(), &url).await.unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let bad = NetDial::with_authorities(None, other.cert.pem().as_bytes()).unwrap();
    assert!(reach(&bad, &url).await.is_err());
    assert!(NetDial::with_authorities(None, b"nothing").is_err());
}

#[tokio::test]
async fn a_certificate_that_was_renewed_under_its_key_is_taken() {
    let key = KeyPair::generate().unwrap();
    let first = params().self_signed(&key).unwrap();
    let mut later = params();
    later.not_after = rcgen::date_time_ymd(2001, 1, 1);
    later.not_before = rcgen::date_time_ymd(2000, 1, 1);
    let renewed = later.self_signed(&key).unwrap();
    assert_ne!(first.der(), renewed.der());
    let url = shows(vec![renewed.der().clone()], &key).await;
    let named = pin(first.der(), first.der());
    // As with the digest, the key says more than dates could.
    with_pin(named, &url).await.unwrap();
    // Invites of before name no key.
    assert!(refused(with_pin(named.cert.into(), &url).await).contains("another certificate"));
    // Another key is another broker, whatever its certificate says.
    let stranger = KeyPair::generate().unwrap();
    let url = shows(vec![params().self_signed(&stranger).unwrap().der().clone()], &stranger).await;
    assert!(refused(with_pin(named, &url).await).contains("another certificate"));
}

#[tokio::test]
async fn what_the_pinned_authority_renews_is_taken_for_its_name_and_time() {
    let authority = || {
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = ca.self_signed(&key).unwrap().der().clone();
        (certificate, Issuer::new(ca, key))
    };
    let (ca, issuer) = authority();
    let (other_ca, other_issuer) = authority();
    let (first, second) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let leaf = params().signed_by(&first, &issuer).unwrap().der().clone();
    let named = pin(&leaf, &ca);
    let renewed = params().signed_by(&second, &issuer).unwrap().der().clone();
    let url = shows(vec![renewed.clone(), ca.clone()], &second).await;
    with_pin(named, &url).await.unwrap();
    // Another key and no authority beside it, or only its leaf known: nothing leads from one to the other.
    assert!(refused(with_pin(pin(&leaf, &leaf), &url).await).contains("another certificate"));
    let alone = shows(vec![renewed], &second).await;
    assert!(refused(with_pin(named, &alone).await).contains("another certificate"));
    // Another name, another time, another authority; also one that only shows the pinned one's certificate.
    let elsewhere = CertificateParams::new(vec!["elsewhere.example".to_owned()]).unwrap();
    let elsewhere = elsewhere.signed_by(&second, &issuer).unwrap().der().clone();
    let mut over = params();
    over.not_before = rcgen::date_time_ymd(2000, 1, 1);
    over.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let over = over.signed_by(&second, &issuer).unwrap().der().clone();
    let foreign = params().signed_by(&second, &other_issuer).unwrap().der().clone();
    for chain in [
        vec![elsewhere, ca.clone()],
        vec![over, ca.clone()],
        vec![foreign.clone(), other_ca.clone()],
        vec![foreign, other_ca, ca],
    ] {
        let url = shows(chain, &second).await;
        refused(with_pin(named, &url).await);
    }
}
