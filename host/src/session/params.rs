//! Adds members to the `params` of a request, without parsing them where possible.

use serde_json::value::RawValue;

use crate::json::{JsonObject, META};
use crate::transport::RequestId;

/// Adds members to the `_meta` of params; `meta` is empty or a list of members without braces.
pub(super) fn with_meta(params: &str, meta: &str, progress: Option<RequestId>) -> String {
    let token = progress.map(|id| format!(r#""progressToken":{id}"#)).unwrap_or_default();
    let comma = if token.is_empty() || meta.is_empty() { "" } else { "," };
    let members = format!("{token}{comma}{meta}");
    if members.is_empty() {
        return params.to_owned();
    }
    if !META.is_in(params)
        && let Some(body) = params.trim_end().strip_suffix('}')
    {
        let comma = if body.trim_end().ends_with('{') { "" } else { "," };
        return format!(r#"{body}{comma}"_meta":{{{members}}}}}"#);
    }
    // The caller's `_meta` stays, except for members that only the session may set.
    let mut object = JsonObject::read(params).unwrap_or_default();
    let theirs = object.remove("_meta");
    let mut merged = theirs.and_then(|theirs| JsonObject::read(theirs.get())).unwrap_or_default();
    merged.extend(&JsonObject::read(&format!("{{{members}}}")).expect("the session writes JSON"));
    object.set("_meta", &merged);
    object.to_text()
}

/// Adds members to params, and replaces existing ones.
pub(super) fn with_members(params: &str, more: &[(&str, &RawValue)]) -> String {
    let mut object = JsonObject::read(params).unwrap_or_default();
    for (name, value) in more {
        object.set(name, value);
    }
    object.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_added_and_nothing_else_is_touched() {
        let rows = [
            ("{}", "", None, "{}"),
            ("{}", r#""v":1"#, None, r#"{"_meta":{"v":1}}"#),
            (r#"{"a": 1.10 } "#, "", Some(7), r#"{"a": 1.10 ,"_meta":{"progressToken":7}}"#),
            (r#"{"a":"_meta"}"#, r#""v":1"#, Some(7), r#"{"a":"_meta","_meta":{"progressToken":7,"v":1}}"#),
            (
                r#"{"_meta":{"x":12345678901234567890123,"v":0},"b":2}"#,
                r#""v":1"#,
                None,
                r#"{"b":2,"_meta":{"x":12345678901234567890123,"v":1}}"#,
            ),
            (r#"{"_meta":null}"#, r#""v":1"#, None, r#"{"_meta":{"v":1}}"#),
        ];
        for (params, meta, progress, expected) in rows {
            assert_eq!(with_meta(params, meta, progress), expected);
        }
    }

    #[test]
    fn members_are_added_or_replaced() {
        let value = RawValue::from_string("[1]".to_owned()).unwrap();
        assert_eq!(with_members(r#"{"b":1,"a":2}"#, &[("b", &value)]), r#"{"b":[1],"a":2}"#);
    }
}
