//! The environment of a subprocess.

mod dotenv;

use std::collections::{BTreeMap, BTreeSet};

pub use dotenv::{DotenvError, parse as parse_dotenv};

use super::expand::{ExpandRules, INPUT_PREFIX, variables_used};
use super::lineage::LINEAGE;
use super::model::{
    Config, GatewayRules, InheritEnv, ServerAuth, ServerConfig, SummarizerKind, SummarizerRules, UnexpandedText,
};
use super::secrets::looks_secret;
use super::variables::Variables;

/// Returns the environment of a server's program: what `inherit_env` allows, the env file, and its own variables.
pub fn environment(
    server: &ServerConfig,
    config: &Config,
    variables: &Variables,
    env_file: &BTreeMap<String, String>,
    own: Vec<(String, String)>,
) -> BTreeMap<String, String> {
    let parent = variables.environment.iter();
    let clone = |(name, value): (&String, &String)| (name.clone(), value.clone());
    let mut environment: BTreeMap<String, String> = match server.inherit_env {
        InheritEnv::All => parent.map(clone).collect(),
        InheritEnv::Scoped => {
            let others = variables_of_others(server, config);
            parent.filter(|(name, _)| !is_ours(name) && !others.contains(name.as_str())).map(clone).collect()
        }
        InheritEnv::Minimal => parent.filter(|(name, _)| is_basic(name)).map(clone).collect(),
        InheritEnv::None => BTreeMap::new(),
    };
    let passed = server.pass_env.iter().filter_map(|name| variables.environment.get_key_value(name));
    environment.extend(passed.map(clone));
    environment.extend(env_file.iter().map(clone).chain(own));
    // Pass the lineage on in any case: a program without it could start toolgate without end.
    if let Some(lineage) = variables.environment.get(LINEAGE) {
        environment.insert(LINEAGE.to_owned(), lineage.clone());
    }
    environment
}

/// Returns the variables that the configuration uses for other servers, the summarizer or the gateway, but not for this
/// server. Variables that every program needs are excluded.
fn variables_of_others<'c>(server: &ServerConfig, config: &'c Config) -> BTreeSet<&'c str> {
    let rules = ExpandRules::new(&config.settings);
    let mut foreign: BTreeSet<&str> = config.servers.iter().flat_map(|other| variables_of(other, rules)).collect();
    let summarizer = config.settings.summarizer.iter().flat_map(summarizer_texts);
    let beside = summarizer.chain(gateway_texts(&config.settings.gateway));
    foreign.extend(beside.flat_map(|text| variables_used(&text.text, rules)));
    // Also if the server is not one of the file's own.
    for name in variables_of(server, rules) {
        foreign.remove(name);
    }
    foreign.retain(|name| !is_basic(name));
    foreign
}

fn variables_of(server: &ServerConfig, rules: ExpandRules) -> BTreeSet<&str> {
    let ServerConfig { command, args, env, env_file, working_dir, url, headers, auth, tls, pass_env, .. } = server;
    let files = [&tls.ca, &tls.client_certificate, &tls.client_key];
    let single = [command, env_file, working_dir, url].into_iter().chain(files).flatten();
    let named = env.iter().chain(headers).map(|(_, value)| value);
    let texts = single.chain(args).chain(named).chain(auth_texts(auth));
    let names = texts.flat_map(|text| variables_used(&text.text, rules));
    names.chain(pass_env.iter().map(String::as_str)).collect()
}

fn summarizer_texts(summarizer: &SummarizerRules) -> Vec<&UnexpandedText> {
    match &summarizer.how {
        SummarizerKind::Command { program, args } => std::iter::once(program).chain(args).collect(),
        SummarizerKind::Http { url, model, api_key } => [url, model].into_iter().chain(api_key).collect(),
    }
}

fn gateway_texts(gateway: &GatewayRules) -> impl Iterator<Item = &UnexpandedText> {
    let tls = gateway.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key]);
    gateway.tokens.iter().map(|token| token.secret.text()).chain(tls)
}

fn auth_texts(auth: &ServerAuth) -> Vec<&UnexpandedText> {
    match auth {
        ServerAuth::None => Vec::new(),
        ServerAuth::Bearer(token) => vec![token],
        ServerAuth::ApiKey { value, .. } => vec![value],
        ServerAuth::Basic { user, password } => vec![user, password],
        ServerAuth::OAuth(oauth) => oauth.texts().collect(),
    }
}

/// Reports whether a variable is an answer to an input or a token of toolgate, which no server needs.
fn is_ours(name: &str) -> bool {
    name.starts_with(INPUT_PREFIX) || (name.starts_with("TOOLGATE_") && looks_secret(name))
}

/// Reports whether programs need this variable to run. `npx`, `uvx` and `docker` look for caches, registries, proxies
/// and daemons; credentials for those are not needed to run.
fn is_basic(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let known = BASIC.contains(&upper.as_str()) || BASIC_PREFIXES.iter().any(|prefix| upper.starts_with(prefix));
    known && !looks_secret(&upper)
}

const BASIC: &[&str] = &[
    // User, terminal and folders.
    "HOME",
    "USER",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TMP",
    "TEMP",
    // Certificates and proxies; programs read the names of proxies in either case.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    // Launchers and interpreters.
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "NVM_DIR",
    "NVM_BIN",
    "FNM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "DYLD_FALLBACK_LIBRARY_PATH",
    "DBUS_SESSION_BUS_ADDRESS",
    // Windows.
    "SYSTEMROOT",
    "WINDIR",
    "SYSTEMDRIVE",
    "COMSPEC",
    "PATHEXT",
    "OS",
    "APPDATA",
    "LOCALAPPDATA",
    "PROGRAMDATA",
    "ALLUSERSPROFILE",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "COMMONPROGRAMFILES",
    "USERPROFILE",
    "USERNAME",
    "USERDOMAIN",
    "HOMEDRIVE",
    "HOMEPATH",
    "COMPUTERNAME",
    "PUBLIC",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
];
const BASIC_PREFIXES: &[&str] =
    &["LC_", "XDG_", "NODE_", "NPM_CONFIG_", "UV_", "PYTHON", "PIP_", "DOCKER_", "NIX_", "ASDF_", "MISE_"];

#[cfg(test)]
mod tests;
