//! How a call was decided, for clients that ask for it. MCP has no field for it, so both the request and the result use
//! `_meta`.

use serde::Deserialize;
use serde_json::json;

use super::ClientSession;
use crate::failure::RpcError;
use crate::gate::CallOutcome;
use crate::json::{JsonObject, MemberFinder, Object, read_object, to_raw};

/// The member of `_meta` that asks how a call was decided, and that contains this in the result.
pub const KEY: &str = "toolgate/outcome";
static MARK: MemberFinder = MemberFinder::new(KEY);

/// Reports whether the parameters of a call ask for its outcome.
pub(super) fn is_wanted(params: &str) -> bool {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: Object<Meta>,
    }
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "toolgate/outcome")]
        wanted: bool,
    }
    MARK.is_in(params) && read_object::<Params>(params).is_ok_and(|params| params.meta.0.wanted)
}

/// Describes how a call was decided, without its content.
pub(super) fn describe(client: &ClientSession, called: &CallOutcome) -> JsonObject {
    let mut outcome = JsonObject::read(to_raw(&called.as_json()).get()).unwrap_or_default();
    // The result already contains these.
    outcome.remove("content");
    outcome.remove("structured");
    let text = outcome.to_text();
    JsonObject::read(&client.gateway.registry.secrets().redact(&text)).unwrap_or_default()
}

/// Adds the outcome to a result. An error becomes a result, because only that has `_meta`.
pub(super) fn attach(answer: Result<String, RpcError>, outcome: &JsonObject) -> String {
    let refused =
        |error: RpcError| json!({"content": [{"type": "text", "text": error.message}], "isError": true}).to_string();
    let mut object = JsonObject::read(&answer.unwrap_or_else(refused)).unwrap_or_default();
    let mut meta = object.get("_meta").and_then(|meta| JsonObject::read(meta.get())).unwrap_or_default();
    meta.set(KEY, outcome);
    object.set("_meta", &meta);
    object.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_it_gets_it() {
        for (params, expected) in [
            (r#"{"name":"a","_meta":{"toolgate/outcome":true}}"#, true),
            (r#"{"name":"a","_meta":{"toolgate/outcome":false}}"#, false),
            (r#"{"name":"toolgate/outcome","_meta":{}}"#, false),
            (r#"{"name":"a","arguments":{"_meta":{"toolgate/outcome":true}}}"#, false),
            (r#"{"name":"a"}"#, false),
        ] {
            assert_eq!(is_wanted(params), expected, "{params}");
        }
    }

    #[test]
    fn what_the_server_says_stays() {
        let outcome = JsonObject::read(r#"{"code":"ok"}"#).unwrap();
        let answer = r#"{"content":[],"_meta":{"a":1.10},"big":12345678901234567890}"#;
        assert_eq!(
            attach(Ok(answer.to_owned()), &outcome),
            r#"{"content":[],"_meta":{"a":1.10,"toolgate/outcome":{"code":"ok"}},"big":12345678901234567890}"#
        );
        let refused = attach(Err(RpcError::new(-1, "no")), &outcome);
        assert!(refused.contains(r#""text":"no""#) && refused.contains(r#""isError":true"#), "{refused}");
    }
}
