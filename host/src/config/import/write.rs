//! Writes a configuration as the text of a `toolgate.yaml`, with only the values that differ from the defaults.

use std::fmt::Write as _;

use super::super::document::{MapEntry, Node, NodeValue, ScalarKind};
use super::super::keys::auth::{GRANTS, TOKEN_AUTHS};
use super::super::keys::lifecycle::PROBES;
use super::super::keys::server::{INHERIT, PROTOCOL};
use super::super::model::{
    ApiKeyLocation, Config, ConfigInput, LifecycleRules, Masking, OAuthConfig, ServerAuth, ServerConfig, Timeouts,
    ToolRules, TransportKind, UnexpandedText,
};
use super::super::{bytes, duration};

/// Returns the configuration as YAML, with a comment that names its source. Settings for all servers are copied as
/// written, so that no rule is lost.
pub fn yaml<'n>(config: &Config, client: &str, of_all: impl IntoIterator<Item = (&'n str, &'n Node)>) -> String {
    let mut writer = YamlWriter { out: String::new(), bare_dollar: config.settings.bare_dollar };
    let _ = writeln!(writer.out, "# Imported from {client}. Every key is explained in toolgate.example.yaml.");
    writer.line(0, "version: 1");
    of_all.into_iter().for_each(|(key, value)| writer.pair(0, key, &flow(value)));
    if !config.settings.inputs.is_empty() {
        writer.line(0, "inputs:");
        config.settings.inputs.iter().for_each(|input| writer.input(input));
    }
    writer.line(0, if config.servers.is_empty() { "servers: {}" } else { "servers:" });
    config.servers.iter().for_each(|server| writer.server(server));
    writer.out
}

struct YamlWriter {
    out: String,
    bare_dollar: bool,
}

impl YamlWriter {
    fn line(&mut self, depth: usize, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", depth * 2);
    }

    fn pair(&mut self, depth: usize, key: &str, value: &str) {
        self.line(depth, format!("{}: {value}", quote(key)).trim_end());
    }

    /// Formats text that is expanded later: a bare `$VAR` becomes `${VAR}`, since only Gemini CLI knows the former.
    fn located(&self, text: &UnexpandedText) -> String {
        quote(&if self.bare_dollar { brace(&text.text) } else { text.text.clone() })
    }

    fn input(&mut self, input: &ConfigInput) {
        self.line(1, &format!("- id: {}", quote(&input.id)));
        if let Some(description) = &input.description {
            self.pair(2, "description", &quote(description));
        }
        if input.password {
            self.pair(2, "password", "true");
        }
        if let Some(default) = &input.default {
            self.pair(2, "default", &quote(default));
        }
        self.texts(2, "options", &input.options);
    }

    fn server(&mut self, server: &ServerConfig) {
        self.line(1, &format!("{}:", quote(&server.id)));
        if !server.enabled {
            self.pair(2, "enabled", "false");
        }
        self.pair(2, "type", server.kind.name());
        match server.kind {
            TransportKind::Stdio => self.program(server),
            TransportKind::Http | TransportKind::Sse | TransportKind::WebSocket => self.site(server),
        }
        self.timeouts(&server.timeouts);
        let default = ServerConfig::new("", server.place.clone(), server.kind);
        if server.max_message_bytes != default.max_message_bytes {
            self.pair(2, "max_message_bytes", &bytes::write(server.max_message_bytes));
        }
        if server.max_list_bytes != default.max_list_bytes {
            self.pair(2, "max_list_bytes", &bytes::write(server.max_list_bytes));
        }
        if server.grace != default.grace {
            self.pair(2, "grace", &duration::write(server.grace));
        }
        self.lifecycle(&server.lifecycle);
        if let Some(queue) = &server.queue {
            self.pair(2, "queue", &quote(queue));
        }
        if !server.tool_queues.is_empty() {
            self.line(2, "tool_queues:");
        }
        for (tool, queue) in &server.tool_queues {
            self.pair(3, tool, &quote(queue));
        }
        if let Some(most) = server.max_concurrent {
            self.pair(2, "max_concurrent", &most.to_string());
        }
        if let Some(allow) = &server.allow {
            let allow: Vec<String> = allow.iter().map(|name| quote(name)).collect();
            self.pair(2, "allow", &format!("[{}]", allow.join(", ")));
        }
        self.texts(2, "deny", &server.deny);
        self.texts(2, "ask", &server.ask);
        self.texts(2, "requires", &server.requires);
        if let Some((name, _)) =
            PROTOCOL.iter().find(|(_, era)| *era == server.protocol).filter(|(name, _)| *name != "auto")
        {
            self.pair(2, "protocol", &quote(name));
        }
        self.tools(&server.tools);
        self.masking(&server.masking);
        if let Some(instructions) = &server.instructions {
            self.pair(2, "instructions", &quote(instructions));
        }
    }

    fn program(&mut self, server: &ServerConfig) {
        if let Some(command) = &server.command {
            self.pair(2, "command", &self.located(command));
        }
        if !server.args.is_empty() {
            let args: Vec<String> = server.args.iter().map(|arg| self.located(arg)).collect();
            self.pair(2, "args", &format!("[{}]", args.join(", ")));
        }
        self.map(2, "env", &server.env);
        if let Some(file) = &server.env_file {
            self.pair(2, "env_file", &self.located(file));
        }
        if let Some((name, _)) =
            INHERIT.iter().find(|(_, what)| *what == server.inherit_env).filter(|(name, _)| *name != "scoped")
        {
            self.pair(2, "inherit_env", name);
        }
        self.texts(2, "pass_env", &server.pass_env);
        if let Some(folder) = &server.working_dir {
            self.pair(2, "working_dir", &self.located(folder));
        }
    }

    fn site(&mut self, server: &ServerConfig) {
        if let Some(url) = &server.url {
            self.pair(2, "url", &self.located(url));
        }
        self.map(2, "headers", &server.headers);
        self.auth(&server.auth);
        let tls = &server.tls;
        if !tls.verify || tls.ca.is_some() || tls.client_certificate.is_some() || tls.client_key.is_some() {
            self.line(2, "tls:");
            if !tls.verify {
                self.pair(3, "verify", "false");
            }
            self.optional("ca", tls.ca.as_ref());
            self.optional("client_certificate", tls.client_certificate.as_ref());
            self.optional("client_key", tls.client_key.as_ref());
        }
    }

    fn auth(&mut self, auth: &ServerAuth) {
        if *auth != ServerAuth::None {
            self.line(2, "auth:");
        }
        match auth {
            ServerAuth::None => {}
            ServerAuth::Bearer(token) => {
                self.pair(3, "type", "bearer");
                self.secret(3, "token", token, "TOKEN");
            }
            ServerAuth::ApiKey { value, r#in } => {
                self.pair(3, "type", "api_key");
                self.secret(3, "key", value, "API_KEY");
                match r#in {
                    ApiKeyLocation::Header(name) => self.pair(3, "header", &quote(name)),
                    ApiKeyLocation::Query(name) => self.pair(3, "query", &quote(name)),
                }
            }
            ServerAuth::Basic { user, password } => {
                self.pair(3, "type", "basic");
                self.pair(3, "user", &self.located(user));
                self.secret(3, "password", password, "PASSWORD");
            }
            ServerAuth::OAuth(oauth) => self.oauth(oauth),
        }
    }

    fn oauth(&mut self, oauth: &OAuthConfig) {
        self.pair(3, "type", "oauth");
        if oauth.grant != OAuthConfig::default().grant
            && let Some((name, _)) = GRANTS.iter().find(|(_, grant)| *grant == oauth.grant)
        {
            self.pair(3, "grant", name);
        }
        self.optional("client_id", oauth.client_id.as_ref());
        if let Some(secret) = &oauth.client_secret {
            self.secret(3, "client_secret", secret, "CLIENT_SECRET");
        }
        self.optional("client_metadata_url", oauth.client_metadata_url.as_ref());
        if let Some((name, _)) = TOKEN_AUTHS.iter().find(|(_, how)| Some(*how) == oauth.token_auth) {
            self.pair(3, "token_auth", name);
        }
        self.optional("private_key", oauth.private_key.as_ref());
        self.optional("issuer", oauth.issuer.as_ref());
        self.texts(3, "scopes", &oauth.scopes);
        if let Some(port) = oauth.callback_port {
            self.pair(3, "callback_port", &port.to_string());
        }
        self.optional("authorization_url", oauth.authorization_url.as_ref());
        self.optional("token_url", oauth.token_url.as_ref());
        self.optional("metadata_url", oauth.metadata_url.as_ref());
    }

    fn tools(&mut self, tools: &[ToolRules]) {
        if !tools.is_empty() {
            self.line(2, "tools:");
        }
        for rules in tools {
            let said = rules.annotations;
            let hints = [
                ("read_only", said.read_only),
                ("destructive", said.destructive),
                ("idempotent", said.idempotent),
                ("open_world", said.open_world),
            ];
            let hints: Vec<String> =
                hints.iter().filter_map(|(name, hint)| Some(format!("{name}: {}", (*hint)?))).collect();
            self.pair(3, &rules.tool, "");
            self.pair(4, "annotations", &format!("{{{}}}", hints.join(", ")));
            self.texts(4, "requires", &rules.requires);
            if let Some(note) = &rules.note {
                self.pair(4, "note", &quote(note));
            }
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
            if let Some(name) = &mask.name {
                self.pair(5, "name", &quote(name));
            }
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
            if span != default {
                self.pair(3, key, &duration::write(span));
            }
        }
    }

    fn lifecycle(&mut self, lifecycle: &LifecycleRules) {
        let default = LifecycleRules::default();
        for (key, flag, default) in
            [("eager", lifecycle.eager, default.eager), ("shared", lifecycle.shared, default.shared)]
        {
            if flag != default {
                self.pair(2, key, &flag.to_string());
            }
        }
        for (key, span, default) in [
            ("idle_timeout", lifecycle.idle_timeout, default.idle_timeout),
            ("acquire_timeout", lifecycle.acquire_timeout, default.acquire_timeout),
            ("health_interval", lifecycle.health_interval, default.health_interval),
            ("health_timeout", lifecycle.health_timeout, default.health_timeout),
            ("probe_timeout", lifecycle.probe_timeout, default.probe_timeout),
        ] {
            if span != default {
                self.pair(2, key, &duration::write(span));
            }
        }
        if lifecycle.restart_delays != default.restart_delays {
            let delays: Vec<String> = lifecycle.restart_delays.iter().map(|delay| duration::write(*delay)).collect();
            self.pair(2, "restart_delays", &format!("[{}]", delays.join(", ")));
        }
        if lifecycle.health_probe != default.health_probe
            && let Some((name, _)) = PROBES.iter().find(|(_, probe)| *probe == lifecycle.health_probe)
        {
            self.pair(2, "health_probe", name);
        }
    }

    fn map(&mut self, depth: usize, key: &str, map: &[(String, UnexpandedText)]) {
        if map.is_empty() {
            return;
        }
        self.line(depth, &format!("{key}:"));
        for (name, value) in map {
            self.secret(depth + 1, name, value, name);
        }
    }

    /// Writes a value that may be a secret; one in plain text gets a comment with advice.
    fn secret(&mut self, depth: usize, key: &str, value: &UnexpandedText, variable: &str) {
        let has_variable =
            value.text.contains("${") || value.text.contains("{{") || (self.bare_dollar && value.text.contains('$'));
        if !has_variable && !value.text.is_empty() && looks_secret(variable) {
            let variable: String =
                variable.to_ascii_uppercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
            self.line(
                depth,
                &format!("# A secret in plain text: export {variable} and write ${{{variable}}} instead."),
            );
        }
        self.pair(depth, key, &self.located(value));
    }

    fn optional(&mut self, key: &str, value: Option<&UnexpandedText>) {
        if let Some(value) = value {
            self.pair(3, key, &self.located(value));
        }
    }

    fn texts(&mut self, depth: usize, key: &str, texts: &[String]) {
        if !texts.is_empty() {
            let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
            self.pair(depth, key, &format!("[{}]", texts.join(", ")));
        }
    }
}

/// Formats a value on one line of YAML.
fn flow(node: &Node) -> String {
    match &node.value {
        NodeValue::Scalar(scalar) => match scalar.kind {
            ScalarKind::Null => "null".to_owned(),
            ScalarKind::Bool | ScalarKind::Number => scalar.text.clone(),
            ScalarKind::Text => quote(&scalar.text),
        },
        NodeValue::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        NodeValue::Map(entries) => {
            let pair = |entry: &MapEntry| format!("{}: {}", quote(&entry.key), flow(&entry.value));
            format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["key", "token", "secret", "pass", "pwd", "auth", "credential", "cookie"].iter().any(|part| name.contains(part))
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
fn brace(text: &str) -> String {
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
