use super::*;
use std::path::Path;
use std::time::Duration;

use crate::config::model::{
    FilePosition, FileShape, ServerAuth, Settings, SummarizerKind, SummarizerRules, TransportKind,
};

fn located(text: &str) -> UnexpandedText {
    UnexpandedText { text: text.into(), place: place(1), field: "field".into() }
}

fn place(line: u32) -> FilePosition {
    FilePosition { file: Path::new("toolgate.yaml").into(), line, column: 1 }
}

fn server(id: &str) -> ServerConfig {
    ServerConfig::new(id, located("").place, TransportKind::Stdio)
}

fn config(servers: Vec<ServerConfig>) -> Config {
    Config {
        file: None,
        shape: FileShape::Native,
        settings: Settings::default(),
        servers,
        notices: Vec::new(),
        digest: None,
        trusted_env_files: None,
    }
}

/// Returns the names of the variables that the first server gets.
fn names(config: &Config, environment: &[(&str, &str)]) -> Vec<String> {
    let variables = Variables::of_test(environment);
    super::environment(&config.servers[0], config, &variables, &BTreeMap::new(), Vec::new()).into_keys().collect()
}

#[test]
fn scoped_leaves_out_what_other_servers_use_and_this_one_does_not() {
    let mut own = server("own");
    own.args = vec![located("${SHARED}")];
    let mut other = server("other");
    other.env = vec![("X".into(), located("${OTHER_TOKEN} ${SHARED} ${HOME} ${PATH}"))];
    other.args = vec![located("--key={{.ARGUMENT}}")];
    other.headers = vec![("X".into(), located("Bearer $env:IN_HEADER"))];
    other.url = Some(located("https://x/${IN_URL:-y}"));
    other.auth = ServerAuth::Bearer(located("${cmd:echo $IN_COMMAND}"));
    other.pass_env = vec!["PASSED".into()];
    other.enabled = false;
    let used = ["OTHER_TOKEN", "ARGUMENT", "IN_HEADER", "IN_URL", "IN_COMMAND", "PASSED"];
    let kept = ["FREE", "HOME", "PATH", "SHARED", "TOOLGATE_LOG"];
    let ours = ["TOOLGATE_INPUT_X", "TOOLGATE_GATEWAY_TOKEN"];
    let environment: Vec<(&str, &str)> =
        [&used[..], &kept, &ours].concat().into_iter().map(|name| (name, "v")).collect();
    let mut config = config(vec![own, other]);
    assert_eq!(names(&config, &environment), kept);
    config.servers[0].inherit_env = InheritEnv::All;
    assert_eq!(names(&config, &environment).len(), environment.len());
}

#[test]
fn what_summarizes_uses_is_its_own_and_it_gets_nothing_of_servers() {
    let summarizer = |how| Some(SummarizerRules { place: place(9), how, timeout: Duration::ZERO, max_input_bytes: 1 });
    let environment = [("ARGUMENT", "v"), ("FREE", "v"), ("KEY", "v"), ("MODEL", "v"), ("OWN", "v"), ("URL", "v")];
    let mut own = server("own");
    own.args = vec![located("${OWN}")];
    let mut config = config(vec![own]);
    config.settings.summarizer = summarizer(SummarizerKind::Http {
        url: located("${URL}"),
        model: located("${MODEL} ${OWN}"),
        api_key: Some(located("${KEY}")),
    });
    assert_eq!(names(&config, &environment), ["ARGUMENT", "FREE", "OWN"]);
    let args = vec![located("{{.ARGUMENT}}")];
    config.settings.summarizer =
        summarizer(SummarizerKind::Command { program: located("${FREE}"), args: args.clone() });
    assert_eq!(names(&config, &environment), ["KEY", "MODEL", "OWN", "URL"]);
    // This holds even if a server has the same name.
    let mut program = ServerConfig::new("own", place(9), TransportKind::Stdio);
    program.args = args;
    let variables = Variables::of_test(&environment);
    let given = super::environment(&program, &config, &variables, &BTreeMap::new(), Vec::new());
    assert_eq!(given.into_keys().collect::<Vec<_>>(), ["ARGUMENT", "KEY", "MODEL", "URL"]);
}

#[test]
fn what_the_gateway_uses_is_for_no_program() {
    let text = "gateway:\n  tokens: [{principal: a, token: '${TOKEN_A}'}, {principal: b, file: '${FOLDER}/b'}, {principal: c, token: '${OWN}'}]\n  \
                tls: {certificate: '${CERTIFICATE}', key: '${FILE_OF_KEY}'}\n\
                summarizer: {command: [x, '${MINE}']}\n\
                servers: {own: {command: x, args: ['${OWN}']}}";
    let config = crate::config::parse(text, Path::new("toolgate.yaml")).unwrap_or_else(|error| panic!("{error}"));
    let names_set = ["CERTIFICATE", "FILE_OF_KEY", "FOLDER", "FREE", "MINE", "OWN", "TOKEN_A"];
    let environment: Vec<(&str, &str)> = names_set.iter().map(|name| (*name, "v")).collect();
    assert_eq!(names(&config, &environment), ["FREE", "OWN"]);
    let rules = config.settings.summarizer.as_ref().unwrap();
    let variables = Variables::of_test(&environment);
    let summarizer = crate::config::resolve::resolve_summarizer(rules, "summarizer", &config, &variables);
    let how = summarizer.unwrap().how;
    let crate::config::resolve::ResolvedSummarizerKind::Command { env, .. } = how else { panic!("{how:?}") };
    assert_eq!(env.into_keys().collect::<Vec<_>>(), ["FREE", "MINE"]);
}

#[test]
fn a_bare_dollar_counts_where_the_file_has_it() {
    let mut other = server("other");
    other.args = vec![located("$TOKEN")];
    let mut config = config(vec![server("own"), other]);
    assert_eq!(names(&config, &[("TOKEN", "v")]), ["TOKEN"]);
    config.settings.bare_dollar = true;
    assert!(names(&config, &[("TOKEN", "v")]).is_empty());
}

#[test]
fn minimal_is_what_programs_need_to_run() {
    let needed = [
        "DOCKER_HOST",
        "HOME",
        "LANG",
        "LC_ALL",
        "NODE_EXTRA_CA_CERTS",
        "NODE_OPTIONS",
        "PATH",
        "PYTHONPATH",
        "SSL_CERT_FILE",
        "TMPDIR",
        "UV_CACHE_DIR",
        "XDG_CACHE_HOME",
        "https_proxy",
        "npm_config_registry",
    ];
    let others = [
        "API_KEY",
        "NODE_AUTH_TOKEN",
        "npm_config__authToken",
        "UV_PUBLISH_TOKEN",
        "UV_INDEX_X_PASSWORD",
        "AWS_PROFILE",
        "TOOLGATE_LOG",
    ];
    let environment: Vec<(&str, &str)> = needed.iter().chain(&others).map(|name| (*name, "v")).collect();
    let mut config = config(vec![server("own")]);
    config.servers[0].inherit_env = InheritEnv::Minimal;
    assert_eq!(names(&config, &environment), needed);
    config.servers[0].inherit_env = InheritEnv::None;
    assert!(names(&config, &environment).is_empty());
    config.servers[0].pass_env = vec!["API_KEY".into(), "UNSET".into()];
    assert_eq!(names(&config, &environment), ["API_KEY"]);
}

#[test]
fn its_own_variables_come_before_those_of_its_file_and_these_before_ours() {
    let config = config(vec![server("own")]);
    let variables = Variables::of_test(&[("A", "ours"), ("B", "ours"), ("C", "ours")]);
    let file = BTreeMap::from([("B".to_owned(), "of the file".to_owned()), ("C".to_owned(), "of the file".to_owned())]);
    let own = vec![("C".to_owned(), "its own".to_owned())];
    let environment = super::environment(&config.servers[0], &config, &variables, &file, own);
    let values: Vec<&str> = environment.values().map(String::as_str).collect();
    assert_eq!(values, ["ours", "of the file", "its own"]);
}

#[test]
fn who_started_it_is_told_whatever_else_it_gets() {
    let mut config = config(vec![server("a")]);
    for inherit in [InheritEnv::All, InheritEnv::Scoped, InheritEnv::Minimal, InheritEnv::None] {
        config.servers[0].inherit_env = inherit;
        let variables = Variables::of_test(&[(LINEAGE, "above")]);
        let own = vec![(LINEAGE.to_owned(), String::new())];
        let environment = super::environment(&config.servers[0], &config, &variables, &BTreeMap::new(), own);
        assert_eq!(environment[LINEAGE], "above", "{inherit:?}");
    }
}
