//! One entry of a file as a server: its keys, then what they mean together.

use super::command;
use super::document::Node;
use super::keys::{self, server};
use super::model::{Kind, Lifecycle, Notice, Place, Problem, Server, Shape};
use super::nearest;
use super::reading::{Given, Misfit, Reading};

/// An entry of a file.
pub struct Entry<'n> {
    /// The id of the server.
    pub id: String,
    /// Where the entry begins.
    pub place: Place,
    /// What it says.
    pub node: &'n Node,
    /// What it is called in messages, such as `servers.jira`.
    pub path: String,
    /// What holds where it does not say otherwise.
    pub lifecycle: Lifecycle,
    /// It is known to be one of Claude Code.
    pub claude_code: bool,
}

/// Reads an entry. One that is not for us is left out with a notice; one that is wrong becomes a server with a problem.
pub fn read(entry: Entry<'_>, shape: Shape, notices: &mut Vec<Notice>) -> Option<Server> {
    let mut reading = Reading { path: entry.path, claude_code: entry.claude_code, ..Reading::new(shape) };
    let server = understand(
        Server { lifecycle: entry.lifecycle, ..Server::new(entry.id, entry.place, Kind::Stdio) },
        entry.node,
        &mut reading,
    );
    let Reading { notices: said, problems, .. } = reading;
    notices.extend(said);
    let mut server = server?;
    let mut problems = problems.into_iter();
    server.problem = problems.next();
    // The first problem is enough to disable the server; the rest help to mend all at once.
    notices.extend(problems.map(|Problem { place, field, text }| Notice {
        place,
        text: field.map_or_else(|| text.clone(), |field| format!("{field}: {text}")),
    }));
    Some(server)
}

fn understand(server: Server, node: &Node, reading: &mut Reading) -> Option<Server> {
    let mut draft = server::Draft { server, kind: None, http_url: None, command_args: Vec::new(), total_given: false };
    keys::read(server::SERVER, &mut draft, &Given { node, field: String::new() }, reading);
    if node.entries().is_none() {
        return Some(draft.server);
    }
    match kind_of(&draft, reading) {
        Ok(Some(kind)) => draft.server.kind = kind,
        Ok(None) => return None,
        Err(misfit) => reading.problem(misfit),
    }
    let server::Draft { mut server, http_url, command_args, total_given, .. } = draft;
    // Gemini CLI prefers it too where both are given.
    server.url = http_url.or(server.url);
    server.args.splice(0..0, command_args);
    for (at, arg) in server.args.iter_mut().enumerate() {
        arg.field = format!("args[{at}]");
    }
    if reading.problems.is_empty() {
        complete(&mut server, total_given, reading);
    }
    command::split(&mut server, reading);
    if command::starts_us(&server) {
        let place = server.place.clone();
        reading.notice(&place, "left out, since it would start `toolgate serve` again without end");
        return None;
    }
    Some(server)
}

/// What each kind cannot do without.
fn complete(server: &mut Server, total_given: bool, reading: &mut Reading) {
    let blank = |text: &Option<super::model::Located>| text.as_ref().is_none_or(|text| text.text.trim().is_empty());
    let missing = match server.kind {
        Kind::Stdio if blank(&server.command) => Some("command"),
        Kind::Http | Kind::Sse | Kind::WebSocket if blank(&server.url) => Some("url"),
        _ => None,
    };
    if let Some(missing) = missing {
        let text = format!("{missing} required for {} transport", server.kind.name());
        reading.problem(Misfit { place: server.place.clone(), field: String::new(), text });
    }
    if server.timeouts.total < server.timeouts.call {
        if total_given {
            let text = "total is shorter than call; make it at least as long";
            let field = "timeouts".to_owned();
            reading.problem(Misfit { place: server.place.clone(), field, text: text.to_owned() });
        } else {
            server.timeouts.total = server.timeouts.call;
        }
    }
}

/// How the server is reached; none where that makes sense to another program only.
fn kind_of(draft: &server::Draft, reading: &mut Reading) -> Result<Option<Kind>, Misfit> {
    let server = &draft.server;
    let url = draft.http_url.as_ref().or(server.url.as_ref());
    let is_socket = url.is_some_and(|url| url.text.starts_with("ws://") || url.text.starts_with("wss://"));
    let Some((word, place)) = &draft.kind else {
        return match (&server.command, url) {
            (Some(_), Some(_)) => Err(Misfit {
                place: server.place.clone(),
                field: String::new(),
                text: "both command and url are given; keep one of them, or say with type which is meant".to_owned(),
            }),
            (None, Some(_)) if is_socket => Ok(Some(Kind::WebSocket)),
            // In Gemini CLI `httpUrl` is Streamable HTTP and `url` is SSE.
            (None, Some(_)) if reading.shape == Shape::Gemini && draft.http_url.is_none() => Ok(Some(Kind::Sse)),
            (None, Some(_)) => Ok(Some(Kind::Http)),
            // Settings of an extension that Zed itself knows how to start.
            (None, None) if reading.shape == Shape::Zed && reading.problems.is_empty() => {
                reading.notice(&server.place, "left out, since it says neither command nor url");
                Ok(None)
            }
            _ => Ok(Some(Kind::Stdio)),
        };
    };
    match nearest::fold(word).as_str() {
        "stdio" | "local" | "command" => Ok(Some(Kind::Stdio)),
        "remote" if is_socket => Ok(Some(Kind::WebSocket)),
        "http" | "https" | "streamablehttp" | "streamable" | "httpstream" | "remote" => Ok(Some(Kind::Http)),
        "sse" => Ok(Some(Kind::Sse)),
        "ws" | "websocket" => Ok(Some(Kind::WebSocket)),
        "sdk" | "claudeaiproxy" | "sseide" | "wside" | "builtin" | "platform" | "inprocess" if !reading.is_strict() => {
            reading.notice(place, format!("left out, since type {word:?} makes sense inside its own program only"));
            Ok(None)
        }
        _ => Err(Misfit {
            place: place.clone(),
            field: "type".to_owned(),
            text: format!("invalid transport type {word:?}; there are: stdio, http, sse, websocket"),
        }),
    }
}
