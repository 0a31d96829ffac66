//! The keys of a server.

mod draft;
mod forms;
mod limits;
mod tarsy;
mod tls;
mod tools;

use serde_json::json;

use super::super::document::NodeValue;
use super::super::duration::DurationUnit;
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{InheritEnv, Protocol, ServerAuth};
use super::super::section::{ChoiceForm, ConfigKey, KeyForm, SectionForm, read_keys, read_limit_in, schema};
use super::masking::MASKING;
use super::results::MAX_TOKENS;
use super::{auth, lifecycle, queues, results, rules};
pub(crate) use draft::ServerDraft;
use forms::{read_command, read_env, variable_reference};
pub(crate) use limits::TIMEOUTS;
pub(crate) use tls::TLS;
#[cfg(test)]
pub(crate) use tools::ANNOTATIONS;
pub(crate) use tools::TOOL;

type Key = ConfigKey<ServerDraft>;

/// The keys of a server.
pub(crate) const SERVER: &[Key] = &[
    Key::new("type", KeyForm::Custom(|| json!({"enum": ["stdio", "http", "sse", "websocket"]}), read_type))
        .about("The transport; default: stdio with `command`, http with `url`.")
        .aliased(&["transport", "transportType"]),
    Key::rule("enabled", KeyForm::Flag(|draft, flag| draft.server.enabled &= flag))
        .about("Whether the server may be used.")
        .default("true")
        .aliased(&["isActive", "active", "enable"]),
    Key::new("command", KeyForm::Custom(schema::command, read_command))
        .about("The program to run, by name or path, or a list of the program and its first arguments.")
        .aliased(&["cmd"]),
    Key::new("args", KeyForm::UnexpandedTexts(|draft, texts| draft.server.args = texts))
        .about("The program's arguments.")
        .default("[]")
        .aliased(&["arguments"]),
    Key::new(
        "env",
        KeyForm::Custom(schema::text_map, |draft, field, context| {
            read_env(field, context).map(|variables| draft.server.env.extend(variables))
        }),
    )
    .about("Environment variables for the program; they override all others.")
    .default("{}")
    .aliased(&["environment", "envs"]),
    Key::new("env_file", KeyForm::UnexpandedText(|draft, text| draft.server.env_file = Some(text)))
        .about("A file with more variables, one KEY=value per line."),
    Key::rule("inherit_env", KeyForm::choice(&ChoiceForm(INHERIT, |draft, choice| draft.server.inherit_env = choice)))
        .about(
            "Which variables the program inherits; scoped omits those of other servers, summarizers and the gateway.",
        )
        .default("\"scoped\""),
    Key::new(
        "pass_env",
        KeyForm::Custom(schema::texts, |draft, field, _| {
            // Codex also writes a variable as a map with a `name`.
            field.texts_or_maps("name").map(|names| draft.server.pass_env = names)
        }),
    )
    .about("Variables that the program always inherits if they are set, whatever `inherit_env` says.")
    .default("[]")
    .aliased(&["env_vars"]),
    Key::new("working_dir", KeyForm::UnexpandedText(|draft, text| draft.server.working_dir = Some(text)))
        .about("The program's working directory, relative to this file.")
        .aliased(&["cwd", "workingDirectory"]),
    Key::new("url", KeyForm::UnexpandedText(|draft, text| draft.server.url = Some(text)))
        .about("The address: http://, https://, ws:// or wss://.")
        .aliased(&["baseUrl", "serverUrl", "endpoint", "uri"]),
    Key::new(
        "headers",
        KeyForm::Custom(schema::text_map, |draft, field, context| {
            field.unexpanded_map(context).map(|headers| draft.server.headers.extend(headers))
        }),
    )
    .about("HTTP headers for every request.")
    .default("{}")
    .aliased(&["http_headers"]),
    Key::new(
        "auth",
        KeyForm::Custom(
            || schema::object(auth::AUTH),
            |draft, field, context| auth::read_auth(field, context).map(|auth| draft.server.auth = auth),
        ),
    )
    .about("How toolgate authenticates to the server.")
    .default("{}"),
    Key::new("tls", KeyForm::section(&SectionForm(TLS, |draft| &mut draft.server.tls)))
        .about("How to check the server's certificate, and which client certificate to present.")
        .default("{}"),
    Key::new("protocol", KeyForm::choice(&ChoiceForm(PROTOCOL, |draft, choice| draft.server.protocol = choice)))
        .about("The version of MCP to speak: `auto` asks the server, `legacy` is any with `initialize`, or 2026-07-28.")
        .default("\"auto\""),
    Key::new(
        "timeouts",
        KeyForm::Custom(
            || schema::object(TIMEOUTS),
            |draft, field, context| {
                draft.total_given = field.node.at("total").is_some();
                read_keys(TIMEOUTS, &mut draft.server.timeouts, field, context);
                Ok(())
            },
        ),
    )
    .about("Time limits for requests to the server.")
    .default("{}"),
    Key::new(
        "max_message_bytes",
        KeyForm::BytesFrom(1024, "expected at least 1KiB, enough for a handshake", |draft, bytes| {
            draft.server.max_message_bytes = bytes
        }),
    )
    .about("The largest message to accept from the server.")
    .default("\"64MiB\""),
    Key::new(
        "max_list_bytes",
        KeyForm::BytesFrom(1024, "expected at least 1KiB; no list fits into less", |draft, bytes| {
            draft.server.max_list_bytes = bytes
        }),
    )
    .about("The most bytes of each list (tools, resources, templates, prompts); more is dropped with a warning.")
    .default("\"16MiB\""),
    Key::new(
        "grace",
        KeyForm::Custom(schema::span, |draft, field, _| {
            field.span(DurationUnit::Seconds).map(|span| draft.server.grace = span.unwrap_or_default())
        }),
    )
    .about("How long the program may take to exit after its input closes, and again after SIGTERM.")
    .default("\"2s\""),
    lifecycle::eager(),
    lifecycle::shared(),
    lifecycle::idle_timeout(),
    lifecycle::acquire_timeout(),
    lifecycle::restart_delays(),
    lifecycle::health_interval(),
    lifecycle::health_timeout(),
    lifecycle::probe_timeout(),
    lifecycle::health_probe(),
    Key::new(
        "queue",
        KeyForm::Custom(schema::text, |draft, field, _| {
            queues::read_queue_name(field).map(|queue| draft.server.queue = Some(queue))
        }),
    )
    .about("The queue for calls of this server; servers that name the same queue share its slots. See `queues`."),
    Key::new(
        "tool_queues",
        KeyForm::Custom(schema::text_map, |draft, field, _| {
            let named = |(tool, queue): (&str, ConfigField<'_>)| {
                Ok((queue.check_pattern(tool)?, queues::read_queue_name(&queue)?))
            };
            draft.server.tool_queues = field.entries()?.into_iter().map(named).collect::<Result<_, _>>()?;
            Ok(())
        }),
    )
    .about("Queues for single tools, by name or glob; the first match is used instead of `queue`.")
    .default("{}"),
    Key::new("max_concurrent", KeyForm::Number(1, 10_000, |draft, number| draft.server.max_concurrent = Some(number)))
        .about("The most concurrent calls of this server; default: limited only by its queue."),
    Key::rule("allow", KeyForm::Custom(schema::texts, tools::read_allow))
        .about("Names and globs of the only tools to offer; an empty list offers none. Default: all.")
        .aliased(&["allowedTools", "allowTools", "includeTools", "enabledTools"]),
    Key::rule("deny", KeyForm::Patterns(|draft, patterns| draft.server.deny = patterns))
        .about("Names and globs of tools to hide; `deny` wins over `allow`.")
        .default("[]")
        .aliased(&[
            "toolsDenied",
            "toolsBlocked",
            "deniedTools",
            "denyTools",
            "blockedTools",
            "disallowedTools",
            "excludeTools",
            "disabledTools",
        ]),
    Key::rule("ask", KeyForm::Patterns(|draft, patterns| draft.server.ask = patterns))
        .about("Names and globs of tools whose calls a person must approve.")
        .default("[]"),
    Key::rule("requires", KeyForm::Texts(|draft, texts| draft.server.requires = texts))
        .about("Capabilities that a principal needs, all of them, to use this server.")
        .default("[]"),
    Key::rule(
        "rules",
        KeyForm::Custom(rules::rules_schema, |draft, field, context| {
            rules::read_server_rules(field, context).map(|rules| draft.server.rules = rules)
        }),
    )
    .about("Rules for calls of this server, as at the top level; `tools` are named without the server.")
    .default("[]"),
    Key::rule("tools", KeyForm::Custom(|| schema::map(schema::object(TOOL)), tools::read_tools))
        .about("Settings for single tools, by name.")
        .default("{}"),
    Key::rule(
        "masking",
        KeyForm::Custom(
            || schema::object(MASKING),
            |draft, field, context| {
                context.read_strictly(|context| read_keys(MASKING, &mut draft.server.masking, field, context));
                Ok(())
            },
        ),
    )
    .about("What to mask in this server's results, in addition to the top-level `masking`.")
    .default("{}"),
    Key::new(
        "summarizer",
        KeyForm::Custom(results::schema_of_server, |draft, field, context| {
            results::read_server_summarizer(field, context).map(|summarizer| draft.server.summarizer = summarizer)
        }),
    )
    .about("What shortens this server's long results, or false; default: the top-level `summarizer`."),
    Key::new(
        "summarize_above_tokens",
        KeyForm::Number(1, MAX_TOKENS, |draft, number| draft.server.summarize_above_tokens = Some(number as u64)),
    )
    .about("Summarize this server's results with more tokens than this; default: the top-level setting."),
    Key::new("structured_text", KeyForm::Flag(|draft, flag| draft.server.structured_text = flag))
        .about("Also offer text that is JSON as structured content, if a result has none.")
        .default("false"),
    Key::new("description", KeyForm::Text(|draft, text| draft.server.description = Some(text)))
        .about("What the server is for, in words for people: the dashboard and the API show it."),
    Key::new("instructions", KeyForm::Text(|draft, text| draft.server.instructions = Some(text)))
        .about("Instructions for the model that replace the server's own."),
    Key::hidden("data_masking", KeyForm::Custom(schema::text, tarsy::read_data_masking)).restricting(),
    Key::hidden("summarization", KeyForm::Custom(schema::text, tarsy::read_summarization)),
    Key::hidden("toolsAllowed", KeyForm::Custom(schema::texts, tools::read_ai_agent_allow)).restricting(),
    Key::hidden("disabled", KeyForm::Flag(|draft, flag| draft.server.enabled &= !flag))
        .aliased(&["disable"])
        .restricting(),
    Key::hidden("httpUrl", KeyForm::UnexpandedText(|draft, text| draft.http_url = Some(text))),
    Key::hidden("timeout", KeyForm::Limit(|draft, limit| draft.server.timeouts.call = limit))
        .aliased(&["requestTimeout"]),
    Key::hidden(
        "tool_timeout_sec",
        KeyForm::Custom(schema::text, |draft, field, _| {
            read_limit_in(field, DurationUnit::Seconds).map(|limit| draft.server.timeouts.call = limit)
        }),
    ),
    Key::hidden(
        "startup_timeout_sec",
        KeyForm::Custom(schema::text, |draft, field, _| {
            read_limit_in(field, DurationUnit::Seconds).map(|limit| draft.server.timeouts.initialize = limit)
        }),
    ),
    Key::hidden(
        "startup_timeout_ms",
        KeyForm::Custom(schema::text, |draft, field, _| {
            read_limit_in(field, DurationUnit::Milliseconds).map(|limit| draft.server.timeouts.initialize = limit)
        }),
    ),
    Key::hidden("verify_ssl", KeyForm::Flag(|draft, flag| draft.server.tls.verify = flag)).aliased(&["verify_tls"]),
    Key::hidden("bearer_token", KeyForm::UnexpandedText(|draft, text| draft.server.auth = ServerAuth::Bearer(text))),
    Key::hidden(
        "bearer_token_env_var",
        KeyForm::Custom(schema::text, |draft, field, _| {
            variable_reference(field).map(|token| draft.server.auth = ServerAuth::Bearer(token))
        }),
    ),
    Key::hidden(
        "env_http_headers",
        KeyForm::Custom(schema::text, |draft, field, _| {
            for (name, value) in field.entries()? {
                draft.server.headers.push((name.to_owned(), variable_reference(&value)?));
            }
            Ok(())
        }),
    ),
    Key::hidden(
        "oauth",
        KeyForm::Custom(schema::text, |draft, field, context| {
            auth::read_oauth(field, context).map(|auth| draft.server.auth = auth)
        }),
    ),
];

/// The values of `inherit_env`.
pub(crate) const INHERIT: &[(&str, InheritEnv)] = &[
    ("all", InheritEnv::All),
    ("scoped", InheritEnv::Scoped),
    ("minimal", InheritEnv::Minimal),
    ("none", InheritEnv::None),
];
/// The values of `protocol`.
pub(crate) const PROTOCOL: &[(&str, Protocol)] =
    &[("auto", Protocol::Auto), ("legacy", Protocol::Legacy), ("2026-07-28", Protocol::Modern)];

/// Reads `type`: a word, or TARSy's map with the keys of the connection.
fn read_type(draft: &mut ServerDraft, field: &ConfigField<'_>, context: &mut ReadContext) -> Result<(), FieldError> {
    match &field.node.value {
        NodeValue::Map(_) => read_keys(SERVER, draft, field, context),
        _ => draft.kind = Some((field.text()?, field.node.place.clone())),
    }
    Ok(())
}
