//! The JSON of a call's events, and of the parts of its directives.

use serde::de::Error;
use serde::{Deserialize, Serialize};

use super::failure::FailureJson;
use super::json_text::{self, JsonText};
use super::macros::{json_as, json_by_name, read_single_member, word_or_object};
use crate::logic::types::execution::{Code, Condensed, Event, Failed, Oversize, Question, Summary};
use crate::logic::types::rules::{CallCount, Circumstances};
use crate::logic::types::{ToolRef, WaitRange};

json_by_name!(Code);
json_as!(ToolRef as ToolRefJson, WaitRange as WaitRangeJson, Question as QuestionJson, Oversize as OversizeJson);
json_as!(Summary as SummaryJson, Condensed as CondensedJson);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ToolRef")]
struct ToolRefJson {
    server: String,
    tool: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WaitRange")]
struct WaitRangeJson {
    min_ms: u64,
    max_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Question")]
struct QuestionJson {
    #[serde(flatten)]
    tool: ToolRef,
    #[serde(with = "json_text")]
    arguments: String,
    reason: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Oversize")]
struct OversizeJson {
    #[serde(flatten)]
    tool: ToolRef,
    text: String,
    spill: bool,
    summarize: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Summary", deny_unknown_fields, expecting = "an object with is_error")]
struct SummaryJson {
    #[serde(default)]
    is_error: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Condensed", deny_unknown_fields, expecting = "an object with kept and summary")]
struct CondensedJson {
    kept: Option<String>,
    summary: Option<String>,
}

impl Serialize for Failed {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        FailureJson::from(self).serialize(serializer)
    }
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EventJson::serialize(self, serializer)
    }
}

/// How an event is written; reading it has messages of its own.
#[derive(Serialize)]
#[serde(remote = "Event", rename_all = "snake_case")]
enum EventJson {
    Connected,
    #[serde(serialize_with = "json_text::serialize")]
    Answered(String),
    Forwarded(Summary),
    Failed(Failed),
    Reconnected,
    Authenticated,
    Waited,
    Circumstances(Circumstances),
    Counted(Vec<CallCount>),
    Approved(bool),
    Unasked,
    Condensed(Condensed),
    Cancelled,
}

// The text of an answer is read verbatim: `eval` takes any JSON for an answer, also a string.
word_or_object!(
    Event,
    "an event: a word, or an object with one member",
    |word: &str| Ok::<_, String>(match word {
        "connected" => Event::Connected,
        "reconnected" => Event::Reconnected,
        "authenticated" => Event::Authenticated,
        "waited" => Event::Waited,
        "unasked" => Event::Unasked,
        "cancelled" => Event::Cancelled,
        other => {
            return Err(format!(
                "unknown event {other:?}; there are: connected, reconnected, authenticated, waited, unasked, cancelled, \
                 and objects with answered, forwarded, failed, circumstances, counted, approved, condensed"
            ));
        }
    }),
    |map: A| {
        read_single_member(map, |kind, map: &mut A| {
            Ok(match kind {
                "answered" => Event::Answered(map.next_value::<JsonText>()?.0),
                "forwarded" => Event::Forwarded(map.next_value()?),
                "failed" => {
                    let json: FailureJson = map.next_value()?;
                    let failure = json.failure().map_err(A::Error::custom)?;
                    let phase = json.phase().map_err(A::Error::custom)?;
                    Event::Failed(Failed { failure, phase })
                }
                "circumstances" => Event::Circumstances(map.next_value()?),
                "counted" => Event::Counted(map.next_value()?),
                "approved" => Event::Approved(map.next_value()?),
                "condensed" => Event::Condensed(map.next_value()?),
                other => return Err(A::Error::custom(format!("unknown event {other:?}"))),
            })
        })
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::rules::{AgentContext, Caller};
    use crate::logic::types::{Failure, HttpFailure, Phase, RpcFailure};

    #[test]
    fn every_event_comes_back_as_it_was() {
        let failed = |failure| Event::Failed(Failed { failure, phase: Phase::Sent });
        let events = [
            Event::Connected,
            Event::Answered("{\"a\":1.10}".to_owned()),
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
            failed(Failure::RulesUnavailable("why".to_owned())),
            Event::Failed(Failed { failure: Failure::Closed, phase: Phase::NotSent }),
            Event::Reconnected,
            Event::Authenticated,
            Event::Waited,
            Event::Circumstances(Circumstances {
                caller: Caller {
                    principal: Some("ann".to_owned()),
                    groups: vec!["g".to_owned()],
                    admin: true,
                    client: "c".to_owned(),
                },
                now_ms: Some(5),
                context: AgentContext { labels: vec!["untrusted".to_owned()], known: vec![(1, u64::MAX)] },
            }),
            Event::Counted(vec![CallCount { calls: 1, ends_in_ms: 2 }]),
            Event::Approved(true),
            Event::Unasked,
            Event::Condensed(Condensed { kept: Some("/x".to_owned()), summary: None }),
            Event::Cancelled,
        ];
        for event in events {
            let json = serde_json::to_string(&event).unwrap();
            let read: Event = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(read, event, "{json}");
        }
    }
}
