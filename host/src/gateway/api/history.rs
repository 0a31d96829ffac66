//! How the calls of the last hour went, for operators.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::super::client::Principal;
use super::super::history::{CallHistory, SlotReport, TrackReport, concerns_server};
use super::super::recent::{CallPage, RecentCall};
use super::{ApiResponse, Gateway, timestamp};
use crate::calendar::millis;
use crate::gate;
use crate::shadow::{ShadowHour, ShadowReport};

impl Gateway {
    /// Reports on the calls of the last hour: all of them for admins, and for others their own recent ones, since the
    /// figures of a short time would tell what somebody else does.
    pub fn history(&self, principal: &Principal) -> ApiResponse {
        let now = SystemTime::now();
        let body = if principal.admin {
            describe(&self.state.history, self.since, now)
        } else {
            let own = |call: &RecentCall| call.principal == principal.name;
            let CallPage { calls, lost, .. } = self.recent().page(Some(0), usize::MAX, own);
            let (history, seen) = (CallHistory::default(), self.visible_to(principal));
            for call in &calls {
                let outcome = gate::outcome(call.code);
                let server = call.tool.as_ref().map(|tool| tool.server.as_str());
                let server = server.filter(|server| seen.has(server) && concerns_server(call.attempts, call.code));
                history.add(server, outcome, call.latency, call.at);
            }
            // The pages of calls begin with the newest one.
            let oldest = calls.last().map_or(now, |call| call.at);
            describe(&history, if lost == 0 { self.since } else { oldest }, now)
        };
        self.redacted(&body.to_string())
    }
}

/// Describes how the calls of the last hour were judged by a shadow policy.
pub(super) fn describe_shadow(report: &ShadowReport) -> Value {
    let ShadowHour { slot, ends, judged, different } = report.hour(SystemTime::now());
    json!({
        "slot_s": slot.as_secs(), "ends": timestamp(ends), "slots": {"judged": judged, "different": different},
    })
}

fn describe(history: &CallHistory, since: SystemTime, now: SystemTime) -> Value {
    let servers = history.servers(now).into_iter().map(|(server, report)| {
        let mut json = track(&report);
        json["server"] = server.into();
        json
    });
    json!({"since": timestamp(since), "all": track(&history.all(now)), "servers": servers.collect::<Vec<_>>()})
}

fn track(report: &TrackReport) -> Value {
    let mut json = figures(std::slice::from_ref(&report.sum), |values| values.into_iter().next().unwrap_or_default());
    json["slot_s"] = report.slot.as_secs().into();
    json["ends"] = timestamp(report.ends).into();
    json["slots"] = figures(&report.slots, Value::Array);
    json
}

/// Returns each figure of these slots.
fn figures(slots: &[SlotReport], collect: fn(Vec<Value>) -> Value) -> Value {
    let each = |figure: fn(&SlotReport) -> Value| collect(slots.iter().map(figure).collect());
    json!({
        "calls": each(|slot| slot.calls.into()),
        "failures": each(|slot| slot.failures.into()),
        "tool_errors": each(|slot| slot.tool_errors.into()),
        "denied": each(|slot| slot.denied.into()),
        "p50_ms": each(|slot| slot.p50.map(millis).into()),
        "p99_ms": each(|slot| slot.p99.map(millis).into()),
    })
}
