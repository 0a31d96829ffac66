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

/// What an entry says, before it is clear how the server is reached.
pub struct ServerDraft {
    /// The server so far.
    pub server: ServerConfig,
    /// The `type` as written.
    pub kind: Option<(String, FilePosition)>,
    /// Gemini CLI's address for Streamable HTTP.
    pub http_url: Option<UnexpandedText>,
    /// What followed the program where `command` is a list.
    pub command_args: Vec<UnexpandedText>,
    /// The limit of a whole call is given.
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
            "How the server is reached; if not given, command means stdio and url means http.",
            |draft, field, _| {
                draft.kind = Some((field.text()?, field.node.place.clone()));
                Ok(())
            },
        ),
    ),
    ConfigKey::as_rule(ConfigKey::aliased(
        &["isActive", "active", "enable"],
        ConfigKey::new("enabled", KeyForm::Flag, "true", "The server may be used.", |draft, field, _| {
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
            "The program to run, by name or path; or a list of it and its first arguments.",
            |draft, field, _| read_command(draft, field),
        ),
    ),
    ConfigKey::aliased(
        &["arguments"],
        ConfigKey::new("args", KeyForm::Texts, "[]", "The arguments of the program.", |draft, field, _| {
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
            "Variables for the program; they win over all others.",
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
        "A file with more variables, one KEY=value a line.",
        |draft, field, _| {
            draft.server.env_file = Some(field.unexpanded_text()?);
            Ok(())
        },
    ),
    ConfigKey::as_rule(ConfigKey::new(
        "inherit_env",
        KeyForm::Choice(&["all", "scoped", "minimal", "none"]),
        "\"scoped\"",
        "Which of our variables the program gets; scoped leaves out those of other servers, the summarizer and the gateway.",
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
            "Variables of toolgate's own that the program gets where they are set, whatever `inherit_env` says.",
            |draft, field, _| {
                // Codex also writes a variable as a map with its name.
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
            "Where the program runs; relative to this file.",
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
        ConfigKey::new("headers", KeyForm::TextMap, "{}", "Headers for every request.", |draft, field, context| {
            draft.server.headers.extend(field.unexpanded_map(context)?);
            Ok(())
        }),
    ),
    ConfigKey::new(
        "auth",
        KeyForm::Section(|| schema::object(auth::AUTH)),
        "{}",
        "How we prove to the server who we are.",
        |draft, field, context| {
            draft.server.auth = auth::read_auth(field, context)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "tls",
        KeyForm::Section(|| schema::object(TLS)),
        "{}",
        "How certificates are checked and shown.",
        |draft, field, context| {
            read_keys(TLS, &mut draft.server.tls, field, context);
            Ok(())
        },
    ),
    ConfigKey::new(
        "protocol",
        KeyForm::Choice(&["auto", "legacy", "2026-07-28"]),
        "\"auto\"",
        "Which era of MCP to speak: ask the server, the one with `initialize`, or 2026-07-28.",
        |draft, field, _| {
            draft.server.protocol = field.choice(PROTOCOL)?;
            Ok(())
        },
    ),
    ConfigKey::new(
        "timeouts",
        KeyForm::Section(|| schema::object(TIMEOUTS)),
        "{}",
        "How long things may take.",
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
        "The largest message that the server may send.",
        |draft, field, _| {
            draft.server.max_message_bytes = field.bytes()?;
            if draft.server.max_message_bytes < 1024 {
                return Err(field.error("expected at least 1KiB; no server can speak in less"));
            }
            Ok(())
        },
    ),
    ConfigKey::new(
        "max_list_bytes",
        KeyForm::Bytes,
        "\"16MiB\"",
        "How much of each of its lists (tools, resources, templates, prompts) is taken; the rest is left out, with a warning.",
        |draft, field, _| {
            draft.server.max_list_bytes = field.bytes()?;
            if draft.server.max_list_bytes < 1024 {
                return Err(field.error("expected at least 1KiB; less holds no list"));
            }
            Ok(())
        },
    ),
    ConfigKey::new(
        "grace",
        KeyForm::Span,
        "\"2s\"",
        "How long the program may take to end after its input is closed, and again after SIGTERM; then it is killed.",
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
        "The queue in which calls wait for their turn, with those of other servers that name it; see `queues`.",
        |draft, field, _| {
            draft.server.queue = Some(queues::read_queue_name(field)?);
            Ok(())
        },
    ),
    ConfigKey::new(
        "tool_queues",
        KeyForm::TextMap,
        "{}",
        "The queues of single tools, by names and globs; the first that fits is used, in place of `queue`.",
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
        "The most calls of this server at a time; as many as its queue lets pass, if not given.",
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
            "Names and globs of the tools that exist; none, if the list is empty, and all, if the key is not given.",
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
            "Names and globs of the tools that do not exist, whatever `allow` says.",
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
        "Names and globs of the tools that a person must approve.",
        |draft, field, _| {
            draft.server.ask = field.patterns()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "requires",
        KeyForm::Texts,
        "[]",
        "Capabilities that all are needed to use any tool of the server.",
        |draft, field, _| {
            draft.server.requires = field.texts()?;
            Ok(())
        },
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "tools",
        KeyForm::NamedSections(|| schema::object(TOOL)),
        "{}",
        "What is said of single tools, by their names.",
        tools::read_tools,
    )),
    ConfigKey::as_rule(ConfigKey::new(
        "masking",
        KeyForm::Section(|| schema::object(MASKING)),
        "{}",
        "What is masked in its answers, beyond what is masked for all.",
        |draft, field, context| {
            context.read_strictly(|context| read_keys(MASKING, &mut draft.server.masking, field, context));
            Ok(())
        },
    )),
    ConfigKey::new(
        "instructions",
        KeyForm::Text,
        "",
        "Text for the model, in place of what the server says of itself.",
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

/// The names of what is inherited.
pub const INHERIT: &[(&str, InheritEnv)] = &[
    ("all", InheritEnv::All),
    ("scoped", InheritEnv::Scoped),
    ("minimal", InheritEnv::Minimal),
    ("none", InheritEnv::None),
];
/// The names of the eras.
pub const PROTOCOL: &[(&str, Protocol)] =
    &[("auto", Protocol::Auto), ("legacy", Protocol::Legacy), ("2026-07-28", Protocol::Modern)];
