//! What an answer or a failure comes to: code, text, and what is kept of the answer.

use std::rc::Rc;

use super::{Code, ResultForm};
use crate::content::{self, Extracted, Unreadable};
use crate::json::{self, Object, Value};
use crate::masking::{Masker, REDACTED};
use crate::recovery::RetryPolicy;
use crate::types::{Failure, ToolRef};

/// All that is decided on a call before it is sent.
#[derive(Debug)]
pub struct Plan {
    pub tool: ToolRef,
    pub arguments: String,
    pub read_only: bool,
    pub idempotent: bool,
    pub retry: RetryPolicy,
    pub masker: Rc<Masker>,
    pub form: ResultForm,
    pub max_result_bytes: u64,
}

/// What an answer came to.
#[derive(Debug)]
pub struct Outcome {
    pub code: Code,
    pub text: String,
    pub content: Vec<String>,
    pub structured: Option<String>,
    pub answer: Option<String>,
    pub truncated: bool,
    pub note: String,
}

impl Outcome {
    fn refused(code: Code, text: String) -> Self {
        let note = format!("answer withheld: {text}");
        Outcome { code, text, content: Vec::new(), structured: None, answer: None, truncated: false, note }
    }
}

/// Reads the `result` of an answer: masked first, then cut. The error says why it cannot be read.
pub fn answered(plan: &Plan, result: &str) -> Result<Outcome, String> {
    let extracted = match content::extract(result) {
        Ok(extracted) => extracted,
        Err(Unreadable::Malformed(why)) => return Err(why),
        Err(limit) => {
            return Ok(Outcome::refused(Code::ResultTooLarge, format!("MCP tool execution failed: {limit}")));
        }
    };
    if plan.masker.is_empty() {
        return Ok(finish(plan, extracted, result, false));
    }
    let masked = mask(&plan.masker, result);
    match content::extract(&masked) {
        Ok(mut extracted) => {
            // Once more over the whole: a key may stand in one block and its secret in the next.
            let text = plan.masker.mask(&extracted.text).into_owned();
            let spans_blocks = text != extracted.text;
            extracted.text = text;
            Ok(finish(plan, extracted, &masked, spans_blocks))
        }
        Err(_) => Ok(Outcome::refused(Code::MaskingFailed, REDACTED.to_owned())),
    }
}

/// Masks a result, but for its pictures and sounds, which any mask for base64 would destroy.
fn mask(masker: &Masker, result: &str) -> String {
    let Ok(Value::Object(mut object)) = json::parse(result) else { return masker.mask_json(result) };
    let mut taken = Vec::new();
    if let Some(Value::Array(blocks)) = object.get_mut("content") {
        for (at, block) in blocks.iter_mut().enumerate() {
            if let Value::Object(block) = block
                && matches!(block.get("type").and_then(Value::as_str), Some("image" | "audio"))
                && let Some(data) = block.get_mut("data")
            {
                taken.push((at, std::mem::replace(data, Value::Null)));
            }
        }
    }
    if taken.is_empty() {
        return masker.mask_json(result);
    }
    let masked = masker.mask_json(&Value::Object(object).to_json());
    let Ok(Value::Object(mut object)) = json::parse(&masked) else { return masked };
    if let Some(Value::Array(blocks)) = object.get_mut("content") {
        for (at, data) in taken {
            if let Some(Value::Object(block)) = blocks.get_mut(at) {
                block.set("data", data);
            }
        }
    }
    Value::Object(object).to_json()
}

/// What is kept of a result; `rewritten` says that its text is no longer that of its blocks.
fn finish(plan: &Plan, extracted: Extracted<'_>, result: &str, rewritten: bool) -> Outcome {
    let code = if extracted.is_error { Code::ToolError } else { Code::Ok };
    let note = format!("answer: {} bytes of text", extracted.text.len());
    let (mut text, truncated) = fit(plan.max_result_bytes, &extracted.text);
    let limit = usize::try_from(plan.max_result_bytes).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let whole = extracted.structured.as_ref().map(Value::to_json);
    let dropped = whole.as_ref().is_some_and(|json| json.len() > limit);
    if dropped && !truncated {
        text.push_str("\n\n[TRUNCATED: structured content exceeded the size limit]");
    }
    let structured = whole.filter(|_| !dropped);
    let truncated = truncated || dropped;
    let changed = truncated || rewritten;
    let blocks = if changed { cut_blocks(extracted.blocks, &text) } else { extracted.blocks };
    let outcome = Outcome { code, text, content: Vec::new(), structured: None, answer: None, truncated, note };
    match plan.form {
        ResultForm::Text => Outcome { content: blocks.iter().map(Value::to_json).collect(), structured, ..outcome },
        ResultForm::PassThrough if !changed => {
            Outcome { text: String::new(), answer: Some(result.to_owned()), ..outcome }
        }
        ResultForm::PassThrough => {
            let answer = cut_answer(result, blocks, dropped);
            Outcome { text: String::new(), answer: Some(answer), ..outcome }
        }
    }
}

/// The text cut to size, and whether it was.
pub fn fit(max_bytes: u64, text: &str) -> (String, bool) {
    let truncated = max_bytes > 0 && text.len() as u64 > max_bytes;
    (content::truncate(text, max_bytes, "result exceeded the size limit"), truncated)
}

/// The cut text in place of all text blocks, and the other blocks as they are.
fn cut_blocks<'a>(blocks: Vec<Value<'a>>, text: &str) -> Vec<Value<'a>> {
    let mut block = Object::new();
    block.set("type", Value::string("text"));
    block.set("text", Value::string(text.to_owned()));
    let others = blocks.into_iter().filter(|block| !content::is_text(block));
    std::iter::once(Value::Object(block)).chain(others).collect()
}

/// The result with other content blocks, everything else in its place.
fn cut_answer(result: &str, blocks: Vec<Value<'_>>, without_structured: bool) -> String {
    let mut object = match json::parse(result) {
        Ok(Value::Object(object)) => object,
        _ => Object::new(),
    };
    object.set("content", Value::Array(blocks));
    if without_structured {
        object.remove("structuredContent");
    }
    Value::Object(object).to_json()
}

/// The code of a call that ended with a failure.
pub fn code(failure: &Failure) -> Code {
    match failure {
        Failure::Cancelled => Code::Cancelled,
        Failure::Timeout => Code::Timeout,
        Failure::Connect(_) | Failure::Closed | Failure::Exited(_) => Code::ServerUnavailable,
        Failure::Http(http) => match http.status {
            401 => Code::NeedsAuth,
            403 if http.challenge => Code::NeedsAuth,
            400 | 404 if http.session => Code::ServerUnavailable,
            429 | 500..=599 => Code::ServerUnavailable,
            _ => Code::RpcError,
        },
        Failure::Rpc(_) | Failure::Protocol(_) => Code::RpcError,
        Failure::QueueFull => Code::QueueFull,
        Failure::NeedsAuth(_) => Code::NeedsAuth,
        Failure::RestartInProgress => Code::RestartInProgress,
        Failure::RestartFailed(_) => Code::RestartFailed,
    }
}

/// A failure in words, for the model.
pub fn describe(failure: &Failure, server: &str) -> String {
    let with = |text: String, why: &str| if why.is_empty() { text } else { format!("{text}: {why}") };
    match failure {
        Failure::Cancelled => "the call was cancelled".to_owned(),
        Failure::Timeout => format!("no answer from server {server:?} in time"),
        Failure::Connect(why) => with(format!("cannot connect to server {server:?}"), why),
        Failure::Closed => format!("server {server:?} closed the connection"),
        Failure::Exited(Some(code)) => format!("the process of server {server:?} ended with exit code {code}"),
        Failure::Exited(None) => format!("the process of server {server:?} was killed"),
        Failure::Http(http) => format!("server {server:?} answered with HTTP status {}", http.status),
        Failure::Rpc(rpc) if rpc.message.is_empty() => format!("server {server:?} answered with error {}", rpc.code),
        Failure::Rpc(rpc) => format!("{} (code {})", rpc.message, rpc.code),
        Failure::Protocol(why) => with(format!("server {server:?} broke the protocol"), why),
        Failure::QueueFull => format!("too many calls are waiting for server {server:?}"),
        Failure::NeedsAuth(why) => with(format!("server {server:?} needs authorization"), why),
        Failure::RestartInProgress => format!("mcp_restart_in_progress: server {server:?} is being restarted"),
        Failure::RestartFailed(why) => with(format!("mcp_restart_failed: server {server:?} did not come up"), why),
    }
}
