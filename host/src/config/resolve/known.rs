//! Finds the secrets of a configuration before any of it is used.
//!
//! A server starts when it is first needed, but another one, such as a server that reads files, may show its secrets
//! before.

use std::collections::BTreeMap;
use std::sync::Arc;

use url::Url;

use super::resolver::{base_folders, expand_scope};
use super::site;
use crate::config::environment::parse_dotenv;
use crate::config::expand::{ExpandScope, HOLE, expand_partly, read_text_file, resolve_path};
use crate::config::model::{
    ApiKeyLocation, Config, GatewayRules, OAuthConfig, ServerAuth, ServerConfig, TokenSource, UnexpandedText,
};
use crate::config::secrets::Secrets;
use crate::config::variables::{NoPrompter, Variables};

/// Returns the secrets of all servers, including disabled and broken ones, and the tokens of the gateway: those written
/// in the configuration and those from variables and files. Runs no command and asks nobody. Skips what cannot be
/// expanded; the error is reported when it is used.
pub fn known_secrets(config: &Config, variables: &Variables) -> Secrets {
    let folders = base_folders(config.file.as_deref(), variables);
    let variables = &Variables { prompter: Arc::new(NoPrompter), ..variables.clone() };
    let mut scope = expand_scope(config, variables, &folders);
    scope.rules.commands = false;
    let mut secrets = Secrets::default();
    for server in &config.servers {
        let env_file = env_file(server, scope, &mut secrets);
        SecretCollector { scope: ExpandScope { env_file: &env_file, ..scope }, secrets: &mut secrets }.server(server);
    }
    for token in &config.settings.gateway.tokens {
        SecretCollector { scope, secrets: &mut secrets }.token_of_gateway(&token.secret);
    }
    SecretCollector { scope, secrets: &mut secrets }.replicas(&config.settings.gateway);
    // A partly expanded text is not the secret itself, and may be an ordinary word.
    secrets.remove_containing(HOLE);
    secrets
}

/// Returns the variables of the server's env file, or none if it cannot be read.
fn env_file(server: &ServerConfig, scope: ExpandScope<'_>, secrets: &mut Secrets) -> BTreeMap<String, String> {
    let Some(located) = &server.env_file else { return BTreeMap::new() };
    let text = SecretCollector { scope, secrets: &mut *secrets }.file(located);
    let variables = text.and_then(|text| parse_dotenv(&text).ok()).unwrap_or_default();
    for (name, value) in &variables {
        secrets.add_variable(name, value);
        secrets.add_inherited_env(name, value);
    }
    variables
}

/// Collects the secrets of a part of the configuration.
struct SecretCollector<'a> {
    scope: ExpandScope<'a>,
    secrets: &'a mut Secrets,
}

impl SecretCollector<'_> {
    fn server(&mut self, server: &ServerConfig) {
        self.program(server);
        if let Some(url) = &server.url {
            self.address(url);
        }
        for (name, text) in &server.headers {
            let value = self.text(text);
            self.secrets.add_header(name, &value);
        }
        let tls = &server.tls;
        for text in [&tls.ca, &tls.client_certificate, &tls.client_key].into_iter().flatten() {
            self.text(text);
        }
        self.auth(&server.auth);
    }

    fn program(&mut self, server: &ServerConfig) {
        for text in server.command.iter().chain(&server.working_dir) {
            self.text(text);
        }
        let args: Vec<String> = server.args.iter().map(|text| self.text(text)).collect();
        for (at, argument) in args.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &*args[before]);
            self.secrets.add_argument(before, argument);
        }
        for (name, text) in &server.env {
            let value = self.text(text);
            self.secrets.add_env(name, &value);
        }
        for name in &server.pass_env {
            if let Some(value) = self.scope.variables.environment.get(name) {
                self.secrets.add_variable(name, value);
                self.secrets.add_inherited_env(name, value);
            }
        }
    }

    fn auth(&mut self, auth: &ServerAuth) {
        match auth {
            ServerAuth::None => {}
            ServerAuth::Bearer(token) => self.token(token),
            ServerAuth::ApiKey { value, r#in } => {
                let key = self.text(value);
                self.secrets.add(&key);
                if let ApiKeyLocation::Header(name) = r#in {
                    self.secrets.add_header(name, &key);
                }
            }
            ServerAuth::Basic { user, password } => {
                let (user, password) = (self.text(user), self.text(password));
                self.secrets.add(&password);
                self.login(&user, &password);
            }
            ServerAuth::OAuth(oauth) => self.oauth(oauth),
        }
    }

    fn oauth(&mut self, oauth: &OAuthConfig) {
        oauth.clone().texts().for_each(|text| self.address(text));
        if let Some(secret) = &oauth.client_secret {
            let secret = self.text(secret);
            self.secrets.add(&secret);
        }
    }

    fn token_of_gateway(&mut self, secret: &TokenSource) {
        match secret {
            TokenSource::Text(text) => self.token(text),
            TokenSource::File(located) => {
                // Whoever looks for the file sees its path.
                let text = SecretCollector { scope: self.scope, secrets: &mut Secrets::default() }.file(located);
                text.into_iter().for_each(|token| self.secrets.add(&token));
            }
        }
    }

    /// Adds what the replicas of a gateway have in common.
    fn replicas(&mut self, gateway: &GatewayRules) {
        for key in &gateway.session_keys {
            let key = self.text(key);
            self.secrets.add(key.trim());
        }
        if let Some(store) = &gateway.store {
            self.address(store);
        }
    }

    /// Adds a token for `Bearer`; people also paste the word before it.
    fn token(&mut self, text: &UnexpandedText) {
        let token = self.text(text);
        self.secrets.add(&token);
        self.secrets.add_header("Authorization", &token);
    }

    /// Adds an address, including credentials that become a header.
    fn address(&mut self, located: &UnexpandedText) {
        let text = self.text(located);
        self.secrets.add_address(text.trim());
        if let Some((user, password)) = Url::parse(text.trim()).ok().as_ref().and_then(site::credentials) {
            self.login(&user, &password);
        }
    }

    /// Adds a user name and a password, encoded as they are sent.
    fn login(&mut self, user: &str, password: &str) {
        if !user.contains(HOLE) && !password.contains(HOLE) {
            self.secrets.add_header("Authorization", &site::basic_credentials(user, password));
        }
    }

    fn text(&mut self, text: &UnexpandedText) -> String {
        expand_partly(&text.text, &self.scope, self.secrets)
    }

    fn file(&mut self, text: &UnexpandedText) -> Option<String> {
        let path = resolve_path(&self.text(text), &self.scope).ok()?;
        read_text_file(&path).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::model::ConfigInput;
    use crate::config::parse;
    use crate::config::resolve::{resolve, resolve_gateway, resolve_oauth};
    use crate::config::variables::InputPrompter;

    /// A prompter that fails the test if it is asked.
    struct NoOneMayAsk;

    impl InputPrompter for NoOneMayAsk {
        fn ask(&self, input: &ConfigInput) -> Option<String> {
            panic!("{input:?} is asked for")
        }
    }

    fn variables() -> Variables {
        let environment = [
            ("TOKEN", "tok-of-a-variable"),
            ("DATABASE_URL", "postgres://me:pw-in-a-variable@host/db"),
            ("PASSED_KEY", "key-that-is-passed"),
            ("STAGE", "orders"),
            ("TOOLGATE_INPUT_GIVEN", "input-that-is-given"),
        ];
        Variables { prompter: Arc::new(NoOneMayAsk), ..Variables::of_test(&environment) }
    }

    fn config(folder: &Path, text: &str) -> Config {
        parse(text, &folder.join("toolgate.yaml")).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[track_caller]
    fn check(text: &str, hidden: &[&str], shown: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "key-of-a-file\n").unwrap();
        std::fs::write(folder.path().join("more.env"), "OTHER=value-of-env-file\nAT=redis://u:pw-of-env-file@h\n")
            .unwrap();
        let secrets = known_secrets(&config(folder.path(), text), &variables());
        for text in hidden {
            assert_eq!(secrets.redact(text), "[REDACTED]", "{text} of {secrets:?}");
        }
        for text in shown {
            assert_eq!(secrets.redact(text), *text);
        }
    }

    const PROGRAM: &str = "{a: {command: x, enabled: false, args: [--api-key, arg-written-out, '${TOKEN}', --mode, fast],\
        env: {MY_TOKEN: env-written-out, STAGE: '${STAGE}', DB: '${DATABASE_URL}', LEVEL: very-verbose, K: '${file:key}'},\
        env_file: more.env, pass_env: [PASSED_KEY]}}";
    const OF_PROGRAM: &[&str] = &[
        "arg-written-out",
        "tok-of-a-variable",
        "env-written-out",
        "pw-in-a-variable",
        "key-of-a-file",
        "value-of-env-file",
        "pw-of-env-file",
        "key-that-is-passed",
    ];
    const SITE: &str = "{b: {url: 'https://me:pw%40of-url@x.example/mcp?api_key=key-of-query', headers: {X-Some: header-value},\
        auth: {type: bearer, token: 'Bearer tok-written-out'}}, c: {url: 'https://y/', auth: {type: basic, user: me, password: pw-of-basic}},\
        d: {url: 'https://z/', auth: {type: oauth, client_secret: secret-of-client, authorization_url: 'https://h/a', token_url: 'https://u:pw-of-token-url@h/t'}},\
        e: {url: 'https://z/', auth: {type: api_key, key: Token key-in-header, header: X-Key}}}";
    const OF_SITE: &[&str] = &[
        "pw%40of-url",
        "pw@of-url",
        "key-of-query",
        "header-value",
        "tok-written-out",
        "pw-of-basic",
        "bWU6cHctb2YtYmFzaWM=",
        "bWU6cHdAb2YtdXJs",
        "secret-of-client",
        "pw-of-token-url",
        "key-in-header",
    ];
    const GATEWAY: &str = "{tokens: [{principal: a, token: token-of-gateway-1}, {principal: b, file: ./key}]}";

    #[test]
    fn what_a_server_would_be_given_is_known_before_it_is_started() {
        check(&format!("servers: {PROGRAM}"), OF_PROGRAM, &["orders", "fast", "very-verbose", "--mode"]);
        check(&format!("servers: {SITE}"), OF_SITE, &["x.example", "me", "X-Some", "Bearer"]);
        check(&format!("gateway: {GATEWAY}\nservers: {{}}"), &["token-of-gateway-1", "key-of-a-file"], &["principal"]);
    }

    #[test]
    fn one_thing_that_is_not_there_hides_nothing_but_itself() {
        let text = "servers: {a: {command: '${NONE}', args: ['${NONE} ${TOKEN}', '${file:none}', '${TOKEN'], env_file: none,\
            env: {A_KEY: 'prefix-${NONE}', B_KEY: key-after-it, C_KEY: '${'}, working_dir: '${file:key}${NONE}'},\
            bad name: {command: x, env: {D_KEY: key-of-a-bad-entry}}}";
        let hidden = ["tok-of-a-variable", "key-after-it", "key-of-a-file", "key-of-a-bad-entry"];
        check(text, &hidden, &["prefix-", "${"]);
    }

    #[test]
    fn no_command_is_run_and_nobody_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let text = "allow_commands: true\ninputs: [{id: given}, {id: asked, password: true}]\n\
            servers: {a: {command: x, args: ['${cmd:touch ran}${TOKEN}'], \
            env: {A: '${input:asked}', B: '${input:given}', C_KEY: 'prefix-${cmd:touch ran}', D_KEY: '${cmd:touch ran:-else}'}}}";
        let secrets = known_secrets(&config(folder.path(), text), &variables());
        assert_eq!(secrets.redact("tok-of-a-variable input-that-is-given"), "[REDACTED] [REDACTED]");
        assert_eq!(secrets.redact("prefix- else"), "prefix- else");
        assert!(!folder.path().join("ran").exists());
    }

    #[test]
    fn whatever_is_filled_in_later_was_known_before() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("key"), "key-of-a-file\n").unwrap();
        std::fs::write(folder.path().join("more.env"), "OTHER=value-of-env-file\nAT=redis://u:pw-of-env-file@h\n")
            .unwrap();
        for servers in [PROGRAM, SITE] {
            let config = config(
                folder.path(),
                &format!("gateway: {{tokens: [{{principal: a, token: token-of-gateway-1}}]}}\nservers: {servers}"),
            );
            // What a program inherits in addition is only known when it starts.
            let variables = variables();
            let known = known_secrets(&config, &variables);
            for server in &config.servers {
                let mut all = known.clone();
                all.merge(&resolve(server, &config, &variables, None).unwrap().secrets());
                all.merge(
                    &resolve_oauth(server, &config, &variables).unwrap().map(|oauth| oauth.secrets).unwrap_or_default(),
                );
                all.merge(&resolve_gateway(&config, &variables).unwrap().secrets);
                assert_eq!(format!("{all:?}"), format!("{known:?}"), "{}", server.id);
            }
        }
    }
}
