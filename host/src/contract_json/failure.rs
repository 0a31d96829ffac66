//! The JSON of a failure: one object with the fields of every kind.

use serde::{Deserialize, Serialize};

use crate::logic::types::execution::Failed;
use crate::logic::types::{Failure, HttpFailure, Phase, RpcFailure};
use crate::words::NamedCase;

/// A failure, with the fields of every kind.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a failure: an object with kind")]
pub(crate) struct FailureJson {
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    session: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    challenge: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<String>,
}

impl FailureJson {
    /// Returns how far the operation had come; the default is `sent`.
    pub(crate) fn phase(&self) -> Result<Phase, String> {
        self.phase.as_deref().map_or(Ok(Phase::Sent), Phase::parse)
    }

    /// Converts the failure according to its kind.
    pub(crate) fn failure(&self) -> Result<Failure, String> {
        let detail = || self.detail.clone().or_else(|| self.message.clone()).unwrap_or_default();
        let needs = |field: &str| format!("a failure of kind {:?} needs {field:?}", self.kind);
        Ok(match self.kind.as_str() {
            "cancelled" => Failure::Cancelled,
            "timeout" => Failure::Timeout,
            "connect" => Failure::Connect(detail()),
            "closed" => Failure::Closed,
            "exited" => {
                let code = self.code.map(i32::try_from).transpose();
                Failure::Exited(code.map_err(|_| "an exit code has 32 bits".to_owned())?)
            }
            "http" => Failure::Http(HttpFailure {
                status: self.status.ok_or_else(|| needs("status"))?,
                session: self.session,
                challenge: self.challenge,
                retry_after_ms: self.retry_after_ms,
            }),
            "rpc" => Failure::Rpc(RpcFailure { code: self.code.ok_or_else(|| needs("code"))?, message: detail() }),
            "protocol" => Failure::Protocol(detail()),
            "queue-full" => Failure::QueueFull(detail()),
            "needs-auth" => Failure::NeedsAuth(detail()),
            "restart-in-progress" => Failure::RestartInProgress,
            "restart-failed" => Failure::RestartFailed(detail()),
            "rules-unavailable" => Failure::RulesUnavailable(detail()),
            other => {
                return Err(format!(
                    "unknown kind {other:?} of failure; there are: cancelled, timeout, connect, closed, exited, http, rpc, \
                     protocol, queue-full, needs-auth, restart-in-progress, restart-failed, rules-unavailable"
                ));
            }
        })
    }
}

impl From<&Failed> for FailureJson {
    fn from(failed: &Failed) -> Self {
        let of_kind = |kind: &str| FailureJson {
            kind: kind.to_owned(),
            phase: Some(failed.phase.name().to_owned()),
            ..FailureJson::default()
        };
        let with_detail = |kind, detail: &str| FailureJson { detail: Some(detail.to_owned()), ..of_kind(kind) };
        match &failed.failure {
            Failure::Cancelled => of_kind("cancelled"),
            Failure::Timeout => of_kind("timeout"),
            Failure::Connect(why) => with_detail("connect", why),
            Failure::Closed => of_kind("closed"),
            Failure::Exited(code) => FailureJson { code: code.map(i64::from), ..of_kind("exited") },
            Failure::Http(HttpFailure { status, session, challenge, retry_after_ms }) => FailureJson {
                status: Some(*status),
                session: *session,
                challenge: *challenge,
                retry_after_ms: *retry_after_ms,
                ..of_kind("http")
            },
            Failure::Rpc(RpcFailure { code, message }) => {
                FailureJson { code: Some(*code), message: Some(message.clone()), ..of_kind("rpc") }
            }
            Failure::Protocol(why) => with_detail("protocol", why),
            Failure::QueueFull(why) => with_detail("queue-full", why),
            Failure::NeedsAuth(why) => with_detail("needs-auth", why),
            Failure::RestartInProgress => of_kind("restart-in-progress"),
            Failure::RestartFailed(why) => with_detail("restart-failed", why),
            Failure::RulesUnavailable(why) => with_detail("rules-unavailable", why),
        }
    }
}
