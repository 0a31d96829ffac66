//! Trusted certificates, and the client certificate.

use std::path::Path;

use reqwest::{Certificate, ClientBuilder, Identity};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::errors::{connect_error, in_words, root_cause};
use super::site::Tls;
use crate::failure::RequestError;
use crate::ownership;

/// Configures whether and how the server's certificate is checked.
pub(super) fn check(builder: ClientBuilder, tls: &Tls) -> Result<ClientBuilder, RequestError> {
    let authorities = match &tls.ca {
        Some(file) => certificates(file, &read(file)?)?,
        None => Vec::new(),
    };
    let builder = builder.tls_danger_accept_invalid_certs(!tls.verify);
    Ok(if authorities.is_empty() { builder } else { builder.tls_certs_merge(authorities) })
}

/// Adds the client certificate, if there is one.
pub(super) fn show(builder: ClientBuilder, tls: &Tls) -> Result<ClientBuilder, RequestError> {
    let Some(file) = &tls.client_certificate else { return Ok(builder) };
    let mut pem = read(file)?;
    certificates(file, &pem)?;
    let key_file = tls.client_key.as_deref().unwrap_or(file);
    if tls.client_key.is_some() {
        pem.push(b'\n');
        pem.extend(read(key_file)?);
    }
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| bad(key_file, "it holds no private key in PEM form, or an encrypted one"))?;
    let identity = Identity::from_pem(&pem).map_err(|error| bad(key_file, &root_cause(&error)))?;
    Ok(builder.identity(identity))
}

/// Checks the files, even if no certificate will be needed.
pub(super) fn check_files(tls: &Tls) -> Result<(), RequestError> {
    if tls.ca.is_none() && tls.client_certificate.is_none() {
        return Ok(());
    }
    check(ClientBuilder::new(), tls).and_then(|builder| show(builder, tls)).map(drop)
}

fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<Certificate>, RequestError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if !found.is_empty() => {
            found.iter().map(|der| Certificate::from_der(der).map_err(|error| bad(file, &root_cause(&error)))).collect()
        }
        _ => Err(bad(file, "it holds no certificate in PEM form")),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, RequestError> {
    ownership::read(file).map_err(|error| bad(file, &in_words(&error)))
}

fn bad(file: &Path, what: &str) -> RequestError {
    connect_error(format!("{}: {what}", file.display()))
}
