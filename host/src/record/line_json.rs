//! Writes a record as JSON that serde can read. Common parts are written here, the rest by serde, which checks texts
//! byte by byte: that took a third of the time of recording a call.

use serde::Serialize;

use super::directive::{ContentDigest, RecordedDirective, RecordedRequest, RecordedResult};
use super::event::{ForwardedAnswer, RecordedEvent};
use super::line::{Record, RecordedStep};

impl Record {
    /// Appends the record, without its seal.
    pub(super) fn write(&self, line: &mut Vec<u8>) {
        let mut object = ObjectWriter::begin(line);
        object.json("v", &self.v);
        object.text("id", &self.id);
        object.text("at", &self.at);
        object.json("ms", &self.ms);
        object.some("principal", self.principal.as_deref(), write_text);
        object.text("component", &self.component);
        object.text("settings", &self.settings);
        object.text("catalog", &self.catalog);
        object.text("name", &self.name);
        object.text("arguments", &self.arguments);
        object.list("steps", &self.steps, write_step);
        object.some("result", self.result.as_ref(), write_digest);
        object.some("limit", self.limit.as_ref(), write_json);
        object.some("masked", Some(&self.masked).filter(|masked| !masked.is_empty()), write_json);
        object.some("unreplayable", self.unreplayable.as_deref(), write_text);
        object.end();
    }
}

fn write_step(line: &mut Vec<u8>, step: &RecordedStep) {
    let mut object = ObjectWriter::begin(line);
    object.some("event", step.event.as_ref(), write_event);
    object.some("catalog", step.catalog.as_deref(), write_text);
    object.member("say", &step.say, write_directive);
    object.end();
}

fn write_event(line: &mut Vec<u8>, event: &RecordedEvent) {
    match event {
        RecordedEvent::Forwarded(told) => write_single(line, "forwarded", told, write_forwarded),
        seldom => write_json(line, seldom),
    }
}

fn write_forwarded(line: &mut Vec<u8>, forwarded: &ForwardedAnswer) {
    let mut object = ObjectWriter::begin(line);
    object.json("is_error", &forwarded.is_error);
    object.json("bytes", &forwarded.bytes);
    object.text("sha256", &forwarded.sha256);
    object.some("answer", forwarded.answer.as_deref(), write_text);
    object.end();
}

fn write_directive(line: &mut Vec<u8>, directive: &RecordedDirective) {
    match directive {
        RecordedDirective::Request(request) => write_single(line, "request", request, write_request),
        RecordedDirective::Done(done) => write_single(line, "done", &**done, write_result),
        seldom => write_json(line, seldom),
    }
}

fn write_request(line: &mut Vec<u8>, sent: &RecordedRequest) {
    let mut object = ObjectWriter::begin(line);
    object.text("server", &sent.server);
    object.text("tool", &sent.tool);
    object.json("arguments", &sent.arguments);
    object.some("forward_up_to", sent.forward_up_to.as_ref(), write_json);
    object.end();
}

fn write_result(line: &mut Vec<u8>, ended: &RecordedResult) {
    let mut object = ObjectWriter::begin(line);
    object.text("code", &ended.code);
    object.some("server", ended.server.as_deref(), write_text);
    object.some("tool", ended.tool.as_deref(), write_text);
    object.some("text", ended.text.as_deref(), write_text);
    object.some("content", ended.content.as_ref(), write_digest);
    object.json("attempts", &ended.attempts);
    object.some("truncated", Some(&ended.truncated).filter(|truncated| **truncated), write_json);
    object.list("trace", &ended.trace, |line, note| write_text(line, note));
    object.end();
}

fn write_digest(line: &mut Vec<u8>, digest: &ContentDigest) {
    let mut object = ObjectWriter::begin(line);
    object.json("bytes", &digest.bytes);
    object.text("sha256", &digest.sha256);
    object.end();
}

/// Writes an object with one member.
fn write_single<T: ?Sized>(line: &mut Vec<u8>, key: &str, value: &T, write: fn(&mut Vec<u8>, &T)) {
    let mut object = ObjectWriter::begin(line);
    object.member(key, value, write);
    object.end();
}

/// Writes a text, which mostly needs no escaping.
fn write_text(line: &mut Vec<u8>, text: &str) {
    // Check every byte without an early exit, so that the compiler can vectorize the loop.
    let special = |special: bool, byte: u8| special | (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, special) {
        return write_json(line, text);
    }
    line.reserve(text.len() + 2);
    line.push(b'"');
    line.extend_from_slice(text.as_bytes());
    line.push(b'"');
}

/// Writes any other value with serde.
fn write_json<T: Serialize + ?Sized>(line: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(line, value).expect("a record has string keys only, so it is always JSON");
}

/// Writes the members of an object one after the other.
struct ObjectWriter<'a> {
    line: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> ObjectWriter<'a> {
    fn begin(line: &'a mut Vec<u8>) -> Self {
        line.push(b'{');
        ObjectWriter { line, empty: true }
    }

    fn member<T: ?Sized>(&mut self, key: &str, value: &T, write: impl FnOnce(&mut Vec<u8>, &T)) {
        self.line.reserve(key.len() + 4);
        if !std::mem::take(&mut self.empty) {
            self.line.push(b',');
        }
        self.line.push(b'"');
        self.line.extend_from_slice(key.as_bytes());
        self.line.extend_from_slice(b"\":");
        write(self.line, value);
    }

    fn text(&mut self, key: &str, value: &str) {
        self.member(key, value, write_text);
    }

    fn json<T: Serialize>(&mut self, key: &str, value: &T) {
        self.member(key, value, write_json);
    }

    fn some<T: ?Sized>(&mut self, key: &str, value: Option<&T>, write: fn(&mut Vec<u8>, &T)) {
        if let Some(value) = value {
            self.member(key, value, write);
        }
    }

    fn list<T>(&mut self, key: &str, values: &[T], write: fn(&mut Vec<u8>, &T)) {
        self.member(key, values, |line, values| {
            line.push(b'[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    line.push(b',');
                }
                write(line, value);
            }
            line.push(b']');
        });
    }

    fn end(self) {
        self.line.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::super::directive::{RecordedLongText, RecordedQuestion};
    use super::super::event::{FailedOperation, RecordedFailure};
    use super::super::line::MaskedPart;
    use super::super::line::tests::record;
    use super::super::text::JsonText;
    use super::*;

    /// Checks that the record is written as serde writes it, and can be read back.
    fn check(record: &Record) {
        let mut line = b"kept ".to_vec();
        record.write(&mut line);
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text.strip_prefix("kept "), Some(&*serde_json::to_string(record).unwrap()));
        assert_eq!(&serde_json::from_str::<Record>(&text[5..]).unwrap(), record);
    }

    fn ended(change: impl FnOnce(&mut RecordedResult)) -> RecordedDirective {
        let Some(RecordedDirective::Done(mut ended)) = record().steps.pop().map(|step| step.say) else {
            panic!("it is over")
        };
        change(&mut ended);
        RecordedDirective::Done(ended)
    }

    #[test]
    fn every_part_of_a_record_is_written_as_serde_writes_it() {
        check(&record());
        let word = || "w".to_owned();
        let text = || JsonText("{\"k\":1.10}".to_owned());
        let says = [
            RecordedDirective::Connect(vec![word(), word()]),
            RecordedDirective::Request(RecordedRequest {
                server: word(),
                tool: word(),
                arguments: text(),
                forward_up_to: None,
            }),
            RecordedDirective::Request(RecordedRequest {
                server: word(),
                tool: word(),
                arguments: JsonText("no JSON".to_owned()),
                forward_up_to: None,
            }),
            RecordedDirective::Reconnect(word()),
            RecordedDirective::Wait { min_ms: 1, max_ms: 2 },
            RecordedDirective::Ask(RecordedQuestion {
                server: word(),
                tool: word(),
                arguments: text(),
                reason: word(),
            }),
            RecordedDirective::Condense(RecordedLongText {
                server: word(),
                tool: word(),
                text: ContentDigest::of("x"),
                spill: true,
                summarize: false,
            }),
            ended(|ended| (ended.server, ended.tool, ended.trace) = (None, None, Vec::new())),
            ended(|ended| {
                (ended.text, ended.content, ended.truncated) = (Some(word()), Some(ContentDigest::of("x")), true)
            }),
        ];
        let failed = FailedOperation { failure: RecordedFailure::Connect(word()), sent: true };
        let whole = ForwardedAnswer { is_error: true, answer: Some(word()), ..ForwardedAnswer::default() };
        let events = [
            Some(RecordedEvent::Connected),
            Some(RecordedEvent::Failed(failed)),
            Some(RecordedEvent::Forwarded(whole)),
            None,
        ];
        for (at, say) in says.into_iter().enumerate() {
            let event = events[at % events.len()].clone();
            check(&Record { steps: vec![RecordedStep { event, catalog: Some(word()), say }], ..record() });
        }
        let odd = Record { principal: None, result: None, limit: Some(7), steps: Vec::new(), ..record() };
        check(&Record { masked: vec![MaskedPart::Name, MaskedPart::Answer], unreplayable: Some(word()), ..odd });
    }

    #[test]
    fn every_letter_of_a_text_is_written_as_serde_writes_it() {
        for letter in ('\0'..='\u{ff}').chain(['\u{2028}', '\u{fffd}', '😀']) {
            for text in [letter.to_string(), format!("{}{letter}", "long before it, ".repeat(4))] {
                check(&Record { name: text.clone(), arguments: text, ..record() });
            }
        }
    }
}
