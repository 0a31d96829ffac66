//! Client capabilities, and whether a server's question needs one that is missing.

use serde_json::value::RawValue;

use super::Topic;
use crate::json::{self, JsonObject};

/// A capability that a client would have to declare to be asked a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MissingCapability {
    /// The capability itself.
    Capability,
    /// A part of it, such as `url` of `elicitation`.
    Part(String),
}

/// Returns the capability that a client lacks for a question, if any.
pub(crate) fn missing_capability(
    capabilities: &JsonObject,
    topic: Topic,
    params: Option<&RawValue>,
) -> Option<MissingCapability> {
    let Some(declared) = capabilities.get(topic.capability()) else { return Some(MissingCapability::Capability) };
    let declared = JsonObject::read(declared.get()).unwrap_or_default();
    let params = params.and_then(|params| JsonObject::read(params.get())).unwrap_or_default();
    let part = match topic {
        Topic::Roots => None,
        Topic::Sampling if params.get("tools").is_some() || params.get("toolChoice").is_some() => {
            Some("tools".to_owned())
        }
        Topic::Sampling => None,
        // A capability without modes means forms (2025-11-25, elicitation).
        Topic::Elicitation => {
            let mode = params.get("mode").map_or_else(|| Some(FORM.to_owned()), json::string_value).unwrap_or_default();
            Some(mode).filter(|mode| mode != FORM || declared.get("url").is_some())
        }
    };
    part.filter(|part| declared.get(part).is_none()).map(MissingCapability::Part)
}

const FORM: &str = "form";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_only_in_ways_that_it_declared() {
        let part = |name: &str| Some(MissingCapability::Part(name.to_owned()));
        let (form, url) = (r#"{"mode":"form"}"#, r#"{"mode":"url","url":"https://a.example"}"#);
        for (declared, topic, params, expected) in [
            ("{}", Topic::Elicitation, form, Some(MissingCapability::Capability)),
            (r#"{"elicitation":{}}"#, Topic::Elicitation, "{}", None),
            (r#"{"elicitation":{}}"#, Topic::Elicitation, form, None),
            (r#"{"elicitation":{}}"#, Topic::Elicitation, url, part("url")),
            (r#"{"elicitation":{"form":{}}}"#, Topic::Elicitation, url, part("url")),
            (r#"{"elicitation":{"url":{}}}"#, Topic::Elicitation, url, None),
            (r#"{"elicitation":{"url":{}}}"#, Topic::Elicitation, "{}", part("form")),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, Topic::Elicitation, form, None),
            (r#"{"elicitation":{}}"#, Topic::Elicitation, r#"{"mode":7}"#, part("")),
            (r#"{"sampling":{}}"#, Topic::Sampling, r#"{"messages":[]}"#, None),
            (r#"{"sampling":{}}"#, Topic::Sampling, r#"{"messages":[],"tools":[]}"#, part("tools")),
            (r#"{"sampling":{"tools":{}}}"#, Topic::Sampling, r#"{"tools":[]}"#, None),
            (r#"{"roots":{}}"#, Topic::Roots, "{}", None),
        ] {
            let params = RawValue::from_string(params.to_owned()).unwrap();
            let lacks = missing_capability(&JsonObject::read(declared).unwrap(), topic, Some(&params));
            assert_eq!(lacks, expected, "{declared} {topic:?} {params}");
        }
    }
}
