//! The HTTP headers of 2026-07-28, which tell intermediaries what a request is.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json::{self, JsonObject};
use crate::rpc::header::{METHOD, NAME, PARAM_PREFIX, decode, encode};

/// The arguments of tools that headers repeat (`x-mcp-header` in their schemas).
#[derive(Default)]
pub(crate) struct ToolHeaders(Mutex<HashMap<String, Vec<HeaderArgument>>>);

/// An argument that a header repeats.
struct HeaderArgument {
    /// The path of property names to it.
    path: Vec<String>,
    header: HeaderName,
}

impl ToolHeaders {
    /// Reads the marks of a tool's schema; an error says why the tool cannot be used.
    pub(crate) fn learn(&self, tool: &str, schema: Option<&RawValue>) -> Result<(), String> {
        let marked = schema.filter(|schema| json::SHOWN.is_in(schema.get()));
        let shown = match marked {
            Some(schema) => read_marks(&serde_json::from_str(schema.get()).map_err(|error| error.to_string())?)?,
            None => Vec::new(),
        };
        let mut tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_empty() {
            tools.remove(tool);
        } else {
            tools.insert(tool.to_owned(), shown);
        }
        Ok(())
    }

    /// Checks that the headers of a received request match its arguments; an error says what is wrong.
    pub(crate) fn check(&self, tool: &str, arguments: Option<&str>, given: &[(String, String)]) -> Result<(), String> {
        let tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shown) = tools.get(tool) else { return Ok(()) };
        for HeaderArgument { path, header } in shown {
            let given = given.iter().find(|(name, _)| name == header.as_str()).map(|(_, value)| decode(value));
            match (argument(arguments, path), given) {
                (None, None) => {}
                (Some(said), Some(Some(given))) if said == given => {}
                (Some(_), None) => return Err(format!("the header {header} is missing, but its argument is present")),
                (_, Some(None)) => return Err(format!("the header {header} is not valid base64 of UTF-8 text")),
                (_, Some(Some(_))) => return Err(format!("the header {header} does not match its argument")),
            }
        }
        Ok(())
    }

    fn add_headers(&self, tool: &str, arguments: Option<&str>, headers: &mut Vec<(HeaderName, HeaderValue)>) {
        let tools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(shown) = tools.get(tool) else { return };
        for HeaderArgument { path, header } in shown {
            if let Some(text) = argument(arguments, path) {
                headers.push((header.clone(), encode(&text)));
            }
        }
    }
}

/// Returns the text of an argument, if a header can hold it. Numbers keep the digits of the body.
fn argument(arguments: Option<&str>, path: &[String]) -> Option<String> {
    let mut value = arguments?.to_owned();
    for name in path {
        // Of duplicate names the last counts, as in most parsers.
        let members = JsonObject::read(&value)?;
        value = members.iter().filter(|(known, _)| known == name).last()?.1.get().to_owned();
    }
    match value.as_bytes().first()? {
        b'"' => json::decode_string(&value),
        b'{' | b'[' | b'n' => None,
        _ => Some(value),
    }
}

/// Adds the headers that describe a request or notification.
pub(super) fn describe(method: &str, params: &str, tools: &ToolHeaders, headers: &mut Vec<(HeaderName, HeaderValue)>) {
    #[derive(Deserialize, Default)]
    struct Params<'a> {
        name: Option<String>,
        uri: Option<String>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    headers.push((METHOD, encode(method)));
    if !super::is_work(method) {
        return;
    }
    let Params { name, uri, arguments } = serde_json::from_str(params).unwrap_or_default();
    if let Some(name) = name.as_deref().or(uri.as_deref()) {
        headers.push((NAME, encode(name)));
        if method == "tools/call" {
            tools.add_headers(name, arguments.map(RawValue::get), headers);
        }
    }
}

/// Collects the marks of a schema, or returns an error if one of them is invalid.
fn read_marks(schema: &Value) -> Result<Vec<HeaderArgument>, String> {
    let mut shown = Vec::new();
    collect(schema, Some(&mut Vec::new()), &mut shown)?;
    Ok(shown)
}

/// Walks a schema; `path` is `None` below anything but `properties`, where marks are not allowed.
fn collect(schema: &Value, path: Option<&mut Vec<String>>, shown: &mut Vec<HeaderArgument>) -> Result<(), String> {
    match schema {
        Value::Object(members) => {
            let mut path = path;
            if let Some(mark) = members.get(MARK) {
                let path = path.as_deref().filter(|path| !path.is_empty());
                let path = path.ok_or_else(|| format!("{MARK} is allowed only on plain properties"))?;
                shown.push(mark_of(members, mark, path, shown)?);
            }
            for (name, value) in members {
                match (name.as_str(), &mut path) {
                    ("default" | "const" | "enum" | "examples", _) => {}
                    ("properties", Some(path)) => {
                        for (property, schema) in value.as_object().into_iter().flatten() {
                            path.push(property.clone());
                            collect(schema, Some(path), shown)?;
                            path.pop();
                        }
                    }
                    // The keys of these maps are names, which may equal the mark; only their values are schemas.
                    ("properties" | "$defs" | "definitions" | "dependentSchemas" | "patternProperties", _) => {
                        for schema in value.as_object().into_iter().flat_map(|map| map.values()) {
                            collect(schema, None, shown)?;
                        }
                    }
                    _ => collect(value, None, shown)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter().try_for_each(|item| collect(item, None, shown)),
        _ => Ok(()),
    }
}

fn mark_of(
    schema: &serde_json::Map<String, Value>,
    mark: &Value,
    path: &[String],
    shown: &[HeaderArgument],
) -> Result<HeaderArgument, String> {
    let property = path.join(".");
    let name = mark.as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("{MARK} of {property:?} must be a non-empty string"))?;
    let header = HeaderName::from_bytes(format!("{PARAM_PREFIX}{name}").as_bytes())
        .map_err(|_| format!("{MARK} {name:?} of {property:?} is not a valid header name"))?;
    if shown.iter().any(|other| other.header == header) {
        return Err(format!("{MARK} {name:?} is used on two properties"));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(HeaderArgument { path: path.to_vec(), header }),
        _ => Err(format!("{MARK} of {property:?} needs the type string, integer or boolean")),
    }
}

const MARK: &str = "x-mcp-header";

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    fn described(tools: &ToolHeaders, method: &str, params: &str) -> Vec<String> {
        let mut headers = Vec::new();
        describe(method, params, tools, &mut headers);
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
    }

    #[test]
    fn headers_must_show_what_the_arguments_say() {
        let tools = ToolHeaders::default();
        let schema = r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"N"},"free":{"type":"string"}}}"#;
        tools.learn("t", Some(&raw(schema))).unwrap();
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], bool);
        let rows: [Row<'_>; 11] = [
            ("{}", &[], true),
            (r#"{"region":"eu"}"#, &[("mcp-param-region", "eu")], true),
            (r#"{"region":"eu","free":"x"}"#, &[("mcp-param-region", "eu"), ("mcp-param-other", "y")], true),
            (r#"{"region":"Hello","n":7}"#, &[("mcp-param-region", "=?base64?SGVsbG8=?="), ("mcp-param-n", "7")], true),
            (r#"{"region":"=?base64?SGVsbG8="}"#, &[("mcp-param-region", "=?base64?SGVsbG8=")], true),
            (r#"{"region":null}"#, &[], true),
            (r#"{"region":"eu"}"#, &[], false),
            (r#"{"region":"eu"}"#, &[("mcp-param-region", "us")], false),
            (r#"{"region":"Hello"}"#, &[("mcp-param-region", "=?base64?SGVsbG8?=")], false),
            (r#"{"region":"Hello"}"#, &[("mcp-param-region", "=?base64?SGVs!!!bG8=?=")], false),
            ("{}", &[("mcp-param-n", "7")], false),
        ];
        for (arguments, given, right) in rows {
            let given: Vec<_> = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            assert_eq!(tools.check("t", Some(arguments), &given).is_ok(), right, "{arguments} {given:?}");
            assert!(tools.check("another", Some(arguments), &given).is_ok());
        }
    }

    #[test]
    fn a_request_is_described_by_its_method_its_name_and_marked_arguments() {
        let tools = ToolHeaders::default();
        let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},"free":{"type":"string"}}}"#;
        tools.learn("t", Some(&raw(schema))).unwrap();
        let params = r#"{"name":"t","arguments":{"region":"eu","deep":{"n":42},"free":"x"}}"#;
        assert_eq!(
            described(&tools, "tools/call", params),
            ["mcp-method: tools/call", "mcp-name: t", "mcp-param-n: 42", "mcp-param-region: eu"]
        );
        assert_eq!(described(&tools, "tools/call", r#"{"name":"t","arguments":{"region":null}}"#).len(), 2);
        let nested = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let params = format!(
            r#"{{"name":"t","arguments":{{"free":{nested},"region":"a","region":"\u00e9u","deep":{{"n":12345678901234567890123}}}}}}"#
        );
        assert_eq!(
            described(&tools, "tools/call", &params)[2..],
            ["mcp-param-n: 12345678901234567890123", "mcp-param-region: =?base64?w6l1?="],
            "as the body has them, whatever stands beside them"
        );
        assert_eq!(
            described(&tools, "resources/read", r#"{"uri":"a:b"}"#),
            ["mcp-method: resources/read", "mcp-name: a:b"]
        );
        assert_eq!(described(&tools, "tools/list", "{}"), ["mcp-method: tools/list"]);
    }

    #[test]
    fn marks_that_cannot_be_kept_are_refused() {
        let rows = [
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":1}}}"#,
            r#"{"properties":{"a":{"type":"object","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
            r#"{"x-mcp-header":"A"}"#,
            r#"{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}"#,
            r#"{"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}"#,
        ];
        for schema in rows {
            assert!(ToolHeaders::default().learn("t", Some(&raw(schema))).is_err(), "{schema}");
        }
    }
}
