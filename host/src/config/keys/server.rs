//! The keys of a server.

mod forms;
mod limits;
mod tls;
mod tools;

use super::super::duration::Unit;
use super::super::model::{Auth, Inherit, Located, Place, Protocol, Server};
use super::super::reading::Given;
use super::super::schema;
use super::settings::MASKING;
use super::{Form, Key, auth, lifecycle, queues, read};
use forms::{command, env, variable};
use limits::limit_in;
pub use limits::{TIMEOUTS, limit, span};
pub use tls::TLS;
#[cfg(test)]
pub use tools::ANNOTATIONS;
pub use tools::{TOOL, refuse_any};

/// What an entry says, before it is clear how the server is reached.
pub struct Draft {
    /// The server so far.
    pub server: Server,
    /// The `type` as written.
    pub kind: Option<(String, Place)>,
    /// Gemini CLI's address for Streamable HTTP.
    pub http_url: Option<Located>,
    /// What followed the program where `command` is a list.
    pub command_args: Vec<Located>,
    /// The limit of a whole call is given.
    pub total_given: bool,
}

/// The keys of a server.
pub const SERVER: &[Key<Draft>] = &[
    Key::or(
        &["transport", "transportType"],
        Key::new(
            "type",
            Form::Choice(&["stdio", "http", "sse", "websocket"]),
            "",
            "How the server is reached; if not given, command means stdio and url means http.",
            |draft, given, _| {
                draft.kind = Some((given.text()?, given.node.place.clone()));
                Ok(())
            },
        ),
    ),
    Key::rule(Key::or(
        &["isActive", "active", "enable"],
        Key::new("enabled", Form::Flag, "true", "The server may be used.", |draft, given, _| {
            draft.server.enabled &= given.flag()?;
            Ok(())
        }),
    )),
    Key::or(
        &["cmd"],
        Key::new(
            "command",
            Form::Command,
            "",
            "The program to run, by name or path; or a list of it and its first arguments.",
            |draft, given, _| command(draft, given),
        ),
    ),
    Key::or(
        &["arguments"],
        Key::new("args", Form::Texts, "[]", "The arguments of the program.", |draft, given, _| {
            draft.server.args = given.items()?.iter().map(Given::located).collect::<Result<_, _>>()?;
            Ok(())
        }),
    ),
    Key::or(
        &["environment", "envs"],
        Key::new(
            "env",
            Form::TextMap,
            "{}",
            "Variables for the program; they win over all others.",
            |draft, given, reading| {
                draft.server.env.extend(env(given, reading)?);
                Ok(())
            },
        ),
    ),
    Key::new("env_file", Form::Text, "", "A file with more variables, one KEY=value a line.", |draft, given, _| {
        draft.server.env_file = Some(given.located()?);
        Ok(())
    }),
    Key::rule(Key::new(
        "inherit_env",
        Form::Choice(&["all", "scoped", "minimal", "none"]),
        "\"scoped\"",
        "Which of our variables the program gets; scoped leaves out those of other servers, the summarizer and the gateway.",
        |draft, given, _| {
            draft.server.inherit_env = given.choice(INHERIT)?;
            Ok(())
        },
    )),
    Key::or(
        &["env_vars"],
        Key::new(
            "pass_env",
            Form::Texts,
            "[]",
            "Variables of toolgate's own that the program gets where they are set, whatever `inherit_env` says.",
            |draft, given, _| {
                // Codex also writes a variable as a map with its name.
                let name = |item: &Given<'_>| match item.node.at("name") {
                    Some(node) => Given { node, field: item.field.clone() }.text(),
                    None => item.text(),
                };
                draft.server.pass_env = given.items()?.iter().map(name).collect::<Result<_, _>>()?;
                Ok(())
            },
        ),
    ),
    Key::or(
        &["cwd", "workingDirectory"],
        Key::new("working_dir", Form::Text, "", "Where the program runs; relative to this file.", |draft, given, _| {
            draft.server.working_dir = Some(given.located()?);
            Ok(())
        }),
    ),
    Key::or(
        &["baseUrl", "serverUrl", "endpoint", "uri"],
        Key::new("url", Form::Text, "", "The address: http://, https://, ws:// or wss://.", |draft, given, _| {
            draft.server.url = Some(given.located()?);
            Ok(())
        }),
    ),
    Key::or(
        &["http_headers"],
        Key::new("headers", Form::TextMap, "{}", "Headers for every request.", |draft, given, reading| {
            draft.server.headers.extend(given.located_map(reading)?);
            Ok(())
        }),
    ),
    Key::new(
        "auth",
        Form::Section(|| schema::object(auth::AUTH)),
        "{}",
        "How we prove to the server who we are.",
        |draft, given, reading| {
            draft.server.auth = auth::auth(given, reading)?;
            Ok(())
        },
    ),
    Key::new(
        "tls",
        Form::Section(|| schema::object(TLS)),
        "{}",
        "How certificates are checked and shown.",
        |draft, given, reading| {
            read(TLS, &mut draft.server.tls, given, reading);
            Ok(())
        },
    ),
    Key::new(
        "protocol",
        Form::Choice(&["auto", "legacy", "2026-07-28"]),
        "\"auto\"",
        "Which era of MCP to speak: ask the server, the one with `initialize`, or 2026-07-28.",
        |draft, given, _| {
            draft.server.protocol = given.choice(PROTOCOL)?;
            Ok(())
        },
    ),
    Key::new(
        "timeouts",
        Form::Section(|| schema::object(TIMEOUTS)),
        "{}",
        "How long things may take.",
        |draft, given, reading| {
            let entries = given.node.entries().into_iter().flatten();
            draft.total_given = entries.into_iter().any(|entry| entry.key == "total");
            read(TIMEOUTS, &mut draft.server.timeouts, given, reading);
            Ok(())
        },
    ),
    Key::new(
        "max_message_bytes",
        Form::Bytes,
        "\"64MiB\"",
        "The largest message that the server may send.",
        |draft, given, _| {
            draft.server.max_message_bytes = given.bytes()?;
            if draft.server.max_message_bytes < 1024 {
                return Err(given.misfit("expected at least 1KiB; no server can speak in less"));
            }
            Ok(())
        },
    ),
    Key::new(
        "max_list_bytes",
        Form::Bytes,
        "\"16MiB\"",
        "How much of each of its lists (tools, resources, templates, prompts) is taken; the rest is left out, with a warning.",
        |draft, given, _| {
            draft.server.max_list_bytes = given.bytes()?;
            if draft.server.max_list_bytes < 1024 {
                return Err(given.misfit("expected at least 1KiB; less holds no list"));
            }
            Ok(())
        },
    ),
    Key::new(
        "grace",
        Form::Span,
        "\"2s\"",
        "How long the program may take to end after its input is closed, and again after SIGTERM; then it is killed.",
        |draft, given, _| {
            draft.server.grace = given.span(Unit::Seconds)?.unwrap_or_default();
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
    Key::new(
        "queue",
        Form::Text,
        "",
        "The queue in which calls wait for their turn, with those of other servers that name it; see `queues`.",
        |draft, given, _| {
            draft.server.queue = Some(queues::name(given)?);
            Ok(())
        },
    ),
    Key::new(
        "tool_queues",
        Form::TextMap,
        "{}",
        "The queues of single tools, by names and globs; the first that fits is used, in place of `queue`.",
        |draft, given, _| {
            let named = |(tool, queue): (&str, Given<'_>)| Ok((queue.as_pattern(tool)?, queues::name(&queue)?));
            draft.server.tool_queues = given.entries()?.into_iter().map(named).collect::<Result<_, _>>()?;
            Ok(())
        },
    ),
    Key::new(
        "max_concurrent",
        Form::Number(1, 10_000),
        "",
        "The most calls of this server at a time; as many as its queue lets pass, if not given.",
        |draft, given, _| {
            draft.server.max_concurrent = Some(given.count(1, 10_000)?);
            Ok(())
        },
    ),
    Key::rule(Key::or(
        &["allowedTools", "allowTools", "includeTools", "enabledTools"],
        Key::new(
            "allow",
            Form::Texts,
            "",
            "Names and globs of the tools that exist; none, if the list is empty, and all, if the key is not given.",
            |draft, given, _| tools::allow(draft, given),
        ),
    )),
    Key::rule(Key::or(
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
        Key::new(
            "deny",
            Form::Texts,
            "[]",
            "Names and globs of the tools that do not exist, whatever `allow` says.",
            |draft, given, _| {
                draft.server.deny = given.patterns()?;
                Ok(())
            },
        ),
    )),
    Key::rule(Key::new(
        "ask",
        Form::Texts,
        "[]",
        "Names and globs of the tools that a person must approve.",
        |draft, given, _| {
            draft.server.ask = given.patterns()?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "requires",
        Form::Texts,
        "[]",
        "Capabilities that all are needed to use any tool of the server.",
        |draft, given, _| {
            draft.server.requires = given.texts()?;
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "tools",
        Form::NamedSections(|| schema::object(TOOL)),
        "{}",
        "What is said of single tools, by their names.",
        tools::tools,
    )),
    Key::rule(Key::new(
        "masking",
        Form::Section(|| schema::object(MASKING)),
        "{}",
        "What is masked in its answers, beyond what is masked for all.",
        |draft, given, reading| {
            reading.strictly(|reading| read(MASKING, &mut draft.server.masking, given, reading));
            Ok(())
        },
    )),
    Key::new(
        "instructions",
        Form::Text,
        "",
        "Text for the model, in place of what the server says of itself.",
        |draft, given, _| {
            draft.server.instructions = Some(given.text()?);
            Ok(())
        },
    ),
    Key::rule(Key::hidden("toolsAllowed", |draft, given, _| tools::allow_of_ai_agent(draft, given))),
    Key::rule(Key::or(
        &["disable"],
        Key::hidden("disabled", |draft, given, _| {
            draft.server.enabled &= !given.flag()?;
            Ok(())
        }),
    )),
    Key::hidden("httpUrl", |draft, given, _| {
        draft.http_url = Some(given.located()?);
        Ok(())
    }),
    Key::or(
        &["requestTimeout"],
        Key::hidden("timeout", |draft, given, reading| {
            draft.server.timeouts.call = limit(given, reading)?;
            Ok(())
        }),
    ),
    Key::hidden("tool_timeout_sec", |draft, given, _| {
        draft.server.timeouts.call = limit_in(given, Unit::Seconds)?;
        Ok(())
    }),
    Key::hidden("startup_timeout_sec", |draft, given, _| {
        draft.server.timeouts.initialize = limit_in(given, Unit::Seconds)?;
        Ok(())
    }),
    Key::hidden("startup_timeout_ms", |draft, given, _| {
        draft.server.timeouts.initialize = limit_in(given, Unit::Milliseconds)?;
        Ok(())
    }),
    Key::or(
        &["verify_tls"],
        Key::hidden("verify_ssl", |draft, given, _| {
            draft.server.tls.verify = given.flag()?;
            Ok(())
        }),
    ),
    Key::hidden("bearer_token", |draft, given, _| {
        draft.server.auth = Auth::Bearer(given.located()?);
        Ok(())
    }),
    Key::hidden("bearer_token_env_var", |draft, given, _| {
        draft.server.auth = Auth::Bearer(variable(given)?);
        Ok(())
    }),
    Key::hidden("env_http_headers", |draft, given, _| {
        for (name, value) in given.entries()? {
            draft.server.headers.push((name.to_owned(), variable(&value)?));
        }
        Ok(())
    }),
    Key::hidden("oauth", |draft, given, reading| {
        draft.server.auth = auth::oauth(given, reading)?;
        Ok(())
    }),
];

/// The names of what is inherited.
pub const INHERIT: &[(&str, Inherit)] =
    &[("all", Inherit::All), ("scoped", Inherit::Scoped), ("minimal", Inherit::Minimal), ("none", Inherit::None)];
/// The names of the eras.
pub const PROTOCOL: &[(&str, Protocol)] =
    &[("auto", Protocol::Auto), ("legacy", Protocol::Legacy), ("2026-07-28", Protocol::Modern)];
