//! The keys of `gateway`.

mod address;
mod token;

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{GatewayNames, GatewayRules, GatewayTls, UnexpandedText};
use super::super::schema;
use super::lifecycle::read_retention;
use super::server::read_span;
use super::{ConfigKey, KeyForm, read_keys, read_section};
use address::{host, origin, read_listen_address};
pub use token::TOKEN;
use token::read_tokens;

/// The keys of `gateway`.
pub const GATEWAY: &[ConfigKey<GatewayRules>] = &[
    ConfigKey::aliased(
        &["listen"],
        ConfigKey::new(
            "http",
            KeyForm::Text,
            "",
            "The address for `serve --http` if the flag gives none; default: 127.0.0.1:8808.",
            |gateway, field, _| {
                gateway.http = Some(read_listen_address(field)?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "names",
        KeyForm::Choice(&["dot", "double-underscore", "mcp-prefix", "openai", "anthropic", "gemini", "cursor"]),
        "",
        "How the gateway names tools: a style, or the rules of one provider; default: the top-level `names`.",
        |gateway, field, _| {
            gateway.names = Some(field.choice(&GatewayNames::ALL)?);
            Ok(())
        },
    ),
    ConfigKey::as_rule(ConfigKey::new(
        "tokens",
        KeyForm::Sections(|| schema::object(TOKEN)),
        "[]",
        "Who may use the gateway, each with a token; required to listen on anything but loopback.",
        |gateway, field, context| {
            gateway.tokens = read_tokens(field, context)?;
            Ok(())
        },
    )),
    ConfigKey::new(
        "hosts",
        KeyForm::Texts,
        "[]",
        "Host names by which clients may reach the gateway, in addition to those of loopback.",
        |gateway, field, _| {
            gateway.hosts = read_each(field, host)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "origins",
        KeyForm::Texts,
        "[]",
        "Origins of web pages that may use the gateway, such as https://app.example.com.",
        |gateway, field, _| {
            gateway.origins = read_each(field, origin)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "socket",
        KeyForm::Flag,
        "true",
        "Open a socket through which commands of the same user reach the gateway, with all rights.",
        |gateway, field, _| {
            gateway.socket = field.flag()?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "tls",
        KeyForm::Section(|| schema::object(TLS)),
        "{}",
        "The gateway's certificate and key; default: HTTP without TLS.",
        |gateway, field, context| {
            let mut draft = TlsDraft::default();
            read_keys(TLS, &mut draft, field, context);
            gateway.tls = match (draft.certificate, draft.key) {
                (Some(certificate), Some(key)) => Some(GatewayTls { certificate, key }),
                (None, None) => None,
                (Some(_), None) => return Err(field.error("certificate needs a `key`")),
                (None, Some(_)) => return Err(field.error("key needs a `certificate`")),
            };
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_body_bytes",
        KeyForm::Bytes,
        "\"4MiB\"",
        "The largest request body, or line on standard input.",
        |gateway, field, _| {
            gateway.max_body_bytes = field.bytes()?;
            if gateway.max_body_bytes < 1024 {
                return Err(field.error("expected at least 1KiB, enough for a handshake"));
            }
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_sessions",
        KeyForm::Number(1, MOST),
        "1000",
        "The most client sessions at a time; more are refused.",
        |gateway, field, _| {
            gateway.max_sessions = field.count(1, MOST)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "session_idle",
        KeyForm::Span,
        "\"30m\"",
        "How long to keep a client session after its last use.",
        |gateway, field, context| {
            gateway.session_idle = read_retention(field, context)?;
            match gateway.session_idle.is_zero() {
                true => Err(field.error("must be longer than 0")),
                false => Ok(()),
            }
        },
    ),
    ConfigKey::new(
        "max_connections",
        KeyForm::Number(1, MOST),
        "1024",
        "The most client connections at a time.",
        |gateway, field, _| {
            gateway.max_connections = field.count(1, MOST)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_in_flight",
        KeyForm::Number(1, MOST),
        "512",
        "The most requests at a time; more are refused.",
        |gateway, field, _| {
            gateway.max_in_flight = field.count(1, MOST)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_inflight_bytes",
        KeyForm::Bytes,
        "\"256MiB\"",
        "The most bytes of requests and responses in memory at a time; at least `max_body_bytes`.",
        |gateway, field, _| {
            gateway.max_inflight_bytes = field.bytes()?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "rate",
        KeyForm::Number(1, MOST),
        "",
        "The most requests per second from one principal; default: no limit.",
        |gateway, field, _| {
            gateway.rate = u32::try_from(field.number(1, MOST)?).ok();
            Ok(())
        },
    ),
    ConfigKey::new(
        "grace",
        KeyForm::Span,
        "\"10s\"",
        "How long calls may take to finish when the gateway stops, before they are cancelled.",
        |gateway, field, context| {
            gateway.grace = read_span(field, context)?.unwrap_or_default();
            Ok(())
        },
    ),
];

/// The value of `tls` as written, before it is known to be complete.
#[derive(Debug, Default, PartialEq)]
pub struct TlsDraft {
    certificate: Option<UnexpandedText>,
    key: Option<UnexpandedText>,
}

/// The keys of `tls`.
pub const TLS: &[ConfigKey<TlsDraft>] = &[
    ConfigKey::aliased(
        &["cert"],
        ConfigKey::new(
            "certificate",
            KeyForm::Text,
            "",
            "A PEM file with the gateway's certificate chain.",
            |tls, field, _| {
                tls.certificate = Some(field.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new("key", KeyForm::Text, "", "A PEM file with the certificate's private key.", |tls, field, _| {
        tls.key = Some(field.unexpanded_text()?);
        Ok(())
    }),
];

/// Reads `gateway`.
pub fn read_gateway(field: &ConfigField<'_>, context: &mut ReadContext) -> Option<GatewayRules> {
    read_section(field, context, |field, context| {
        let mut gateway = GatewayRules::default();
        read_keys(GATEWAY, &mut gateway, field, context);
        if gateway.max_inflight_bytes < gateway.max_body_bytes {
            return Err(field.error("max_inflight_bytes is less than max_body_bytes; make it at least as much"));
        }
        Ok(gateway)
    })
}

/// Reads each item of a list; a single string counts as a list of one.
fn read_each(
    field: &ConfigField<'_>,
    read: fn(&ConfigField<'_>) -> Result<String, FieldError>,
) -> Result<Vec<String>, FieldError> {
    match field.text() {
        Ok(_) => Ok(vec![read(field)?]),
        Err(_) => field.items()?.iter().map(read).collect(),
    }
}

const MOST: u64 = 1_000_000;
