//! Tests what must never be printed: secrets, wherever they occur, and terminal control sequences.

use serde_json::json;

use crate::place::{Place, Ran, and, each, fixture, fixture_with};

/// Every command that prints what servers say.
const COMMANDS: [&[&str]; 12] = [
    &["tools"],
    &["tools", "--json"],
    &["tools", "--format", "mcp"],
    &["call", "SERVER.do"],
    &["call", "SERVER.do", "--json"],
    &["resources"],
    &["resources", "--json"],
    &["resources", "read", "mem://page", "--server", "SERVER"],
    &["prompts", "--json"],
    &["prompts", "get", "SERVER.ask"],
    &["instructions"],
    &["check", "--json"],
];

fn commands(server: &str) -> impl Iterator<Item = Vec<String>> {
    COMMANDS.into_iter().map(move |words| words.iter().map(|word| word.replace("SERVER", server)).collect())
}

/// One secret for each place where one can stand.
const PLANTED: [(&str, &str); 8] = [
    ("PLANTED_ARGUMENT", "planted-argument-1f7b"),
    ("PLANTED_PASSWORD", "planted-password-2c9d"),
    ("PLANTED_VARIABLE", "planted-variable-3e8a"),
    ("PLANTED_QUOTES", "planted\"with\\quotes-4b6f"),
    ("PLANTED_HEADER", "planted-header-5d2c"),
    ("TOOLGATE_INPUT_ANSWER", "planted-answer-6a1e"),
    ("PLANTED_QUERY", "planted-query-7c4b"),
    ("PLANTED_LINES", "planted-line-8d3f\nplanted-line-9e2a"),
];

/// What stands in files as it is.
const WRITTEN: [&str; 2] = ["planted-literally-ae5d", "planted-in-a-file-bf4c"];

#[test]
fn secrets_are_in_no_output() {
    let place = Place::new();
    place.file("home/more.env", format!("FROM_FILE_TOKEN={}\n", WRITTEN[1]));
    let leaks = ["--api-key", "${PLANTED_ARGUMENT}", "http://user:${PLANTED_PASSWORD}@host/"];
    let env = json!({
        "A_TOKEN": "${PLANTED_VARIABLE}", "QUOTES_KEY": "${PLANTED_QUOTES}", "ANSWER": "${input:answer}",
        "LITERAL_PASSWORD": WRITTEN[0], "LINES_KEY": "${PLANTED_LINES}",
    });
    let refused = json!({
        "url": "http://127.0.0.1:1/mcp?api_key=${PLANTED_QUERY}",
        "headers": {"Authorization": "Bearer ${PLANTED_HEADER}"},
    });
    let servers = json!({
        "leaks": and(fixture_with("leaks", &leaks), json!({"env": env, "env_file": "more.env"})),
        "refused": refused,
    });
    let config = json!({"version": 1, "inputs": [{"id": "answer", "password": true}], "servers": servers});
    let config = place.file("home/secrets.yaml", config.to_string());
    let place = PLANTED.iter().fold(place, |place, (name, value)| place.set(name, value));
    for (n, command) in commands("leaks").enumerate() {
        let format = if n % 2 == 0 { "text" } else { "json" };
        let more = ["-vvv", "--log-format", format, "--config", config.to_str().unwrap()].map(str::to_owned);
        let ran = place.run(&[&command[..], &more].concat());
        assert_hidden(&ran, &command);
        assert!(ran.stderr.contains("[REDACTED]"), "the server tells, so there is something to hide: {ran:#?}");
    }
    let told = place.run(&["call", "leaks.do", "--config", config.to_str().unwrap()]).ends(0);
    assert!(told.stdout.matches("[REDACTED]").count() >= 2 * env.as_object().unwrap().len(), "{told:#?}");
}

#[test]
fn secrets_of_servers_that_nobody_has_started_are_in_no_output() {
    let place = Place::new();
    place.file("home/key", WRITTEN[1]);
    // It has them from elsewhere, as one that reads files would.
    let shows = fixture_with("leaks", &[PLANTED[2].1, WRITTEN[0], WRITTEN[1]]);
    let servers = json!({
        "shows": shows,
        "unused": {"command": "no-such-program", "env": {"A_TOKEN": "${PLANTED_VARIABLE}", "B": "${NO_SUCH_VARIABLE}", "C": "${file:key}"}},
        "off": {"command": "no-such-program", "enabled": false, "args": ["--api-key", WRITTEN[0]]},
    });
    let config = place.file("home/secrets.yaml", json!({"version": 1, "servers": servers}).to_string());
    let place = place.set(PLANTED[2].0, PLANTED[2].1);
    for command in [&["call", "shows.do"][..], &["call", "shows.do", "--json"], &["tools", "--server", "shows"]] {
        let ran = place.run(&[command, &["-vvv", "--config", config.to_str().unwrap()]].concat()).ends(0);
        assert_hidden(&ran, command);
        assert!(ran.stderr.matches("[REDACTED]").count() >= 3, "the server tells them: {ran:#?}");
        assert!(!ran.stderr.contains("NO_SUCH_VARIABLE"), "nobody wants that server: {ran:#?}");
    }
}

#[cfg(unix)]
#[test]
fn what_tools_say_of_themselves_is_masked_wherever_it_is_shown() {
    use crate::serving::{Serving, Web};
    let config = json!({"version": 1, "masking": {"groups": ["basic"], "patterns": ["email"]}, "servers": {"s": fixture("describes")}});
    let place = Place::configured(&config);
    let plain = ["hunter2", "bob@example.com"];
    let serving = Serving::start(&place, &["--http", "127.0.0.1:0"]);
    let page = Web { address: &serving.address(), token: None, session: None }.request(
        "GET /api/v1/mcp/tools",
        "localhost",
        &[],
        "",
    );
    let mut texts = vec![page.body];
    for form in [&["tools"][..], &["tools", "--json"], &["tools", "--format", "openai"], &["tools", "--format", "mcp"]]
    {
        texts.push(place.run(form).ends(0).stdout);
    }
    for text in texts {
        assert!(text.contains("[MASKED_PASSWORD]") && text.contains("s__do"), "{text}");
        assert!(!plain.iter().any(|secret| text.contains(secret)), "{text}");
    }
}

#[test]
fn secrets_are_not_in_the_last_words_of_a_server() {
    let ends = fixture_with("leaks-and-ends", &["${PLANTED_ARGUMENT}"]);
    let place = Place::with(json!({"ends": ends})).set(PLANTED[0].0, PLANTED[0].1);
    for command in [&["tools", "-vvv"][..], &["call", "ends.do", "--json"], &["check"], &["instructions", "-vv"]] {
        let ran = place.run(command);
        assert_hidden(&ran, command);
    }
    place.run(&["check"]).ends(3).prints("it last wrote:").prints("[REDACTED]");
}

#[test]
fn ordinary_words_spoil_neither_names_nor_keys() {
    let env = json!({"PGDATABASE": "${DBNAME}", "A": "${WORD_1}", "B": "${WORD_2}", "C": "${SOME_VALUE}"});
    let place = Place::with(json!({"shop": and(fixture("orders"), json!({"env": env}))}));
    let words =
        [("DBNAME", "orders"), ("WORD_1", "function"), ("WORD_2", "properties"), ("SOME_VALUE", "token-9f8e7d")];
    let place = words.iter().fold(place, |place, (name, value)| place.set(name, value));
    let listed = place.run(&["tools", "--format", "openai"]).ends(0).json();
    assert_eq!((&listed[0]["type"], &listed[0]["function"]["name"]), (&json!("function"), &json!("shop__list_orders")));
    let schema = &listed[0]["function"]["parameters"]["properties"]["orders_id"];
    assert_eq!(schema["enum"], json!(["orders", "[REDACTED]"]), "what is no word is hidden all the same");
    let listed = place.run(&["tools", "--json"]).ends(0).json();
    assert_eq!(each(&listed["tools"], "/tool"), ["list_orders"]);
    place.run(&["tools"]).ends(0).prints("shop__list_orders  The tool list_orders.");
}

#[test]
fn a_word_of_a_file_of_variables_does_not_garble_a_message() {
    let place = Place::new();
    place.file("home/more.env", "E_1=plain\n");
    let entry = json!({"command": "x", "args": ["${"], "env_file": "more.env"});
    let config = place.file("home/a.yaml", json!({"servers": {"a": entry}}).to_string());
    let ran = place.run(&["check", "--config", config.to_str().unwrap()]).ends(2);
    assert!(ran.stdout.contains("for a plain \"${\" write \"$${\""), "{ran:#?}");
}

#[test]
fn a_secret_in_a_host_is_not_shown_in_lower_case() {
    let place = Place::with(json!({"h": {"url": "http://${SOME_1}.invalid/mcp"}})).set("SOME_1", "PLANTED-Env-1f7b");
    for command in [&["check"][..], &["check", "--json"], &["tools", "-vv"]] {
        let ran = place.run(command);
        let all = format!("{}{}", ran.stdout, ran.stderr).to_lowercase();
        assert!(all.contains("[redacted]") && !all.contains("planted-env"), "{command:?}: {ran:#?}");
    }
}

#[track_caller]
fn assert_hidden<A: std::fmt::Debug + ?Sized>(ran: &Ran, command: &A) {
    let planted = PLANTED.iter().flat_map(|(_, value)| value.lines()).chain(WRITTEN);
    for secret in planted.chain(["planted\\\"with\\\\quotes-4b6f"]) {
        let shown = ran.stdout.contains(secret) || ran.stderr.contains(secret);
        assert!(!shown, "{secret:?} is shown by {command:?}: {ran:#?}");
    }
}

#[test]
fn a_secret_in_a_broken_file_is_not_shown() {
    let place = Place::new();
    for (name, content) in [
        ("a.yaml", "servers:\n  a: {command: x, env: {TOKEN: planted-in-yaml-1a2b}\n"),
        (
            "b.json",
            "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"TOKEN\": \"planted-in-json-3c4d\" \"B\"}}}",
        ),
        ("c.toml", "[mcp_servers.a]\ncommand = \"x\"\nenv = { TOKEN = \"planted-in-toml-5e6f\" B }\n"),
    ] {
        let file = place.file(name, content);
        let ran = place.run(&["check", "-vvv", "--config", file.to_str().unwrap()]).ends(2);
        assert!(ran.stderr.contains(name) && !ran.stderr.contains("planted-in"), "{ran:?}");
    }
}

#[cfg(unix)]
#[test]
fn what_steers_a_terminal_never_reaches_one() {
    let place = Place::with(json!({"steers": fixture("steers"), "ends": fixture("ends-at-once")}));
    // Colours of our own would steer it too.
    let place = place.set("NO_COLOR", "1").set("TERM", "xterm");
    let logs = [&[][..], &["-vvv"], &["-vvv", "--log-format", "json"]];
    let all = commands("steers").chain([vec!["check".to_owned()], vec!["call".to_owned(), "ends.do".to_owned()]]);
    for (command, log) in all.zip(logs.into_iter().cycle()) {
        let log: Vec<_> = log.iter().map(|&word| word.to_owned()).collect();
        let ran = place.run_at_terminal(&[&command[..], &log].concat(), "");
        // A terminal ends its lines so.
        let shown = ran.stdout.replace("\r\n", "\n");
        assert_eq!(shown.chars().find(|letter| steers(*letter)), None, "{command:?} {log:?}: {shown:?}");
        assert!(shown.contains("31m"), "the server was heard: {command:?} {log:?}: {shown:?}");
    }
}

#[test]
fn messages_never_steer_and_json_never_does() {
    let place = Place::with(json!({"steers": fixture("steers"), "ends": fixture("ends-at-once")}));
    for command in [&["tools", "--json", "-vvv"][..], &["check", "--json"], &["call", "steers.do", "--json", "-v"]] {
        let ran = place.run(command);
        for (stream, text) in [("stdout", &ran.stdout), ("stderr", &ran.stderr)] {
            let found = text.chars().find(|letter| steers(*letter));
            assert_eq!(found, None, "{stream} of {command:?}: {text:?}");
        }
    }
}

#[test]
fn what_is_taken_out_for_people_is_whole_in_json() {
    let place = Place::with(json!({"steers": fixture("steers")}));
    let listed = place.run(&["resources", "--json"]).ends(0).json();
    let said = listed["resources"][1]["description"].as_str().unwrap();
    assert!(said.contains("\u{1b}[31m") && said.contains('\u{202e}') && said.contains('\u{9b}'), "{said:?}");
}

#[test]
fn tabs_and_line_ends_of_an_answer_stay() {
    let place = Place::with(json!({"plain": fixture("tabs")}));
    let ran = place.run(&["call", "plain.do"]).ends(0);
    assert_eq!(ran.stdout, "a\tb\r\nc\td\n");
}

#[test]
fn a_variable_for_one_server_does_not_reach_another() {
    let tells = fixture("tells-environment");
    let place = Place::with(json!({
        "first": and(tells.clone(), json!({"env": {"MINE": "${FIRST_TOKEN}"}})),
        "second": tells.clone(),
        "all": and(tells.clone(), json!({"inherit_env": "all"})),
        "none": and(tells, json!({"inherit_env": "none", "env": {"OWN": "1"}})),
    }));
    let place = place.set("FIRST_TOKEN", "planted-first-77aa").set("ELSE", "else");
    let names = |server: &str| place.run(&["call", &format!("{server}.do")]).ends(0).stdout;
    let first = names("first");
    assert!(first.contains("MINE") && first.contains("FIRST_TOKEN") && first.contains("ELSE"), "{first}");
    let second = names("second");
    assert!(!second.contains("FIRST_TOKEN") && second.contains("ELSE"), "{second}");
    assert!(names("all").contains("FIRST_TOKEN"));
    let none = names("none");
    assert!(!none.contains("FIRST_TOKEN") && !none.contains("ELSE") && none.contains("OWN"), "{none}");
}

fn steers(letter: char) -> bool {
    letter.is_control() && !matches!(letter, '\n' | '\t')
        || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(unix)]
#[test]
fn the_command_line_and_the_gateway_agree_on_what_is_a_secret() {
    use crate::serving::Serving;
    let env = json!({
        "AREA": "${SOME_REGION}", "DB": "${SOME_HOST}", "ROOT": "${SOME_FOLDER}", "API_TOKEN": "${SOME_TOKEN}",
        "NUMBER": "${GENERATED}",
    });
    let leaks = and(fixture_with("leaks", &["${SOME_FOLDER}/readme.txt"]), json!({"env": env}));
    let place = Place::with(json!({"leaks": leaks}));
    let shown =
        [("SOME_REGION", "eu-west-1"), ("SOME_HOST", "db.example.com"), ("SOME_FOLDER", "/srv/shop/orders-2024")];
    let hidden = [("SOME_TOKEN", "planted-token-1a7b"), ("GENERATED", "x7Gh29aBq41Zt")];
    let place = shown.iter().chain(&hidden).fold(place, |place, (name, value)| place.set(name, value));
    let texts = [
        place.run(&["call", "leaks.do"]).ends(0).stdout,
        place.run(&["call", "leaks.do", "--json"]).ends(0).stdout,
        Serving::greet(&place, &[]).call("leaks__do").to_string(),
    ];
    for text in texts {
        assert!(text.contains("/srv/shop/orders-2024/readme.txt"), "{text}");
        for (name, value) in shown {
            assert!(text.contains(value), "{name}: {text}");
        }
        for (name, value) in hidden {
            assert!(!text.contains(value), "{name}: {text}");
        }
    }
}

#[test]
fn the_name_of_a_server_is_masked_in_the_log() {
    let name = "ann@elsewhere.example";
    let server = fixture_with("is-called", &[name]);
    for (masking, is_shown) in [(json!({}), true), (json!({"groups": ["security"]}), false)] {
        let place = Place::configured(&json!({"version": 1, "masking": masking, "servers": {"s": server}}));
        for format in ["text", "json"] {
            let ran = place.run(&["tools", "-vvv", "--log-format", format]).ends(0).says("connected");
            assert_eq!(ran.stderr.contains(name), is_shown, "{ran:#?}");
        }
    }
}
