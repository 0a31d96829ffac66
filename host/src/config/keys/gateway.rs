//! The keys of `gateway`.

mod address;
mod token;

use super::super::model::{GatewayNames, GatewayRules, GatewayTls, Located};
use super::super::reading::{Given, Misfit, Reading};
use super::super::schema;
use super::lifecycle::kept;
use super::server::span;
use super::{Form, Key, part, read};
use address::{host, listening, origin};
pub use token::TOKEN;
use token::tokens;

/// The keys of `gateway`.
pub const GATEWAY: &[Key<GatewayRules>] = &[
    Key::or(
        &["listen"],
        Key::new(
            "http",
            Form::Text,
            "",
            "Where `serve --http` listens if the flag gives no address; without either, on 127.0.0.1:8808.",
            |gateway, given, _| {
                gateway.http = Some(listening(given)?);
                Ok(())
            },
        ),
    ),
    Key::new(
        "names",
        Form::Choice(&["dot", "double-underscore", "mcp-prefix", "openai", "anthropic", "gemini", "cursor"]),
        "",
        "How the gateway names tools: a style, or as one provider takes them; as `names` says, if not given.",
        |gateway, given, _| {
            gateway.names = Some(given.choice(&GatewayNames::ALL)?);
            Ok(())
        },
    ),
    Key::rule(Key::new(
        "tokens",
        Form::Sections(|| schema::object(TOKEN)),
        "[]",
        "Who may use the gateway, and the token of each; needed to listen elsewhere than on loopback.",
        |gateway, given, reading| {
            gateway.tokens = tokens(given, reading)?;
            Ok(())
        },
    )),
    Key::new(
        "hosts",
        Form::Texts,
        "[]",
        "Names by which clients may reach the gateway, beside those of loopback.",
        |gateway, given, _| {
            gateway.hosts = each(given, host)?;
            Ok(())
        },
    ),
    Key::new(
        "origins",
        Form::Texts,
        "[]",
        "Web pages that may use the gateway, such as https://app.example.com.",
        |gateway, given, _| {
            gateway.origins = each(given, origin)?;
            Ok(())
        },
    ),
    Key::new(
        "socket",
        Form::Flag,
        "true",
        "Whether commands of the same user find the gateway through a socket, by which they may do everything.",
        |gateway, given, _| {
            gateway.socket = given.flag()?;
            Ok(())
        },
    ),
    Key::new(
        "tls",
        Form::Section(|| schema::object(TLS)),
        "{}",
        "How the gateway proves to clients who it is; HTTP without TLS, if not given.",
        |gateway, given, reading| {
            let mut draft = TlsDraft::default();
            read(TLS, &mut draft, given, reading);
            gateway.tls = match (draft.certificate, draft.key) {
                (Some(certificate), Some(key)) => Some(GatewayTls { certificate, key }),
                (None, None) => None,
                (Some(_), None) => return Err(given.misfit("certificate needs a `key`")),
                (None, Some(_)) => return Err(given.misfit("key needs a `certificate`")),
            };
            Ok(())
        },
    ),
    Key::new(
        "max_body_bytes",
        Form::Bytes,
        "\"4MiB\"",
        "The largest body of a request, or line on standard input.",
        |gateway, given, _| {
            gateway.max_body_bytes = given.bytes()?;
            if gateway.max_body_bytes < 1024 {
                return Err(given.misfit("expected at least 1KiB; no client could begin with less"));
            }
            Ok(())
        },
    ),
    Key::new(
        "max_sessions",
        Form::Number(1, MOST),
        "1000",
        "The most sessions of clients at a time; one more is refused.",
        |gateway, given, _| {
            gateway.max_sessions = given.count(1, MOST)?;
            Ok(())
        },
    ),
    Key::new(
        "session_idle",
        Form::Span,
        "\"30m\"",
        "How long the session of a client is kept after its last use.",
        |gateway, given, reading| {
            gateway.session_idle = kept(given, reading)?;
            match gateway.session_idle.is_zero() {
                true => Err(given.misfit("must be longer than nothing")),
                false => Ok(()),
            }
        },
    ),
    Key::new(
        "max_connections",
        Form::Number(1, MOST),
        "1024",
        "The most connections of clients at a time.",
        |gateway, given, _| {
            gateway.max_connections = given.count(1, MOST)?;
            Ok(())
        },
    ),
    Key::new(
        "max_in_flight",
        Form::Number(1, MOST),
        "512",
        "The most requests at a time; one more is refused.",
        |gateway, given, _| {
            gateway.max_in_flight = given.count(1, MOST)?;
            Ok(())
        },
    ),
    Key::new(
        "max_inflight_bytes",
        Form::Bytes,
        "\"256MiB\"",
        "The most bytes of requests and answers that are held at a time; at least max_body_bytes.",
        |gateway, given, _| {
            gateway.max_inflight_bytes = given.bytes()?;
            Ok(())
        },
    ),
    Key::new(
        "rate",
        Form::Number(1, MOST),
        "",
        "The most requests a second of one principal; no limit, if not given.",
        |gateway, given, _| {
            gateway.rate = u32::try_from(given.number(1, MOST)?).ok();
            Ok(())
        },
    ),
    Key::new(
        "grace",
        Form::Span,
        "\"10s\"",
        "How long calls may take to finish when the gateway ends; then they are cancelled.",
        |gateway, given, reading| {
            gateway.grace = span(given, reading)?.unwrap_or_default();
            Ok(())
        },
    ),
];

/// What `tls` says, before it is clear that nothing is missing.
#[derive(Debug, Default, PartialEq)]
pub struct TlsDraft {
    certificate: Option<Located>,
    key: Option<Located>,
}

/// The keys of `tls`.
pub const TLS: &[Key<TlsDraft>] = &[
    Key::or(
        &["cert"],
        Key::new(
            "certificate",
            Form::Text,
            "",
            "A PEM file with the certificate of the gateway, and those that vouch for it.",
            |tls, given, _| {
                tls.certificate = Some(given.located()?);
                Ok(())
            },
        ),
    ),
    Key::new("key", Form::Text, "", "A PEM file with the key of the certificate.", |tls, given, _| {
        tls.key = Some(given.located()?);
        Ok(())
    }),
];

/// Reads `gateway`.
pub fn gateway(given: &Given<'_>, reading: &mut Reading) -> Option<GatewayRules> {
    part(given, reading, |given, reading| {
        let mut gateway = GatewayRules::default();
        read(GATEWAY, &mut gateway, given, reading);
        if gateway.max_inflight_bytes < gateway.max_body_bytes {
            return Err(given.misfit("max_inflight_bytes is less than max_body_bytes; make it at least as much"));
        }
        Ok(gateway)
    })
}

/// A list of which each item is read; a text alone is a list of one.
fn each(given: &Given<'_>, read: fn(&Given<'_>) -> Result<String, Misfit>) -> Result<Vec<String>, Misfit> {
    match given.text() {
        Ok(_) => Ok(vec![read(given)?]),
        Err(_) => given.items()?.iter().map(read).collect(),
    }
}

const MOST: u64 = 1_000_000;
