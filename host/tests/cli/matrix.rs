//! Tests what the API says about access and rules, and about another configuration: to admins, to others, to nobody.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::place::{Place, and, demo, fixture_with};
use crate::serving::{Reply, Serving, Web};

const OPS: &str = "ops-0123456789-token";
const ANN: &str = "ann-0123456789-token";
const SECRET: &str = "s3cret-0123456789-planted";
const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{202e}";

/// Rules of every kind, and principals of every kind.
fn config() -> Value {
    json!({
        "version": 1,
        "destructive": "ask",
        "results": {"demo.forecast": {"labels": ["untrusted"]}},
        "servers": {
            "demo": and(demo(), json!({"deny": ["fail", "no_such_tool"], "ask": ["add"]})),
            "odd": fixture_with("names", &["b__c", HOSTILE]),
            "a_b": and(fixture_with("names", &["c"]), json!({"requires": ["office"]})),
        },
        "rules": [
            {"name": "tainted", "tools": ["demo.picture"], "when": "\"untrusted\" in labels", "then": "deny"},
            {"name": "short", "tools": ["demo.echo"], "when": "size(args.text) > 9", "then": "deny"},
            {"name": "bob's", "tools": ["odd.*"], "when": "principal.name == \"bob\"", "then": "ask"},
        ],
        "gateway": {"tokens": [
            {"principal": "ops", "token": OPS, "admin": true},
            {"principal": "ann", "token": ANN, "servers": {"demo": ["echo", "add", "picture"]}},
            {"principal": "bob", "token": "bob-0123456789-token", "capabilities": ["server:odd", "tool:demo/echo"]},
            {"principal": "cat", "token": "cat-0123456789-token", "capabilities": ["mcp_a_b", "mcp_a_b_c", "office"]},
            {"principal": "dan", "token": "dan-0123456789-token", "servers": ["odd"]},
        ]},
    })
}

fn place() -> Place {
    Place::configured(&config()).set("KEY", SECRET)
}

fn ask(address: &str, token: Option<&str>, line: &str, body: &str) -> Reply {
    Web { address, token, session: None }.request(line, "localhost", &[], body)
}

fn json_of(reply: &Reply) -> Value {
    serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"))
}

fn get(address: &str, token: &str, path: &str) -> Value {
    let reply = ask(address, Some(token), &format!("GET /api/v1/{path}"), "");
    assert_eq!(reply.status, 200, "{path}: {reply:?}");
    json_of(&reply)
}

/// A gateway whose servers have listed their tools, and its address.
fn serving(place: &Place, arguments: &[&str]) -> (Serving, String) {
    let serving = Serving::start(place, &[&["--http", "127.0.0.1:0"], arguments].concat());
    let address = serving.address();
    assert_eq!(get(&address, OPS, "mcp/tools")["failed"], json!([]));
    (serving, address)
}

/// The rights of an answer, by principal, server and tool: the verdict and the rule.
fn rights(answer: &Value) -> BTreeMap<[String; 3], [String; 2]> {
    let list = |name: &str| answer[name].as_array().unwrap_or_else(|| panic!("{answer}"));
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    let place = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let mut found = BTreeMap::new();
    for tool in list("tools") {
        let group = list("groups")[place(&tool["group"])].as_array().unwrap();
        for (principal, cell) in list("principals").iter().zip(group) {
            let key = [text(principal), text(&tool["server"]), text(&tool["tool"])];
            let cell = &list("cells")[place(cell)];
            found.insert(key, [text(&cell["verdict"]), text(&cell["rule"])]);
        }
    }
    found
}

fn verdicts(answer: &Value) -> BTreeMap<[String; 3], String> {
    rights(answer).into_iter().map(|(key, [verdict, _])| (key, verdict)).collect()
}

/// The rights that `toolgate access --json` prints, with rules in the words of the matrix.
fn printed(place: &Place, arguments: &[&str]) -> BTreeMap<[String; 3], [String; 2]> {
    let answer = place.run(&[&["access", "--json"], arguments].concat()).ends(0).json();
    let row = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        let (server, tool) = (text("server"), text("tool"));
        let rule = text("rule").replace(&format!("tool {tool:?}"), "this tool");
        let rule = rule.replace(&format!("tool:{server}/{tool}\""), &format!("tool:{server}/…\""));
        ([text("principal"), server, tool], [text("verdict"), rule])
    };
    answer["access"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn the_matrix_is_what_the_command_prints_and_others_see_their_own_rights() {
    let place = place();
    let (_serving, address) = serving(&place, &[]);
    for (query, arguments) in [("access", &[][..]), ("access?labels=untrusted", &["--context", "labels=untrusted"])] {
        let answer = get(&address, OPS, query);
        assert_eq!(rights(&answer), printed(&place, arguments), "{query}");
        assert_eq!(answer, get(&address, OPS, query), "it is kept");
    }
    let all = get(&address, OPS, "access");
    assert!(all["cells"].to_string().contains("needs approval: matches `ask: add`"), "{all}");
    let own = verdicts(&get(&address, ANN, "access"));
    let mut expected = verdicts(&all);
    expected.retain(|[principal, ..], verdict| principal == "ann" && verdict != "deny");
    assert_eq!((own.len(), &own), (3, &expected));
    let own = get(&address, ANN, "access").to_string();
    for hidden in ["bob", "odd", "a_b", "args.text", "unlisted"] {
        assert!(!own.contains(hidden), "{hidden} in {own}");
    }
    assert_eq!(verdicts(&get(&address, ANN, "access?principal=bob")).len(), 0);
    let narrow = verdicts(&get(&address, OPS, "access?principal=bob&server=odd"));
    assert_eq!(
        narrow.keys().map(|[principal, server, _]| [principal, server]).next(),
        Some(["bob", "odd"].map(str::to_owned).each_ref())
    );
    assert_eq!(narrow.len(), 2);
    for (token, line, status) in [
        (None, "GET /api/v1/access", 401),
        (Some(OPS), "GET /api/v1/access?labels=a&labels=b", 400),
        (Some(OPS), "GET /api/v1/access?tool=a", 400),
        (Some(OPS), "POST /api/v1/access", 405),
    ] {
        assert_eq!(ask(&address, token, line, "").status, status, "{line}");
    }
    let many = format!("GET /api/v1/access?labels={}", "a,".repeat(30));
    assert_eq!(ask(&address, Some(OPS), &many, "").status, 400);
}

#[test]
fn the_matrix_follows_the_configuration() {
    let place = place();
    let (serving, address) = serving(&place, &[]);
    let echo = |name: &str| [name, "demo", "echo"].map(str::to_owned);
    assert_eq!(verdicts(&get(&address, OPS, "access"))[&echo("dan")], "deny");
    let mut other = config();
    other["gateway"]["tokens"][4]["servers"] = json!(["demo"]);
    other["rules"] = json!([]);
    std::fs::write(place.path("home/servers.yaml"), other.to_string()).unwrap();
    serving.signal(rustix::process::Signal::HUP);
    serving.logged(&["reloaded"]);
    assert_eq!(verdicts(&get(&address, OPS, "access"))[&echo("dan")], "allow");
    let listed = get(&address, OPS, "rules").to_string();
    assert!(!listed.contains("tainted"), "{listed}");
}

#[test]
fn a_rule_is_counted_when_it_matches_and_one_that_cannot_match_has_its_warning() {
    let place = place();
    let (_serving, address) = serving(&place, &[]);
    let mut ann = Web { address: &address, token: Some(ANN), session: None };
    assert_eq!(ann.greet().status, 200);
    for (tool, text) in
        [("demo__echo", "much too long"), ("demo__echo", "short"), ("demo__add", ""), ("demo__fail", "")]
    {
        let params = json!({"name": tool, "arguments": {"text": text, "a": 1, "b": 2, "message": "x"}});
        ann.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    }
    let answer = get(&address, OPS, "rules");
    let rule = |text: &str| {
        let mut found =
            answer["rules"].as_array().unwrap().iter().filter(|rule| rule["text"].as_str().unwrap().starts_with(text));
        found.next().unwrap_or_else(|| panic!("{text} in {answer}")).clone()
    };
    for (text, matched) in
        [("rule \"short\"", 1), ("ask: add", 1), ("rule \"tainted\"", 0), ("deny: fail", 0), ("servers: {demo", 1)]
    {
        let rule = rule(text);
        assert_eq!(rule["matched"], matched, "{rule}");
        assert_eq!(rule["last"].is_null(), matched == 0, "{rule}");
        assert_eq!(rule["warnings"], json!([]), "{rule}");
        let place = rule["place"].as_str().unwrap();
        assert!(place.contains("servers.yaml:1:"), "{place}");
    }
    let warned = rule("deny: no_such_tool")["warnings"].to_string();
    assert!(warned.contains("matches none of its 6 tools"), "{warned}");
    for (token, status) in [(None, 401), (Some(ANN), 403)] {
        assert_eq!(ask(&address, token, "GET /api/v1/rules", "").status, status);
    }
}

#[test]
fn a_candidate_is_compared_and_replayed_and_changes_nothing() {
    let place = place();
    let records = place.path("records");
    let (_serving, address) = serving(&place, &["--record", records.to_str().unwrap()]);
    let mut ann = Web { address: &address, token: Some(ANN), session: None };
    assert_eq!(ann.greet().status, 200);
    let call = |tool: &str| {
        let params = json!({"name": tool, "arguments": {"text": "hi", "a": 1, "b": 2}});
        ann.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    };
    assert!(call("demo__echo").body.contains("hi"));
    assert!(call("demo__picture").body.contains("image"));
    crate::serving::appears(&records);
    let mut next = config();
    next["servers"]["demo"]["deny"] = json!(["fail", "echo"]);
    next["gateway"]["tokens"][4]["admin"] = json!(true);
    let candidate = |body: &Value| ask(&address, Some(OPS), "POST /api/v1/candidate", &body.to_string());
    // A call is recorded a little later than it is answered.
    let answer = loop {
        let answer = json_of(&candidate(&json!({"text": next.to_string(), "name": "next.yaml"})));
        if answer["calls"]["compared"] == 2 {
            break answer;
        }
        assert!(answer["calls_problem"].is_null(), "{answer}");
        std::thread::yield_now();
    };
    let change = |principal: &str, tool: &str| {
        let changes = answer["access"]["changes"].as_array().unwrap();
        changes.iter().find(|change| change["principal"] == principal && change["tool"] == tool).cloned()
    };
    let echo = change("ann", "echo").unwrap();
    assert_eq!(
        (&echo["change"], &echo["after"]["rule"], &echo["recent_calls"]),
        (&json!("taken"), &json!("denied by `deny: echo`"), &json!(1))
    );
    assert_eq!(change("dan", "(admin)").unwrap()["change"], "granted");
    assert_eq!(change("ann", "add"), None);
    let [group] = &answer["calls"]["groups"].as_array().unwrap()[..] else { panic!("{answer}") };
    assert_eq!(
        (&group["change"], &group["tool"], &group["principal"]),
        (&json!("denied"), &json!("demo.echo"), &json!("ann"))
    );
    assert_eq!((&answer["calls"]["same"], &answer["calls"]["cut"]), (&json!(1), &json!(false)));
    let of_picture = json!({"text": next.to_string(), "calls": {"tool": "picture", "principal": "ann"}});
    assert_eq!(json_of(&candidate(&of_picture))["calls"]["compared"], 1);
    assert!(call("demo__echo").body.contains("hi"), "nothing has changed");
}

#[test]
fn a_candidate_reads_nothing_of_this_machine_and_only_admins_may_send_one() {
    let place = place().set("TOOL", "echo");
    let (_serving, address) = serving(&place, &[]);
    let sent = |token, body: &str| ask(&address, token, "POST /api/v1/candidate", body);
    let (trap, file) = (place.path("trap"), place.file("secret", SECRET));
    let text = format!(
        "version: 1\nallow_commands: true\nservers:\n  demo: {{command: 'touch', args: ['{0}'], env: {{A: '${{cmd:touch {0}}}', \
         B: '${{KEY}}', C: '${{file:{1}}}'}}, env_file: '{1}', deny: ['${{TOOL}}', '${{file:{1}}}']}}\n  new: {{command: touch, args: ['{0}']}}\n\
         rules: [{{name: r, tools: ['demo.*'], when: '${{KEY}}' , then: deny}}]\n",
        trap.display(),
        file.display()
    );
    let without_rule = text.split("rules:").next().unwrap();
    let reply = sent(Some(OPS), &json!({"text": without_rule, "name": "../../etc/passwd"}).to_string());
    let answer = json_of(&reply);
    let unusable = answer["unusable_servers"][0]["reason"].as_str().unwrap();
    assert!(unusable.contains("servers.demo.deny[0]: \"${TOOL}\" is not a valid glob"), "as it is written: {unusable}");
    assert_eq!((reply.status, &answer["unlisted"]), (200, &json!(["new"])), "{reply:?}");
    assert!(answer["calls"].is_null() && answer["calls_problem"].as_str().unwrap().contains("no records"), "{answer}");
    assert!(!reply.body.contains(SECRET) && !reply.body.contains("passwd") && !trap.exists(), "{reply:?}");
    let refused = sent(Some(OPS), &json!({"text": text, "name": "x.yaml"}).to_string());
    assert!(refused.status == 400 && refused.body.contains("x.yaml:") && !refused.body.contains(SECRET), "{refused:?}");
    let fine = json!({"text": config().to_string()}).to_string();
    for (token, body, status) in [
        (None, &fine[..], 401),
        (Some(ANN), &fine, 403),
        (Some(OPS), "{", 400),
        (Some(OPS), r#"{"text": "servers: ["}"#, 400),
        (Some(OPS), r#"{"text": "servers: {}", "calls": {"colour": "red"}}"#, 400),
        (Some(OPS), r#"{"text": "servers: {}", "file": "/etc/passwd"}"#, 400),
        (Some(OPS), &format!(r#"{{"text": "{}"}}"#, "x".repeat(1 << 20)), 413),
    ] {
        let reply = sent(token, body);
        assert_eq!(reply.status, status, "{reply:?}");
    }
    assert_eq!(sent(Some(OPS), &fine).status, 200);
    assert_eq!(json_of(&sent(Some(OPS), &fine))["access"]["changes"], json!([]));
    assert!(!trap.exists());
}
