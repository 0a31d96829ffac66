//! How certificates are checked and shown.

use super::super::super::model::ServerTls;
use super::super::{ConfigKey, KeyForm};

/// How certificates are checked and shown.
pub const TLS: &[ConfigKey<ServerTls>] = &[
    ConfigKey::new("verify", KeyForm::Flag, "true", "The server's certificate is checked.", |tls, field, _| {
        tls.verify = field.flag()?;
        Ok(())
    }),
    ConfigKey::new(
        "ca",
        KeyForm::Text,
        "",
        "A PEM file of authorities to trust beside the system's.",
        |tls, field, _| {
            tls.ca = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::aliased(
        &["client_cert", "cert"],
        ConfigKey::new(
            "client_certificate",
            KeyForm::Text,
            "",
            "A PEM file with our certificate, for servers that want one.",
            |tls, field, _| {
                tls.client_certificate = Some(field.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "client_key",
        KeyForm::Text,
        "",
        "A PEM file with the key of our certificate, if it is not in the same file.",
        |tls, field, _| {
            tls.client_key = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
];
