//! Certificates of our own, and TLS on accepted connections.
//!
//! Invariant: a key is never readable by anybody but its owner, not even for a moment, and a file that is there is
//! never overwritten. It opens no sockets and decides nothing about who may come in.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest as _, Sha256};
use tokio_rustls::TlsAcceptor;

/// The names a certificate of our own is made for.
const OWN_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// What may be spoken inside TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocols {
    /// HTTP/1.1 alone.
    Http1,
    /// HTTP/2, and HTTP/1.1 for those who do not speak it.
    Http2,
}

/// What can be wrong with a certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One file of the two is there.
    #[error("`{there}` is there and `{missing}` is not; remove the first, or add the second")]
    HalfThere {
        /// The one that is there.
        there: PathBuf,
        /// The one that is not.
        missing: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path}: {reason}", path = path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No certificate could be made.
    #[error("a certificate could not be made: {0}")]
    Making(#[from] rcgen::Error),
    /// Certificate and key do not fit.
    #[error(transparent)]
    Unusable(#[from] rustls::Error),
}

/// A certificate chain with its key.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads a certificate and its key; makes a self-signed pair if neither is there.
    pub fn load_or_make(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        match (certificate.exists(), key.exists()) {
            (true, true) => {}
            (false, false) => make(certificate, key)?,
            (there, _) => {
                let (there, missing) = if there { (certificate, key) } else { (key, certificate) };
                return Err(TlsError::HalfThere { there: there.to_owned(), missing: missing.to_owned() });
            }
        }
        Self::load(certificate, key)
    }

    /// Reads a certificate and its key, both PEM.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let content = |path: &Path, reason: String| TlsError::Content { path: path.to_owned(), reason };
        let pem = read(certificate)?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .collect::<Result<_, _>>()
            .map_err(|error| content(certificate, error.to_string()))?;
        if chain.is_empty() {
            return Err(content(certificate, "there is no certificate in it".to_owned()));
        }
        let pem = zeroize::Zeroizing::new(read(key)?);
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| content(key, error.to_string()))?;
        Ok(Self { chain, key })
    }

    /// SHA-256 over the certificate's DER as other tools print it: upper-case bytes with colons.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = self.chain.first().map(Sha256::digest).unwrap_or_default();
        let bytes: Vec<String> = digest.iter().map(|byte| format!("{byte:02X}")).collect();
        bytes.join(":")
    }

    /// The certificate itself where it stands alone, else that of the authority at the end of its chain: its key is the one
    /// that stays when the certificate is renewed.
    #[must_use]
    pub fn last(&self) -> Option<&CertificateDer<'static>> {
        self.chain.last()
    }

    /// What turns accepted connections into TLS ones.
    pub fn acceptor(&self, protocols: Protocols) -> Result<TlsAcceptor, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = match protocols {
            Protocols::Http1 => vec![b"http/1.1".to_vec()],
            Protocols::Http2 => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn make(certificate: &Path, key: &Path) -> Result<(), TlsError> {
    let made = rcgen::generate_simple_self_signed(OWN_NAMES.map(str::to_owned))?;
    // The key first: a certificate without its key would have to be removed by hand.
    let pem = zeroize::Zeroizing::new(made.signing_key.serialize_pem());
    write(key, pem.as_bytes(), 0o600)?;
    write(certificate, made.cert.pem().as_bytes(), 0o644)
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// Makes a file that is there with all of its content or not at all.
fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), TlsError> {
    let failed = |source| TlsError::File { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    // A process of the same number may have died here.
    fs::remove_file(&unfinished).ok();
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&unfinished)
        .and_then(|mut file| file.write_all(content))
        // A link, unlike a rename, does not replace what somebody else has put there meanwhile.
        .and_then(|()| match fs::hard_link(&unfinished, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&unfinished, path),
            linked => linked,
        });
    fs::remove_file(&unfinished).ok();
    written.map_err(failed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_pair_is_made_once_and_kept() {
        let home = tempfile::tempdir().unwrap();
        let (certificate, key) = (home.path().join("a/cert.pem"), home.path().join("a/key.pem"));
        let first = Identity::load_or_make(&certificate, &key).unwrap();
        assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        let second = Identity::load_or_make(&certificate, &key).unwrap();
        assert_eq!(first.fingerprint(), second.fingerprint());
        assert_eq!(first.fingerprint().len(), 32 * 3 - 1);
        assert_eq!(fs::read_dir(home.path().join("a")).unwrap().count(), 2, "nothing is left lying about");
        first.acceptor(Protocols::Http2).unwrap();
        first.acceptor(Protocols::Http1).unwrap();
    }

    #[test]
    fn half_a_pair_is_refused_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let (certificate, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
        fs::write(&certificate, "mine").unwrap();
        let error = Identity::load_or_make(&certificate, &key).unwrap_err();
        assert!(matches!(error, TlsError::HalfThere { .. }), "{error}");
        assert_eq!(fs::read_to_string(&certificate).unwrap(), "mine");
        assert!(!key.exists());
    }

    #[test]
    fn what_is_no_certificate_is_named() {
        let home = tempfile::tempdir().unwrap();
        let (certificate, key) = (home.path().join("cert.pem"), home.path().join("key.pem"));
        fs::write(&certificate, "nonsense").unwrap();
        fs::write(&key, "nonsense").unwrap();
        let error = Identity::load_or_make(&certificate, &key).unwrap_err().to_string();
        assert!(error.contains("cert.pem"), "{error}");
    }
}
