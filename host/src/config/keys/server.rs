//! The keys of a server.

mod forms;
mod limits;
mod tls;
mod tools;

use super::super::duration::DurationUnit;
use super::super::field::ConfigField;
use super::super::model::{FilePosition, InheritEnv, Protocol, ServerAuth, ServerConfig, UnexpandedText};
use super::super::schema;
use super::settings::MASKING;
use super::{ConfigKey, KeyForm, auth, lifecycle, queues, read_keys};
use forms::{read_command, read_env, variable_reference};
use limits::read_limit_in;
pub use limits::{TIMEOUTS, read_limit, read_span};
pub use tls::TLS;
#[cfg(test)]
pub use tools::ANNOTATIONS;
pub use tools::{TOOL, refuse_any};

/// A server entry as written, before the transport is known.
pub struct ServerDraft {
    /// The server so far.
    pub server: ServerConfig,
    /// The `type` as written, and its position.
    pub kind: Option<(String, FilePosition)>,
    /// The value of `httpUrl`, Gemini CLI's address for Streamable HTTP.
    pub http_url: Option<UnexpandedText>,
    /// The arguments after the program, if `command` is a list.
    pub command_args: Vec<UnexpandedText>,
    /// Whether `timeouts.total` is given.
    pub total_given: bool,
}

/// The keys of a server.
pub const SERVER: &[ConfigKey<ServerDraft>] = &[
    ConfigKey::aliased(
        &["transport", "transportType"],
        ConfigKey::new(
            "type",
            KeyForm::Choice(&["stdio", "http", "sse", "websocket"]),
            "",
            "The transport; default: stdio with `command`, http with `url`.",
            |draft, field, _| {
                draft.kind = Some((field.text()?, field.node.place.clone()));
                Ok(())
            },
        ),
    ),
    ConfigKey::as_rule(ConfigKey::aliased(
        &["isActive", "active", "enable"],
        ConfigKey::new("enabled", KeyForm::Flag, "true", "Whether the server may be used.", |draft, field, _| {
            draft.server.enabled &= field.flag()?;
            Ok(())
        }),
    )),
    ConfigKey::aliased(
        &["cmd"],
        ConfigKey::new(
            "command",
            KeyForm::Command,
            "",
            "The program to run, by name or path, or a list of the program and its first arguments.",
            |draft, field, _| read_command(draft, field),
        ),
    ),
    ConfigKey::aliased(
        &["arguments"],
        ConfigKey::new("args", KeyForm::Texts, "[]", "The program's arguments.", |draft, field, _| {
            draft.server.args = field.items()?.iter().map(ConfigField::unexpanded_text).collect::<Result<_, _>>()?;
            Ok(())
        }),
    ),
    ConfigKey::aliased(
        &["environment", "envs"],
        ConfigKey::new(
            "env",
            KeyForm::TextMap,
            "{}",
            "Environment variables for the program; they override all others.",
            |draft, field, context| {
                draft.server.env.extend(read_env(field, context)?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "env_file",
        KeyForm::Text,
        "",
        "A file with more variables, one KEY=value per line.",
        |draft, field, _| {
            draft.server.env_file = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::as_rule(ConfigKey::new(
        "inherit_env",
        KeyForm::Choice(&["all", "scoped", "minimal", "none"]),
        "\"scoped\"",
        "Which variables the program inherits; scoped omits those of other servers, the summarizer and the gateway.",
        |draft, field, _| {
            draft.server.inherit_env = field.choice(INHERIT)?;
            Ok(())
        },
    )),
    ConfigKey::aliased(
        &["env_vars"],
        ConfigKey::new(
            "pass_env",
            KeyForm::Texts,
            "[]",
            "Variables that the program always inherits if they are set, whatever `inherit_env` says.",
            |draft, field, _| {
                // Codex also writes a variable as a map with a `name`.
                let name = |item: &ConfigField<'_>| match item.node.at("name") {
                    Some(node) => ConfigField { node, field: item.field.clone() }.text(),
                    None => item.text(),
                };
                draft.server.pass_env = field.items()?.iter().map(name).collect::<Result<_, _>>()?;
                Ok(())
            },
        ),
    ),
    ConfigKey::aliased(
        &["cwd", "workingDirectory"],
        ConfigKey::new(
            "working_dir",
            KeyForm::Text,
            "",
            "The program's working directory, relative to this file.",
            |draft, field, _| {
                draft.server.working_dir = Some(field.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::aliased(
        &["baseUrl", "serverUrl", "endpoint", "uri"],
        ConfigKey::new(
            "url",
            KeyForm::Text,
            "",
            "The address: http://, https://, ws:// or wss://.",
            |draft, field, _| {
                draft.server.url = Some(field.unexpanded_text()?);
                Ok(())
            },
        ),
    ),
    ConfigKey::aliased(
        &["http_headers"],
        ConfigKey::new(
            "headers",
            KeyForm::TextMap,
            "{}",
            "HTTP headers for every request.",
            |draft, field, context| {
                draft.server.headers.extend(field.unexpanded_map(context)?);
                Ok(())
            },
        ),
    ),
    ConfigKey::new(
        "auth",
        KeyForm::Section(|| schema::object(auth::AUTH)),
        "{}",
        "How toolgate authenticates to the server.",
        |draft, field, context| {
            draft.server.auth = auth::read_auth(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "tls",
        KeyForm::Section(|| schema::object(TLS)),
        "{}",
        "How to check the server's certificate, and which client certificate to present.",
        |draft, field, context| {
            read_keys(TLS, &mut draft.server.tls, field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "protocol",
        KeyForm::Choice(&["auto", "legacy", "2026-07-28"]),
        "\"auto\"",
        "Which version of MCP to speak: `auto` asks the server, `legacy` is any with `initialize`, or 2026-07-28.",
        |draft, field, _| {
            draft.server.protocol = field.choice(PROTOCOL)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "timeouts",
        KeyForm::Section(|| schema::object(TIMEOUTS)),
        "{}",
        "Time limits for requests to the server.",
        |draft, field, context| {
            let entries = field.node.entries().into_iter().flatten();
            draft.total_given = entries.into_iter().any(|entry| entry.key == "total");
            read_keys(TIMEOUTS, &mut draft.server.timeouts, field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_message_bytes",
        KeyForm::Bytes,
        "\"64MiB\"",
        "The largest message to accept from the server.",
        |draft, field, _| {
            draft.server.max_message_bytes = field.bytes()?;
            if draft.server.max_message_bytes < 1024 {
                return Err(field.error("expected at least 1KiB, enough for a handshake"));
            }
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_list_bytes",
        KeyForm::Bytes,
        "\"16MiB\"",
        "The most bytes of each list (tools, resources, templates, prompts); the rest is dropped with a warning.",
        |draft, field, _| {
            draft.server.max_list_bytes = field.bytes()?;
            if draft.server.max_list_bytes < 1024 {
                return Err(field.error("expected at least 1KiB; no list fits into less"));
            }
            Ok(())
        },
    ),
    ConfigKey::new(
        "grace",
        KeyForm::Span,
        "\"2s\"",
        "How long the program may take to exit after its input closes, and again after SIGTERM, before it is killed.",
        |draft, field, _| {
            draft.server.grace = field.span(DurationUnit::Seconds)?.unwrap_or_default();
            Ok(())
        },
    ),
    lifecycle::eager(),
    lifecycle::shared(),
    lifecycle::idle_timeout(),
    lifecycle::acquire_timeout(),
    lifecycle::restart_delays(),
    lifecycle::health_interval(),
    lifecycle::health_timeout(),
    lifecycle::probe_timeout(),
    lifecycle::health_probe(),
    ConfigKey::new(
        "queue",
        KeyForm::Text,
        "",
        "The queue for calls of this server; servers that name the same queue share its slots. See `queues`.",
        |draft, field, _| {
            draft.server.queue = Some(queues::read_queue_name(field)?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "tool_queues",
        KeyForm::TextMap,
        "{}",
        "Queues for single tools, by name or glob; the first match is used instead of `queue`.",
        |draft, field, _| {
            let named = |(tool, queue): (&str, ConfigField<'_>)| {
                Ok((queue.check_pattern(tool)?, queues::read_queue_name(&queue)?))
            };
            draft.server.tool_queues = field.entries()?.into_iter().map(named).collect::<Result<_, _>>()?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_concurrent",
        KeyForm::Number(1, 10_000),
        "",
        "The most concurrent calls of this server; default: limited only by its queue.",
        |draft, field, _| {
            draft.server.max_concurrent = Some(field.count(1, 10_000)?);
            Ok(())
        },
    ),
    ConfigKey::as_rule(ConfigKey::aliased(
        &["allowedTools", "allowTools", "includeTools", "enabledTools"],
        ConfigKey::new(
            "allow",
            KeyForm::Texts,
            "",
            "Names and globs of the only tools to offer; an empty list offers none. Default: all.",
            |draft, field, _| tools::read_allow(draft, field),
        ),
    )),
    ConfigKey::as_rule(ConfigKey::aliased(
        &[
            "toolsDenied",
            "toolsBlocked",
            "deniedTools",
            "denyTools",
            "blockedTools",
            "disallowedTools",
            "excludeTools",
            "disabledTools",
        ],
        ConfigKey::new(
            "deny",
            KeyForm::Texts,
            "[]",
            "Names and globs of tools to hide; `deny` wins over `allow`.",
            |draft, field, _| {
                draft.server.deny = field.patterns()?;
                Ok(())
            },
        ),
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "ask",
        KeyForm::Texts,
        "[]",
        "Names and globs of tools whose calls a person must approve.",
        |draft, field, _| {
            draft.server.ask = field.patterns()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "requires",
        KeyForm::Texts,
        "[]",
        "Capabilities that a principal needs, all of them, to use this server.",
        |draft, field, _| {
            draft.server.requires = field.texts()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "tools",
        KeyForm::NamedSections(|| schema::object(TOOL)),
        "{}",
        "Settings for single tools, by name.",
        tools::read_tools,
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "masking",
        KeyForm::Section(|| schema::object(MASKING)),
        "{}",
        "What to mask in this server's results, in addition to the top-level `masking`.",
        |draft, field, context| {
            context.read_strictly(|context| read_keys(MASKING, &mut draft.server.masking, field, context));
            Ok(())
        },
    )),
    ConfigKey::new(
        "instructions",
        KeyForm::Text,
        "",
        "Instructions for the model that replace the server's own.",
        |draft, field, _| {
            draft.server.instructions = Some(field.text()?);
            Ok(())
        },
    ),
    ConfigKey::as_rule(ConfigKey::hidden("toolsAllowed", |draft, field, _| tools::read_ai_agent_allow(draft, field))),
    ConfigKey::as_rule(ConfigKey::aliased(
        &["disable"],
        ConfigKey::hidden("disabled", |draft, field, _| {
            draft.server.enabled &= !field.flag()?;
            Ok(())
        }),
    )),
    ConfigKey::hidden("httpUrl", |draft, field, _| {
        draft.http_url = Some(field.unexpanded_text()?);
        Ok(())
    }),
    ConfigKey::aliased(
        &["requestTimeout"],
        ConfigKey::hidden("timeout", |draft, field, context| {
            draft.server.timeouts.call = read_limit(field, context)?;
            Ok(())
        }),
    ),
    ConfigKey::hidden("tool_timeout_sec", |draft, field, _| {
        draft.server.timeouts.call = read_limit_in(field, DurationUnit::Seconds)?;
        Ok(())
    }),
    ConfigKey::hidden("startup_timeout_sec", |draft, field, _| {
        draft.server.timeouts.initialize = read_limit_in(field, DurationUnit::Seconds)?;
        Ok(())
    }),
    ConfigKey::hidden("startup_timeout_ms", |draft, field, _| {
        draft.server.timeouts.initialize = read_limit_in(field, DurationUnit::Milliseconds)?;
        Ok(())
    }),
    ConfigKey::aliased(
        &["verify_tls"],
        ConfigKey::hidden("verify_ssl", |draft, field, _| {
            draft.server.tls.verify = field.flag()?;
            Ok(())
        }),
    ),
    ConfigKey::hidden("bearer_token", |draft, field, _| {
        draft.server.auth = ServerAuth::Bearer(field.unexpanded_text()?);
        Ok(())
    }),
    ConfigKey::hidden("bearer_token_env_var", |draft, field, _| {
        draft.server.auth = ServerAuth::Bearer(variable_reference(field)?);
        Ok(())
    }),
    ConfigKey::hidden("env_http_headers", |draft, field, _| {
        for (name, value) in field.entries()? {
            draft.server.headers.push((name.to_owned(), variable_reference(&value)?));
        }
        Ok(())
    }),
    ConfigKey::hidden("oauth", |draft, field, context| {
        draft.server.auth = auth::read_oauth(field, context)?;
        Ok(())
    }),
];

/// The values of `inherit_env`.
pub const INHERIT: &[(&str, InheritEnv)] = &[
    ("all", InheritEnv::All),
    ("scoped", InheritEnv::Scoped),
    ("minimal", InheritEnv::Minimal),
    ("none", InheritEnv::None),
];
/// The values of `protocol`.
pub const PROTOCOL: &[(&str, Protocol)] =
    &[("auto", Protocol::Auto), ("legacy", Protocol::Legacy), ("2026-07-28", Protocol::Modern)];
