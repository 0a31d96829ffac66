//! The line of one record: JSON with a digest of itself and of the line before it.

use std::time::{Duration, SystemTime};

use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::digest::ContentDigest;
use super::directive::RecordedDirective;
use super::steps::RecordedStep;
use crate::calendar;
use crate::logic::types::ToolRef;
use crate::logic::types::execution::ToolCall;
use crate::sha256::sha256_hex;

/// One call: everything it was decided on, and what was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The version of this format.
    pub v: u32,
    /// The id of the call.
    pub id: String,
    /// The time when the call began, in UTC, as RFC 3339 writes it.
    pub at: String,
    /// The duration of the call, in milliseconds.
    pub ms: f64,
    /// The principal that made the call, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// The admin who approved or declined the call, if one did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approver: Option<String>,
    /// The digest of the component.
    pub component: String,
    /// The digest of the gate's settings.
    pub settings: String,
    /// The digest of the tools that servers had offered when the call began.
    pub catalog: String,
    /// The name that the model wrote.
    pub name: String,
    /// The arguments that the model wrote.
    pub arguments: String,
    /// The first directive, then each event with the directive that followed.
    pub steps: Vec<RecordedStep>,
    /// The length and digest of what the caller got, if it got an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<ContentDigest>,
    /// The maximum bytes of text in the result, if the caller set a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The parts that were masked because they held secrets; the directives are those for the masked parts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub masked: Vec<MaskedPart>,
    /// The reason why replaying the masked record does not give these directives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreplayable: Option<String>,
    /// The id of the run of files that the line is written in. A writer that names it also notes which files it removes
    /// when they are too old, so a run without its first file is damaged. It is the last field, where the reader looks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run: Option<String>,
}

/// A part of a call that held secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskedPart {
    /// The name of the tool.
    Name,
    /// The arguments.
    Arguments,
    /// The answer of a server, or its failure.
    Answer,
    /// The tools that servers had offered.
    Catalog,
}

impl Record {
    /// Writes the record as one sealed line, and returns its digest. Requests with the call's own arguments lose them,
    /// since the line has them already.
    pub fn seal(&mut self, after: &str, line: &mut Vec<u8>) -> String {
        line.clear();
        for sent in self.steps.iter_mut().filter_map(|step| step.directive.sent_arguments_mut()) {
            if *sent == self.arguments {
                sent.clear();
            }
        }
        serde_json::to_writer(&mut *line, self).expect("a record has string keys only, so it is always JSON");
        // Remove the closing brace to append the seal.
        line.pop();
        line.extend_from_slice(AFTER);
        line.extend_from_slice(after.as_bytes());
        line.push(b'"');
        let digest = sha256_hex(line);
        line.extend_from_slice(DIGEST);
        line.extend_from_slice(digest.as_bytes());
        line.extend_from_slice(END);
        digest
    }

    /// Returns the call itself.
    pub fn call(&self) -> ToolCall {
        ToolCall { id: self.id.clone(), name: self.name.clone(), arguments: self.arguments.clone() }
    }

    /// Returns the directives in order.
    pub fn directives(&self) -> impl Iterator<Item = &RecordedDirective> {
        self.steps.iter().map(|step| &step.directive)
    }

    /// Returns the tool that was meant, if one was found.
    pub fn tool(&self) -> Option<&ToolRef> {
        self.steps.iter().rev().find_map(|step| step.directive.tool())
    }
}

/// The seal of a line: its digest, and that of the line before it.
#[derive(Clone, Copy, Debug)]
pub struct LineSeal<'a> {
    /// The bytes that the digest covers.
    sealed: &'a [u8],
    /// The digest of the line before.
    pub after: &'a str,
    /// The digest of this line.
    pub digest: &'a str,
    /// The run that the line was written in, if it names one.
    pub run: Option<&'a str>,
}

/// The damage of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineDamage {
    /// The line does not end like a record.
    #[error("the line does not end like a record")]
    Torn,
    /// The line was changed after it was written.
    #[error("the line was changed after it was written")]
    Changed,
    /// The line before it is not the one that it names.
    #[error("the record before this one was changed or removed")]
    OutOfOrder,
    /// The line is intact, but this version cannot read it.
    #[error("this version of toolgate cannot read the line")]
    Unreadable,
}

impl<'a> LineSeal<'a> {
    /// Finds the seal at the end of a line.
    pub fn find(line: &'a [u8]) -> Result<Self, LineDamage> {
        let rest = line.strip_suffix(END).ok_or(LineDamage::Torn)?;
        let (rest, digest) = cut(rest)?;
        let sealed = rest.strip_suffix(DIGEST).ok_or(LineDamage::Torn)?;
        let (rest, after) = cut(sealed.strip_suffix(b"\"").ok_or(LineDamage::Torn)?)?;
        let record = rest.strip_suffix(AFTER).ok_or(LineDamage::Torn)?;
        Ok(LineSeal { sealed, after, digest, run: run_of(record) })
    }

    /// Reports whether the line is unchanged.
    pub fn holds(&self) -> bool {
        sha256_hex(self.sealed) == self.digest
    }
}

/// Reads a line and checks its seal.
pub fn read(line: &[u8]) -> Result<Record, LineDamage> {
    if !LineSeal::find(line)?.holds() {
        return Err(LineDamage::Changed);
    }
    // Checking the whole line as UTF-8 once is faster than checking each text.
    let line = str::from_utf8(line).map_err(|_| LineDamage::Unreadable)?;
    let mut record: Record = serde_json::from_str(line).map_err(|_| LineDamage::Unreadable)?;
    if record.v != VERSION {
        return Err(LineDamage::Unreadable);
    }
    for sent in record.steps.iter_mut().filter_map(|step| step.directive.sent_arguments_mut()) {
        if sent.is_empty() {
            sent.clone_from(&record.arguments);
        }
    }
    Ok(record)
}

/// The times of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallTimes {
    /// The time when it began.
    pub began: SystemTime,
    /// The time when it ended.
    pub ended: SystemTime,
}

/// Finds the times in a line without reading the rest of it, which may be long or damaged.
pub(super) fn times(line: &[u8]) -> Option<CallTimes> {
    // In front of them is only the id, in which a quote is escaped.
    let start = memmem::find(line, AT)? + AT.len();
    let (at, rest) = split(&line[start..], b'"')?;
    let (ms, _) = split(rest.strip_prefix(MS)?, b',')?;
    let began = calendar::parse(at)?;
    let latency = Duration::try_from_secs_f64(ms.parse::<f64>().ok()? / 1000.0).ok()?;
    Some(CallTimes { began, ended: began.checked_add(latency)? })
}

/// Splits a text at the first such byte.
fn split(bytes: &[u8], at: u8) -> Option<(&str, &[u8])> {
    let (text, rest) = bytes.split_at_checked(memchr::memchr(at, bytes)?)?;
    Some((str::from_utf8(text).ok()?, rest.get(1..)?))
}

/// Returns the run that a record names in its last field. A quote inside a text is escaped, so no text looks like it.
fn run_of(record: &[u8]) -> Option<&str> {
    let record = record.strip_suffix(b"\"")?;
    let start = memchr::memrchr(b'"', record)? + 1;
    if !record[..start].ends_with(RUN) {
        return None;
    }
    str::from_utf8(&record[start..]).ok()
}

/// Splits off the digest at the end.
fn cut(bytes: &[u8]) -> Result<(&[u8], &str), LineDamage> {
    let at = bytes.len().checked_sub(DIGITS).ok_or(LineDamage::Torn)?;
    let (rest, digits) = bytes.split_at(at);
    Ok((rest, str::from_utf8(digits).map_err(|_| LineDamage::Torn)?))
}

/// The version of the format.
pub const VERSION: u32 = 1;
/// The digest that the first line names as its predecessor.
pub const FIRST: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const DIGITS: usize = FIRST.len();
const AT: &[u8] = b",\"at\":\"";
const MS: &[u8] = b",\"ms\":";
const RUN: &[u8] = b",\"run\":\"";
const AFTER: &[u8] = b",\"after\":\"";
const DIGEST: &[u8] = b",\"digest\":\"";
const END: &[u8] = b"\"}";

#[cfg(test)]
pub(super) mod tests;
