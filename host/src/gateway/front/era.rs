//! Which era a request is of, and what that means for its answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Front, INVALID_PARAMS};
use crate::failure::RpcError;
use crate::gateway::client::McpHeaders;
use crate::json::{Object, raw};
pub use crate::session::Era;
use crate::session::{LEGACY_VERSIONS, MODERN_VERSION};

/// What a request says of its era.
pub(super) struct Context {
    pub(super) era: Era,
    /// What the client calls the progress of this request, as it wrote it.
    pub(super) progress: Option<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
struct Params {
    #[serde(rename = "_meta", default)]
    meta: Option<Meta>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

#[derive(Deserialize, Default)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", default)]
    version: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities", default)]
    capabilities: Option<Box<RawValue>>,
    #[serde(rename = "progressToken", default)]
    progress: Option<Box<RawValue>>,
}

impl Context {
    /// Reads what a request says; an error comes with the status that it has over HTTP.
    pub(super) fn read(
        front: &Front,
        method: &str,
        params: &str,
        headers: Option<&McpHeaders>,
    ) -> Result<Self, (RpcError, u16)> {
        let bad = |text: String| (RpcError::new(INVALID_PARAMS, text), 400);
        // Nearly all that a request carries is for its server alone.
        let read = if memchr::memmem::find(params.as_bytes(), b"\"_meta\"").is_some() {
            serde_json::from_str::<Params>(params)
                .map_err(|error| bad(format!("the params cannot be read: {error}")))?
        } else {
            Params::default()
        };
        let meta = read.meta.unwrap_or_default();
        let stateless = front.outlet.is_none();
        let Some(version) = meta.version else {
            if stateless || method == "server/discover" {
                return Err(bad("_meta lacks io.modelcontextprotocol/protocolVersion".to_owned()));
            }
            return Ok(Context { era: Era::Legacy, progress: meta.progress });
        };
        let version: String = serde_json::from_str(version.get()).unwrap_or_default();
        if version != MODERN_VERSION {
            let mut data = Object::default();
            data.set("supported", &[&[MODERN_VERSION][..], &LEGACY_VERSIONS].concat());
            data.set("requested", &version);
            let error = RpcError::new(UNSUPPORTED_VERSION, format!("version {version:?} of MCP is not spoken here"));
            return Err((RpcError { data: Some(raw(&data)), ..error }, 400));
        }
        if meta.capabilities.is_none() {
            return Err(bad("_meta lacks io.modelcontextprotocol/clientCapabilities".to_owned()));
        }
        if let Some(headers) = headers {
            let named = matches!(method, "tools/call" | "prompts/get" | "resources/read");
            let name = if method == "resources/read" { read.uri } else { read.name }.filter(|_| named);
            let pairs = [
                ("MCP-Protocol-Version", &headers.version, Some(version)),
                ("Mcp-Method", &headers.method, Some(method.to_owned())),
                ("Mcp-Name", &headers.name, name),
            ];
            for (header, given, wanted) in pairs {
                if wanted.is_some() && *given != wanted {
                    let text = format!("the header {header} does not say what the message says");
                    return Err((RpcError::new(HEADER_MISMATCH, text), 400));
                }
            }
        }
        Ok(Context { era: Era::Modern, progress: meta.progress })
    }

    /// A result of one server in the way of this era.
    pub(super) fn dress(&self, result: String) -> String {
        let marked = memchr::memmem::find(result.as_bytes(), b"\"resultType\"").is_some();
        match self.era {
            Era::Modern if !marked => insert(&result, r#""resultType":"complete""#),
            Era::Legacy if marked => without(result, &["resultType"]),
            _ => result,
        }
    }

    /// The same for what may be kept: it says for how long, and for whom.
    pub(super) fn dress_kept(&self, result: String, ttl_ms: u64, private: bool) -> String {
        match self.era {
            Era::Legacy => without(result, &["resultType", "ttlMs", "cacheScope"]),
            Era::Modern => {
                let scope = if private { "private" } else { "public" };
                let result = without(result, &["resultType", "ttlMs", "cacheScope"]);
                insert(&result, &format!(r#""resultType":"complete","ttlMs":{ttl_ms},"cacheScope":"{scope}""#))
            }
        }
    }
}

/// Puts members at the front of an object.
fn insert(object: &str, members: &str) -> String {
    let rest = object.trim_start().strip_prefix('{').unwrap_or("}").trim_start();
    let comma = if rest.starts_with('}') { "" } else { "," };
    format!("{{{members}{comma}{rest}")
}

/// Takes members out of an object; one that has none of them is passed as it is.
fn without(text: String, names: &[&str]) -> String {
    let may_have = |name: &&str| memchr::memmem::find(text.as_bytes(), name.as_bytes()).is_some();
    if !names.iter().any(may_have) {
        return text;
    }
    match Object::read(&text) {
        Some(mut object) => {
            names.iter().for_each(|name| drop(object.remove(name)));
            object.to_text()
        }
        None => text,
    }
}

const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_dressed_for_the_era_of_the_client() {
        let modern = Context { era: Era::Modern, progress: None };
        let legacy = Context { era: Era::Legacy, progress: None };
        let rows = [
            (r#"{"a":1}"#, r#"{"resultType":"complete","a":1}"#, r#"{"a":1}"#),
            ("{}", r#"{"resultType":"complete"}"#, "{}"),
            (r#"{"resultType":"complete","a":1.10}"#, r#"{"resultType":"complete","a":1.10}"#, r#"{"a":1.10}"#),
            (r#"{"resultType":"x","a":1}"#, r#"{"resultType":"x","a":1}"#, r#"{"a":1}"#),
        ];
        for (result, for_modern, for_legacy) in rows {
            assert_eq!(modern.dress(result.to_owned()), for_modern);
            assert_eq!(legacy.dress(result.to_owned()), for_legacy);
        }
        assert_eq!(
            modern.dress_kept(r#"{"ttlMs":5,"tools":[]}"#.to_owned(), 0, true),
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}"#
        );
        assert_eq!(legacy.dress_kept(r#"{"ttlMs":5,"tools":[]}"#.to_owned(), 0, true), r#"{"tools":[]}"#);
    }
}
