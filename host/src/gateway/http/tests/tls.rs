//! Tests of TLS and of certificates that change.

use std::fs;
use std::path::Path;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

/// Writes a new certificate, and returns it for the client to trust.
fn write(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    // Each file is replaced atomically, as careful programs do.
    for (name, text) in [("key.pem", made.signing_key.serialize_pem()), ("cert.pem", made.cert.pem())] {
        fs::write(folder.join("new"), text).unwrap();
        fs::rename(folder.join("new"), folder.join(name)).unwrap();
    }
    made.cert.der().clone()
}

fn files(folder: &Path) -> CertificateFiles {
    CertificateFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") }
}

async fn connect(
    door: &Running,
    trusted: &CertificateDer<'static>,
    version: &'static rustls::SupportedProtocolVersion,
) -> std::io::Result<Wire<TlsStream<TcpStream>>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(door.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    timeout(LONG, TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap().map(Wire::new)
}

#[tokio::test]
async fn a_certificate_that_changes_is_used_from_the_next_connection_on() {
    let folder = tempfile::tempdir().unwrap();
    let old = write(folder.path());
    let door = Running::with(|options| options.tls = Some(files(folder.path()))).await;
    let mut first = connect(&door, &old, &rustls::version::TLS13).await.unwrap();
    assert_eq!(first.ask(Ask::modern("echo")).await.status, 200);
    assert_eq!(connect(&door, &old, &rustls::version::TLS12).await.unwrap().ask(Ask::modern("echo")).await.status, 200);
    let new = write(folder.path());
    assert!(connect(&door, &old, &rustls::version::TLS13).await.is_err());
    let mut second = connect(&door, &new, &rustls::version::TLS13).await.unwrap();
    assert_eq!(second.ask(Ask::modern("progress")).await.status, 200);
    // A broken certificate is not used, and open connections continue.
    fs::write(folder.path().join("cert.pem"), "nonsense").unwrap();
    assert!(connect(&door, &new, &rustls::version::TLS13).await.is_ok());
    assert_eq!(first.ask(Ask::modern("echo")).await.status, 200);
    door.stop().await;
}

#[tokio::test]
async fn a_certificate_in_other_files_is_used_once_it_can_be() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let old = write(folder.path());
    let door = Running::with(|options| options.tls = Some(files(folder.path()))).await;
    let elsewhere = || {
        let mut options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
        options.tls = Some(files(other.path()));
        options
    };
    assert!(door.control.prepare(elsewhere()).is_err(), "there is nothing yet");
    assert!(connect(&door, &old, &rustls::version::TLS13).await.is_ok());
    let new = write(other.path());
    assert!(door.control.prepare(elsewhere()).unwrap().apply().needs_restart.is_empty());
    assert!(connect(&door, &old, &rustls::version::TLS13).await.is_err());
    assert!(connect(&door, &new, &rustls::version::TLS13).await.is_ok());
    let newer = write(other.path());
    assert!(connect(&door, &newer, &rustls::version::TLS13).await.is_ok(), "they are read again too");
    door.stop().await;
}

#[tokio::test]
async fn a_handshake_has_a_limit_and_plain_http_is_no_handshake() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let door = Running::with(|options| {
        options.tls = Some(files(folder.path()));
        options.limits.timeouts.handshake = Duration::from_millis(50);
    });
    let door = door.await;
    assert!(door.connect().await.closed().await);
    let mut wire = door.connect().await;
    wire.send(Ask::modern("echo")).await;
    assert!(wire.closed().await);
    door.stop().await;
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_without_their_content() {
    let folder = tempfile::tempdir().unwrap();
    let bind = async || {
        let options =
            HttpOptions { tls: Some(files(folder.path())), ..HttpOptions::new("127.0.0.1:0".parse().unwrap()) };
        let error = HttpServer::bind(options).await.err().expect("unusable");
        let cause = std::error::Error::source(&error).unwrap().to_string();
        format!("{error}: {cause}")
    };
    assert!(bind().await.contains("cert.pem"));
    write(folder.path());
    let good = fs::read(folder.path().join("key.pem")).unwrap();
    fs::write(folder.path().join("key.pem"), "-----BEGIN s3cret").unwrap();
    let error = bind().await;
    assert!(error.contains("key.pem") && error.contains("no private key") && !error.contains("s3cret"), "{error}");
    write(folder.path());
    fs::write(folder.path().join("key.pem"), good).unwrap();
    let error = bind().await;
    assert!(error.contains("key.pem"), "a key of another certificate: {error}");
}
