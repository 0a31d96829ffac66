//! The keys of the gateway's `tokens`.

use std::collections::HashSet;

use serde_json::json;

use super::super::super::document::NodeValue;
use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::{ListMode, RuleConfig, TokenRules, TokenSource, UnexpandedText};
use super::super::super::section::{ChoiceForm, ConfigKey, KeyForm, read_keys, schema};
use super::super::rules::{read_rules, rules_schema};

/// An entry of `tokens` as written, before it is known to be complete.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TokenDraft {
    principal: String,
    token: Option<UnexpandedText>,
    file: Option<UnexpandedText>,
    admin: bool,
    selection: Option<Vec<(String, Vec<String>)>>,
    capabilities: Option<Vec<String>>,
    groups: Vec<String>,
    rules: Vec<RuleConfig>,
    list: Option<ListMode>,
}

type Key = ConfigKey<TokenDraft>;

/// The keys of a token.
pub(crate) const TOKEN: &[Key] = &[
    Key::new(
        "principal",
        KeyForm::Custom(schema::text, |draft, field, _| {
            let name = field.text()?;
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.@-".contains(&byte);
            if name.is_empty() || !name.bytes().all(allowed) {
                return Err(field.error(format!("{name:?} must be letters, digits, `_`, `.`, `@` and `-`")));
            }
            draft.principal = name;
            Ok(())
        }),
    )
    .about("The name of the token's owner in logs and rules: letters, digits, `_`, `.`, `@` and `-`."),
    Key::new("token", KeyForm::UnexpandedText(|draft, text| draft.token = Some(text)))
        .about("The token, such as ${CI_TOKEN}, which the client sends after `Bearer`; at least 16 characters."),
    Key::new("file", KeyForm::UnexpandedText(|draft, text| draft.file = Some(text)))
        .about("Instead of `token`: a file that contains only the token.")
        .aliased(&["token_file"]),
    Key::new("admin", KeyForm::Flag(|draft, flag| draft.admin = flag))
        .about("Whether the principal may also enable, disable and reconnect servers, and try tools on the dashboard.")
        .default("false"),
    Key::rule(
        "servers",
        KeyForm::Custom(servers, |draft, field, _| selection(field).map(|selection| draft.selection = Some(selection))),
    )
    .about(
        "The servers that the principal may use: a list, or a map from server to names and globs of tools. \
         Default: all.",
    ),
    Key::rule("capabilities", KeyForm::Texts(|draft, texts| draft.capabilities = Some(texts)))
        .about("What the principal is granted, such as server:files or tool:files/read; default: it needs no grants."),
    Key::rule("groups", KeyForm::Texts(|draft, texts| draft.groups = texts))
        .about("The groups of the principal, which rules see.")
        .default("[]"),
    Key::rule(
        "rules",
        KeyForm::Custom(rules_schema, |draft, field, context| {
            read_rules(field, context).map(|rules| draft.rules = rules)
        }),
    )
    .about("Rules for calls of this principal, as at the top level.")
    .default("[]"),
    Key::new("list", KeyForm::choice(&ChoiceForm(&ListMode::ALL, |draft, choice| draft.list = Some(choice))))
        .about("Which tools this principal is shown, instead of `gateway.list`."),
];

/// Reads `tokens`.
pub(super) fn read_tokens(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<TokenRules>, FieldError> {
    let (mut tokens, mut principals) = (Vec::new(), HashSet::new());
    for item in field.items()? {
        let mut draft = TokenDraft::default();
        read_keys(TOKEN, &mut draft, &item, context);
        let token = draft.finish(&item)?;
        if !principals.insert(token.principal.clone()) {
            return Err(item.error(format!("the principal {:?} is given twice", token.principal)));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

impl TokenDraft {
    fn finish(self, field: &ConfigField<'_>) -> Result<TokenRules, FieldError> {
        if self.principal.is_empty() {
            return Err(field.error("a `principal` is missing"));
        }
        let secret = match (self.token, self.file) {
            (Some(token), None) => TokenSource::Text(token),
            (None, Some(file)) => TokenSource::File(file),
            (Some(_), Some(_)) => return Err(field.error("both token and file are given; keep one of them")),
            (None, None) => return Err(field.error("needs a `token`, or the `file` that holds it")),
        };
        Ok(TokenRules {
            place: field.node.place.clone(),
            principal: self.principal,
            secret,
            admin: self.admin,
            selection: self.selection,
            capabilities: self.capabilities,
            groups: self.groups,
            rules: self.rules,
            list: self.list,
        })
    }
}

/// Reads the selected servers, each with names and globs of its tools; an empty list of tools means all of them.
fn selection(field: &ConfigField<'_>) -> Result<Vec<(String, Vec<String>)>, FieldError> {
    let mut selection: Vec<(String, Vec<String>)> = Vec::new();
    match &field.node.value {
        NodeValue::Map(_) => {
            for (server, tools) in field.entries()? {
                let named = if tools.node.is_null() { Vec::new() } else { tools.allowed_patterns()? };
                if named.is_empty() {
                    return Err(tools.error("names no tool; write [\"*\"] to mean all tools of the server"));
                }
                selection.push((server.to_owned(), named));
            }
        }
        _ => selection.extend(field.texts()?.into_iter().map(|server| (server, Vec::new()))),
    }
    if selection.is_empty() {
        return Err(field.error("is empty; name a server, or leave it out to mean all"));
    }
    let mut servers = HashSet::new();
    for (server, _) in &selection {
        if !servers.insert(server) {
            return Err(field.error(format!("the server {server:?} is given twice")));
        }
    }
    Ok(selection)
}

/// Returns the schema of `servers`: a list of servers, or a map from servers to tools.
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
