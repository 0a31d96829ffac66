//! What a result or a failure becomes: its code, its text, and the parts of the result to keep.

use std::borrow::Cow;

use super::condensing::{LongAnswer, size_note};
use super::plan::Plan;
use super::{Code, Condensed, ResultForm};
use crate::content::{self, Extracted, Unreadable};
use crate::json::{self, Object, Value};
use crate::masking::{Masker, REDACTED};
use crate::rules::AgentContext;
use crate::types::Failure;

/// A result that has been read.
#[derive(Debug)]
pub(super) enum Answer {
    /// The result is finished.
    Finished(Outcome),
    /// The text is too long, and the host can save or summarize it: this text, with embedded resources.
    TooLong(LongAnswer, String),
}

impl Answer {
    /// Notes that the masks looked at all of the result and found nothing.
    fn clean(mut self) -> Self {
        if let Answer::Finished(outcome) = &mut self {
            outcome.clean = true;
        }
        self
    }
}

/// The parts of a finished result.
#[derive(Debug)]
pub(super) struct Outcome {
    pub code: Code,
    pub text: String,
    pub content: Vec<String>,
    pub structured: Option<String>,
    pub more: Option<String>,
    pub answer: Option<String>,
    pub truncated: bool,
    /// Whether the masks looked at everything and found nothing.
    pub clean: bool,
    /// Whether a text was cut to size.
    pub cut: bool,
    pub note: String,
    /// What the result taught the agent.
    pub taught: Option<AgentContext>,
}

impl Outcome {
    fn new(code: Code, text: String, note: String) -> Self {
        let (content, structured, more, answer) = (Vec::new(), None, None, None);
        let (truncated, clean, cut, taught) = (false, false, false, None);
        Outcome { code, text, content, structured, more, answer, truncated, clean, cut, note, taught }
    }

    fn refused(code: Code, text: String) -> Self {
        let note = format!("result withheld: {text}");
        Outcome::new(code, text, note)
    }
}

/// Returns the note about what the masks take out of a server's words because no reader sees it, if there is anything.
pub(super) fn hidden_note(masker: &Masker, said: &str) -> Option<String> {
    let taken = masker.count_hidden(said);
    if taken.is_empty() { None } else { Some(format!("taken out as hidden: {taken}")) }
}

/// Reads a `result`: masks it and cuts it, unless the host condenses it first. The error says why it cannot be read.
pub(super) fn answered(plan: &Plan, result: &str) -> Result<Answer, String> {
    let refused = |code, text| Ok(Answer::Finished(Outcome::refused(code, text)));
    if plan.settings.form == ResultForm::PassThrough
        && let Some(outcome) = wants_input(plan, result)
    {
        return Ok(Answer::Finished(outcome));
    }
    let extracted = match content::extract(result) {
        Ok(extracted) => extracted,
        Err(Unreadable::Malformed(why)) => return Err(why),
        Err(limit) => return refused(Code::ResultTooLarge, format!("MCP tool execution failed: {limit}")),
    };
    let masker = &plan.results.masker;
    if masker.is_empty() {
        return Ok(finish_or_condense(plan, extracted, result, false));
    }
    if extracted.blocks.len() == 1 && masker.find_nothing(result, &extracted.text) {
        return Ok(finish_or_condense(plan, extracted, result, false).clean());
    }
    let masked = mask(masker, result, &extracted.blocks);
    let extracted = match &masked {
        Cow::Borrowed(_) => Ok(extracted),
        Cow::Owned(masked) => content::extract(masked),
    };
    let Ok(mut extracted) = extracted else { return refused(Code::MaskingFailed, REDACTED.to_owned()) };
    // Mask the whole text again: a key may be in one block and its secret in the next.
    let mut text = masker.mask(&extracted.text);
    if extracted.blocks.len() > 1
        // A token is recognized by its prefix, even if it is split over several blocks.
        && let Cow::Owned(whole) = masker.mask_across_lines(&text)
    {
        text = Cow::Owned(whole);
    }
    let text = (text != extracted.text).then(|| text.into_owned());
    let spans_blocks = text.is_some();
    extracted.text = text.unwrap_or(extracted.text);
    let answer = finish_or_condense(plan, extracted, &masked, spans_blocks);
    Ok(if matches!(masked, Cow::Borrowed(_)) && !spans_blocks { answer.clean() } else { answer })
}

/// Reads a result that asks the caller for input, masks it, and passes it on. It cannot be cut, because half a question
/// is useless.
fn wants_input(plan: &Plan, result: &str) -> Option<Outcome> {
    // Very few results do, so avoid parsing the others.
    if !result.contains("\"input_required\"") || result.len() > content::MAX_RESULT {
        return None;
    }
    let Ok(Value::Object(mut object)) = json::parse(result) else { return None };
    if object.get("resultType").and_then(Value::as_str) != Some("input_required") {
        return None;
    }
    let answer = if plan.results.masker.is_empty() {
        result.to_owned()
    } else {
        // The state belongs to the server, which needs it unchanged.
        let state = object.remove("requestState");
        let stateless = Value::Object(object).to_json();
        let masked = plan.results.masker.mask_parsed(&stateless);
        match (json::parse(&masked), state) {
            (Ok(Value::Object(mut object)), Some(state)) => {
                object.set("requestState", state);
                Value::Object(object).to_json()
            }
            (Ok(Value::Object(_)), None) => masked.into_owned(),
            _ => return Some(Outcome::refused(Code::MaskingFailed, REDACTED.to_owned())),
        }
    };
    if content::is_longer(&answer, plan.settings.max_result_bytes) {
        let text = format!(
            "MCP tool execution failed: the server asks for input with more than {} bytes",
            plan.settings.max_result_bytes
        );
        return Some(Outcome::refused(Code::ResultTooLarge, text));
    }
    let note = "result: the server asks for input".to_owned();
    Some(Outcome { answer: Some(answer), ..Outcome::new(Code::Ok, String::new(), note) })
}

fn finish_or_condense(plan: &Plan, extracted: Extracted<'_>, result: &str, rewritten: bool) -> Answer {
    match LongAnswer::wants(plan, extracted.size()) {
        (false, false) => Answer::Finished(finish(plan, extracted, result, rewritten, &Condensed::default())),
        (spill, summarize) => {
            let mut whole = extracted.text.clone();
            for text in content::embedded_texts(&extracted.blocks) {
                whole.extend(["\n\n", text]);
            }
            let whole = plan.results.masker.mask(&whole).into_owned();
            let text = extracted.text;
            Answer::TooLong(LongAnswer { result: result.to_owned(), text, rewritten, spill, summarize }, whole)
        }
    }
}

/// Finishes a long result with what the host did to its text.
pub(super) fn condensed(plan: &Plan, long: &LongAnswer, taken: &Condensed) -> Outcome {
    let extracted = content::extract(&long.result).expect("what was read once can be read again");
    let extracted = Extracted { text: long.text.clone(), ..extracted };
    finish(plan, extracted, &long.result, long.rewritten, taken)
}

/// Masks a result except for images and audio, which any mask for base64 would destroy. The result is borrowed if
/// nothing changed.
fn mask<'a>(masker: &Masker, result: &'a str, blocks: &[Value<'_>]) -> Cow<'a, str> {
    let is_media = |block: &Value<'_>| matches!(block.get("type").and_then(Value::as_str), Some("image" | "audio"));
    if !blocks.iter().any(is_media) {
        return masker.mask_parsed(result);
    }
    let Ok(Value::Object(mut object)) = json::parse(result) else { return masker.mask_json(result) };
    let mut taken = Vec::new();
    if let Some(Value::Array(blocks)) = object.get_mut("content") {
        for (at, block) in blocks.iter_mut().enumerate().filter(|(_, block)| is_media(block)) {
            if let Value::Object(block) = block
                && let Some(data) = block.get_mut("data")
            {
                taken.push((at, std::mem::replace(data, Value::Null)));
            }
        }
    }
    let masked = masker.mask_parsed(&Value::Object(object).to_json()).into_owned();
    let Ok(Value::Object(mut object)) = json::parse(&masked) else { return Cow::Owned(masked) };
    if let Some(Value::Array(blocks)) = object.get_mut("content") {
        for (at, data) in taken {
            if let Some(Value::Object(block)) = blocks.get_mut(at) {
                block.set("data", data);
            }
        }
    }
    Cow::Owned(Value::Object(object).to_json())
}

/// Builds the outcome; `rewritten` says that the text differs from that of the blocks.
fn finish(
    plan: &Plan,
    extracted: Extracted<'_>,
    result: &str,
    rewritten: bool,
    Condensed { kept, summary }: &Condensed,
) -> Outcome {
    let code = if extracted.is_error { Code::ToolError } else { Code::Ok };
    let taught = plan.lesson.taught_by(&extracted);
    let size = extracted.size();
    let note = size_note(size);
    let whole = match extracted.structured {
        // The text already contains it.
        Some(_) if extracted.told > 0 && !rewritten => Some(extracted.text[..extracted.told].to_owned()),
        Some(ref structured) => Some(structured.to_json()),
        None if plan.results.structured_text => structured_text(plan, &extracted),
        None => None,
    };
    let added = whole.is_some() && extracted.structured.is_none();
    let text = summary.as_deref().map_or_else(|| Cow::Owned(extracted.text), Cow::Borrowed);
    let limit = plan.max_bytes();
    let room = limit.saturating_sub(text.len());
    let (mut text, text_cut) = fit(plan.settings.max_result_bytes, text);
    let mut blocks = extracted.blocks;
    let resources_cut = match summary {
        // A summary stands for the embedded resources as well.
        Some(_) => {
            blocks.iter_mut().for_each(|block| replace_embedded(block, "[SUMMARIZED]".to_owned()));
            false
        }
        None => cut_resources(&mut blocks, room),
    };
    let dropped = whole.as_ref().is_some_and(|json| json.len() > limit);
    if resources_cut && !text_cut {
        text.push_str("\n\n[TRUNCATED: embedded resources exceeded the size limit]");
    }
    if dropped && !text_cut {
        text.push_str("\n\n[TRUNCATED: structured content exceeded the size limit]");
    }
    let structured = whole.filter(|_| !dropped);
    let mut more = extracted.rest;
    more.remove("resultType");
    let more = Some(more).filter(|more| !more.is_empty()).map(|more| Value::Object(more).to_json());
    let overlong = more.as_ref().is_some_and(|json| json.len() > limit);
    let more = more.filter(|_| !overlong);
    let cut = text_cut || resources_cut;
    let truncated = cut || dropped || summary.is_some();
    if summary.is_some() {
        text.extend(["\n\n", &content::summarized(size)]);
    }
    if let Some(kept) = kept.as_ref().filter(|_| truncated) {
        text.extend(["\n[FULL TEXT: ", kept, "]"]);
    }
    let changed = truncated || rewritten;
    let blocks = if changed { cut_blocks(blocks, &text) } else { blocks };
    let outcome = Outcome { truncated, cut, taught, ..Outcome::new(code, text, note) };
    match plan.settings.form {
        ResultForm::Text => {
            let (content, truncated) = (blocks.iter().map(Value::to_json).collect(), truncated || overlong);
            Outcome { content, structured, more, truncated, ..outcome }
        }
        ResultForm::PassThrough => {
            let answer = match changed || added {
                true => rebuild_answer(result, blocks, structured.as_deref()),
                false => result.to_owned(),
            };
            Outcome { text: String::new(), answer: Some(answer), ..outcome }
        }
    }
}

/// Cuts a text to size, and reports whether it was cut.
pub(super) fn fit(max_bytes: u64, text: Cow<'_, str>) -> (String, bool) {
    match content::is_longer(&text, max_bytes) {
        true => (content::truncate(&text, max_bytes, TOO_LONG), true),
        false => (text.into_owned(), false),
    }
}

const TOO_LONG: &str = "result exceeded the size limit";

/// Replaces all text blocks by the cut text, and keeps the other blocks.
fn cut_blocks<'a>(blocks: Vec<Value<'a>>, text: &str) -> Vec<Value<'a>> {
    let mut block = Object::new();
    block.set("type", Value::string("text"));
    block.set("text", Value::string(text.to_owned()));
    let others = blocks.into_iter().filter(|block| !content::is_text(block));
    std::iter::once(Value::Object(block)).chain(others).collect()
}

/// Returns the only text of a result as structured content, if it is JSON of a form that the caller accepts.
fn structured_text(plan: &Plan, extracted: &Extracted<'_>) -> Option<String> {
    let [block] = extracted.blocks.as_slice() else { return None };
    let value = json::parse(extracted.text.trim()).ok().filter(|_| content::is_text(block))?;
    let accepted = match value {
        Value::Object(_) => true,
        // Clients before 2026-07-28 accept only objects.
        Value::Array(_) => plan.settings.form == ResultForm::Text,
        _ => false,
    };
    accepted.then(|| value.to_json())
}

/// Cuts the texts of embedded resources to a total size, and reports whether any was longer.
fn cut_resources(blocks: &mut [Value<'_>], mut room: usize) -> bool {
    let mut any = false;
    for block in blocks {
        let Some(text) = content::embedded_text(block) else { continue };
        if text.len() <= room {
            room -= text.len();
            continue;
        }
        // One note is enough: many small texts must not become longer.
        let cut = if any { String::new() } else { content::cut_to(text, room, TOO_LONG) };
        replace_embedded(block, cut);
        (room, any) = (0, true);
    }
    any
}

/// Replaces the text of an embedded resource, if the block is one.
fn replace_embedded(block: &mut Value<'_>, text: String) {
    if content::embedded_text(block).is_some()
        && let Value::Object(block) = block
        && let Some(Value::Object(resource)) = block.get_mut("resource")
    {
        resource.set("text", Value::string(text));
    }
}

/// Replaces the content blocks and the structured content of a result, and keeps everything else.
fn rebuild_answer(result: &str, blocks: Vec<Value<'_>>, structured: Option<&str>) -> String {
    let mut object = match json::parse(result) {
        Ok(Value::Object(object)) => object,
        _ => Object::new(),
    };
    object.set("content", Value::Array(blocks));
    match structured.and_then(|structured| json::parse(structured).ok()) {
        Some(structured) => object.set("structuredContent", structured),
        None => drop(object.remove("structuredContent")),
    }
    Value::Object(object).to_json()
}

/// Returns the code of a call that ended with this failure.
pub(super) fn code(failure: &Failure) -> Code {
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
        Failure::QueueFull(_) => Code::QueueFull,
        Failure::NeedsAuth(_) => Code::NeedsAuth,
        Failure::RestartInProgress => Code::RestartInProgress,
        Failure::RestartFailed(_) => Code::RestartFailed,
        Failure::RulesUnavailable(_) => Code::NotAllowed,
    }
}

/// Describes a failure, for the model.
pub(super) fn describe(failure: &Failure, server: &str) -> String {
    let with = |text: String, why: &str| if why.is_empty() { text } else { format!("{text}: {why}") };
    match failure {
        Failure::Cancelled => "the call was cancelled".to_owned(),
        Failure::Timeout => format!("no answer from server {server:?} in time"),
        Failure::Connect(why) => with(format!("cannot connect to server {server:?}"), why),
        Failure::Closed => format!("the connection to server {server:?} ended"),
        Failure::Exited(Some(code)) => format!("the process of server {server:?} ended with exit code {code}"),
        Failure::Exited(None) => format!("the process of server {server:?} was killed"),
        Failure::Http(http) => format!("server {server:?} answered with HTTP status {}", http.status),
        Failure::Rpc(rpc) if rpc.message.is_empty() => format!("server {server:?} answered with error {}", rpc.code),
        Failure::Rpc(rpc) => format!("{} (code {})", rpc.message, rpc.code),
        Failure::Protocol(why) => with(format!("server {server:?} broke the protocol"), why),
        Failure::QueueFull(why) => with(format!("too many calls are waiting for server {server:?}"), why),
        Failure::NeedsAuth(why) => with(format!("server {server:?} needs authorization"), why),
        Failure::RestartInProgress => format!("mcp_restart_in_progress: server {server:?} is being restarted"),
        Failure::RestartFailed(why) => with(format!("mcp_restart_failed: server {server:?} did not restart"), why),
        Failure::RulesUnavailable(why) => with("its rules cannot be applied, so it was not sent".to_owned(), why),
    }
}
