//! The recorded form of an event.

use serde::{Deserialize, Serialize};

use super::directive::ContentDigest;
use super::text::JsonText;
use crate::logic::types::execution::{Condensed, Event, Failed, Summary};
use crate::logic::types::{Failure, HttpFailure, Phase, RpcFailure};

/// The recorded form of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedEvent {
    /// The servers are connected.
    Connected,
    /// The server answered with this `result`.
    Answered(JsonText),
    /// The result went to the caller unread.
    Forwarded(ForwardedAnswer),
    /// The directive could not be carried out.
    Failed(FailedOperation),
    /// The new session is open.
    Reconnected,
    /// The new authorization was granted.
    Authenticated,
    /// The wait is over.
    Waited,
    /// The person approved or declined.
    Approved(bool),
    /// Nobody could be asked.
    Unasked,
    /// A long text was kept or summarized.
    Condensed(RecordedCondensed),
    /// The caller cancelled the call.
    Cancelled,
}

/// A result that was passed through unread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForwardedAnswer {
    /// Whether the result says `isError`.
    pub is_error: bool,
    /// The length of the result, in bytes.
    pub bytes: u64,
    /// The SHA-256 of the result, in hexadecimal.
    pub sha256: String,
    /// The result itself, if records are unmasked (`record.raw`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<String>,
}

/// A failure, and whether the request had been sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedOperation {
    /// The failure.
    pub failure: RecordedFailure,
    /// Whether the request may have reached the server.
    pub sent: bool,
}

/// The recorded form of a failure, with the names of the WIT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each has the name and the meaning of a case in the WIT")]
pub enum RecordedFailure {
    Cancelled,
    Timeout,
    Connect(String),
    Closed,
    Exited(Option<i32>),
    Http { status: u16, session: bool, challenge: bool, retry_after_ms: Option<u64> },
    Rpc { code: i64, message: String },
    Protocol(String),
    QueueFull(String),
    NeedsAuth(String),
    RestartInProgress,
    RestartFailed(String),
}

/// The recorded outcome for a text that was too long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordedCondensed {
    /// The file that keeps the text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept: Option<String>,
    /// The summary.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub summary: Option<String>,
}

impl ForwardedAnswer {
    /// Sets the length and digest of the result, and the result itself if `whole` is set.
    pub(super) fn set_answer(&mut self, answer: String, whole: bool) {
        let ContentDigest { bytes, sha256 } = ContentDigest::of(&answer);
        (self.bytes, self.sha256, self.answer) = (bytes, sha256, whole.then_some(answer));
    }
}

impl RecordedEvent {
    /// Returns the name of the event, as the WIT has it.
    pub fn name(&self) -> &'static str {
        match self {
            RecordedEvent::Connected => "connected",
            RecordedEvent::Answered(_) => "answered",
            RecordedEvent::Forwarded(_) => "forwarded",
            RecordedEvent::Failed(_) => "failed",
            RecordedEvent::Reconnected => "reconnected",
            RecordedEvent::Authenticated => "authenticated",
            RecordedEvent::Waited => "waited",
            RecordedEvent::Approved(_) => "approved",
            RecordedEvent::Unasked => "unasked",
            RecordedEvent::Condensed(_) => "condensed",
            RecordedEvent::Cancelled => "cancelled",
        }
    }

    /// Returns the texts that others wrote and that may hold secrets; JSON is not among them.
    pub(super) fn texts(&mut self) -> Vec<&mut String> {
        match self {
            RecordedEvent::Failed(FailedOperation {
                failure:
                    RecordedFailure::Connect(text)
                    | RecordedFailure::Protocol(text)
                    | RecordedFailure::QueueFull(text)
                    | RecordedFailure::NeedsAuth(text)
                    | RecordedFailure::RestartFailed(text)
                    | RecordedFailure::Rpc { message: text, .. },
                ..
            }) => vec![text],
            RecordedEvent::Condensed(RecordedCondensed { kept, summary }) => kept.iter_mut().chain(summary).collect(),
            _ => Vec::new(),
        }
    }
}

impl From<Event> for RecordedEvent {
    fn from(event: Event) -> Self {
        match event {
            Event::Connected => RecordedEvent::Connected,
            Event::Answered(json) => RecordedEvent::Answered(JsonText(json)),
            Event::Forwarded(Summary { is_error }) => {
                RecordedEvent::Forwarded(ForwardedAnswer { is_error, ..ForwardedAnswer::default() })
            }
            Event::Failed(Failed { failure, phase }) => {
                RecordedEvent::Failed(FailedOperation { failure: failure.into(), sent: phase == Phase::Sent })
            }
            Event::Reconnected => RecordedEvent::Reconnected,
            Event::Authenticated => RecordedEvent::Authenticated,
            Event::Waited => RecordedEvent::Waited,
            Event::Approved(yes) => RecordedEvent::Approved(yes),
            Event::Unasked => RecordedEvent::Unasked,
            Event::Condensed(Condensed { kept, summary }) => {
                RecordedEvent::Condensed(RecordedCondensed { kept, summary })
            }
            Event::Cancelled => RecordedEvent::Cancelled,
        }
    }
}

impl From<&RecordedEvent> for Event {
    fn from(event: &RecordedEvent) -> Self {
        match event {
            RecordedEvent::Connected => Event::Connected,
            RecordedEvent::Answered(JsonText(json)) => Event::Answered(json.clone()),
            RecordedEvent::Forwarded(forwarded) => Event::Forwarded(Summary { is_error: forwarded.is_error }),
            RecordedEvent::Failed(FailedOperation { failure, sent }) => Event::Failed(Failed {
                failure: failure.clone().into(),
                phase: if *sent { Phase::Sent } else { Phase::NotSent },
            }),
            RecordedEvent::Reconnected => Event::Reconnected,
            RecordedEvent::Authenticated => Event::Authenticated,
            RecordedEvent::Waited => Event::Waited,
            RecordedEvent::Approved(yes) => Event::Approved(*yes),
            RecordedEvent::Unasked => Event::Unasked,
            RecordedEvent::Condensed(RecordedCondensed { kept, summary }) => {
                Event::Condensed(Condensed { kept: kept.clone(), summary: summary.clone() })
            }
            RecordedEvent::Cancelled => Event::Cancelled,
        }
    }
}

impl From<Failure> for RecordedFailure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled => RecordedFailure::Cancelled,
            Failure::Timeout => RecordedFailure::Timeout,
            Failure::Connect(why) => RecordedFailure::Connect(why),
            Failure::Closed => RecordedFailure::Closed,
            Failure::Exited(code) => RecordedFailure::Exited(code),
            Failure::Http(HttpFailure { status, session, challenge, retry_after_ms }) => {
                RecordedFailure::Http { status, session, challenge, retry_after_ms }
            }
            Failure::Rpc(RpcFailure { code, message }) => RecordedFailure::Rpc { code, message },
            Failure::Protocol(why) => RecordedFailure::Protocol(why),
            Failure::QueueFull(why) => RecordedFailure::QueueFull(why),
            Failure::NeedsAuth(why) => RecordedFailure::NeedsAuth(why),
            Failure::RestartInProgress => RecordedFailure::RestartInProgress,
            Failure::RestartFailed(why) => RecordedFailure::RestartFailed(why),
        }
    }
}

impl From<RecordedFailure> for Failure {
    fn from(shape: RecordedFailure) -> Self {
        match shape {
            RecordedFailure::Cancelled => Failure::Cancelled,
            RecordedFailure::Timeout => Failure::Timeout,
            RecordedFailure::Connect(why) => Failure::Connect(why),
            RecordedFailure::Closed => Failure::Closed,
            RecordedFailure::Exited(code) => Failure::Exited(code),
            RecordedFailure::Http { status, session, challenge, retry_after_ms } => {
                Failure::Http(HttpFailure { status, session, challenge, retry_after_ms })
            }
            RecordedFailure::Rpc { code, message } => Failure::Rpc(RpcFailure { code, message }),
            RecordedFailure::Protocol(why) => Failure::Protocol(why),
            RecordedFailure::QueueFull(why) => Failure::QueueFull(why),
            RecordedFailure::NeedsAuth(why) => Failure::NeedsAuth(why),
            RecordedFailure::RestartInProgress => Failure::RestartInProgress,
            RecordedFailure::RestartFailed(why) => Failure::RestartFailed(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_comes_back_as_it_was() {
        let failed = |failure| Event::Failed(Failed { failure, phase: Phase::Sent });
        let events = [
            Event::Connected,
            Event::Answered("{\"a\":\n1}".to_owned()),
            Event::Answered("\"no object\"".to_owned()),
            Event::Forwarded(Summary { is_error: true }),
            failed(Failure::Cancelled),
            failed(Failure::Timeout),
            failed(Failure::Connect("why".to_owned())),
            failed(Failure::Closed),
            failed(Failure::Exited(None)),
            failed(Failure::Exited(Some(-1))),
            failed(Failure::Http(HttpFailure {
                status: 429,
                session: true,
                challenge: false,
                retry_after_ms: Some(5),
            })),
            failed(Failure::Rpc(RpcFailure { code: -32_000, message: "why".to_owned() })),
            failed(Failure::Protocol("why".to_owned())),
            failed(Failure::QueueFull("why".to_owned())),
            failed(Failure::NeedsAuth("why".to_owned())),
            failed(Failure::RestartInProgress),
            failed(Failure::RestartFailed("why".to_owned())),
            Event::Reconnected,
            Event::Authenticated,
            Event::Waited,
            Event::Approved(true),
            Event::Unasked,
            Event::Condensed(Condensed { kept: Some("/x".to_owned()), summary: None }),
            Event::Cancelled,
        ];
        for event in events {
            let told = RecordedEvent::from(event.clone());
            let json = serde_json::to_string(&told).unwrap();
            let read: RecordedEvent = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(read, told, "{json}");
            assert_eq!(Event::from(&read), event, "{json}");
            assert!(json.contains(told.name()), "{json}");
        }
    }

    #[test]
    fn an_answer_that_passed_unread_is_known_by_its_digest() {
        let mut forwarded = ForwardedAnswer::default();
        forwarded.set_answer("{}".to_owned(), false);
        let json = serde_json::to_string(&RecordedEvent::Forwarded(forwarded.clone())).unwrap();
        assert!(json.starts_with(r#"{"forwarded":{"is_error":false,"bytes":2,"sha256":"44136fa3"#), "{json}");
        assert_eq!(serde_json::from_str::<RecordedEvent>(&json).unwrap(), RecordedEvent::Forwarded(forwarded));
    }
}
