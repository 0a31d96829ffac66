//! The TLS certificate of a server, which is read again when its files change.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::error::HttpServerError;
use super::options::CertificateFiles;
use crate::lock::lock;
use crate::ownership;

/// The TLS certificate of a server.
pub(super) struct Certificate(Mutex<LoadedCertificate>);

impl Certificate {
    /// Reads the certificate for the first time.
    pub(super) fn open(files: CertificateFiles) -> Result<Arc<Self>, HttpServerError> {
        Ok(Arc::new(Certificate(Mutex::new(LoadedCertificate::read(files)?))))
    }

    /// Replaces the certificate, starting with the next handshake.
    pub(super) fn replace(&self, state: LoadedCertificate) {
        *lock(&self.0) = state;
    }

    /// Returns the acceptor for the next handshake; a changed certificate that cannot be read is logged once, not used.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let mut state = lock(&self.0);
        let stamp = Stamp::of(&state.files);
        if stamp != state.stamp && state.failed.as_ref() != Some(&stamp) {
            match read(&state.files) {
                Ok(config) => {
                    info!(certificate = %state.files.certificate.display(), "certificate reloaded");
                    (state.config, state.stamp, state.failed) = (config, stamp, None);
                }
                Err(error) => {
                    warn!(%error, "cannot use the changed certificate; the old one stays in use");
                    state.failed = Some(stamp);
                }
            }
        }
        TlsAcceptor::from(state.config.clone())
    }
}

/// A certificate that has been read.
pub(super) struct LoadedCertificate {
    files: CertificateFiles,
    config: Arc<ServerConfig>,
    /// The stamp of the files when they were read.
    stamp: Stamp,
    /// The stamp of the files when reading them failed.
    failed: Option<Stamp>,
}

impl LoadedCertificate {
    pub(super) fn read(files: CertificateFiles) -> Result<Self, HttpServerError> {
        let stamp = Stamp::of(&files);
        Ok(LoadedCertificate { config: read(&files)?, files, stamp, failed: None })
    }
}

/// Metadata that changes when a file is written or replaced.
#[derive(PartialEq, Eq)]
struct Stamp([Option<(SystemTime, u64, u64)>; 2]);

impl Stamp {
    fn of(files: &CertificateFiles) -> Self {
        Stamp([&files.certificate, &files.key].map(|file| {
            let metadata = fs::metadata(file).ok()?;
            Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
        }))
    }
}

fn read(files: &CertificateFiles) -> Result<Arc<ServerConfig>, HttpServerError> {
    let chain = CertificateDer::pem_slice_iter(&load(&files.certificate)?).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| unusable(&files.certificate, "it contains no certificate in PEM"))?;
    // The parser's error is dropped, because it may quote the key.
    let key = PrivateKeyDer::from_pem_slice(&load(&files.key)?);
    let key = key.map_err(|_| unusable(&files.key, "it contains no private key in PEM"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.expect("ring knows TLS 1.2 and 1.3").with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key).map_err(|error| unusable(&files.key, error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn load(path: &Path) -> Result<Vec<u8>, HttpServerError> {
    ownership::read(path).map_err(|source| HttpServerError::Certificate { path: path.to_owned(), source })
}

fn unusable(path: &Path, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HttpServerError {
    HttpServerError::Certificate { path: path.to_owned(), source: io::Error::new(io::ErrorKind::InvalidData, why) }
}
