//! The recorded form of a directive: complete, except that a tool's output is replaced by its digest.

use serde::{Deserialize, Serialize};

use super::digest::ContentDigest;
use crate::contract_json::json_text;
use crate::logic::types::execution::{Code, Directive, Oversize, Question, Request, ToolResult};
use crate::logic::types::rules::AgentContext;
use crate::logic::types::{ToolRef, WaitRange};

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
    /// Wait for a time in this range.
    Wait(WaitRange),
    /// Report the circumstances of the call, with the values that the agent knows or without.
    Circumstances(bool),
    /// Count the call for these rules.
    Count(Vec<String>),
    /// Ask a person for approval.
    Ask(Question),
    /// Keep or summarize a long text.
    Condense(RecordedLongText),
    /// The call ends with this result.
    Done(Box<RecordedResult>),
}

/// The recorded form of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// The tool.
    #[serde(flatten)]
    pub tool: ToolRef,
    /// Its arguments; in a line, empty if they are those of the call.
    #[serde(with = "json_text", skip_serializing_if = "String::is_empty", default)]
    pub arguments: String,
    /// A result with at most this many bytes of text may be passed through unread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_up_to: Option<u64>,
    /// What the agent learned by sending it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub learned: Option<AgentContext>,
}

/// The recorded form of a text that is too long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedLongText {
    /// The tool.
    #[serde(flatten)]
    pub tool: ToolRef,
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
    pub code: Code,
    /// The tool, if one was found.
    #[serde(flatten)]
    pub tool: Option<ToolRef>,
    /// The text for the model, if toolgate wrote it and not a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The length and digest of the tool's output: text, content blocks and structured content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<ContentDigest>,
    /// How often the request was sent.
    pub attempts: u32,
    /// Whether the text was cut or summarized.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub truncated: bool,
    /// The trace of the decision.
    pub trace: Vec<String>,
    /// What the result taught the agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub learned: Option<AgentContext>,
}

impl From<Directive> for RecordedDirective {
    fn from(directive: Directive) -> Self {
        match directive {
            Directive::Connect(servers) => RecordedDirective::Connect(servers),
            Directive::Request(Request { tool, arguments, forward, learned }) => {
                let forward_up_to = forward.map(|forward| forward.up_to);
                RecordedDirective::Request(RecordedRequest { tool, arguments, forward_up_to, learned })
            }
            Directive::Reconnect(server) => RecordedDirective::Reconnect(server),
            Directive::Reauthenticate(server) => RecordedDirective::Reauthenticate(server),
            Directive::Wait(range) => RecordedDirective::Wait(range),
            Directive::Circumstances(known) => RecordedDirective::Circumstances(known),
            Directive::Count(rules) => RecordedDirective::Count(rules),
            Directive::Ask(question) => RecordedDirective::Ask(question),
            Directive::Condense(Oversize { tool, text, spill, summarize }) => {
                let text = ContentDigest::of(&text);
                RecordedDirective::Condense(RecordedLongText { tool, text, spill, summarize })
            }
            Directive::Done(result) => RecordedDirective::Done(Box::new(RecordedResult::from(result))),
        }
    }
}

impl From<ToolResult> for RecordedResult {
    fn from(result: ToolResult) -> Self {
        let content = result_digest(&result);
        let ToolResult { tool, text, code, attempts, truncated, trace, learned, .. } = result;
        let ours = !is_answer(code) && !text.is_empty();
        let (text, content) = if ours { (Some(text), None) } else { (None, content) };
        RecordedResult { code, tool, text, content, attempts, truncated, trace, learned }
    }
}

impl RecordedResult {
    /// Returns the server of the tool; empty if no tool was found.
    pub fn server(&self) -> &str {
        self.tool.as_ref().map_or("", |tool| &tool.server)
    }
}

/// Reports whether a call with this code returns the tool's output.
pub fn is_answer(code: Code) -> bool {
    matches!(code, Code::Ok | Code::ToolError)
}

/// Computes the length and digest of the output in a result; `None` if it has no output.
///
/// A result that is passed through has the digest of the server's JSON. Otherwise the digest covers all parts.
fn result_digest(result: &ToolResult) -> Option<ContentDigest> {
    let ToolResult { text, content, structured, more, answer, .. } = result;
    match answer {
        Some(answer) => Some(ContentDigest::of(answer)),
        None => ContentDigest::of_parts(std::iter::once(text).chain(content).chain(structured).chain(more)),
    }
}

impl RecordedDirective {
    /// Returns the tool that the directive is about, if any.
    pub fn tool(&self) -> Option<&ToolRef> {
        match self {
            RecordedDirective::Done(ended) => ended.tool.as_ref(),
            RecordedDirective::Request(sent) => Some(&sent.tool),
            RecordedDirective::Ask(asked) => Some(&asked.tool),
            RecordedDirective::Condense(long) => Some(&long.tool),
            _ => None,
        }
    }

    /// Returns the arguments that the directive shows or sends, if any.
    pub fn arguments(&self) -> Option<&String> {
        match self {
            RecordedDirective::Request(sent) => Some(&sent.arguments),
            RecordedDirective::Ask(asked) => Some(&asked.arguments),
            _ => None,
        }
    }

    /// Returns the arguments that the directive sends, if any.
    pub(super) fn sent_arguments_mut(&mut self) -> Option<&mut String> {
        match self {
            RecordedDirective::Request(sent) => Some(&mut sent.arguments),
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
            RecordedDirective::Circumstances(_) => "circumstances",
            RecordedDirective::Count(_) => "count",
            RecordedDirective::Ask(_) => "ask",
            RecordedDirective::Condense(_) => "condense",
            RecordedDirective::Done(_) => "done",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::execution::Forward;

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
            clean: false,
            trace: vec!["a note".to_owned()],
            learned: None,
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
                learned: None,
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
