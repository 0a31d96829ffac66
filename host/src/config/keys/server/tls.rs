//! The keys of a server's `tls`.

use super::super::super::model::ServerTls;
use super::super::{ConfigKey, KeyForm};

/// The keys of `tls`.
pub const TLS: &[ConfigKey<ServerTls>] = &[
    ConfigKey::new("verify", KeyForm::Flag, "true", "Whether to check the server's certificate.", |tls, field, _| {
        tls.verify = field.flag()?;
        Ok(())
    }),
    ConfigKey::new(
        "ca",
        KeyForm::Text,
        "",
        "A PEM file of CAs to trust in addition to the system's.",
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
            "A PEM file with a client certificate, for servers that ask for one.",
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
        "A PEM file with the key of the client certificate, if it is not in the same file.",
        |tls, field, _| {
            tls.client_key = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
];
