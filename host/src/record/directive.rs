//! The recorded form of a directive: complete, except that a tool's output is replaced by its digest.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::text::{JsonText, hex, sha256};
use crate::logic::types::execution::{Directive, Oversize, Question, Request, ToolResult};
use crate::logic::types::{ToolRef, WaitRange};
use crate::words::NamedCase;

/// The recorded form of a directive; directives are the same if their recorded forms are equal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedDirective {
    /// Connect these servers.
    Connect(Vec<String>),
    /// Send this request.
    Request(RecordedRequest),
    /// Open a new session with this server.
    Reconnect(String),
    /// Get a new authorization for this server.
    Reauthenticate(String),
    /// Wait for a time between these, in milliseconds.
    Wait {
        /// The shortest wait.
        min_ms: u64,
        /// The longest wait.
        max_ms: u64,
    },
    /// Ask a person for approval.
    Ask(RecordedQuestion),
    /// Keep or summarize a long text.
    Condense(RecordedLongText),
    /// The call ends with this result.
    Done(Box<RecordedResult>),
}

/// The recorded form of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The server of the tool.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: JsonText,
    /// A result with at most this many bytes of text may be passed through unread.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub forward_up_to: Option<u64>,
}

/// The recorded form of a question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedQuestion {
    /// The server of the tool.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: JsonText,
    /// The rule that asks.
    pub reason: String,
}

/// The recorded form of a text that is too long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedLongText {
    /// The server of the tool.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// The length and digest of the text.
    pub text: ContentDigest,
    /// Whether the text is kept in a file.
    pub spill: bool,
    /// Whether the text is summarized.
    pub summarize: bool,
}

/// The recorded form of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedResult {
    /// The code of the result.
    pub code: String,
    /// The server of the tool, if a tool was found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<String>,
    /// The tool, if one was found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The text for the model, if toolgate wrote it and not a tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<String>,
    /// The length and digest of the tool's output: text, content blocks and structured content.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub content: Option<ContentDigest>,
    /// How often the request was sent.
    pub attempts: u32,
    /// Whether the text was cut or summarized.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub truncated: bool,
    /// The trace of the decision.
    pub trace: Vec<String>,
}

/// The length of a content, and its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContentDigest {
    /// The length in bytes.
    pub bytes: u64,
    /// The SHA-256, in hexadecimal.
    pub sha256: String,
}

impl ContentDigest {
    /// Computes the length and digest of a text.
    pub fn of(text: &str) -> Self {
        ContentDigest { bytes: text.len() as u64, sha256: sha256(text.as_bytes()) }
    }
}

impl From<Directive> for RecordedDirective {
    fn from(directive: Directive) -> Self {
        match directive {
            Directive::Connect(servers) => RecordedDirective::Connect(servers),
            Directive::Request(Request { tool: ToolRef { server, tool }, arguments, forward }) => {
                let forward_up_to = forward.map(|forward| forward.up_to);
                RecordedDirective::Request(RecordedRequest {
                    server,
                    tool,
                    arguments: JsonText(arguments),
                    forward_up_to,
                })
            }
            Directive::Reconnect(server) => RecordedDirective::Reconnect(server),
            Directive::Reauthenticate(server) => RecordedDirective::Reauthenticate(server),
            Directive::Wait(WaitRange { min_ms, max_ms }) => RecordedDirective::Wait { min_ms, max_ms },
            Directive::Ask(Question { tool: ToolRef { server, tool }, arguments, reason }) => {
                RecordedDirective::Ask(RecordedQuestion { server, tool, arguments: JsonText(arguments), reason })
            }
            Directive::Condense(Oversize { tool: ToolRef { server, tool }, text, spill, summarize }) => {
                RecordedDirective::Condense(RecordedLongText {
                    server,
                    tool,
                    text: ContentDigest::of(&text),
                    spill,
                    summarize,
                })
            }
            Directive::Done(result) => RecordedDirective::Done(Box::new(RecordedResult::from(result))),
        }
    }
}

impl From<ToolResult> for RecordedResult {
    fn from(result: ToolResult) -> Self {
        let content = result_digest(&result);
        let ToolResult { tool, text, code, attempts, truncated, trace, .. } = result;
        let (server, tool) = tool.map(|ToolRef { server, tool }| (server, tool)).unzip();
        let ours = !is_answer(code.name()) && !text.is_empty();
        let (text, content) = if ours { (Some(text), None) } else { (None, content) };
        RecordedResult { code: code.name().to_owned(), server, tool, text, content, attempts, truncated, trace }
    }
}

/// Reports whether a call with this code returns the tool's output.
pub fn is_answer(code: &str) -> bool {
    matches!(code, "ok" | "tool-error")
}

/// Computes the length and digest of the output in a result; `None` if it has no output.
///
/// A result that is passed through has the digest of the server's JSON. Otherwise the digest covers all parts, each
/// preceded by its length.
pub fn result_digest(result: &ToolResult) -> Option<ContentDigest> {
    let ToolResult { text, content, structured, more, answer, .. } = result;
    if let Some(answer) = answer {
        return Some(ContentDigest::of(answer));
    }
    let parts = || std::iter::once(text).chain(content).chain(structured).chain(more);
    let bytes = parts().map(String::len).sum::<usize>() as u64;
    if bytes == 0 {
        return None;
    }
    let mut hash = Sha256::new();
    for part in parts() {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    Some(ContentDigest { bytes, sha256: hex(&hash.finalize()) })
}

impl RecordedDirective {
    /// Returns the server and name of the tool that the directive is about, if any.
    pub fn tool(&self) -> Option<(String, String)> {
        match self {
            RecordedDirective::Done(ended) => Some((ended.server.clone()?, ended.tool.clone()?)),
            RecordedDirective::Request(sent) => Some((sent.server.clone(), sent.tool.clone())),
            RecordedDirective::Ask(asked) => Some((asked.server.clone(), asked.tool.clone())),
            RecordedDirective::Condense(long) => Some((long.server.clone(), long.tool.clone())),
            _ => None,
        }
    }

    /// Returns the kind of directive, as the WIT names it.
    pub fn kind(&self) -> &'static str {
        match self {
            RecordedDirective::Connect(_) => "connect",
            RecordedDirective::Request(_) => "request",
            RecordedDirective::Reconnect(_) => "reconnect",
            RecordedDirective::Reauthenticate(_) => "reauthenticate",
            RecordedDirective::Wait { .. } => "wait",
            RecordedDirective::Ask(_) => "ask",
            RecordedDirective::Condense(_) => "condense",
            RecordedDirective::Done(_) => "done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::execution::{Code, Forward};

    fn result() -> ToolResult {
        ToolResult {
            call_id: "1".to_owned(),
            name: "a__x".to_owned(),
            tool: Some(ToolRef { server: "a".to_owned(), tool: "x".to_owned() }),
            text: "one".to_owned(),
            content: vec![r#"{"type":"text","text":"one"}"#.to_owned()],
            structured: None,
            more: None,
            answer: None,
            is_error: false,
            code: Code::Ok,
            attempts: 1,
            truncated: false,
            trace: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn what_a_directive_says_is_written_and_read_alike() {
        let tool = || ToolRef { server: "a".to_owned(), tool: "x".to_owned() };
        let text = || "{\"k\":1.10}".to_owned();
        let directives = [
            Directive::Connect(vec!["a".to_owned()]),
            Directive::Request(Request {
                tool: tool(),
                arguments: text(),
                forward: Some(Forward { up_to: 7, trace: Vec::new() }),
            }),
            Directive::Reconnect("a".to_owned()),
            Directive::Reauthenticate("a".to_owned()),
            Directive::Wait(WaitRange { min_ms: 1, max_ms: 2 }),
            Directive::Ask(Question { tool: tool(), arguments: text(), reason: "why".to_owned() }),
            Directive::Condense(Oversize { tool: tool(), text: text(), spill: true, summarize: false }),
            Directive::Done(result()),
        ];
        for directive in directives {
            let directive = RecordedDirective::from(directive);
            let json = serde_json::to_string(&directive).unwrap();
            assert_eq!(serde_json::from_str::<RecordedDirective>(&json).unwrap(), directive, "{json}");
            assert!(json.contains(directive.kind()), "{json}");
        }
    }

    #[test]
    fn a_result_is_known_again_by_its_digest_alone() {
        let one = result_digest(&result()).unwrap();
        assert_eq!(one.bytes, 31);
        let moved = ToolResult { text: String::new(), structured: Some("one".to_owned()), ..result() };
        assert_ne!(result_digest(&moved).unwrap().sha256, one.sha256);
        let passed = ToolResult { text: String::new(), content: Vec::new(), answer: Some("{}".to_owned()), ..result() };
        assert_eq!(result_digest(&passed), Some(ContentDigest::of("{}")));
        let nothing = ToolResult { text: String::new(), content: Vec::new(), ..result() };
        assert_eq!(result_digest(&nothing), None);
    }

    #[test]
    fn our_own_words_are_kept_and_those_of_a_tool_are_not() {
        let RecordedDirective::Done(ended) = RecordedDirective::from(Directive::Done(result())) else {
            panic!("it is over")
        };
        assert_eq!((ended.text, ended.content.is_some()), (None, true));
        let refused = ToolResult { code: Code::NotAllowed, content: Vec::new(), ..result() };
        let RecordedDirective::Done(ended) = RecordedDirective::from(Directive::Done(refused)) else {
            panic!("it is over")
        };
        assert_eq!((ended.text.as_deref(), ended.content), (Some("one"), None));
    }
}
