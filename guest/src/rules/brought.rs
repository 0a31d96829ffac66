//! Whether an agent brings text of its own to a server: text that the server's schema does not list, and that the agent
//! does not know.

use std::collections::BTreeSet;

use crate::json::Value;

/// What a tool's schema lists.
#[derive(Default)]
struct Listed<'s> {
    /// The names of members.
    names: BTreeSet<&'s str>,
    /// Texts and numbers that can be chosen.
    choices: BTreeSet<&'s str>,
}

/// A search for text in the arguments of a call.
struct Search<'a> {
    listed: Listed<'a>,
    is_known: &'a dyn Fn(&str) -> bool,
    /// The number of digits of all numbers so far that are neither listed nor known.
    digits: usize,
}

/// Reports whether arguments have text that the schema does not list and that is not known. Names of members are text
/// too, and so are numbers that have as many digits together as an account number: some server reads them as text.
pub(super) fn brings_text(arguments: &Value<'_>, schema: Option<&Value<'_>>, is_known: &dyn Fn(&str) -> bool) -> bool {
    let mut listed = Listed::default();
    if let Some(schema) = schema {
        listed.read_schema(schema);
    }
    Search { listed, is_known, digits: 0 }.finds_text(arguments)
}

impl<'s> Listed<'s> {
    /// Adds what a schema lists, wherever in it.
    fn read_schema(&mut self, schema: &'s Value<'_>) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| self.read_schema(item)),
            Value::Object(members) => {
                for (keyword, value) in members.iter() {
                    match (keyword, value) {
                        ("enum" | "const", choice) => self.add_choice(choice),
                        ("properties", Value::Object(properties)) => {
                            self.names.extend(properties.iter().map(|(name, _)| name));
                        }
                        _ => {}
                    }
                    self.read_schema(value);
                }
            }
            _ => {}
        }
    }

    /// Adds a value that can be chosen, with all that is in it.
    fn add_choice(&mut self, choice: &'s Value<'_>) {
        match choice {
            Value::Null | Value::Bool(_) => {}
            Value::Number(text) | Value::String(text) => {
                self.choices.insert(text);
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_choice(item)),
            Value::Object(members) => {
                for (name, value) in members.iter() {
                    self.names.insert(name);
                    self.add_choice(value);
                }
            }
        }
    }
}

impl Search<'_> {
    /// Reports whether a value has text that is neither listed nor known.
    fn finds_text(&mut self, value: &Value<'_>) -> bool {
        match value {
            Value::Null | Value::Bool(_) => false,
            Value::String(text) => !(text.is_empty() || self.listed.choices.contains(&**text) || (self.is_known)(text)),
            Value::Number(number) => {
                if !self.listed.choices.contains(&**number) && !(self.is_known)(number) {
                    self.digits += number.bytes().filter(u8::is_ascii_digit).count();
                }
                self.digits > MAX_FREE_DIGITS
            }
            Value::Array(items) => items.iter().any(|item| self.finds_text(item)),
            Value::Object(members) => {
                members.iter().any(|(name, value)| self.is_own_name(name) || self.finds_text(value))
            }
        }
    }

    /// Reports whether the name of a member is neither listed nor known.
    fn is_own_name(&self, name: &str) -> bool {
        !self.listed.names.contains(name) && !(self.is_known)(name)
    }
}

/// How many digits the numbers of a call may have together without being text: fewer than an account number has.
const MAX_FREE_DIGITS: usize = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    const SCHEMA: &str = r##"{"type":"object","properties":{"name":{"type":"string"},"number":{"type":"number"},
        "kind":{"enum":["person",{"deep":["firm"]},5550100199]},"mark":{"const":"new"},
        "filter":{"anyOf":[{"properties":{"by":{"$ref":"#/$defs/by"}}},{"type":"null"}]}},
        "$defs":{"by":{"oneOf":[{"const":"date"},{"const":"size"}]}},"default":{"name":"somebody"}}"##;

    fn brings(schema: Option<&str>, arguments: &str) -> bool {
        let schema = schema.map(|schema| parse(schema).unwrap());
        let is_known = |text: &str| ["ann", "12345678"].contains(&text);
        brings_text(&parse(arguments).unwrap(), schema.as_ref(), &is_known)
    }

    #[test]
    fn what_the_schema_lists_or_the_agent_knows_is_no_text_of_its_own() {
        for arguments in [
            "{}",
            "null",
            r#"{"name":"ann","number":1234567}"#,
            r#"{"name":"","number":-1.5e3,"mark":"new"}"#,
            r#"{"kind":"person"}"#,
            r#"{"kind":{"deep":["firm",null,true]},"number":5550100199}"#,
            r#"{"filter":{"by":"size"},"name":["ann",["ann"]]}"#,
            r#"{"number":12345678}"#,
            r#"{"name":"12345678"}"#,
        ] {
            assert!(!brings(Some(SCHEMA), arguments), "{arguments}");
        }
        assert!(!brings(None, r#"{"ann":null}"#));
    }

    #[test]
    fn all_other_text_is_its_own_wherever_it_is() {
        for arguments in [
            r#"{"name":"eve"}"#,
            r#"{"name":"ann eve"}"#,
            r#"{"name":" "}"#,
            r#"{"name":"7"}"#,
            r#"{"name":"somebody"}"#,
            r#"{"name":"name"}"#,
            r#"{"other":null}"#,
            r#"{"filter":{"eve":true}}"#,
            r#"{"filter":[[{"by":["eve"]}]]}"#,
            r#"{"number":87654321}"#,
            r#"{"number":9300000000000000999}"#,
            r#"{"number":1.2345678}"#,
            r#"{"number":[101,118,101,64]}"#,
            r#"{"number":2026,"filter":{"by":11190}}"#,
            r#""eve""#,
        ] {
            assert!(brings(Some(SCHEMA), arguments), "{arguments}");
        }
        for arguments in [r#"{"name":"ann"}"#, r#"{"kind":"person"}"#] {
            assert!(brings(None, arguments), "{arguments}");
        }
    }
}
