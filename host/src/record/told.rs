//! An event as it is recorded.

use serde::{Deserialize, Serialize};

use super::said::Digest;
use super::text::Text;
use crate::logic::types::execution::{Condensed, Event, Failed, Summary};
use crate::logic::types::{Failure, HttpFailure, Phase, RpcFailure};

/// What the component was told, as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The servers are connected.
    Connected,
    /// The `result` of an answer.
    Answered(Text),
    /// An answer went to the caller unread.
    Forwarded(Forwarded),
    /// The directive could not be carried out.
    Failed(FailedShape),
    /// The new session stands.
    Reconnected,
    /// The new authorization is there.
    Authenticated,
    /// The wait is over.
    Waited,
    /// What the person said.
    Approved(bool),
    /// There was nobody to ask.
    Unasked,
    /// What became of a text that was too long.
    Condensed(CondensedShape),
    /// The caller gave up.
    Cancelled,
}

/// An answer that went to the caller unread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Forwarded {
    /// The answer says `isError`.
    pub is_error: bool,
    /// How many bytes it had.
    pub bytes: u64,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
    /// The answer itself, where all is recorded as it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub answer: Option<String>,
}

/// A failure, and how far the operation had come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailedShape {
    /// What failed.
    pub failure: FailureShape,
    /// The request may have reached the server.
    pub sent: bool,
}

/// What failed, under the names of the WIT.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "each has the name and the meaning of a case in the WIT")]
pub enum FailureShape {
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

/// What became of a text that was too long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CondensedShape {
    /// Where it is kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kept: Option<String>,
    /// A shorter text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub summary: Option<String>,
}

impl Forwarded {
    /// Takes the answer itself, or what it is known by.
    pub(super) fn take(&mut self, answer: String, whole: bool) {
        let Digest { bytes, sha256 } = Digest::of(&answer);
        (self.bytes, self.sha256, self.answer) = (bytes, sha256, whole.then_some(answer));
    }
}

impl Told {
    /// The name of the event, as the WIT has it.
    pub fn name(&self) -> &'static str {
        match self {
            Told::Connected => "connected",
            Told::Answered(_) => "answered",
            Told::Forwarded(_) => "forwarded",
            Told::Failed(_) => "failed",
            Told::Reconnected => "reconnected",
            Told::Authenticated => "authenticated",
            Told::Waited => "waited",
            Told::Approved(_) => "approved",
            Told::Unasked => "unasked",
            Told::Condensed(_) => "condensed",
            Told::Cancelled => "cancelled",
        }
    }

    /// The texts in it that others wrote, each of which may hold a secret; JSON is not among them.
    pub(super) fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Told::Failed(FailedShape {
                failure:
                    FailureShape::Connect(text)
                    | FailureShape::Protocol(text)
                    | FailureShape::QueueFull(text)
                    | FailureShape::NeedsAuth(text)
                    | FailureShape::RestartFailed(text)
                    | FailureShape::Rpc { message: text, .. },
                ..
            }) => vec![text],
            Told::Condensed(CondensedShape { kept, summary }) => kept.iter_mut().chain(summary).collect(),
            _ => Vec::new(),
        }
    }
}

impl From<Event> for Told {
    fn from(event: Event) -> Self {
        match event {
            Event::Connected => Told::Connected,
            Event::Answered(json) => Told::Answered(Text(json)),
            Event::Forwarded(Summary { is_error }) => Told::Forwarded(Forwarded { is_error, ..Forwarded::default() }),
            Event::Failed(Failed { failure, phase }) => {
                Told::Failed(FailedShape { failure: failure.into(), sent: phase == Phase::Sent })
            }
            Event::Reconnected => Told::Reconnected,
            Event::Authenticated => Told::Authenticated,
            Event::Waited => Told::Waited,
            Event::Approved(yes) => Told::Approved(yes),
            Event::Unasked => Told::Unasked,
            Event::Condensed(Condensed { kept, summary }) => Told::Condensed(CondensedShape { kept, summary }),
            Event::Cancelled => Told::Cancelled,
        }
    }
}

impl From<&Told> for Event {
    fn from(told: &Told) -> Self {
        match told {
            Told::Connected => Event::Connected,
            Told::Answered(Text(json)) => Event::Answered(json.clone()),
            Told::Forwarded(forwarded) => Event::Forwarded(Summary { is_error: forwarded.is_error }),
            Told::Failed(FailedShape { failure, sent }) => Event::Failed(Failed {
                failure: failure.clone().into(),
                phase: if *sent { Phase::Sent } else { Phase::NotSent },
            }),
            Told::Reconnected => Event::Reconnected,
            Told::Authenticated => Event::Authenticated,
            Told::Waited => Event::Waited,
            Told::Approved(yes) => Event::Approved(*yes),
            Told::Unasked => Event::Unasked,
            Told::Condensed(CondensedShape { kept, summary }) => {
                Event::Condensed(Condensed { kept: kept.clone(), summary: summary.clone() })
            }
            Told::Cancelled => Event::Cancelled,
        }
    }
}

impl From<Failure> for FailureShape {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Cancelled => FailureShape::Cancelled,
            Failure::Timeout => FailureShape::Timeout,
            Failure::Connect(why) => FailureShape::Connect(why),
            Failure::Closed => FailureShape::Closed,
            Failure::Exited(code) => FailureShape::Exited(code),
            Failure::Http(HttpFailure { status, session, challenge, retry_after_ms }) => {
                FailureShape::Http { status, session, challenge, retry_after_ms }
            }
            Failure::Rpc(RpcFailure { code, message }) => FailureShape::Rpc { code, message },
            Failure::Protocol(why) => FailureShape::Protocol(why),
            Failure::QueueFull(why) => FailureShape::QueueFull(why),
            Failure::NeedsAuth(why) => FailureShape::NeedsAuth(why),
            Failure::RestartInProgress => FailureShape::RestartInProgress,
            Failure::RestartFailed(why) => FailureShape::RestartFailed(why),
        }
    }
}

impl From<FailureShape> for Failure {
    fn from(shape: FailureShape) -> Self {
        match shape {
            FailureShape::Cancelled => Failure::Cancelled,
            FailureShape::Timeout => Failure::Timeout,
            FailureShape::Connect(why) => Failure::Connect(why),
            FailureShape::Closed => Failure::Closed,
            FailureShape::Exited(code) => Failure::Exited(code),
            FailureShape::Http { status, session, challenge, retry_after_ms } => {
                Failure::Http(HttpFailure { status, session, challenge, retry_after_ms })
            }
            FailureShape::Rpc { code, message } => Failure::Rpc(RpcFailure { code, message }),
            FailureShape::Protocol(why) => Failure::Protocol(why),
            FailureShape::QueueFull(why) => Failure::QueueFull(why),
            FailureShape::NeedsAuth(why) => Failure::NeedsAuth(why),
            FailureShape::RestartInProgress => Failure::RestartInProgress,
            FailureShape::RestartFailed(why) => Failure::RestartFailed(why),
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
            let told = Told::from(event.clone());
            let json = serde_json::to_string(&told).unwrap();
            let read: Told = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(read, told, "{json}");
            assert_eq!(Event::from(&read), event, "{json}");
            assert!(json.contains(told.name()), "{json}");
        }
    }

    #[test]
    fn an_answer_that_passed_unread_is_known_by_its_digest() {
        let mut forwarded = Forwarded::default();
        forwarded.take("{}".to_owned(), false);
        let json = serde_json::to_string(&Told::Forwarded(forwarded.clone())).unwrap();
        assert!(json.starts_with(r#"{"forwarded":{"is_error":false,"bytes":2,"sha256":"44136fa3"#), "{json}");
        assert_eq!(serde_json::from_str::<Told>(&json).unwrap(), Told::Forwarded(forwarded));
    }
}
