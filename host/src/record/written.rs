//! A record as JSON, in the form that serde reads. What nearly every record has is written here, the rest by serde: it looks
//! at texts byte by byte, and that took a third of the time of recording a call.

use serde::Serialize;

use super::line::{Record, Step};
use super::said::{Digest, Ended, Said, Sent};
use super::told::{Forwarded, Told};

impl Record {
    /// Appends the record, without its seal.
    pub(super) fn write(&self, line: &mut Vec<u8>) {
        let mut object = Object::begin(line);
        object.json("v", &self.v);
        object.text("id", &self.id);
        object.text("at", &self.at);
        object.json("ms", &self.ms);
        object.some("principal", self.principal.as_deref(), text);
        object.text("component", &self.component);
        object.text("settings", &self.settings);
        object.text("catalog", &self.catalog);
        object.text("name", &self.name);
        object.text("arguments", &self.arguments);
        object.list("steps", &self.steps, step);
        object.some("result", self.result.as_ref(), digest);
        object.some("limit", self.limit.as_ref(), json);
        object.some("masked", Some(&self.masked).filter(|masked| !masked.is_empty()), json);
        object.some("unreplayable", self.unreplayable.as_deref(), text);
        object.end();
    }
}

fn step(line: &mut Vec<u8>, step: &Step) {
    let mut object = Object::begin(line);
    object.some("event", step.event.as_ref(), told);
    object.some("catalog", step.catalog.as_deref(), text);
    object.member("say", &step.say, said);
    object.end();
}

fn told(line: &mut Vec<u8>, told: &Told) {
    match told {
        Told::Forwarded(told) => one(line, "forwarded", told, forwarded),
        seldom => json(line, seldom),
    }
}

fn forwarded(line: &mut Vec<u8>, forwarded: &Forwarded) {
    let mut object = Object::begin(line);
    object.json("is_error", &forwarded.is_error);
    object.json("bytes", &forwarded.bytes);
    object.text("sha256", &forwarded.sha256);
    object.some("answer", forwarded.answer.as_deref(), text);
    object.end();
}

fn said(line: &mut Vec<u8>, said: &Said) {
    match said {
        Said::Request(request) => one(line, "request", request, sent),
        Said::Done(done) => one(line, "done", &**done, ended),
        seldom => json(line, seldom),
    }
}

fn sent(line: &mut Vec<u8>, sent: &Sent) {
    let mut object = Object::begin(line);
    object.text("server", &sent.server);
    object.text("method", &sent.method);
    object.json("params", &sent.params);
    object.some("forward_up_to", sent.forward_up_to.as_ref(), json);
    object.end();
}

fn ended(line: &mut Vec<u8>, ended: &Ended) {
    let mut object = Object::begin(line);
    object.text("code", &ended.code);
    object.some("server", ended.server.as_deref(), text);
    object.some("tool", ended.tool.as_deref(), text);
    object.some("text", ended.text.as_deref(), text);
    object.some("content", ended.content.as_ref(), digest);
    object.json("attempts", &ended.attempts);
    object.some("truncated", Some(&ended.truncated).filter(|truncated| **truncated), json);
    object.list("trace", &ended.trace, |line, note| text(line, note));
    object.end();
}

fn digest(line: &mut Vec<u8>, digest: &Digest) {
    let mut object = Object::begin(line);
    object.json("bytes", &digest.bytes);
    object.text("sha256", &digest.sha256);
    object.end();
}

/// An object with one member.
fn one<T: ?Sized>(line: &mut Vec<u8>, key: &str, value: &T, write: fn(&mut Vec<u8>, &T)) {
    let mut object = Object::begin(line);
    object.member(key, value, write);
    object.end();
}

/// A text, which mostly needs nothing but its quotes.
fn text(line: &mut Vec<u8>, text: &str) {
    // All of it is looked at, without a way out in between, so that it is looked at many bytes at a time.
    let special = |special: bool, byte: u8| special | (byte < b' ') | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, special) {
        return json(line, text);
    }
    line.reserve(text.len() + 2);
    line.push(b'"');
    line.extend_from_slice(text.as_bytes());
    line.push(b'"');
}

/// Whatever else there is.
fn json<T: Serialize + ?Sized>(line: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(line, value).expect("a record has string keys only, so it is always JSON");
}

/// An object of which the members are written one after the other.
struct Object<'a> {
    line: &'a mut Vec<u8>,
    empty: bool,
}

impl<'a> Object<'a> {
    fn begin(line: &'a mut Vec<u8>) -> Self {
        line.push(b'{');
        Object { line, empty: true }
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
        self.member(key, value, text);
    }

    fn json<T: Serialize>(&mut self, key: &str, value: &T) {
        self.member(key, value, json);
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
    use super::super::line::Hidden;
    use super::super::line::tests::record;
    use super::super::said::{Asked, Long};
    use super::super::text::Text;
    use super::super::told::{FailedShape, FailureShape};
    use super::*;

    /// Writes the record as serde would, and reads it back.
    fn check(record: &Record) {
        let mut line = b"kept ".to_vec();
        record.write(&mut line);
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text.strip_prefix("kept "), Some(&*serde_json::to_string(record).unwrap()));
        assert_eq!(&serde_json::from_str::<Record>(&text[5..]).unwrap(), record);
    }

    fn ended(change: impl FnOnce(&mut Ended)) -> Said {
        let Some(Said::Done(mut ended)) = record().steps.pop().map(|step| step.say) else { panic!("it is over") };
        change(&mut ended);
        Said::Done(ended)
    }

    #[test]
    fn every_part_of_a_record_is_written_as_serde_writes_it() {
        check(&record());
        let word = || "w".to_owned();
        let text = || Text("{\"k\":1.10}".to_owned());
        let says = [
            Said::Connect(vec![word(), word()]),
            Said::Request(Sent { server: word(), method: word(), params: text(), forward_up_to: None }),
            Said::Request(Sent {
                server: word(),
                method: word(),
                params: Text("no JSON".to_owned()),
                forward_up_to: None,
            }),
            Said::Reconnect(word()),
            Said::Wait { min_ms: 1, max_ms: 2 },
            Said::Ask(Asked { server: word(), tool: word(), arguments: text(), reason: word() }),
            Said::Condense(Long { server: word(), tool: word(), text: Digest::of("x"), spill: true, summarize: false }),
            ended(|ended| (ended.server, ended.tool, ended.trace) = (None, None, Vec::new())),
            ended(|ended| (ended.text, ended.content, ended.truncated) = (Some(word()), Some(Digest::of("x")), true)),
        ];
        let failed = FailedShape { failure: FailureShape::Connect(word()), sent: true };
        let whole = Forwarded { is_error: true, answer: Some(word()), ..Forwarded::default() };
        let events = [Some(Told::Connected), Some(Told::Failed(failed)), Some(Told::Forwarded(whole)), None];
        for (at, say) in says.into_iter().enumerate() {
            let event = events[at % events.len()].clone();
            check(&Record { steps: vec![Step { event, catalog: Some(word()), say }], ..record() });
        }
        let odd = Record { principal: None, result: None, limit: Some(7), steps: Vec::new(), ..record() };
        check(&Record { masked: vec![Hidden::Name, Hidden::Answer], unreplayable: Some(word()), ..odd });
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
