//! Random requests for `eval`, made from a seed: every operation, every stage, every state and every ending.

use serde_json::{Value, json};

use crate::rng::Rng;

const WORDS: [&str; 16] = [
    "default",
    "kube-system",
    "nginx",
    "true",
    "None",
    "007",
    "1.10",
    "-5",
    "12345678901234567890",
    "3e2",
    "it's",
    "café",
    "a b",
    "x=y",
    "http://x:80/",
    "up{a=\"b\",c=\"d\"}",
];
const KEYS: [&str; 8] = ["namespace", "limit", "labels", "query", "url", "verbose", "tags", "options"];
const SERVERS: [&str; 6] = ["a", "a_b", "a__b", "k8s-prod", "mcp", "github"];
const TOOLS: [&str; 8] = ["x", "get_pods", "b_c", "b__c", "t.u", "delete-all", "Alpha", "c"];

fn word(rng: &mut Rng) -> String {
    (*rng.pick(&WORDS)).to_owned()
}

fn key(rng: &mut Rng) -> String {
    (*rng.pick(&KEYS)).to_owned()
}

/// Returns text that a person could write, with anything in it.
fn prose(rng: &mut Rng) -> String {
    let pieces = [
        "get all pods",
        "please",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        ":",
        "=",
        ",",
        "\n",
        "  ",
        "- ",
        "#",
        "```",
        "\\",
        "\u{0}",
        "é",
        "😀",
        "&a",
        "*a",
        "|",
        ">",
        "%",
        "\t",
        "// x",
        "password: hunter2hunter2",
        "null",
        "1e5",
    ];
    (0..rng.below(12)).map(|_| *rng.pick(&pieces)).collect::<Vec<_>>().join(if rng.one_in(2) { " " } else { "" })
}

fn value(rng: &mut Rng, depth: usize) -> Value {
    match rng.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => json!(rng.one_in(2)),
        2 => json!(rng.draw() as i64),
        3 => json!(rng.below(1000) as f64 / 8.0),
        4 => json!(word(rng)),
        5 => (0..rng.below(4)).map(|_| value(rng, depth - 1)).collect(),
        _ => (0..rng.below(4)).map(|_| (key(rng), value(rng, depth - 1))).collect::<serde_json::Map<_, _>>().into(),
    }
}

fn object(rng: &mut Rng) -> Value {
    (0..rng.below(5)).map(|_| (key(rng), value(rng, 2))).collect::<serde_json::Map<_, _>>().into()
}

fn schema(rng: &mut Rng, depth: usize) -> Value {
    match rng.below(if depth == 0 { 5 } else { 9 }) {
        0 => json!({"type": "string"}),
        1 => json!({"type": "integer", "minimum": 0}),
        2 => json!({"type": ["number", "null"]}),
        3 => json!({"type": "boolean"}),
        4 => json!({"enum": ["default", "nginx", 7]}),
        5 => json!({"type": "array", "items": schema(rng, depth - 1), "maxItems": 3}),
        6 => json!({"anyOf": [schema(rng, depth - 1), schema(rng, depth - 1)]}),
        7 => json!({"$ref": "#/$defs/d"}),
        _ => object_schema(rng, depth - 1),
    }
}

fn object_schema(rng: &mut Rng, depth: usize) -> Value {
    let keys = rng.some(&KEYS);
    let properties: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).to_owned(), schema(rng, depth))).collect();
    json!({
        "type": "object", "properties": properties, "required": rng.some(&keys),
        "additionalProperties": !rng.one_in(4), "$defs": {"d": {"type": "string", "maxLength": 5}},
    })
}

/// Returns arguments that are likely to be read in the given stage.
fn arguments_text(rng: &mut Rng, stage: usize) -> String {
    let pairs = |rng: &mut Rng| {
        let separator = *rng.pick(&[", ", "\n", ",", ",\n"]);
        let pair = |rng: &mut Rng| format!("{}{}{}", key(rng), rng.pick(&[": ", "=", ":"]), word(rng));
        (0..1 + rng.below(4)).map(|_| pair(rng)).collect::<Vec<_>>().join(separator)
    };
    match stage {
        0 => " ".repeat(rng.below(4)) + if rng.one_in(2) { "\n" } else { "" },
        1 => object(rng).to_string(),
        2 => match value(rng, 2) {
            Value::Object(_) => "[1]".to_owned(),
            other => other.to_string(),
        },
        3 => match rng.below(6) {
            0 => format!("```json\n{}\n```", object(rng)),
            1 => format!("{{{}: {}, }}", key(rng), json!(word(rng))),
            2 => format!("{{'{}': True, 'b': None}}", key(rng)),
            3 => format!("[{}, // note\n]", value(rng, 1)),
            4 => object(rng).to_string().replace('"', "'"),
            _ => {
                let text = object(rng).to_string();
                let cut = (0..=rng.below(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
                text[..cut].to_owned()
            }
        },
        4 => format!("{}:\n  - {}\n  - {}\n{}: {}", key(rng), word(rng), word(rng), key(rng), word(rng)),
        5 => pairs(rng),
        _ => prose(rng),
    }
}

/// Returns a request about arguments.
pub fn arguments(rng: &mut Rng) -> Value {
    let stage = rng.below(7);
    let text = arguments_text(rng, stage);
    match rng.one_in(2) {
        true => json!({"op": "arguments", "text": text}),
        false => json!({"op": "arguments", "text": text, "schema": object_schema(rng, 2)}),
    }
}

fn failure(rng: &mut Rng) -> Value {
    match rng.below(14) {
        0 => json!({"kind": "cancelled"}),
        1 => json!({"kind": "timeout"}),
        2 => json!({"kind": "connect", "detail": "refused"}),
        3 => json!({"kind": "closed"}),
        4 => json!({"kind": "exited", "code": rng.below(3)}),
        5 => json!({"kind": "rpc", "code": -32602, "message": word(rng)}),
        6 => json!({"kind": "protocol", "detail": "garbage"}),
        7 => json!({"kind": "queue-full"}),
        8 => json!({"kind": "needs-auth", "detail": "log in"}),
        9 => json!({"kind": "restart-in-progress"}),
        10 => json!({"kind": "restart-failed", "detail": "no"}),
        11 => json!({"kind": "rules-unavailable", "detail": "no store"}),
        _ => {
            let status = *rng.pick(&[200, 400, 401, 403, 404, 418, 429, 500, 502, 503, 504]);
            let after = rng.one_in(2).then(|| rng.below(5000));
            json!({"kind": "http", "status": status, "session": rng.one_in(2), "challenge": rng.one_in(2), "retry_after_ms": after})
        }
    }
}

/// Returns a request about recovery.
pub fn classify(rng: &mut Rng) -> Value {
    let failure = match rng.one_in(3) {
        true => json!({"kind": "http", "status": rng.pick(&[401, 403, 429]), "challenge": rng.one_in(2)}),
        false => failure(rng),
    };
    json!({
        "op": "classify", "failure": failure, "phase": rng.pick(&["sent", "not-sent"]), "attempt": 1 + rng.below(3),
        "tool": {"read_only": rng.one_in(3), "idempotent": rng.one_in(3)}, "retry": rng.pick(&["safe", "always", "never"]),
    })
}

/// The states of a lifecycle, with events that lead to each from the start.
pub const PATHS: [(&str, &[&str]); 8] = [
    ("dormant", &[]),
    ("disabled", &["disabled"]),
    ("connecting", &["wanted"]),
    ("ready", &["wanted", "connected"]),
    ("degraded", &["wanted", "connected", "call-timed-out"]),
    ("restarting", &["wanted", "connected", "exited"]),
    ("failed", &["wanted", "connected", "exited", "failed"]),
    ("needs-auth", &["wanted", "unauthorized"]),
];

/// The events of a lifecycle.
pub const EVENTS: [&str; 12] = [
    "enabled",
    "disabled",
    "wanted",
    "released",
    "connected",
    "failed",
    "exited",
    "probe-ok",
    "probe-failed",
    "call-timed-out",
    "authenticated",
    "tick",
];

/// Returns a request about a lifecycle: events to a state, then one event, then any events.
pub fn lifecycle(rng: &mut Rng, path: &[&str], event: &str) -> Value {
    let mut now = 0;
    let mut timed = |rng: &mut Rng, event: &str, jumps: &[u64]| {
        now += *rng.pick(jumps);
        let shape = match event {
            "unauthorized" => json!({"failed": {"kind": "http", "status": 401}}),
            "failed" if jumps.len() > 2 && rng.one_in(2) => json!({"failed": failure(rng)}),
            word => json!(word),
        };
        json!({"at_ms": now, "event": shape})
    };
    // Little time passes on the way to the state; after that, anything may happen.
    let mut events: Vec<Value> = path.iter().map(|event| timed(rng, event, &[0, 1])).collect();
    let jumps = [0, 1, 999, 1000, 15_000, 60_000, 300_000];
    events.push(timed(rng, event, &jumps));
    for _ in 0..rng.below(6) {
        let event = *rng.pick(&EVENTS);
        events.push(timed(rng, event, &jumps));
    }
    json!({"op": "lifecycle", "events": events})
}

fn servers(rng: &mut Rng) -> Value {
    let mut servers = serde_json::Map::new();
    for id in rng.some(&SERVERS) {
        let tools: Vec<Value> = rng.some(&TOOLS).into_iter().map(|name| tool(rng, name)).collect();
        let mut server = json!({"tools": tools});
        if rng.one_in(3) {
            server["allow"] = json!(rng.some(&["*", "get_*", "x", "ALPHA", " "]));
        }
        if rng.one_in(4) {
            server["deny"] = json!(rng.some(&["delete*", "c", "any"]));
        }
        if rng.one_in(6) {
            server["ask"] = json!(["x", "b*"]);
        }
        if rng.one_in(8) {
            server["requires"] = json!(["admin"]);
        }
        servers.insert(id.to_owned(), server);
    }
    servers.into()
}

fn tool(rng: &mut Rng, name: &str) -> Value {
    match rng.below(4) {
        0 => json!(name),
        1 => json!({"name": name, "schema": object_schema(rng, 1)}),
        _ => {
            json!({"name": name, "annotations": {"read_only": rng.one_in(2), "destructive": rng.one_in(2), "idempotent": rng.one_in(3)}})
        }
    }
}

fn name(rng: &mut Rng) -> String {
    let (server, tool) = (*rng.pick(&SERVERS), *rng.pick(&TOOLS));
    match rng.below(8) {
        0 | 1 => format!("{server}.{tool}"),
        2 | 3 => format!("{server}__{tool}"),
        4 => format!("mcp__{server}__{tool}"),
        5 => format!("mcp_{server}_{tool}"),
        6 => tool.to_owned(),
        _ => prose(rng),
    }
}

/// Returns a request about routing, with every kind of rule.
pub fn resolve(rng: &mut Rng) -> Value {
    let stage = rng.below(7);
    let mut question = json!({
        "op": "resolve", "servers": servers(rng), "call": {"name": name(rng), "arguments": arguments_text(rng, stage)},
        "read_only": rng.one_in(6), "destructive": rng.pick(&["allow", "ask", "deny"]),
    });
    if rng.one_in(4) {
        let grants = ["mcp_integration", "mcp_a", "mcp_a_b", "server:github", "tool:a/x", "admin", "mcp_a_b_c"];
        question["capabilities"] = json!(rng.some(&grants));
    }
    if rng.one_in(5) {
        let selected: Vec<Value> =
            rng.some(&SERVERS).iter().map(|id| json!({"name": id, "tools": ["x", "get_*"]})).collect();
        question["selection"] = json!({"servers": selected});
    }
    question
}

fn answer(rng: &mut Rng) -> Value {
    let block = |rng: &mut Rng| match rng.below(5) {
        0 => json!({"type": "image", "mimeType": "image/png", "data": "AAAA"}),
        1 => json!({"type": "resource_link", "uri": "file:///x", "name": "x"}),
        _ => json!({"type": "text", "text": format!("{}\n{}", prose(rng), mask_text(rng))}),
    };
    let blocks: Vec<Value> = (0..rng.below(4)).map(|_| block(rng)).collect();
    let mut answer = json!({"content": blocks, "isError": rng.one_in(4)});
    if rng.one_in(3) {
        answer["structuredContent"] = object(rng);
    }
    answer
}

/// Returns what happens to a text that is too long, whether or not there is one.
fn condensed(rng: &mut Rng) -> Value {
    let kept = rng.one_in(2).then_some("/tmp/kept.txt");
    let summary = rng.one_in(2).then(|| prose(rng) + &mask_text(rng));
    json!({"condensed": {"kept": kept, "summary": summary}})
}

/// The number of endings that a call can be led to on purpose.
pub const ENDINGS: usize = 21;

/// Returns a request for a whole call; `ending` chooses where its events lead.
pub fn execute(rng: &mut Rng, ending: usize) -> Value {
    let failed = |kind: &str, phase: &str| json!([{"failed": {"kind": kind, "phase": phase}}]);
    let mut question = json!({
        "op": "execute",
        "servers": {"a": {"tools": [
            {"name": "get", "annotations": {"read_only": true}, "schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}},
            {"name": "set", "annotations": {"read_only": false}},
            {"name": "drop", "annotations": {"destructive": true}},
        ], "deny": ["drop"], "ask": ["ask*"]}},
        "settings": {
            "retry": rng.pick(&["safe", "always", "never"]),
            "max_result_bytes": rng.pick(&[0, 20, 1000]),
            "form": rng.pick(&["text", "pass-through"]),
            "spill": rng.one_in(2),
            "summarize_above_tokens": rng.pick(&[None, Some(0), Some(5), Some(200)]),
        },
        "call": {"name": "a__set", "arguments": {"v": rng.below(10)}},
    });
    // Compiling masks takes longer than everything else, so do it rarely.
    if rng.one_in(16) {
        question["settings"]["masking"] = json!({"groups": rng.some(&["basic", "security", "kubernetes"])});
    }
    let name = |question: &mut Value, name: &str| question["call"]["name"] = json!(name);
    let events = match ending {
        0 => {
            let mut answer = answer(rng);
            answer["isError"] = json!(false);
            json!([{"answered": answer}, condensed(rng)])
        }
        1 => {
            let answer = json!({"content": [{"type": "text", "text": prose(rng)}], "isError": true});
            json!([{"answered": answer}, condensed(rng)])
        }
        2 => {
            name(&mut question, &format!("plain{}", rng.below(100)));
            json!([])
        }
        3 => {
            name(&mut question, &format!("zzz{}.x", rng.below(100)));
            json!([])
        }
        4 => {
            name(&mut question, &format!("a.zzz{}", rng.below(100)));
            json!([])
        }
        5 => {
            name(&mut question, "mcp__a__drop");
            json!([])
        }
        6 => {
            question["servers"]["a"]["ask"] = json!(["*"]);
            question["settings"]["ask_max_bytes"] = json!(rng.pick(&[None, Some(3)]));
            if rng.one_in(2) { json!([{"approved": false}]) } else { json!(["unasked"]) }
        }
        7 => {
            question["call"] = json!({"name": "a.get", "arguments": word(rng)});
            json!([])
        }
        8 => {
            json!([{"failed": {"kind": "connect", "detail": word(rng), "phase": "not-sent"}}, "waited", {"failed": {"kind": "connect"}}])
        }
        9 => failed("restart-in-progress", "not-sent"),
        10 => failed("restart-failed", "not-sent"),
        11 => {
            json!([{"failed": {"kind": "http", "status": 401, "phase": "not-sent"}}, {"failed": {"kind": "needs-auth"}}])
        }
        12 => json!([{"failed": {"kind": "rpc", "code": rng.below(100), "message": mask_text(rng)}}]),
        13 => failed("timeout", "not-sent"),
        14 => json!(["cancelled"]),
        15 => failed("queue-full", "not-sent"),
        16 => {
            json!([{"failed": {"kind": "closed"}}, "waited", "reconnected", {"failed": {"kind": "exited", "code": 1}}])
        }
        17 => {
            let settings = &mut question["settings"];
            settings["form"] = json!(if rng.one_in(4) { "pass-through" } else { "text" });
            settings["max_result_bytes"] = json!(20);
            settings["spill"] = json!(!rng.one_in(4));
            settings["summarize_above_tokens"] = json!(rng.pick(&[None, Some(0), Some(5), Some(10)]));
            let text = mask_text(rng) + "\n" + &"line\n".repeat(rng.below(20));
            json!([{"answered": {"content": [{"type": "text", "text": text}]}}, condensed(rng)])
        }
        18 => {
            let deep = "[".repeat(300) + &"]".repeat(300);
            let deep: &serde_json::value::RawValue = serde_json::from_str(&deep).expect("brackets are JSON");
            return raw_events(question, &format!(r#"[{{"answered":{{"content":[],"deep":{deep}}}}}]"#));
        }
        19 => {
            // A mask that replaces the syntax of JSON itself, so that the rest cannot be trusted.
            question["settings"]["masking"] = json!({"custom": [{"pattern": "[\\[\\]{}\":,]+", "replacement": "\""}]});
            json!([{"answered": answer(rng)}])
        }
        _ => {
            question["call"] = json!({"name": "a.get", "arguments": {"n": rng.below(10)}});
            json!([rng.pick(&["waited", "reconnected", "authenticated", "connected"])])
        }
    };
    question["events"] = events;
    question
}

/// Inserts very deep events as text, because serde_json limits the depth of its values.
fn raw_events(mut question: Value, events: &str) -> Value {
    question["events"] = json!("EVENTS");
    Value::String(question.to_string().replace("\"EVENTS\"", events))
}

/// Returns a request for a call with random events.
pub fn wander(rng: &mut Rng) -> Value {
    let ending = rng.below(ENDINGS - 3);
    let mut question = execute(rng, ending);
    let event = |rng: &mut Rng| match rng.below(10) {
        0 => json!("connected"),
        1 => json!("waited"),
        2 => json!("reconnected"),
        3 => json!("authenticated"),
        4 => json!({"approved": rng.one_in(2)}),
        5 => json!({"answered": answer(rng)}),
        6 => json!({"forwarded": {"is_error": rng.one_in(2)}}),
        7 => condensed(rng),
        _ => {
            let mut failure = failure(rng);
            failure["phase"] = json!(rng.pick(&["sent", "not-sent"]));
            json!({"failed": failure})
        }
    };
    question["events"] = (0..rng.below(6)).map(|_| event(rng)).collect();
    question
}

fn mask_text(rng: &mut Rng) -> String {
    let pieces = [
        "api_key: \"FAKE-API-KEY-NOT-REAL-XXXXXXXXXXXX\"",
        "password=hunter2hunter2",
        "contact: user@example.com",
        "--token FAKE-JWT-TOKEN-NOT-REAL-XXXXXXXXXXXXXXXX",
        "{\"password\": \"hunter2hunter2\", \"n\": 1}",
        "apiVersion: v1\nkind: Secret\ndata:\n  a: c2VjcmV0\n",
        "{\"kind\":\"Secret\",\"data\":{\"a\":\"c2VjcmV0\"}}",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAB user@host",
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "plain text",
        "\\\"password\\\": \\\"hunter2hunter2\\\"",
        "---\n",
    ];
    (0..1 + rng.below(3)).map(|_| *rng.pick(&pieces)).collect::<Vec<_>>().join("\n")
}

/// Returns a request about masks.
pub fn mask(rng: &mut Rng) -> Value {
    let groups = ["basic", "secrets", "security", "kubernetes", "cloud", "all"];
    json!({"op": "mask", "groups": rng.some(&groups), "text": mask_text(rng) + &prose(rng)})
}

/// Returns a request for one of the smaller operations.
pub fn small(rng: &mut Rng) -> Value {
    match rng.below(8) {
        0 => json!({"op": "normalize", "name": name(rng)}),
        1 => json!({"op": "split", "name": name(rng)}),
        2 => {
            json!({"op": "filter", "allow": rng.some(&["*", "get_*", "ALPHA", ""]), "deny": rng.some(&["c", "b*"]), "tools": TOOLS})
        }
        3 => json!({"op": "extract", "result": answer(rng)}),
        4 => json!({"op": "truncate", "text": prose(rng), "max_bytes": rng.below(40), "why": "test"}),
        5 => {
            let tools: Vec<Value> = (0..rng.below(6))
                .map(|_| json!({"server": rng.pick(&SERVERS), "tool": rng.pick(&TOOLS).repeat(1 + rng.below(30)), "schema": schema(rng, 3)}))
                .collect();
            let target = rng.pick(&["openai", "anthropic", "gemini", "cursor", "mcp"]);
            json!({"op": "fit", "target": target, "prefix": "p".repeat(rng.below(12)), "tools": tools})
        }
        6 => json!({"op": "backoff", "attempt": rng.below(12)}),
        _ => {
            json!({"op": "instructions", "servers": {"a": {"instructions": prose(rng), "tools": {"x": word(rng)}}}, "failed": {"b": prose(rng)}})
        }
    }
}

/// Formats the request as a line.
pub fn line(question: &Value) -> String {
    match question {
        Value::String(line) => line.clone(),
        question => question.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;

    #[test]
    fn texts_that_are_too_long_come_up_often_enough_to_be_compared() {
        let (mut logic, mut rng) = (Native::default(), Rng::new(4));
        let (mut kept, mut summarized) = (0, 0);
        for _ in 0..400 {
            let answer = toolgate::eval::answer(&mut logic, &line(&execute(&mut rng, 17)));
            kept += usize::from(answer.contains("\"spill\":true"));
            summarized += usize::from(answer.contains("\"summarize\":true"));
        }
        assert!(kept >= 200 && summarized >= 200, "{kept} kept, {summarized} summarized");
    }
}
