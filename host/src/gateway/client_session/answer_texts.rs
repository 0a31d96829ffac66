//! Which texts a client brings to a server by its answer to a question.

use serde_json::Value;
use serde_json::value::RawValue;

use super::questions::{DISCONNECTED, UNANSWERED};
use crate::failure::RpcError;
use crate::json::{self, JsonObject};
use crate::session::{ServerQuestion, Topic};

/// Returns the texts of an answer that the question does not list: it may list the fields of a form and their choices.
/// Names that are there twice all count, since the answer goes to the server as it is.
pub(super) fn answer_texts(question: &ServerQuestion, answer: &Result<Box<RawValue>, RpcError>) -> Vec<String> {
    let mut found = AnswerTexts::default();
    match answer {
        Ok(answer) if question.topic == Topic::Elicitation => found.read_form(&question.params, answer),
        Ok(answer) => found.read_value(answer, &PROTOCOL_WORDS.map(str::to_owned), 0),
        Err(error) if error.data.is_none() && [DISCONNECTED, UNANSWERED].contains(&&*error.message) => {}
        Err(error) => {
            found.texts.push(error.message.clone());
            found.texts.extend(error.data.as_deref().map(|data| data.get().to_owned()));
        }
    }
    // Many digits are text to some reader, as in the arguments of a call.
    if found.numbers.iter().map(|number| count_digits(number)).sum::<usize>() > MAX_FREE_DIGITS {
        found.texts.append(&mut found.numbers);
    }
    found.texts
}

/// What an answer brings beside what its question lists.
#[derive(Default)]
struct AnswerTexts {
    texts: Vec<String>,
    numbers: Vec<String>,
}

impl AnswerTexts {
    /// Reads the answer to a form.
    fn read_form(&mut self, question: &RawValue, answer: &RawValue) {
        let Some(members) = JsonObject::read(answer.get()) else {
            self.texts.push(answer.get().to_owned());
            return;
        };
        let schema = JsonObject::read(question.get()).unwrap_or_default();
        let schema = schema.get("requestedSchema").and_then(read_object).unwrap_or_default();
        let fields = schema.get("properties").and_then(read_object).unwrap_or_default();
        for (name, value) in members.iter() {
            match (name, read_object(value)) {
                ("action", _) if ACTIONS.contains(&json::string_value(value).as_deref().unwrap_or_default()) => {}
                ("content", Some(content)) => self.read_fields(&fields, &content),
                _ => self.read_member(name, value, &["content".to_owned()], 0),
            }
        }
    }

    /// Reads the values of a form's fields.
    fn read_fields(&mut self, fields: &JsonObject, content: &JsonObject) {
        for (name, value) in content.iter() {
            let mut listed = Vec::new();
            if let Some(field) = fields.get(name) {
                listed.push(name.to_owned());
                let field: Value = serde_json::from_str(field.get()).unwrap_or_default();
                add_choices(&field, &mut listed);
            }
            self.read_member(name, value, &listed, 0);
        }
    }

    fn read_member(&mut self, name: &str, value: &RawValue, listed: &[String], depth: usize) {
        if !listed.iter().any(|other| other == name) {
            self.texts.push(name.to_owned());
        }
        self.read_value(value, listed, depth);
    }

    /// Reads a value; texts and names that are listed do not count. A value that is nested deeper than any question asks
    /// for is text as a whole.
    fn read_value(&mut self, value: &RawValue, listed: &[String], depth: usize) {
        let json = value.get();
        if depth > MAX_DEPTH {
            self.texts.push(json.to_owned());
        } else if let Some(text) = json::string_value(value) {
            if !text.is_empty() && !listed.contains(&text) {
                self.texts.push(text);
            }
        } else if let Some(members) = read_object(value) {
            members.iter().for_each(|(name, value)| self.read_member(name, value, listed, depth + 1));
        } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) {
            items.into_iter().for_each(|item| self.read_value(item, listed, depth + 1));
        } else if json.starts_with(|sign: char| sign == '-' || sign.is_ascii_digit()) {
            if !listed.iter().any(|choice| choice == json) {
                self.numbers.push(json.to_owned());
            }
        } else if !["null", "true", "false"].contains(&json) {
            self.texts.push(json.to_owned());
        }
    }
}

fn read_object(value: &RawValue) -> Option<JsonObject> {
    JsonObject::read(value.get())
}

fn count_digits(number: &str) -> usize {
    number.bytes().filter(u8::is_ascii_digit).count()
}

/// Adds the values that the schema of a field lists.
fn add_choices(schema: &Value, listed: &mut Vec<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| add_choices(item, listed)),
        Value::Object(members) => {
            for (keyword, value) in members {
                match (keyword.as_str(), value) {
                    ("enum", Value::Array(choices)) => listed.extend(choices.iter().map(choice_text)),
                    ("const", choice) => listed.push(choice_text(choice)),
                    _ => add_choices(value, listed),
                }
            }
        }
        _ => {}
    }
}

fn choice_text(choice: &Value) -> String {
    choice.as_str().map_or_else(|| choice.to_string(), str::to_owned)
}

/// What a person may do with a form.
const ACTIONS: [&str; 3] = ["accept", "decline", "cancel"];
/// What the protocol itself writes in answers about models and roots.
const PROTOCOL_WORDS: [&str; 12] =
    ["role", "user", "assistant", "content", "type", "text", "model", "stopReason", "endTurn", "roots", "uri", "name"];
/// How deep an answer is read.
const MAX_DEPTH: usize = 16;
/// How many digits the numbers of an answer may have together without being text.
const MAX_FREE_DIGITS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::code::INTERNAL_ERROR;

    const FORM: &str = r#"{"message":"m","requestedSchema":{"type":"object","properties":{
        "sure":{"type":"boolean"},"size":{"type":"string","enum":["small","large"]},"count":{"type":"integer"},
        "kinds":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"},{"const":"b"}]}},"name":{"type":"string"}}}}"#;

    fn texts(topic: Topic, params: &str, answer: &str) -> String {
        let raw = |json: &str| RawValue::from_string(json.to_owned()).unwrap();
        answer_texts(&ServerQuestion::new(topic, raw(params)), &Ok(raw(answer))).join("|")
    }

    #[test]
    fn what_a_form_lists_is_no_text_of_the_clients_own() {
        for (answer, expected) in [
            (r#"{"action":"accept","content":{"sure":true,"size":"small","count":1234567,"kinds":["a","b"]}}"#, ""),
            (r#"{"action":"decline"}"#, ""),
            (r#"{"action":"cancel","content":null}"#, ""),
            (r#"{"action":"accept","content":{"name":"","size":null}}"#, ""),
            (r#"{"action":"accept","content":{"name":"eve"}}"#, "eve"),
            (r#"{"action":"accept","content":{"name":"small"}}"#, "small"),
            (r#"{"action":"accept","content":{"eve":true}}"#, "eve"),
            (r#"{"action":"accept","content":{"sure":{"eve":1}}}"#, "eve"),
            (r#"{"action":"accept","content":{"sure":["e","v"]}}"#, "e|v"),
            (r#"{"action":"accept","content":{"sure":true},"content":{"sure":"eve"}}"#, "eve"),
            (r#"{"action":"accept","content":{"count":12345678}}"#, "12345678"),
            (r#"{"action":"eve"}"#, "action|eve"),
            (r#"{"action":"accept","_meta":{"x":"eve"}}"#, "_meta|x|eve"),
            (r#"["eve"]"#, r#"["eve"]"#),
            (r#"{"action":"accept","content":{"sure":[[[[[[[[[[[[[[[[[true]]]]]]]]]]]]]]]]]}}"#, "true"),
        ] {
            assert_eq!(texts(Topic::Elicitation, FORM, answer), expected, "{answer}");
        }
    }

    #[test]
    fn what_a_model_says_and_where_roots_are_is_text() {
        let said = r#"{"role":"assistant","content":{"type":"text","text":"eve"},"model":"m","stopReason":"endTurn"}"#;
        assert_eq!(texts(Topic::Sampling, "{}", said), "eve|m");
        assert_eq!(texts(Topic::Roots, "{}", r#"{"roots":[]}"#), "");
        assert_eq!(texts(Topic::Roots, "{}", r#"{"roots":[{"uri":"file:///eve","name":"e"}]}"#), "file:///eve|e");
    }

    #[test]
    fn an_error_of_the_client_is_text_and_one_of_the_gateway_is_none() {
        let question = ServerQuestion::new(Topic::Roots, RawValue::from_string("{}".to_owned()).unwrap());
        let texts = |error| answer_texts(&question, &Err(error));
        assert_eq!(texts(RpcError::new(INTERNAL_ERROR, UNANSWERED)), Vec::<String>::new());
        assert_eq!(texts(RpcError::new(1, "eve")), ["eve"]);
        let data = Some(RawValue::from_string(r#"{"x":"eve"}"#.to_owned()).unwrap());
        assert_eq!(texts(RpcError { data, ..RpcError::new(INTERNAL_ERROR, UNANSWERED) }).len(), 2);
    }
}
