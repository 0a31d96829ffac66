//! Writes a configuration as the text of a `toolgate.yaml`, with only the values that differ from the defaults.

use std::fmt::Write as _;
use std::time::Duration;

use super::super::document::{MapEntry, Node, NodeValue, ScalarKind};
use super::super::keys::auth::{GRANTS, TOKEN_AUTHS};
use super::super::keys::lifecycle::PROBES;
use super::super::keys::server::{INHERIT, PROTOCOL};
use super::super::model::{
    ApiKeyLocation, Config, ConfigInput, InheritEnv, LifecycleRules, Masking, OAuthConfig, OAuthGrant, RuleConfig,
    ServerAuth, ServerConfig, ServerTls, Timeouts, ToolConfig, TransportKind, UnexpandedText,
};
use super::super::secrets::looks_secret;
use super::super::section::name_of;
use super::super::{bytes, duration};
use crate::logic::types::rules::{CallLimit, Effect};
use crate::words::NamedCase;

/// A configuration of servers from several files.
pub(super) struct MergedYaml {
    /// The text.
    pub yaml: String,
    /// The paths of the values that are secrets in plain text, such as `servers.tickets.env.API_KEY`.
    pub secrets: Vec<String>,
}

/// Returns inputs and servers as YAML, each server below a comment.
pub(super) fn merged(inputs: &[ConfigInput], servers: &[(String, ServerConfig)]) -> MergedYaml {
    let mut writer = YamlWriter::new(false);
    writer.line(0, "# The servers of your MCP clients. `toolgate schema` explains every key.");
    writer.line(0, "version: 1");
    writer.inputs(inputs);
    writer.line(0, if servers.is_empty() { "servers: {}" } else { "servers:" });
    for (comment, server) in servers {
        // A comment ends with its line, and a path may contain any character.
        writer.line(1, &format!("# {}", comment.escape_debug()));
        writer.server(server);
    }
    MergedYaml { yaml: writer.out, secrets: writer.secrets }
}

/// Returns what a server is, without its id, for comparison.
pub(super) fn definition(server: &ServerConfig) -> String {
    let mut writer = YamlWriter::new(false);
    writer.server(&ServerConfig { id: String::new(), ..server.clone() });
    writer.out
}

/// Returns the configuration as YAML, with a comment that names its source. Settings for all servers are copied as
/// written, so that no rule is lost.
pub(crate) fn yaml<'n>(config: &Config, client: &str, of_all: impl IntoIterator<Item = (&'n str, &'n Node)>) -> String {
    let mut writer = YamlWriter::new(config.settings.bare_dollar);
    let _ = writeln!(writer.out, "# Imported from {client}. `toolgate schema` explains every key.");
    writer.line(0, "version: 1");
    of_all.into_iter().for_each(|(key, value)| writer.pair(0, key, &flow(value)));
    writer.inputs(&config.settings.inputs);
    writer.line(0, if config.servers.is_empty() { "servers: {}" } else { "servers:" });
    config.servers.iter().for_each(|server| writer.server(server));
    writer.out
}

struct YamlWriter {
    out: String,
    bare_dollar: bool,
    /// The id of the server that is being written.
    server: String,
    secrets: Vec<String>,
}

impl YamlWriter {
    fn new(bare_dollar: bool) -> Self {
        YamlWriter { out: String::new(), bare_dollar, server: String::new(), secrets: Vec::new() }
    }

    fn inputs(&mut self, inputs: &[ConfigInput]) {
        if !inputs.is_empty() {
            self.line(0, "inputs:");
        }
        inputs.iter().for_each(|input| self.input(input));
    }

    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", depth * 2);
    }

    fn pair(&mut self, depth: usize, key: &str, value: &str) {
        self.line(depth, format!("{}: {value}", quote(key)).trim_end());
    }

    /// Formats text that is expanded later: a bare `$VAR` becomes `${VAR}`, since only Gemini CLI knows the former.
    fn unexpanded_text(&self, text: &UnexpandedText) -> String {
        quote(&if self.bare_dollar { brace(&text.text) } else { text.text.clone() })
    }

    fn input(&mut self, input: &ConfigInput) {
        self.line(1, &format!("- id: {}", quote(&input.id)));
        self.optional(2, "description", input.description.as_deref().map(quote));
        self.optional(2, "password", input.password.then_some("true"));
        self.optional(2, "default", input.default.as_deref().map(quote));
        self.texts(2, "options", &input.options);
    }

    fn server(&mut self, server: &ServerConfig) {
        self.server.clone_from(&server.id);
        self.line(1, &format!("{}:", quote(&server.id)));
        self.optional(2, "enabled", (!server.enabled).then_some("false"));
        self.pair(2, "type", server.kind.name());
        match server.kind {
            TransportKind::Stdio => self.program(server),
            TransportKind::Http | TransportKind::Sse | TransportKind::WebSocket => self.site(server),
        }
        self.timeouts(&server.timeouts);
        let default = ServerConfig::new("", server.place.clone(), server.kind);
        for (key, size, default) in [
            ("max_message_bytes", server.max_message_bytes, default.max_message_bytes),
            ("max_list_bytes", server.max_list_bytes, default.max_list_bytes),
        ] {
            self.optional(2, key, (size != default).then(|| bytes::write(size)));
        }
        self.span(2, "grace", server.grace, default.grace);
        self.lifecycle(&server.lifecycle);
        self.optional(2, "queue", server.queue.as_deref().map(quote));
        if !server.tool_queues.is_empty() {
            self.line(2, "tool_queues:");
        }
        for (tool, queue) in &server.tool_queues {
            self.pair(3, tool, &quote(queue));
        }
        self.optional(2, "max_concurrent", server.max_concurrent.map(|most| most.to_string()));
        self.optional(2, "allow", server.allow.as_ref().map(|tools| list(tools.iter().map(|tool| quote(tool)))));
        self.texts(2, "deny", &server.deny);
        self.texts(2, "ask", &server.ask);
        self.texts(2, "requires", &server.requires);
        self.rules(&server.rules);
        self.choice(2, "protocol", PROTOCOL, server.protocol, default.protocol);
        self.tools(&server.tools);
        self.masking(&server.masking);
        self.optional(2, "instructions", server.instructions.as_deref().map(quote));
    }

    fn program(&mut self, server: &ServerConfig) {
        self.unexpanded(2, "command", server.command.as_ref());
        let args = list(server.args.iter().map(|arg| self.unexpanded_text(arg)));
        self.optional(2, "args", (!server.args.is_empty()).then_some(args));
        self.map(2, "env", &server.env);
        self.unexpanded(2, "env_file", server.env_file.as_ref());
        self.choice(2, "inherit_env", INHERIT, server.inherit_env, InheritEnv::default());
        self.texts(2, "pass_env", &server.pass_env);
        self.unexpanded(2, "working_dir", server.working_dir.as_ref());
    }

    fn site(&mut self, server: &ServerConfig) {
        self.unexpanded(2, "url", server.url.as_ref());
        self.map(2, "headers", &server.headers);
        self.auth(&server.auth);
        let tls = &server.tls;
        if *tls != ServerTls::default() {
            self.line(2, "tls:");
        }
        self.optional(3, "verify", (!tls.verify).then_some("false"));
        self.unexpanded(3, "ca", tls.ca.as_ref());
        self.unexpanded(3, "client_certificate", tls.client_certificate.as_ref());
        self.unexpanded(3, "client_key", tls.client_key.as_ref());
    }

    fn auth(&mut self, auth: &ServerAuth) {
        if *auth != ServerAuth::None {
            self.line(2, "auth:");
        }
        match auth {
            ServerAuth::None => {}
            ServerAuth::Bearer(token) => {
                self.pair(3, "type", "bearer");
                self.secret(3, "auth", "token", token, "TOKEN");
            }
            ServerAuth::ApiKey { value, r#in } => {
                self.pair(3, "type", "api_key");
                self.secret(3, "auth", "key", value, "API_KEY");
                match r#in {
                    ApiKeyLocation::Header(name) => self.pair(3, "header", &quote(name)),
                    ApiKeyLocation::Query(name) => self.pair(3, "query", &quote(name)),
                }
            }
            ServerAuth::Basic { user, password } => {
                self.pair(3, "type", "basic");
                self.pair(3, "user", &self.unexpanded_text(user));
                self.secret(3, "auth", "password", password, "PASSWORD");
            }
            ServerAuth::OAuth(oauth) => self.oauth(oauth),
        }
    }

    fn oauth(&mut self, oauth: &OAuthConfig) {
        self.pair(3, "type", "oauth");
        self.choice(3, "grant", GRANTS, oauth.grant, OAuthGrant::default());
        self.unexpanded(3, "client_id", oauth.client_id.as_ref());
        if let Some(secret) = &oauth.client_secret {
            self.secret(3, "auth", "client_secret", secret, "CLIENT_SECRET");
        }
        self.unexpanded(3, "client_metadata_url", oauth.client_metadata_url.as_ref());
        self.optional(3, "token_auth", oauth.token_auth.map(|how| name_of(TOKEN_AUTHS, how)));
        self.unexpanded(3, "private_key", oauth.private_key.as_ref());
        self.unexpanded(3, "issuer", oauth.issuer.as_ref());
        self.texts(3, "scopes", &oauth.scopes);
        self.optional(3, "callback_port", oauth.callback_port.map(|port| port.to_string()));
        self.unexpanded(3, "authorization_url", oauth.authorization_url.as_ref());
        self.unexpanded(3, "token_url", oauth.token_url.as_ref());
        self.unexpanded(3, "metadata_url", oauth.metadata_url.as_ref());
    }

    fn tools(&mut self, tools: &[ToolConfig]) {
        if !tools.is_empty() {
            self.line(2, "tools:");
        }
        for rules in tools {
            let annotations = rules.annotations;
            let hints = [
                ("read_only", annotations.read_only),
                ("destructive", annotations.destructive),
                ("idempotent", annotations.idempotent),
                ("open_world", annotations.open_world),
            ];
            let hints: Vec<String> =
                hints.iter().filter_map(|(name, hint)| Some(format!("{name}: {}", (*hint)?))).collect();
            self.pair(3, &rules.tool, "");
            self.pair(4, "annotations", &format!("{{{}}}", hints.join(", ")));
            self.texts(4, "requires", &rules.requires);
            self.optional(4, "note", rules.note.as_deref().map(quote));
        }
    }

    fn rules(&mut self, rules: &[RuleConfig]) {
        if !rules.is_empty() {
            self.line(2, "rules:");
        }
        for RuleConfig { rule, .. } in rules {
            self.line(3, &format!("- name: {}", quote(&rule.name)));
            self.texts(4, "tools", &rule.tools);
            self.optional(4, "when", rule.condition.as_deref().map(quote));
            let then = match &rule.effect {
                Effect::Deny => "deny".to_owned(),
                Effect::Ask => "ask".to_owned(),
                Effect::Allow => "allow".to_owned(),
                Effect::Label(labels) => format!("{{label: {}}}", list(labels.iter().map(|label| quote(label)))),
            };
            self.pair(4, "then", &then);
            if let Some(CallLimit { calls, per_ms, by }) = rule.limit {
                let per = duration::write(Duration::from_millis(per_ms));
                self.pair(4, "limit", &format!("{{calls: {calls}, per: {per}, by: {}}}", by.name()));
            }
            self.optional(4, "because", rule.because.as_deref().map(quote));
        }
    }

    fn masking(&mut self, masking: &Masking) {
        if *masking == Masking::default() {
            return;
        }
        self.line(2, "masking:");
        self.texts(3, "groups", &masking.groups);
        self.texts(3, "patterns", &masking.patterns);
        if !masking.custom.is_empty() {
            self.line(3, "custom:");
        }
        for mask in &masking.custom {
            self.line(4, &format!("- pattern: {}", quote(&mask.pattern)));
            self.pair(5, "replacement", &quote(&mask.replacement));
            self.optional(5, "name", mask.name.as_deref().map(quote));
        }
    }

    fn timeouts(&mut self, timeouts: &Timeouts) {
        let default = Timeouts::default();
        let all = [
            ("call", timeouts.call, default.call),
            ("total", timeouts.total, default.total),
            ("initialize", timeouts.initialize, default.initialize),
            ("reinitialize", timeouts.reinitialize, default.reinitialize),
            ("list", timeouts.list, default.list),
            ("connect", timeouts.connect, default.connect),
        ];
        if *timeouts != default {
            self.line(2, "timeouts:");
        }
        for (key, span, default) in all {
            self.span(3, key, span, default);
        }
    }

    fn lifecycle(&mut self, lifecycle: &LifecycleRules) {
        let default = LifecycleRules::default();
        for (key, flag, default) in
            [("eager", lifecycle.eager, default.eager), ("shared", lifecycle.shared, default.shared)]
        {
            self.optional(2, key, (flag != default).then(|| flag.to_string()));
        }
        for (key, span, default) in [
            ("idle_timeout", lifecycle.idle_timeout, default.idle_timeout),
            ("acquire_timeout", lifecycle.acquire_timeout, default.acquire_timeout),
            ("health_interval", lifecycle.health_interval, default.health_interval),
            ("health_timeout", lifecycle.health_timeout, default.health_timeout),
            ("probe_timeout", lifecycle.probe_timeout, default.probe_timeout),
        ] {
            self.span(2, key, span, default);
        }
        let delays = list(lifecycle.restart_delays.iter().map(|delay| duration::write(*delay)));
        self.optional(2, "restart_delays", (lifecycle.restart_delays != default.restart_delays).then_some(delays));
        self.choice(2, "health_probe", PROBES, lifecycle.health_probe, default.health_probe);
    }

    fn map(&mut self, depth: usize, key: &str, map: &[(String, UnexpandedText)]) {
        if map.is_empty() {
            return;
        }
        self.line(depth, &format!("{key}:"));
        for (name, value) in map {
            self.secret(depth + 1, key, name, value, name);
        }
    }

    /// Writes a value that may be a secret; one in plain text gets a comment with advice.
    fn secret(&mut self, depth: usize, section: &str, key: &str, value: &UnexpandedText, variable: &str) {
        let has_variable =
            value.text.contains("${") || value.text.contains("{{") || (self.bare_dollar && value.text.contains('$'));
        if !has_variable && !value.text.is_empty() && looks_secret(variable) {
            self.secrets.push(format!("servers.{}.{section}.{key}", self.server));
            // Every server has such a header, and each its own value behind the scheme.
            let is_shared = variable.eq_ignore_ascii_case("authorization");
            let variable = if is_shared { format!("{}_TOKEN", self.server) } else { variable.to_owned() };
            let scheme = value.text.split_once(' ').filter(|_| is_shared).map_or("", |(scheme, _)| scheme);
            let variable: String =
                variable.to_ascii_uppercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
            let instead = format!("{scheme} ${{{variable}}}");
            let advice = format!("# A secret in plain text: export {variable} and write {} instead.", instead.trim());
            self.line(depth, &advice);
        }
        self.pair(depth, key, &self.unexpanded_text(value));
    }

    fn optional(&mut self, depth: usize, key: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.pair(depth, key, value.as_ref());
        }
    }

    fn unexpanded(&mut self, depth: usize, key: &str, text: Option<&UnexpandedText>) {
        self.optional(depth, key, text.map(|text| self.unexpanded_text(text)));
    }

    fn texts(&mut self, depth: usize, key: &str, texts: &[String]) {
        self.optional(depth, key, (!texts.is_empty()).then(|| list(texts.iter().map(|text| quote(text)))));
    }

    fn span(&mut self, depth: usize, key: &str, span: Duration, default: Duration) {
        self.optional(depth, key, (span != default).then(|| duration::write(span)));
    }

    fn choice<C: PartialEq>(&mut self, depth: usize, key: &str, choices: &[(&str, C)], value: C, default: C) {
        self.optional(depth, key, (value != default).then(|| quote(name_of(choices, value))));
    }
}

/// Formats a list on one line of YAML.
fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// Formats a value on one line of YAML.
fn flow(node: &Node) -> String {
    match &node.value {
        NodeValue::Scalar(scalar) => match scalar.kind {
            ScalarKind::Null => "null".to_owned(),
            ScalarKind::Bool | ScalarKind::Number => scalar.text.clone(),
            ScalarKind::Text => quote(&scalar.text),
        },
        NodeValue::List(items) => list(items.iter().map(flow)),
        NodeValue::Map(entries) => {
            let pair = |entry: &MapEntry| format!("{}: {}", quote(&entry.key), flow(&entry.value));
            format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Formats text as YAML, without quotes if it can only be read as text.
fn quote(text: &str) -> String {
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/'));
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    // A JSON string is also a YAML string in double quotes.
    if plain && !word { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

/// Puts braces around the names of bare variables.
pub(super) fn brace(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let name = after.find(|next: char| !next.is_ascii_alphanumeric() && next != '_').unwrap_or(after.len());
        let bare = after.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        // `$env:VAR` is a form of its own.
        if bare && !(&after[..name] == "env" && after[name..].starts_with(':')) {
            out.push_str(&format!("${{{}}}", &after[..name]));
            rest = &after[name..];
        } else if let Some(escaped) = after.strip_prefix('$') {
            out.push_str("$$");
            rest = escaped;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_variables_get_braces_and_nothing_else_does() {
        let rows = [
            ("$VAR", "${VAR}"),
            ("Bearer $A_1-$B", "Bearer ${A_1}-${B}"),
            ("${VAR} $$ $5 $", "${VAR} $$ $5 $"),
            ("$env:VAR", "$env:VAR"),
            ("$${A}", "$${A}"),
            ("plain é", "plain é"),
        ];
        for (text, expected) in rows {
            assert_eq!(brace(text), expected, "{text}");
        }
    }
}
