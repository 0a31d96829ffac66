//! Who may use the gateway, and what proves it.

use serde_json::json;

use super::super::super::document::Value;
use super::super::super::model::{Located, TokenFrom, TokenRules};
use super::super::super::reading::{Given, Misfit, Reading};
use super::super::server::refuse_any;
use super::super::{Form, Key, read};

/// What an entry of `tokens` says, before it is clear that nothing is missing.
#[derive(Debug, Default, PartialEq)]
pub struct Draft {
    principal: String,
    token: Option<Located>,
    file: Option<Located>,
    admin: bool,
    selection: Option<Vec<(String, Vec<String>)>>,
    capabilities: Option<Vec<String>>,
}

/// The keys of a token.
pub const TOKEN: &[Key<Draft>] = &[
    Key::new(
        "principal",
        Form::Text,
        "",
        "Whose token it is, for logs and rules: letters, digits, `_`, `.`, `@` and `-`.",
        |draft, given, _| {
            let name = given.text()?;
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
            if name.is_empty() || !name.bytes().all(allowed) {
                return Err(given.misfit(format!("{name:?} must be letters, digits, `_`, `.`, `@` and `-`")));
            }
            draft.principal = name;
            Ok(())
        },
    ),
    Key::new(
        "token",
        Form::Text,
        "",
        "The token, such as ${CI_TOKEN}; at least 16 characters, which the client sends after `Bearer`.",
        |draft, given, _| {
            draft.token = Some(given.located()?);
            Ok(())
        },
    ),
    Key::or(
        &["token_file"],
        Key::new("file", Form::Text, "", "In place of token: a file that holds it alone.", |draft, given, _| {
            draft.file = Some(given.located()?);
            Ok(())
        }),
    ),
    Key::new(
        "admin",
        Form::Flag,
        "false",
        "The principal may also enable, disable and reconnect servers, and try tools on the dashboard.",
        |draft, given, _| {
            draft.admin = given.flag()?;
            Ok(())
        },
    ),
    Key::rule(Key::new(
        "servers",
        Form::Section(servers),
        "",
        "The servers that the principal may use: a list, or a map to names and globs of their tools; all, if not given.",
        |draft, given, _| {
            draft.selection = Some(selection(given)?);
            Ok(())
        },
    )),
    Key::rule(Key::new(
        "capabilities",
        Form::Texts,
        "",
        "What the principal has been granted, such as server:files or tool:files/read; it needs no grants, if not given.",
        |draft, given, _| {
            draft.capabilities = Some(given.texts()?);
            Ok(())
        },
    )),
];

/// Reads `tokens`.
pub fn tokens(given: &Given<'_>, reading: &mut Reading) -> Result<Vec<TokenRules>, Misfit> {
    let mut tokens: Vec<TokenRules> = Vec::new();
    for item in given.items()? {
        let mut draft = Draft::default();
        read(TOKEN, &mut draft, &item, reading);
        let token = draft.finish(&item)?;
        if tokens.iter().any(|earlier| earlier.principal == token.principal) {
            return Err(item.misfit(format!("the principal {:?} is given twice", token.principal)));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

impl Draft {
    fn finish(self, given: &Given<'_>) -> Result<TokenRules, Misfit> {
        if self.principal.is_empty() {
            return Err(given.misfit("a `principal` is missing"));
        }
        let secret = match (self.token, self.file) {
            (Some(token), None) => TokenFrom::Text(token),
            (None, Some(file)) => TokenFrom::File(file),
            (Some(_), Some(_)) => return Err(given.misfit("both token and file are given; keep one of them")),
            (None, None) => return Err(given.misfit("needs a `token`, or the `file` that holds it")),
        };
        Ok(TokenRules {
            place: given.node.place.clone(),
            principal: self.principal,
            secret,
            admin: self.admin,
            selection: self.selection,
            capabilities: self.capabilities,
        })
    }
}

/// Servers, each with names and globs of its tools; none of these means all tools, which a list of servers says.
fn selection(given: &Given<'_>) -> Result<Vec<(String, Vec<String>)>, Misfit> {
    let mut selection: Vec<(String, Vec<String>)> = Vec::new();
    match &given.node.value {
        Value::Map(_) => {
            for (server, tools) in given.entries()? {
                let named = if tools.node.is_null() { Vec::new() } else { tools.patterns()? };
                if named.is_empty() {
                    return Err(tools.misfit("names no tool; write [\"*\"] to mean all tools of the server"));
                }
                refuse_any(&tools, &named)?;
                selection.push((server.to_owned(), named));
            }
        }
        _ => selection.extend(given.texts()?.into_iter().map(|server| (server, Vec::new()))),
    }
    if selection.is_empty() {
        return Err(given.misfit("is empty; name a server, or leave it out to mean all"));
    }
    for (at, (server, _)) in selection.iter().enumerate() {
        if selection[..at].iter().any(|(earlier, _)| earlier == server) {
            return Err(given.misfit(format!("the server {server:?} is given twice")));
        }
    }
    Ok(selection)
}

/// The schema of `servers`: a list of servers, or a map from servers to tools.
fn servers() -> serde_json::Value {
    let tools = json!({"type": ["array", "string"], "items": {"type": "string"}, "minItems": 1});
    json!({
        "type": ["array", "object"],
        "items": {"type": "string"},
        "minItems": 1,
        "additionalProperties": tools,
        "minProperties": 1,
    })
}
