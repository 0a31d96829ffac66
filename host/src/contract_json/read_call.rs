//! A call that was found in a text, as JSON.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::logic::types::reading::ReadCall;
use crate::words::NamedCase;

/// A call that was found in a text.
#[derive(Debug, Serialize)]
pub(crate) struct ReadCallJson {
    name: String,
    arguments: Box<RawValue>,
    form: &'static str,
    standing: &'static str,
    start: u64,
    end: u64,
}

impl From<ReadCall> for ReadCallJson {
    fn from(ReadCall { name, arguments, form, standing, start, end }: ReadCall) -> Self {
        let arguments = RawValue::from_string(arguments).expect("the supervisor has checked that it is an object");
        ReadCallJson { name, arguments, form: form.name(), standing: standing.name(), start, end }
    }
}
