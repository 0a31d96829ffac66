use std::path::{Path, PathBuf};

use super::resolver::base_folders;
use super::*;
use crate::config::model::{ApiKeyLocation, FileShape, ServerAuth, Settings, UnexpandedText};
use crate::config::secrets::Secrets;
use crate::transport::endpoint::{Program, RemoteSite};

fn located(field: &str, text: &str) -> UnexpandedText {
    UnexpandedText { text: text.into(), place: place(7), field: field.into() }
}

fn place(line: u32) -> crate::config::model::FilePosition {
    crate::config::model::FilePosition { file: Path::new("/etc/toolgate.yaml").into(), line, column: 3 }
}

fn named(field: &str, values: &[(&str, &str)]) -> Vec<(String, UnexpandedText)> {
    values.iter().map(|(name, text)| ((*name).to_owned(), located(&format!("{field}.{name}"), text))).collect()
}

fn http(url: &str) -> ServerConfig {
    let mut server = ServerConfig::new("api", place(1), TransportKind::Http);
    server.url = Some(located("url", url));
    server
}

fn stdio(command: &str) -> ServerConfig {
    let mut server = ServerConfig::new("fs", place(1), TransportKind::Stdio);
    server.command = Some(located("command", command));
    server
}

fn config(file: &str) -> Config {
    let (shape, settings) = (FileShape::Native, Settings::default());
    Config {
        file: Some(file.into()),
        shape,
        settings,
        servers: Vec::new(),
        notices: Vec::new(),
        digest: None,
        trusted_env_files: None,
    }
}

fn try_resolve(server: &ServerConfig, environment: &[(&str, &str)]) -> Result<Endpoint, Problem> {
    resolve(server, &config("/etc/toolgate.yaml"), &Variables::of_test(environment), None)
}

#[track_caller]
fn site(server: &ServerConfig, environment: &[(&str, &str)]) -> (RemoteSite, Secrets) {
    match try_resolve(server, environment) {
        Ok(Endpoint::Http(site) | Endpoint::Sse(site) | Endpoint::WebSocket(site)) => {
            let secrets = site.secrets.clone();
            (site, secrets)
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn program(resolved: Result<Endpoint, Problem>) -> (Program, Secrets) {
    match resolved {
        Ok(Endpoint::Stdio(program)) => {
            let secrets = program.secrets.clone();
            (program, secrets)
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refuse(server: &ServerConfig, expected: &str) {
    let problem = try_resolve(server, &[("SECRET", "s3cret-value")]).expect_err("it must not resolve").to_string();
    assert!(problem.contains(expected) && !problem.contains("s3cret"), "{problem}");
}

fn pairs(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn headers_and_the_address_are_filled_in() {
    let mut server = http("${BASE:-https://x.example}/mcp");
    server.headers = named("headers", &[("X-Token", "${TOKEN}"), ("X-Empty", ""), ("X-Static", "fixed-value")]);
    let (site, secrets) = site(&server, &[("TOKEN", "tok-1234")]);
    assert_eq!(site.url, "https://x.example/mcp");
    assert_eq!(pairs(&site.headers), [("X-Token", "tok-1234"), ("X-Static", "fixed-value")]);
    assert_eq!(secrets.redact("tok-1234 fixed-value"), "[REDACTED] [REDACTED]");
}

#[test]
fn a_header_of_a_session_is_left_out_where_there_is_none() {
    let mut server = http("https://x.example/mcp");
    server.headers = named("headers", &[("X-Session-ID", "{{.SESSION_ID}}"), ("X-Static", "fixed")]);
    assert_eq!(pairs(&site(&server, &[]).0.headers), [("X-Static", "fixed")]);
    let resolved = resolve(&server, &config("/etc/toolgate.yaml"), &Variables::of_test(&[]), Some("sess-1")).unwrap();
    let Endpoint::Http(site) = resolved else { panic!("it is http") };
    assert_eq!(pairs(&site.headers), [("X-Session-ID", "sess-1"), ("X-Static", "fixed")]);
    server.url = Some(located("url", "https://x.example/{{.SESSION_ID}}"));
    refuse(&server, "servers.api.url: {{.SESSION_ID}} is known only within a session");
}

#[test]
fn auth_becomes_a_header_or_a_part_of_the_query() {
    let bearer = |text| ServerAuth::Bearer(located("auth.token", text));
    let key = |place| ServerAuth::ApiKey { value: located("auth.key", "${KEY}"), r#in: place };
    let basic = ServerAuth::Basic { user: located("auth.user", "me"), password: located("auth.password", "${KEY}") };
    for (auth, url, header) in [
        (bearer("${KEY}"), "https://x/?a=1", Some(("Authorization", "Bearer k 1&234"))),
        (bearer("bearer ${KEY}"), "https://x/?a=1", Some(("Authorization", "Bearer k 1&234"))),
        (key(ApiKeyLocation::Header("X-Key".into())), "https://x/?a=1", Some(("X-Key", "k 1&234"))),
        (key(ApiKeyLocation::Query("key".into())), "https://x/?a=1&key=k+1%26234", None),
        (key(ApiKeyLocation::Query("a".into())), "https://x/?a=k+1%26234", None),
        (basic, "https://x/?a=1", Some(("Authorization", "Basic bWU6ayAxJjIzNA=="))),
    ] {
        let mut server = http("https://x/?a=1");
        server.auth = auth;
        let (site, secrets) = site(&server, &[("KEY", "k 1&234")]);
        assert_eq!((site.url.as_str(), pairs(&site.headers).first().copied()), (url, header));
        assert!(!secrets.redact(&format!("{} {:?}", site.url, site.headers)).contains("234"));
    }
}

#[test]
fn auth_wins_over_headers_and_over_the_address() {
    let mut server = http("https://me:p%40ssword@x.example/mcp");
    let (found, secrets) = site(&server, &[]);
    assert_eq!(found.url, "https://x.example/mcp");
    assert_eq!(pairs(&found.headers), [("Authorization", "Basic bWU6cEBzc3dvcmQ=")]);
    assert_eq!(secrets.redact("p@ssword p%40ssword bWU6cEBzc3dvcmQ="), "[REDACTED] [REDACTED] [REDACTED]");
    server.headers = named("headers", &[("authorization", "Basic other")]);
    server.auth = ServerAuth::Bearer(located("auth.token", "tok-1234"));
    assert_eq!(pairs(&site(&server, &[]).0.headers), [("Authorization", "Bearer tok-1234")]);
}

#[test]
fn a_bad_address_or_header_is_refused_without_showing_it() {
    for (url, expected) in [
        ("", "/etc/toolgate.yaml:7:3: servers.api.url: is empty; write an address such as https://host/mcp"),
        ("${MISSING}", "servers.api.url: variable \"MISSING\" is not set; export it or write ${MISSING:-default}"),
        ("https://x/{{.SECRET}}{{", "servers.api.url: at character 22: \"{{\" has no closing"),
        ("https://x/$${SECRET}", "still contains \"${\""),
        ("s3cret/mcp", "is not a complete address; begin it with http:// or https://"),
        ("localhost:8080/s3cret", "\"localhost\" does not work for http servers"),
        ("ws://x/s3cret", "\"ws\" does not work for http servers; begin the address with http:// or https://"),
        ("https://", "is not an address: empty host"),
        ("https://x:s3cret", "is not an address: invalid port number"),
        ("https://x/ s3cret", "contains a space"),
    ] {
        refuse(&http(url), expected);
    }
    for (name, value, expected) in [
        ("X-A", "a\ns3cret", "servers.api.headers.X-A: contains a line break or a control character"),
        ("X A", "s3cret", "servers.api.headers.X A: the name of the header is empty or has an invalid character"),
        ("", "s3cret", "the name of the header"),
        ("X-A", "${SECRET} ${MISSING}", "servers.api.headers.X-A: variable \"MISSING\" is not set"),
    ] {
        let mut server = http("https://x");
        server.headers = named("headers", &[(name, value)]);
        refuse(&server, expected);
    }
    let mut server = http("https://x");
    server.auth = ServerAuth::Bearer(located("auth.token", "${EMPTY:-}"));
    refuse(&server, "servers.api.auth.token: is empty");
    server.url = None;
    refuse(&server, "/etc/toolgate.yaml:1:3: servers.api: url required for http transport");
    let mut server = http("https://x");
    server.kind = TransportKind::WebSocket;
    refuse(&server, "\"https\" does not work for websocket servers; begin the address with ws:// or wss://");
}

#[test]
fn files_for_tls_are_relative_to_the_configuration() {
    let mut server = http("https://x.example");
    server.tls.ca = Some(located("tls.ca", "ca.pem"));
    server.tls.client_certificate = Some(located("tls.client_certificate", "~/me.pem"));
    server.tls.client_key = Some(located("tls.client_key", "/keys/${NAME}.pem"));
    let (site, _) = site(&server, &[("NAME", "me")]);
    let paths = [site.tls.ca, site.tls.client_certificate, site.tls.client_key].map(Option::unwrap);
    assert_eq!(paths, ["/etc/ca.pem", "/home/me/me.pem", "/keys/me.pem"].map(PathBuf::from));
}

#[test]
fn a_command_is_a_name_or_a_path_from_the_configuration() {
    for (command, expected) in [
        ("npx", "npx"),
        ("./server.py", "/etc/server.py"),
        ("bin/server", "/etc/bin/server"),
        ("../server", "/etc/../server"),
        ("~/bin/server", "/home/me/bin/server"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("${userHome}/bin/${NAME}", "/home/me/bin/tool"),
        ("${workspaceFolder}/run", "/project/run"),
    ] {
        assert_eq!(program(try_resolve(&stdio(command), &[("NAME", "tool")])).0.command, expected);
    }
    refuse(&stdio("${EMPTY:-}"), "servers.fs.command: is empty; name the program to run");
    let mut server = stdio("");
    server.command = None;
    refuse(&server, "servers.fs: command required for stdio transport");
}

#[test]
fn a_relative_command_begins_in_the_folder_of_the_program_as_other_clients_have_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("srv")).unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let mut config = config(&path("mcp.json"));
    for (shape, working_dir, command, expected) in [
        (FileShape::McpServers, Some("srv"), "./run.sh", path("srv/run.sh")),
        (FileShape::VsCode, Some("srv"), "bin/run", path("srv/bin/run")),
        (FileShape::Codex, Some("srv"), "npx", "npx".to_owned()),
        (FileShape::McpServers, Some("srv"), "/bin/run", "/bin/run".to_owned()),
        (FileShape::McpServers, Some("srv"), "~/run", "/home/me/run".to_owned()),
        (FileShape::McpServers, None, "./run.sh", path("run.sh")),
        (FileShape::Native, Some("srv"), "./run.sh", path("run.sh")),
    ] {
        config.shape = shape;
        let mut server = stdio(command);
        server.working_dir = working_dir.map(|text| located("cwd", text));
        let (found, _) = program(resolve(&server, &config, &Variables::of_test(&[]), None));
        assert_eq!(found.command, expected, "{shape:?} {working_dir:?} {command}");
    }
}

#[test]
fn a_program_gets_its_arguments_variables_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join(".env"), "FROM_FILE=file-value\nBOTH=file-both\n").unwrap();
    let mut server = stdio("run");
    server.args = vec![located("args[0]", "--dir=${FROM_FILE}"), located("args[1]", "--api-key=arg-secret")];
    server.env = named("env", &[("BOTH", "own-${OURS}"), ("API_TOKEN", "literal-secret"), ("MODE", "plain-mode")]);
    server.env_file = Some(located("env_file", ".env"));
    server.working_dir = Some(located("working_dir", "./data"));
    let config = config(&folder.path().join("toolgate.yaml").display().to_string());
    let variables = Variables::of_test(&[("OURS", "our-value"), ("PATH", "/bin"), ("SOME_KEY", "inherited-key")]);
    let (found, secrets) = program(resolve(&server, &config, &variables, None));
    assert_eq!(found.args, ["--dir=file-value", "--api-key=arg-secret"]);
    assert_eq!(found.working_dir, Some(folder.path().join("data")));
    let env: Vec<(&str, &str)> = found.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let own = [
        ("API_TOKEN", "literal-secret"),
        ("BOTH", "own-our-value"),
        ("FROM_FILE", "file-value"),
        ("MODE", "plain-mode"),
    ];
    assert_eq!(env, [&own[..], &[("OURS", "our-value"), ("PATH", "/bin"), ("SOME_KEY", "inherited-key")]].concat());
    let text = "file-value file-both our-value literal-secret arg-secret inherited-key";
    assert_eq!(secrets.redact(text), ["[REDACTED]"; 6].join(" "));
    assert_eq!(secrets.redact("plain-mode /bin"), "plain-mode /bin");
    server.working_dir = Some(located("working_dir", "missing"));
    let problem = resolve(&server, &config, &variables, None).unwrap_err();
    assert!(problem.to_string().contains("servers.fs.working_dir: there is no folder"), "{problem}");
    server.env_file = Some(located("env_file", "no.env"));
    let problem = resolve(&server, &config, &variables, None).unwrap_err();
    assert!(problem.to_string().contains("servers.fs.env_file: file "), "{problem}");
}

#[test]
fn an_env_file_of_a_file_that_needs_trust_is_read_as_it_was_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let env_file = folder.path().join(".env");
    std::fs::write(&env_file, "RUN=good\n").unwrap();
    let mut server = stdio("${RUN}");
    server.env_file = Some(located("env_file", ".env"));
    let mut config = config(&folder.path().join("toolgate.yaml").display().to_string());
    config.servers = vec![server.clone()];
    let variables = Variables::of_test(&[]);
    config.trusted_env_files = Some(env_file_digests(&config, &variables));
    assert_eq!(program(resolve(&server, &config, &variables, None)).0.command, "good");
    std::fs::write(&env_file, "RUN=evil\nPATH=.\n").unwrap();
    let problem = resolve(&server, &config, &variables, None).unwrap_err().to_string();
    assert!(problem.contains("has changed since you trusted it"), "{problem}");
    server.env_file = Some(located("env_file", "other.env"));
    std::fs::write(folder.path().join("other.env"), "RUN=good\n").unwrap();
    let problem = resolve(&server, &config, &variables, None).unwrap_err().to_string();
    assert!(problem.contains("is not among those that you trusted"), "{problem}");
    config.trusted_env_files = None;
    assert_eq!(program(resolve(&server, &config, &variables, None)).0.command, "good");
}

#[test]
fn a_bad_argument_or_variable_names_its_field() {
    let mut server = stdio("run");
    server.args = vec![located("args[0]", "a"), located("args[1]", "${SECRET} ${MISSING}")];
    refuse(&server, "/etc/toolgate.yaml:7:3: servers.fs.args[1]: variable \"MISSING\" is not set");
    server.args = vec![located("args[0]", "${file:${SECRET}}")];
    refuse(&server, "servers.fs.args[0]: file \"/etc/[REDACTED]\": ");
    server.args = vec![located("args[0]", "s3cret\0")];
    refuse(&server, "contains a zero byte");
    server.args.clear();
    server.env = named("env", &[("A=B", "s3cret")]);
    refuse(&server, "is not a valid variable name");
}

#[test]
fn a_problem_names_the_field_as_the_shape_of_the_file_has_it() {
    let mut config = config("/etc/mcp.json");
    for (shape, expected) in [(FileShape::McpServers, "mcpServers.fs.command"), (FileShape::Bare, "fs.command")] {
        config.shape = shape;
        let problem = resolve(&stdio("${X}"), &config, &Variables::of_test(&[]), None).unwrap_err();
        assert_eq!(problem.field.as_deref(), Some(expected));
    }
}

#[test]
fn a_server_with_a_problem_keeps_it() {
    let mut server = stdio("run");
    server.problem = Some(Problem { place: place(9), field: None, text: "unknown key".into() });
    assert_eq!(try_resolve(&server, &[]).unwrap_err(), server.problem.unwrap());
}

#[test]
fn the_file_of_an_editor_is_about_the_project_around_it() {
    let here = Variables::of_test(&[]);
    for (file, folder, workspace) in [
        ("/p/toolgate.yaml", "/p", "/project"),
        ("mcp.json", "/project", "/project"),
        ("/p/.vscode/mcp.json", "/p", "/p"),
        ("/p/.cursor/mcp.json", "/p", "/p"),
        ("/home/me/.cursor/mcp.json", "/home/me", "/project"),
        ("/p/.gemini/settings.json", "/p", "/p"),
        ("/home/me/.gemini/settings.json", "/home/me", "/project"),
        ("/p/.roo/mcp.json", "/p", "/p"),
        ("/p/.kiro/settings/mcp.json", "/p", "/p"),
        ("/home/me/.kiro/settings/mcp.json", "/home/me", "/project"),
        ("/p/settings/mcp.json", "/p/settings", "/project"),
        ("/p/.zed/settings.json", "/p", "/p"),
        ("/p/.opencode/opencode.json", "/p", "/p"),
        ("/p/.amazonq/mcp.json", "/p", "/p"),
        ("/p/.codex/config.toml", "/p/.codex", "/project"),
    ] {
        assert_eq!(base_folders(config(file).file.as_deref(), &here), (folder.into(), workspace.into()), "{file}");
    }
}

#[test]
fn debug_of_what_is_resolved_shows_no_secret() {
    let mut server = http("https://me:s3cret-1@x.example/?key=s3cret-2");
    server.headers = named("headers", &[("X-Token", "s3cret-3")]);
    let shown = format!("{:?}", try_resolve(&server, &[]).unwrap());
    assert!(!shown.contains("s3cret"), "{shown}");
}
