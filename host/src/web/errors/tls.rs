//! Texts for TLS errors, because some of rustls's own are names from its code.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// Returns the TLS error that caused another error.
pub(super) fn cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(found);
        }
        // An io::Error displays its inner error, but does not return it as its source.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

/// Reports whether the server rejects the client certificate, or requires one.
pub(super) fn refuses_us(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::AlertReceived(alert) if REFUSALS.contains(alert))
}

/// Describes the error.
pub(super) fn in_words(error: &rustls::Error) -> String {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(why) => format!("the server's certificate {}", of_certificate(why)),
        Tls::InvalidMessage(_) => "the server does not speak TLS; is it http rather than https?".to_owned(),
        Tls::AlertReceived(alert) if refuses_us(error) => {
            format!("TLS: the server requires a client certificate that it accepts ({})", spelled(alert))
        }
        Tls::AlertReceived(alert) => format!("TLS: the server ended the handshake ({})", spelled(alert)),
        Tls::PeerIncompatible(why) => format!("TLS: the server supports nothing that we support ({})", spelled(why)),
        Tls::PeerMisbehaved(why) => format!("TLS: the server violates the protocol ({})", spelled(why)),
        Tls::InappropriateMessage { .. } | Tls::InappropriateHandshakeMessage { .. } => {
            "TLS: the server sent an unexpected message".to_owned()
        }
        Tls::InconsistentKeys(_) => "the certificate and the key do not belong together".to_owned(),
        Tls::InvalidCertRevocationList(why) => format!("TLS: invalid revocation list ({})", spelled(why)),
        Tls::InvalidEncryptedClientHello(why) => format!("TLS: invalid encrypted client hello ({})", spelled(why)),
        // The other errors have readable texts.
        error => format!("TLS: {error}"),
    }
}

/// Describes what is wrong with a certificate, to follow its name.
fn of_certificate(why: &CertificateError) -> String {
    use CertificateError as Why;
    match why {
        Why::UnknownIssuer => "is signed by an unknown authority; name its authority as ca".to_owned(),
        Why::Expired | Why::ExpiredContext { .. } => "has expired".to_owned(),
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "is not valid yet; is the clock of this machine right?".to_owned()
        }
        Why::NotValidForName => "is not for this name".to_owned(),
        Why::NotValidForNameContext { expected, presented } => {
            let names: Vec<_> = presented.iter().map(|name| inside(name)).collect();
            let names = if names.is_empty() { "no name at all".to_owned() } else { names.join(", ") };
            format!("is not for {}, but for {names}", expected.to_str())
        }
        Why::Revoked => "is revoked".to_owned(),
        Why::Other(why) if why.to_string() == AUTHORITY => {
            "is that of an authority (CA:TRUE), which no server may use; make one with CA:FALSE, and name \
             it as ca"
                .to_owned()
        }
        Why::Other(why) => format!("cannot be used ({})", spelled(why.0.as_ref())),
        why => format!("cannot be used ({})", spelled(why)),
    }
}

/// Returns the name in a text such as `DnsName("a.example")`.
fn inside(name: &str) -> &str {
    name.split_once('(').map_or(name, |(_, rest)| rest.trim_end_matches(')')).trim_matches('"')
}

/// Converts a name such as `HandshakeFailure` to words.
fn spelled<T: std::fmt::Debug + ?Sized>(name: &T) -> String {
    let name = format!("{name:?}");
    let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let mut words = String::with_capacity(name.len() + 8);
    let mut after_small = false;
    for c in name.chars() {
        if c.is_uppercase() && after_small {
            words.push(' ');
        }
        after_small = c.is_lowercase() || c.is_numeric();
        words.push(c.to_ascii_lowercase());
    }
    words
}

/// webpki's name for the error of a server that presents a CA certificate.
const AUTHORITY: &str = "CaUsedAsEndEntity";

const REFUSALS: [AlertDescription; 8] = [
    AlertDescription::CertificateRequired,
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::UnknownCA,
    AlertDescription::AccessDenied,
];

#[cfg(test)]
mod tests {
    use rustls::{InvalidMessage, PeerIncompatible};

    use super::*;

    #[test]
    fn no_error_shows_a_name_of_the_code() {
        let check = |error: rustls::Error, words: &str| assert_eq!(in_words(&error), words);
        check(
            rustls::Error::AlertReceived(AlertDescription::HandshakeFailure),
            "TLS: the server ended the handshake (handshake failure)",
        );
        check(
            rustls::Error::AlertReceived(AlertDescription::UnknownCA),
            "TLS: the server requires a client certificate that it accepts (unknown ca)",
        );
        check(
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType),
            "the server does not speak TLS; is it http rather than https?",
        );
        check(
            PeerIncompatible::ServerDoesNotSupportTls12Or13.into(),
            "TLS: the server supports nothing that we support (server does not support tls12 or13)",
        );
        check(CertificateError::BadSignature.into(), "the server's certificate cannot be used (bad signature)");
        check(rustls::Error::DecryptError, "TLS: cannot decrypt peer's message");
        let expected = rustls::pki_types::ServerName::try_from("a.example").unwrap();
        let presented = vec![r#"DnsName("b.example")"#.to_owned(), "IpAddress(127.0.0.1)".to_owned()];
        check(
            CertificateError::NotValidForNameContext { expected, presented }.into(),
            "the server's certificate is not for a.example, but for b.example, 127.0.0.1",
        );
    }
}
