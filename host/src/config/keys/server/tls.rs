//! How certificates are checked and shown.

use super::super::super::model::TlsFiles;
use super::super::{Form, Key};

/// How certificates are checked and shown.
pub const TLS: &[Key<TlsFiles>] = &[
    Key::new("verify", Form::Flag, "true", "The server's certificate is checked.", |tls, given, _| {
        tls.verify = given.flag()?;
        Ok(())
    }),
    Key::new("ca", Form::Text, "", "A PEM file of authorities to trust beside the system's.", |tls, given, _| {
        tls.ca = Some(given.located()?);
        Ok(())
    }),
    Key::or(
        &["client_cert", "cert"],
        Key::new(
            "client_certificate",
            Form::Text,
            "",
            "A PEM file with our certificate, for servers that want one.",
            |tls, given, _| {
                tls.client_certificate = Some(given.located()?);
                Ok(())
            },
        ),
    ),
    Key::new(
        "client_key",
        Form::Text,
        "",
        "A PEM file with the key of our certificate, if it is not in the same file.",
        |tls, given, _| {
            tls.client_key = Some(given.located()?);
            Ok(())
        },
    ),
];
