//! Reads one server entry of a file: first its keys, then what they mean together.

use super::command;
use super::document::Node;
use super::error::ConfigError;
use super::field::{ConfigField, FieldError, ReadContext};
use super::keys::server::{SERVER, ServerDraft};
use super::model::{FilePosition, FileShape, LifecycleRules, Notice, Problem, ServerConfig, Settings, TransportKind};
use super::nearest;
use super::section::read_keys;

/// The content of a file: its settings, its servers, and notices for its author.
pub(super) type ConfigParts = (Settings, Vec<ServerConfig>, Vec<Notice>);

/// A server entry of a file.
pub(super) struct ServerEntry<'n> {
    /// The id of the server.
    pub id: String,
    /// The position where the entry begins.
    pub place: FilePosition,
    /// The content of the entry.
    pub node: &'n Node,
    /// The name of the entry in messages, such as `servers.jira`.
    pub path: String,
    /// The lifecycle defaults, which the entry may override.
    pub lifecycle: LifecycleRules,
    /// Whether the entry is known to be Claude Code's.
    pub claude_code: bool,
}

/// Reads an entry: one for another program is skipped with a notice, and a bad one becomes a server with a problem.
pub(super) fn read(entry: ServerEntry<'_>, shape: FileShape, notices: &mut Vec<Notice>) -> Option<ServerConfig> {
    let mut context = ReadContext { path: entry.path, claude_code: entry.claude_code, ..ReadContext::new(shape) };
    let server = build_server(
        ServerConfig { lifecycle: entry.lifecycle, ..ServerConfig::new(entry.id, entry.place, TransportKind::Stdio) },
        entry.node,
        &mut context,
    );
    notices.extend(context.notices);
    let mut server = server?;
    let mut problems = context.problems.into_iter();
    server.problem = problems.next();
    // The first problem disables the server; the notices about the rest help to fix all of them at once.
    notices.extend(problems.map(|Problem { place, field, text }| Notice {
        place,
        text: field.map_or_else(|| text.clone(), |field| format!("{field}: {text}")),
    }));
    Some(server)
}

/// Refuses a file with more servers than `max_servers`.
pub(super) fn check_count(count: usize, most: usize, node: &Node) -> Result<(), ConfigError> {
    if count > most {
        return Err(ConfigError::invalid(node.place.clone(), format!("{count} servers, but max_servers is {most}")));
    }
    Ok(())
}

fn build_server(server: ServerConfig, node: &Node, context: &mut ReadContext) -> Option<ServerConfig> {
    let mut draft = ServerDraft { server, kind: None, http_url: None, command_args: Vec::new(), total_given: false };
    read_keys(SERVER, &mut draft, &ConfigField { node, field: String::new() }, context);
    if node.entries().is_none() {
        return Some(draft.server);
    }
    match kind_of(&draft, context) {
        Ok(Some(kind)) => draft.server.kind = kind,
        Ok(None) => return None,
        Err(error) => context.add_problem(error),
    }
    let ServerDraft { mut server, http_url, command_args, total_given, .. } = draft;
    // Gemini CLI also prefers `httpUrl` if both are given.
    server.url = http_url.or(server.url);
    server.args.splice(0..0, command_args);
    for (at, arg) in server.args.iter_mut().enumerate() {
        arg.field = format!("args[{at}]");
    }
    if context.problems.is_empty() {
        check_required(&mut server, total_given, context);
    }
    check_tool_names(&server, context);
    command::split(&mut server, context);
    if command::starts_gateway(&server) {
        let position = server.place.clone();
        context.add_notice(&position, "skipped: it would start `toolgate serve` in an endless loop");
        return None;
    }
    Some(server)
}

/// Checks the keys that each transport requires.
fn check_required(server: &mut ServerConfig, total_given: bool, context: &mut ReadContext) {
    let (key, required) = match server.kind {
        TransportKind::Stdio => ("command", &server.command),
        TransportKind::Http | TransportKind::Sse | TransportKind::WebSocket => ("url", &server.url),
    };
    if required.as_ref().is_none_or(|text| text.text.trim().is_empty()) {
        let text = format!("{key} required for {} transport", server.kind.name());
        context.add_problem(FieldError { place: server.place.clone(), field: String::new(), text });
    }
    if server.timeouts.total < server.timeouts.call {
        if total_given {
            let text = "total is shorter than call; make it at least as long";
            let field = "timeouts".to_owned();
            context.add_problem(FieldError { place: server.place.clone(), field, text: text.to_owned() });
        } else {
            server.timeouts.total = server.timeouts.call;
        }
    }
}

/// Refuses names of tools as clients see them: with the server in front they would name no tool of it.
fn check_tool_names(server: &ServerConfig, context: &mut ReadContext) {
    let lists = [("allow", server.allow.as_deref().unwrap_or_default()), ("deny", &server.deny), ("ask", &server.ask)];
    for (field, patterns) in lists {
        for pattern in patterns {
            // As names are compared: in any case.
            let split = pattern.trim().split_at_checked(server.id.len());
            let own = split.filter(|(begin, _)| begin.eq_ignore_ascii_case(&server.id)).map(|(_, rest)| rest);
            let own = own.and_then(|rest| rest.strip_prefix("__").or_else(|| rest.strip_prefix('.')));
            let Some(own) = own.filter(|own| !own.is_empty()) else { continue };
            let text = format!(
                "{pattern:?} has the server in front, and tools are named without it here: write {own:?}; if the server \
                 itself calls a tool so, write `?` for one of the characters after {:?}",
                server.id
            );
            context.add_problem(FieldError { place: server.place.clone(), field: field.to_owned(), text });
        }
    }
}

/// Returns the transport of a server; `None` if only another program can use the entry.
fn kind_of(draft: &ServerDraft, context: &mut ReadContext) -> Result<Option<TransportKind>, FieldError> {
    let server = &draft.server;
    let url = draft.http_url.as_ref().or(server.url.as_ref());
    let is_socket = url.is_some_and(|url| url.text.starts_with("ws://") || url.text.starts_with("wss://"));
    let Some((word, position)) = &draft.kind else {
        return match (&server.command, url) {
            (Some(_), Some(_)) => Err(FieldError {
                place: server.place.clone(),
                field: String::new(),
                text: "both command and url are given; keep one of them, or choose one with type".to_owned(),
            }),
            (None, Some(_)) if is_socket => Ok(Some(TransportKind::WebSocket)),
            // In Gemini CLI `httpUrl` is Streamable HTTP and `url` is SSE.
            (None, Some(_)) if context.shape == FileShape::Gemini && draft.http_url.is_none() => {
                Ok(Some(TransportKind::Sse))
            }
            (None, Some(_)) => Ok(Some(TransportKind::Http)),
            // Settings of an extension that only Zed knows how to start.
            (None, None) if context.shape == FileShape::Zed && context.problems.is_empty() => {
                context.add_notice(&server.place, "skipped: it has neither command nor url");
                Ok(None)
            }
            _ => Ok(Some(TransportKind::Stdio)),
        };
    };
    match nearest::fold(word).as_str() {
        "stdio" | "local" | "command" => Ok(Some(TransportKind::Stdio)),
        "remote" if is_socket => Ok(Some(TransportKind::WebSocket)),
        "http" | "https" | "streamablehttp" | "streamable" | "httpstream" | "remote" => Ok(Some(TransportKind::Http)),
        "sse" => Ok(Some(TransportKind::Sse)),
        "ws" | "websocket" => Ok(Some(TransportKind::WebSocket)),
        "sdk" | "claudeaiproxy" | "sseide" | "wside" | "builtin" | "platform" | "inprocess" if !context.strict => {
            context.add_notice(position, format!("skipped: type {word:?} only works inside its own program"));
            Ok(None)
        }
        _ => Err(FieldError {
            place: position.clone(),
            field: "type".to_owned(),
            text: format!("invalid transport type {word:?}; there are: stdio, http, sse, websocket"),
        }),
    }
}
