//! The keys of `gateway`.

mod address;
mod token;

use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{
    Approvers, GatewayNames, GatewayRules, GatewayTls, ListMode, SearchRules, StoreFailurePolicy, UnexpandedText,
};
use super::super::section::{ChoiceForm, ConfigKey, KeyForm, read_keys, read_section, schema};
use address::{host, origin, read_listen_address};
pub(crate) use token::TOKEN;
use token::read_tokens;

type Key = ConfigKey<GatewayRules>;

/// The keys of `gateway`.
pub(crate) const GATEWAY: &[Key] = &[
    Key::new(
        "http",
        KeyForm::Custom(schema::text, |gateway, field, _| {
            read_listen_address(field).map(|http| gateway.http = Some(http))
        }),
    )
    .about("The address for `serve --http` if the flag gives none; default: 127.0.0.1:8808.")
    .aliased(&["listen"]),
    Key::new("names", KeyForm::choice(&ChoiceForm(&GatewayNames::ALL, |gateway, choice| gateway.names = Some(choice))))
        .about("How the gateway names tools: a style, or the rules of one provider; default: the top-level `names`."),
    Key::new("list", KeyForm::choice(&ChoiceForm(&ListMode::ALL, |gateway, choice| gateway.list = choice)))
        .about(
            "Which tools clients are shown: `all`, or `find_tools` and `call_tool` to `search` for them, or `auto`: search \
             if there are more than `search` says.",
        )
        .default("\"all\""),
    Key::rule(
        "tokens",
        KeyForm::Custom(
            || schema::list(schema::object(TOKEN)),
            |gateway, field, context| read_tokens(field, context).map(|tokens| gateway.tokens = tokens),
        ),
    )
    .about("Who may use the gateway, each with a token; required to listen on anything but loopback.")
    .default("[]"),
    Key::new(
        "hosts",
        KeyForm::Custom(schema::texts, |gateway, field, _| field.each(host).map(|hosts| gateway.hosts = hosts)),
    )
    .about("Host names by which clients may reach the gateway, in addition to those of loopback.")
    .default("[]"),
    Key::new(
        "origins",
        KeyForm::Custom(schema::texts, |gateway, field, _| field.each(origin).map(|origins| gateway.origins = origins)),
    )
    .about("Origins of web pages that may use the gateway, such as https://app.example.com.")
    .default("[]"),
    Key::new("socket", KeyForm::Flag(|gateway, flag| gateway.socket = flag))
        .about("Open a socket through which commands of the same user reach the gateway, with all rights.")
        .default("true"),
    // Whoever left the value empty, as a template does whose variable has none, meant TLS.
    Key::rule(
        "tls",
        KeyForm::Custom(
            || schema::object(TLS),
            |gateway, field, context| {
                let mut draft = TlsDraft::default();
                read_keys(TLS, &mut draft, field, context);
                draft.finish(field).map(|tls| gateway.tls = tls)
            },
        ),
    )
    .about("The gateway's certificate and key; default: HTTP without TLS.")
    .default("{}"),
    Key::new(
        "max_body_bytes",
        KeyForm::BytesFrom(1024, "expected at least 1KiB, enough for a handshake", |gateway, bytes| {
            gateway.max_body_bytes = bytes
        }),
    )
    .about("The largest request body, or line on standard input.")
    .default("\"4MiB\""),
    Key::new("max_sessions", KeyForm::Number(1, MOST, |gateway, number| gateway.max_sessions = number))
        .about("The most client sessions in memory at a time; those that are not in use make room, and more are refused.")
        .default("1000"),
    Key::new(
        "session_idle",
        KeyForm::RetentionAboveZero("must be longer than 0", |gateway, span| gateway.session_idle = span),
    )
    .about(
            "How long to keep a client session after its last use if it holds something that only this process has, such as \
             a subscription.",
        )
    .default("\"30m\""),
    Key::new("max_connections", KeyForm::Number(1, MOST, |gateway, number| gateway.max_connections = number))
        .about("The most client connections at a time.")
        .default("1024"),
    Key::new("max_in_flight", KeyForm::Number(1, MOST, |gateway, number| gateway.max_in_flight = number))
        .about("The most requests at a time; more are refused.")
        .default("512"),
    Key::new("max_inflight_bytes", KeyForm::Bytes(|gateway, bytes| gateway.max_inflight_bytes = bytes))
        .about("The most bytes of requests and responses in memory at a time; at least `max_body_bytes`.")
        .default("\"256MiB\""),
    Key::new("rate", KeyForm::Number(1, MOST, |gateway, number| gateway.rate = u32::try_from(number).ok()))
        .about("The most requests per second from one principal; default: no limit."),
    Key::new("drain_delay", KeyForm::Span(|gateway, span| gateway.drain_delay = span))
        .about(
            "How long to take new calls after SIGTERM, until load balancers have noticed that the gateway is not ready.",
        )
        .default("\"5s\""),
    Key::new("grace", KeyForm::Span(|gateway, span| gateway.grace = span))
        .about("How long calls may take to finish when the gateway stops, before they are cancelled.")
        .default("\"10s\""),
    Key::new("session_keys", KeyForm::UnexpandedTexts(|gateway, texts| gateway.session_keys = texts))
        .about(
            "Keys that all replicas have, so that each accepts the sessions and approvals of the others: at least 32 \
             characters each, the first one seals. Default: one that the gateway draws at its start.",
        )
        .default("[]"),
    Key::new(
        "store",
        KeyForm::Custom(schema::text, |gateway, field, _| {
            let store = field.unexpanded_text()?;
            gateway.store = Some(store).filter(|store| store.text != MEMORY);
            Ok(())
        }),
    )
    .about("Where replicas keep what they share: `memory`, which each has alone, or a URL such as redis://host:6379/0.")
    .default("\"memory\""),
    Key::rule(
        "on_store_failure",
        KeyForm::choice(&ChoiceForm(&StoreFailurePolicy::ALL, |gateway, choice| gateway.on_store_failure = choice)),
    )
    .about(
        "What happens to calls that rates, limits or approvals must count when the store cannot be reached: `closed` \
         refuses them, `open` makes them and counts alone.",
    )
    .default("\"closed\""),
    Key::rule(
        "approvers",
        KeyForm::choice(&ChoiceForm(&Approvers::ALL, |gateway, choice| gateway.approvers = choice)),
    )
    .about(
        "Who approves calls behind an `ask` rule: the person at the `client` that calls, `admins` of the gateway other than \
         the caller, or `either`.",
    )
    .default("\"client\""),
];

type SearchKey = ConfigKey<SearchRules>;

/// The keys of `search`.
pub(crate) const SEARCH: &[SearchKey] = &[
    SearchKey::new(
        "above_tools",
        KeyForm::Number(0, MOST, |search, number| search.above_tools = u32::try_from(number).unwrap_or(u32::MAX)),
    )
    .about("With `list: auto`, more tools than this are searched instead of listed.")
    .default("60"),
    SearchKey::new("above_tokens", KeyForm::Number(0, MOST, |search, number| search.above_tokens = number as u64))
        .about("With `list: auto`, tools whose definitions take more tokens than this are searched instead of listed.")
        .default("10000"),
    SearchKey::new("always", KeyForm::Texts(|search, texts| search.always = texts))
        .about("Names and globs of the form `server.tool` of tools that are listed anyway.")
        .default("[]"),
];

/// The value of `tls` as written, before it is known to be complete.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TlsDraft {
    certificate: Option<UnexpandedText>,
    key: Option<UnexpandedText>,
}

impl TlsDraft {
    fn finish(self, field: &ConfigField<'_>) -> Result<Option<GatewayTls>, FieldError> {
        match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Ok(Some(GatewayTls { certificate, key })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(field.error("certificate needs a `key`")),
            (None, Some(_)) => Err(field.error("key needs a `certificate`")),
        }
    }
}

type TlsKey = ConfigKey<TlsDraft>;

/// The keys of `tls`.
pub(crate) const TLS: &[TlsKey] = &[
    TlsKey::rule("certificate", KeyForm::UnexpandedText(|tls, text| tls.certificate = Some(text)))
        .about("A PEM file with the gateway's certificate chain.")
        .aliased(&["cert"]),
    TlsKey::rule("key", KeyForm::UnexpandedText(|tls, text| tls.key = Some(text)))
        .about("A PEM file with the certificate's private key."),
];

/// Reads `gateway`.
pub(crate) fn read_gateway(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<GatewayRules, FieldError> {
    read_section(field, context, |field, context| {
        let mut gateway = GatewayRules::default();
        read_keys(GATEWAY, &mut gateway, field, context);
        if gateway.max_inflight_bytes < gateway.max_body_bytes {
            return Err(field.error("max_inflight_bytes is less than max_body_bytes; make it at least as much"));
        }
        Ok(gateway)
    })
}

const MOST: u64 = 1_000_000;
/// The store of a gateway that shares nothing.
const MEMORY: &str = "memory";
