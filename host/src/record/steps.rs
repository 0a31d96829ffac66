//! The steps of a call, as they are recorded and replayed.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::digest::ContentDigest;
use super::directive::RecordedDirective;
use crate::contract_json::json_text::JsonText;
use crate::logic::OfferedTools;
use crate::logic::types::execution::{Directive, Event};
use crate::session::Reply;

/// An event, and the directive that followed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// The event; none before the first directive.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "read_event")]
    pub event: Option<Event>,
    /// The result that the event says was passed through unread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forwarded: Option<ForwardedAnswer>,
    /// The digest of the tools that servers had offered by then, if they had changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catalog: Option<String>,
    /// The directive.
    pub directive: RecordedDirective,
}

/// A result that was passed through unread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForwardedAnswer {
    /// The length and digest of the result.
    #[serde(flatten)]
    pub digest: ContentDigest,
    /// The result itself, if records are unmasked (`record.raw`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// Reads an event; an answer that is not an object on one line is written as a string.
fn read_event<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Event>, D::Error> {
    let event = Option::deserialize(deserializer)?;
    Ok(event.map(|event| match event {
        Event::Answered(json) => Event::Answered(JsonText(json).unquoted()),
        other => other,
    }))
}

/// Returns the recorded steps of a call that began with these offered tools, and for each step the offers that had
/// changed before it, where the call depends on them. A result that was passed through is included if `whole` is set,
/// else only its digest.
pub(crate) fn steps(
    begun: &OfferedTools,
    directives: Vec<Directive>,
    events: Vec<(OfferedTools, Event)>,
    answer: Option<Reply>,
    whole: bool,
) -> (Vec<RecordedStep>, Vec<Option<OfferedTools>>) {
    let (mut offered, mut recorded) = (vec![None], vec![None]);
    // The last event has no directive if the call was dropped, so leave it out.
    for (before, (now, event)) in directives.iter().zip(events).take(directives.len().saturating_sub(1)) {
        // Once a call has found its tool, later offers do not affect it.
        let matters = matches!(before, Directive::Connect(_)) && !Arc::ptr_eq(&now, begun);
        offered.push(matters.then_some(now));
        recorded.push(Some(event));
    }
    let step = |(directive, event)| RecordedStep {
        event,
        forwarded: None,
        catalog: None,
        directive: RecordedDirective::from(directive),
    };
    let mut steps: Vec<RecordedStep> = directives.into_iter().zip(recorded).map(step).collect();
    if let (Some(answer), Some(RecordedStep { event: Some(Event::Forwarded(_)), forwarded, .. })) =
        (answer, steps.last_mut())
    {
        let json = answer.into_json();
        *forwarded = Some(ForwardedAnswer { digest: ContentDigest::of(&json), answer: whole.then_some(json) });
    }
    (steps, offered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::execution::Summary;

    fn check(event: Event, forwarded: Option<ForwardedAnswer>) -> String {
        let directive = RecordedDirective::Reconnect("a".to_owned());
        let step = RecordedStep { event: Some(event), forwarded, catalog: None, directive };
        let json = serde_json::to_string(&step).unwrap();
        assert!(!json.contains('\n'), "{json}");
        let read: RecordedStep = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
        assert_eq!(read, step, "{json}");
        json
    }

    #[test]
    fn every_answer_comes_back_byte_for_byte() {
        for answer in ["{\"a\":1.10}", "{\"a\":\n1}", "\"no object\"", "12", "no JSON", ""] {
            check(Event::Answered(answer.to_owned()), None);
        }
    }

    #[test]
    fn an_answer_that_passed_unread_is_known_by_its_digest() {
        let forwarded = ForwardedAnswer { digest: ContentDigest::of("{}"), answer: None };
        let json = check(Event::Forwarded(Summary { is_error: false }), Some(forwarded));
        let start = r#"{"event":{"forwarded":{"is_error":false}},"forwarded":{"bytes":2,"sha256":"44136fa3"#;
        assert!(json.starts_with(start), "{json}");
        let whole = ForwardedAnswer { digest: ContentDigest::of("{}"), answer: Some("{}".to_owned()) };
        check(Event::Forwarded(Summary { is_error: true }), Some(whole));
    }
}
