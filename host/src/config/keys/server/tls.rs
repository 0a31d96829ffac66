//! The keys of a server's `tls`.

use super::super::super::model::ServerTls;
use super::super::super::section::{ConfigKey, KeyForm};

type Key = ConfigKey<ServerTls>;

/// The keys of `tls`.
pub(crate) const TLS: &[Key] = &[
    Key::new("verify", KeyForm::Flag(|tls, flag| tls.verify = flag))
        .about("Whether to check the server's certificate.")
        .default("true"),
    Key::new("ca", KeyForm::UnexpandedText(|tls, text| tls.ca = Some(text)))
        .about("A PEM file of CAs to trust in addition to the system's."),
    Key::new("client_certificate", KeyForm::UnexpandedText(|tls, text| tls.client_certificate = Some(text)))
        .about("A PEM file with a client certificate, for servers that ask for one.")
        .aliased(&["client_cert", "cert"]),
    Key::new("client_key", KeyForm::UnexpandedText(|tls, text| tls.client_key = Some(text)))
        .about("A PEM file with the key of the client certificate, if it is not in the same file."),
];
