//! The environment of a subprocess.

mod dotenv;

use std::collections::{BTreeMap, BTreeSet};

pub use dotenv::{DotenvError, parse as parse_dotenv};

use super::expand::{ExpandRules, INPUT_PREFIX, variables_used};
use super::lineage::LINEAGE;
use super::model::{Config, InheritEnv, ServerConfig, ServerSummarizer, UnexpandedText};
use super::secrets::{COMMON_VARIABLES, looks_secret};
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
            parent.filter(|(name, _)| !is_ours(name) && !others.contains(*name)).map(clone).collect()
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
fn variables_of_others(server: &ServerConfig, config: &Config) -> BTreeSet<String> {
    let settings = &config.settings;
    let rules = ExpandRules::new(settings);
    let mut foreign: BTreeSet<String> = config.servers.iter().flat_map(|other| variables_of(other, rules)).collect();
    let of_servers = config.servers.iter().filter_map(|server| match &server.summarizer {
        ServerSummarizer::Own(summarizer) => Some(&**summarizer),
        ServerSummarizer::Shared | ServerSummarizer::Off => None,
    });
    for mut summarizer in settings.summarizer.iter().chain(of_servers).cloned() {
        foreign.extend(summarizer.texts().into_iter().flat_map(|text| names_in(text, rules)));
    }
    let tls = settings.gateway.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key]);
    let of_gateway = settings.gateway.tokens.iter().map(|token| token.secret.text()).chain(tls);
    foreign.extend(of_gateway.flat_map(|text| names_in(text, rules)));
    // Also if the server is not one of the file's own.
    let own = variables_of(server, rules);
    foreign.retain(|name| !own.contains(name) && !is_basic(name));
    foreign
}

fn variables_of(server: &ServerConfig, rules: ExpandRules) -> BTreeSet<String> {
    let mut server = server.clone();
    let mut names = BTreeSet::from_iter(std::mem::take(&mut server.pass_env));
    names.extend(server.texts().into_iter().flat_map(|text| names_in(text, rules)));
    names
}

fn names_in(text: &UnexpandedText, rules: ExpandRules) -> impl Iterator<Item = String> {
    variables_used(&text.text, rules).into_iter().map(str::to_owned)
}

/// Reports whether a variable is an answer to an input or a token of toolgate, which no server needs.
fn is_ours(name: &str) -> bool {
    name.starts_with(INPUT_PREFIX) || (name.starts_with("TOOLGATE_") && looks_secret(name))
}

/// Reports whether programs need this variable to run. `npx`, `uvx` and `docker` look for caches, registries, proxies
/// and daemons; credentials for those are not needed to run.
fn is_basic(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_listed = COMMON_VARIABLES.contains(&upper.as_str()) || BASIC.contains(&upper.as_str());
    (is_listed || BASIC_PREFIXES.iter().any(|prefix| upper.starts_with(prefix))) && !looks_secret(&upper)
}

/// What programs need beside the common variables.
const BASIC: &[&str] = &[
    // The terminal.
    "COLORTERM",
    "NO_COLOR",
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
    "WINDIR",
    "SYSTEMDRIVE",
    "PATHEXT",
    "ALLUSERSPROFILE",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PROGRAMW6432",
    "COMMONPROGRAMFILES",
    "USERDOMAIN",
    "HOMEDRIVE",
    "HOMEPATH",
    "PUBLIC",
    "NUMBER_OF_PROCESSORS",
    "PROCESSOR_ARCHITECTURE",
];
const BASIC_PREFIXES: &[&str] =
    &["LC_", "XDG_", "NODE_", "NPM_CONFIG_", "UV_", "PYTHON", "PIP_", "DOCKER_", "NIX_", "ASDF_", "MISE_"];

#[cfg(test)]
mod tests;
