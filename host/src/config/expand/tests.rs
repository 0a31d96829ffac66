use super::*;
use std::sync::Arc;

use crate::config::variables::InputPrompter;

/// A scope for a test: the variables, a folder, and everything else that a test may change.
struct Case {
    variables: Variables,
    env_file: BTreeMap<String, String>,
    folder: PathBuf,
    inputs: Vec<ConfigInput>,
    session: Option<&'static str>,
    rules: ExpandRules,
}

impl Case {
    fn new(environment: &[(&str, &str)]) -> Self {
        Case {
            variables: Variables::of_test(environment),
            env_file: BTreeMap::new(),
            folder: PathBuf::from("/etc/toolgate"),
            inputs: Vec::new(),
            session: None,
            rules: ExpandRules::default(),
        }
    }

    fn expand(&self, text: &str) -> Result<String, ExpandError> {
        self.expand_with(text, &mut Secrets::default())
    }

    fn expand_with(&self, text: &str, secrets: &mut Secrets) -> Result<String, ExpandError> {
        let scope = ExpandScope {
            variables: &self.variables,
            env_file: &self.env_file,
            folder: &self.folder,
            workspace: &self.variables.workspace,
            inputs: &self.inputs,
            session: self.session,
            rules: self.rules,
        };
        expand(text, &scope, secrets)
    }

    fn check(&self, text: &str, expected: &str) {
        match self.expand(text) {
            Ok(expanded) => assert_eq!(expanded, expected, "{text:?}"),
            Err(error) => panic!("{text:?}: {error}"),
        }
    }

    /// Checks that expansion fails with a message that contains `expected`.
    fn refuse(&self, text: &str, expected: &str) {
        match self.expand(text) {
            Ok(expanded) => panic!("{text:?} became {expanded:?}"),
            Err(error) => assert!(error.to_string().contains(expected), "{text:?}: {error}"),
        }
    }
}

#[test]
fn every_form_is_filled_in() {
    let case = Case::new(&[("TOKEN", "abc"), ("EMPTY", ""), ("HOST", "example.com"), ("ProgramFiles(x86)", "C:\\P")]);
    for (text, expected) in [
        ("", ""),
        ("plain", "plain"),
        ("${TOKEN}", "abc"),
        ("Bearer ${TOKEN}!", "Bearer abc!"),
        ("${TOKEN}${HOST}", "abcexample.com"),
        ("${TOKEN:-other}", "abc"),
        ("${MISSING:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${MISSING:-}", ""),
        ("${BASE:-https://x:80/a?b=c}/mcp", "https://x:80/a?b=c/mcp"),
        ("${MISSING:-${TOKEN}}", "abc"),
        ("${MISSING:-${ALSO:-{{.HOST}}}}", "example.com"),
        ("${env:TOKEN}", "abc"),
        ("${env:MISSING:-other}", "other"),
        ("${env:ProgramFiles(x86)}", "C:\\P"),
        ("$env:TOKEN", "abc"),
        ("Bearer $env:TOKEN.", "Bearer abc."),
        ("$Env:TOKEN/x", "abc/x"),
        ("{{.TOKEN}}", "abc"),
        ("{{ .TOKEN }}", "abc"),
        ("${userHome}/x", "/home/me/x"),
        ("${workspaceFolder}/x", "/project/x"),
        ("${workspaceFolderBasename}", "project"),
        ("${cwd}/x", "/project/x"),
        ("a${/}b${pathSeparator}c", if cfg!(windows) { "a\\b\\c" } else { "a/b/c" }),
        ("ä ${TOKEN} ö", "ä abc ö"),
    ] {
        case.check(text, expected);
    }
}

#[test]
fn a_dollar_elsewhere_is_itself() {
    let case = Case::new(&[("TOKEN", "abc"), ("word", "never")]);
    for text in [
        "$",
        "$$",
        "p@ss$word",
        "^a.*$",
        "$1",
        "a$env:TOKEN",
        "$$env:TOKEN",
        "$env:",
        "$env:1",
        "$(ls)",
        "}}",
        "}",
        "{",
        "{ {",
    ] {
        case.check(text, text);
    }
    for (text, expected) in [
        ("$${TOKEN}", "${TOKEN}"),
        ("$$${TOKEN}", "$${TOKEN}"),
        ("$${a} ${TOKEN}", "${a} abc"),
        ("{{'{{'}}.Names}}", "{{.Names}}"),
        ("{{\"{{\"}}", "{{"),
    ] {
        case.check(text, expected);
    }
}

#[test]
fn what_is_put_in_is_never_read_again() {
    for value in ["${TOKEN}", "{{.TOKEN}}", "$TOKEN", "$${", "${", "{{", "a}b", "${file:/etc/passwd}", "${cmd:id}"] {
        let mut case = Case::new(&[("A", value), ("TOKEN", "never")]);
        case.rules = ExpandRules { commands: true, bare_dollar: true };
        for text in ["${A}", "{{.A}}", "$A", "$env:A", "${X:-${A}}"] {
            case.check(text, value);
        }
    }
}

#[test]
fn a_bare_dollar_is_for_files_that_have_it() {
    let mut case = Case::new(&[("TOKEN", "abc"), ("_X1", "x")]);
    case.check("$TOKEN", "$TOKEN");
    case.rules.bare_dollar = true;
    for (text, expected) in
        [("$TOKEN", "abc"), ("a$TOKEN-$_X1", "aabc-x"), ("$1 $ $(x)", "$1 $ $(x)"), ("$${TOKEN}", "${TOKEN}")]
    {
        case.check(text, expected);
    }
    case.refuse("$MISSING", "variable \"MISSING\" is not set; export it or write ${MISSING:-default}");
}

#[test]
fn something_unset_names_the_variable() {
    let case = Case::new(&[]);
    for text in ["${TOKEN}", "${env:TOKEN}", "{{.TOKEN}}", "$env:TOKEN", "x ${HOME:-a} ${TOKEN}", "${X:-${TOKEN}}"] {
        case.refuse(text, "variable \"TOKEN\" is not set; export it or write ${TOKEN:-default}");
    }
}

#[test]
fn something_malformed_names_its_place_and_a_way_out() {
    let case = Case::new(&[("VAR", "never"), ("X", "never")]);
    for (text, expected) in [
        ("${VAR", "at character 1: \"${\" has no closing \"}\"; for a plain \"${\" write \"$${\""),
        ("ää ${", "at character 4: \"${\" has no closing"),
        ("a ${VAR:-x", "at character 3: \"${\" has no closing"),
        ("${X:-${VAR}", "at character 1: \"${\" has no closing"),
        ("${}", "at character 1: after \"${\", write one name"),
        ("${1}", "write one name"),
        ("${A-B}", "write one name"),
        ("${ VAR }", "write one name"),
        ("${VAR:=x}", "\"${VAR:\" is not known"),
        ("${env:}", "write one name"),
        ("${foo:bar}", "at character 1: \"${foo:\" is not known; there are: ${VAR}"),
        ("${command:x.y}", "\"${command:\" is not known"),
        ("{{.VAR", "at character 1: \"{{\" has no closing \"}}\"; for a plain \"{{\" write {{'{{'}}"),
        ("x {{call .X}}", "at character 3: between \"{{\" and \"}}\", write a dot and one name, as in {{.TOKEN}}"),
        ("{{API_KEY}}", "write a dot and one name"),
        ("${A:-${A:-${A:-${A:-${A:-${A:-${A:-${A:-${A:-x}}}}}}}}}", "nested more than 8 deep"),
    ] {
        case.refuse(text, expected);
    }
}

/// The expectations of the first seed project. toolgate also expands `${VAR}`, and refuses what the seed leaves as it
/// is or replaces by nothing.
#[test]
fn templates_of_the_first_seed_mean_the_same_or_are_refused() {
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], Result<&'a str, &'a str>);
    const UNREAD: &[(&str, &str)] = &[("API_KEY", "should-not-appear")];
    let place = [("PROTOCOL", "https"), ("HOST", "example.com"), ("PORT", "443")];
    let rows: &[Row] = &[
        ("api_key: {{.API_KEY}}", &[("API_KEY", "secret123")], Ok("api_key: secret123")),
        ("pattern: ${USER_ID}", &[("USER_ID", "123")], Ok("pattern: 123")),
        ("regex: ^secret.*$", &[], Ok("regex: ^secret.*$")),
        ("url: {{.PROTOCOL}}://{{.HOST}}:{{.PORT}}", &place, Ok("url: https://example.com:443")),
        ("endpoint: {{.MISSING_VAR}}", &[], Err("variable \"MISSING_VAR\" is not set")),
        ("X-Session-ID: {{.SESSION_ID}}", &[], Err("within a session")),
        ("X-Session-ID: {{.SESSION_ID}}", &[("SESSION_ID", "should-not-use")], Err("within a session")),
        ("url: {{.PROTOCOL}}://{{.MISSING}}:{{.PORT}}", &place, Err("variable \"MISSING\" is not set")),
        ("static: value", &[("UNUSED", "value")], Ok("static: value")),
        ("- {{.ARG1}}\n- {{.ARG2}}", &[("ARG1", "value1"), ("ARG2", "value2")], Ok("- value1\n- value2")),
        ("password: {{.PASSWORD}}", &[("PASSWORD", "p@ssw0rd!#$%")], Ok("password: p@ssw0rd!#$%")),
        ("password: p@ss$word", &[], Ok("password: p@ss$word")),
        ("key: {{.MY_LONG_VAR_NAME}}", &[("MY_LONG_VAR_NAME", "value")], Ok("key: value")),
        ("{{.VAR1}}{{.VAR2}}", &[("VAR1", "hello"), ("VAR2", "world")], Ok("helloworld")),
        ("message: \"Hello {{.NAME}}\"", &[("NAME", "World")], Ok("message: \"Hello World\"")),
        ("value: {{.EMPTY}}", &[("EMPTY", "")], Ok("value: ")),
        ("", &[], Ok("")),
        ("api_key: {{.API_KEY", UNREAD, Err("at character 10")),
        ("api_key: {{", UNREAD, Err("at character 10")),
        ("api_key: {{.API_KEY}", UNREAD, Err("at character 10")),
        ("api_key: }}.API_KEY{{", UNREAD, Err("at character 20")),
        ("api_key: {{API_KEY}}", UNREAD, Err("at character 10")),
        ("api_key: {{{{.API_KEY}}}}", UNREAD, Err("at character 10")),
        ("api_key: {{{.API_KEY}}}", UNREAD, Err("at character 10")),
        ("api_key: {{.API KEY}}", UNREAD, Err("at character 10")),
        ("api_key: {{.API-KEY!}}", UNREAD, Err("at character 10")),
        ("host: localhost\napi_key: {{.API_KEY\nport: 8080", UNREAD, Err("at character 26")),
        ("api_key: {{.API_KEY | upper}}", UNREAD, Err("at character 10")),
        ("api_key: {{.API_KEY.NonExistent.Field}}", UNREAD, Err("at character 10")),
        ("key: {{}}", UNREAD, Err("at character 6")),
        ("{{.SESSION_ID}", &[], Err("at character 1")),
        ("{{call .SESSION_ID}}", &[], Err("at character 1")),
        ("https://x/{{.SESSION_ID}}{{", &[], Err("at character 26")),
    ];
    for (text, environment, expected) in rows {
        let case = Case::new(environment);
        match expected {
            Ok(expected) => case.check(text, expected),
            Err(expected) => case.refuse(text, expected),
        }
    }
}

#[test]
fn a_session_fills_its_own_variable_alone() {
    let mut case = Case::new(&[("SESSION_ID", "of the environment")]);
    case.session = Some("sess-1");
    case.check("https://host:8443/sessions/{{.SESSION_ID}}", "https://host:8443/sessions/sess-1");
    case.check("https://host:8443/sessions/static", "https://host:8443/sessions/static");
    case.check("${SESSION_ID}", "of the environment");
}

#[test]
fn files_are_read_from_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).unwrap();
    write("token", b"from-a-file\n");
    write("windows", b"from-a-file\r\n");
    write("two", b"a\n\n");
    write("binary", b"\xff\xfe");
    write("big", &vec![b'x'; MAX_BYTES as usize + 1]);
    let mut case = Case::new(&[("NAME", "token")]);
    case.folder = folder.path().to_owned();
    case.variables.home = Some(folder.path().to_owned());
    let absolute = format!("${{file:{}}}", folder.path().join("token").display());
    for text in ["${file:token}", "${file:./windows}", "${file:~/token}", "${file:${userHome}/${NAME}}", &absolute] {
        case.check(text, "from-a-file");
    }
    case.check("${file:two}", "a\n");
    case.refuse("${file:missing}", "missing\": ");
    case.refuse("${file:.}", "is not a regular file");
    case.refuse("${file:binary}", "is not UTF-8 text");
    case.refuse("${file:big}", "has more than 64 KiB");
    case.refuse("${file:token", "no closing");
}

#[test]
fn inputs_come_from_a_variable_a_person_or_the_file() {
    struct Person;
    impl InputPrompter for Person {
        fn ask(&self, input: &ConfigInput) -> Option<String> {
            (input.id == "asked").then(|| "an answer".to_owned())
        }
    }
    let input = |id: &str, default: Option<&str>| ConfigInput {
        id: id.into(),
        default: default.map(Into::into),
        ..ConfigInput::default()
    };
    let mut case = Case::new(&[("TOOLGATE_INPUT_API_KEY", "of the variable")]);
    case.variables.prompter = Arc::new(Person);
    case.inputs = vec![
        input("api-key", None),
        input("asked", Some("unused")),
        input("defaulted", Some("of the file")),
        input("none", None),
    ];
    case.check("${input:api-key}", "of the variable");
    case.check("${input:api.key}", "of the variable");
    case.check("${input:asked}", "an answer");
    case.check("${input:defaulted}", "of the file");
    case.check("${input:none:-x}", "x");
    case.inputs.push(ConfigInput { options: vec!["eu".into(), "us".into()], ..input("asked", None) });
    case.inputs.swap_remove(1);
    case.refuse("${input:asked}", "input \"asked\" must be one of: eu, us");
    case.refuse("${input:none}", "input \"none\" is not given; set TOOLGATE_INPUT_NONE");
    case.refuse("${input:not declared}", "set TOOLGATE_INPUT_NOT_DECLARED");
}

#[cfg(unix)]
#[test]
fn commands_run_only_where_the_file_allows_it() {
    let mut case = Case::new(&[("WORD", "spoken"), ("PATH", "/usr/bin:/bin")]);
    case.folder = PathBuf::from("/");
    case.refuse("${cmd:echo x}", "allow_commands: true");
    case.rules.commands = true;
    for (text, expected) in [
        ("${cmd:echo x}", "x"),
        ("a ${cmd:printf '%s' \"${WORD}\"} b", "a spoken b"),
        ("${cmd:echo a b | awk '{print $2}'}", "b"),
        ("${cmd:printf 'a\\n\\n'}", "a\n"),
    ] {
        case.check(text, expected);
    }
    case.refuse("${cmd:echo s3cret; exit 4}", "the command of ${cmd:…} failed with exit status: 4");
    case.refuse("${cmd:echo {}", "no closing");
}

#[test]
fn a_variable_of_the_env_file_comes_first() {
    let mut case = Case::new(&[("TOKEN", "of the environment"), ("OTHER", "other")]);
    case.env_file.insert("TOKEN".into(), "of the file".into());
    case.check("${TOKEN} {{.OTHER}}", "of the file other");
}

#[test]
fn what_is_put_in_becomes_a_secret_unless_it_is_harmless() {
    let environment =
        [("TOKEN", "tok-12345"), ("HOME", "/home/me"), ("USER", "somebody"), ("PROJECT", "/project"), ("FLAG", "true")];
    let mut case = Case::new(&environment);
    case.session = Some("session-1");
    let mut secrets = Secrets::default();
    let text = "${HOME} ${USER} ${PROJECT} ${FLAG} ${userHome} ${workspaceFolder} {{.SESSION_ID}}";
    let expanded = case.expand_with(text, &mut secrets).unwrap();
    assert_eq!(secrets.redact(&expanded), expanded);
    assert!(case.expand_with("${TOKEN} ${MISSING}", &mut secrets).is_err());
    assert_eq!(secrets.redact("is tok-12345."), "is [REDACTED].");
}

#[test]
fn the_variables_of_a_text_are_known_without_expanding_it() {
    let used = |text| variables_used(text, ExpandRules::default()).into_iter().collect::<Vec<_>>();
    assert_eq!(
        used("${A} ${env:B} {{.C}} $env:D ${E:-${F}} ${file:${G}} $H $${I} ${userHome}"),
        ["A", "B", "C", "D", "E", "F", "G"]
    );
    assert_eq!(used("${cmd:echo $A \"${B:-x}\"} {{.SESSION_ID}}"), ["A", "B"]);
    assert_eq!(used("${A} ${B"), ["A", "B"]);
    assert_eq!(variables_used("$A", ExpandRules { bare_dollar: true, ..ExpandRules::default() }).len(), 1);
}
