//! What `initialize` fixes for a session: all that another replica needs to know to go on with it.

use std::sync::Arc;

use super::choice::Choice;
use crate::json::JsonObject;

/// What `initialize` fixed for a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionTerms {
    /// The protocol version.
    pub version: String,
    /// The capabilities of the client that servers can use.
    pub capabilities: CapabilityFlags,
    /// The name of the client program.
    pub client_name: Option<Arc<str>>,
    /// The servers and tools that the client chose, of those that it may use.
    pub choice: Option<Choice>,
}

/// The client capabilities that servers behind the gateway can use, as flags: those that versions up to 2025-11-25 know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct CapabilityFlags(u8);

impl CapabilityFlags {
    /// Reads the known capabilities that a client declares.
    pub(super) fn read(declared: &JsonObject) -> Self {
        let is_declared = |(capability, part): &(&str, &str)| {
            let Some(value) = declared.get(capability) else { return false };
            let declared_part = || JsonObject::read(value.get())?.get(part).map(|value| value.get() != "false");
            part.is_empty() || declared_part().unwrap_or(false)
        };
        CapabilityFlags((0u8..).zip(KNOWN).filter(|(_, known)| is_declared(known)).map(|(at, _)| 1 << at).sum())
    }

    /// Writes the capabilities as JSON.
    pub(super) fn to_json(self) -> String {
        let mut capabilities = JsonObject::default();
        for (_, (capability, part)) in (0u8..).zip(KNOWN).filter(|(at, _)| self.0 & 1 << at != 0) {
            let mut parts = capabilities.get(capability).and_then(|known| JsonObject::read(known.get()));
            let parts = parts.get_or_insert_default();
            match part {
                "" => {}
                "listChanged" => parts.set(part, &true),
                _ => parts.set(part, &JsonObject::default()),
            }
            capabilities.set(capability, parts);
        }
        capabilities.to_text()
    }
}

/// The known capabilities and their parts; the order is part of sealed sessions.
const KNOWN: [(&str, &str); 8] = [
    ("roots", ""),
    ("roots", "listChanged"),
    ("sampling", ""),
    ("sampling", "context"),
    ("sampling", "tools"),
    ("elicitation", ""),
    ("elicitation", "form"),
    ("elicitation", "url"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_capabilities_survive_as_flags() {
        for (declared, expected) in [
            ("{}", "{}"),
            (r#"{"roots":{}}"#, r#"{"roots":{}}"#),
            (r#"{"roots":{"listChanged":true}}"#, r#"{"roots":{"listChanged":true}}"#),
            (r#"{"roots":{"listChanged":false}}"#, r#"{"roots":{}}"#),
            (r#"{"sampling":{"tools":{},"context":{"a":1}}}"#, r#"{"sampling":{"context":{},"tools":{}}}"#),
            (
                r#"{"elicitation":{"url":{},"form":{}},"experimental":{"x":{}},"sampling":null}"#,
                r#"{"sampling":{},"elicitation":{"form":{},"url":{}}}"#,
            ),
        ] {
            let flags = CapabilityFlags::read(&JsonObject::read(declared).unwrap());
            assert_eq!(flags.to_json(), expected, "{declared}");
            assert_eq!(CapabilityFlags::read(&JsonObject::read(expected).unwrap()), flags, "{declared}");
        }
    }
}
