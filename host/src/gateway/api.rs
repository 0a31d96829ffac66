//! The API for operators: the state of servers, tools, recent calls and the shadow policy, and actions on servers.

pub(super) mod access;
mod approvals;
mod candidate;
mod contents;
mod decide;
mod history;
mod rules;
mod tools;
mod trial;

use std::collections::HashSet;
use std::time::SystemTime;

use serde::Deserialize;
use serde_json::{Value, json};

use super::call_filter::CallFilter;
use super::client::Principal;
use super::peer_message::PeerMessage;
use super::recent::{CallPage, RecentCall};
use super::visible_servers::VisibleServers;
use super::{Gateway, metrics};
use crate::agent::RememberedAgent;
use crate::calendar::{Utc, millis};
use crate::json::read_object;
use crate::lock::lock;
use crate::logic::types::execution::Code;
use crate::registry::{LogLine, LogPage, ReadinessReport, ServerStatus, state_name};
use crate::shadow::{self, Divergence, ShadowCounts};
use crate::store::UNREACHABLE;
use crate::words::NamedCase;

/// A response to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// The JSON text.
    pub body: String,
}

impl Gateway {
    /// Reports whether the gateway is ready, by the configured rule, and starts servers that it waits for; a principal
    /// also gets the warnings of its servers, and the servers that the gateway waits for. A gateway that is about to
    /// stop is not ready.
    pub fn ready(&self, principal: Option<&Principal>) -> ApiResponse {
        let is_draining = self.is_draining();
        if !is_draining {
            self.registry().become_ready();
        }
        let readiness = self.registry().readiness();
        let is_ready = readiness.ready && !is_draining;
        let status = if is_ready { 200 } else { 503 };
        let mut answer = json!({"ready": is_ready});
        if is_draining {
            answer["draining"] = true.into();
        }
        match principal {
            Some(principal) => {
                let seen = self.visible_to(principal);
                let waits_for = readiness.waits_for.iter().filter(|waiting| seen.has(&waiting.server));
                answer["waits_for"] = waits_for.map(|waiting| self.warning(waiting)).collect();
                answer["warnings"] = self.warnings(&readiness, principal, &seen);
            }
            // It waits for nothing any more.
            None if is_draining => {}
            // The names of servers are not for everybody.
            None => answer["waits_for"] = readiness.waits_for.len().into(),
        }
        // Without its store, the gateway still makes the calls that need not be counted, so it stays ready.
        self.describe_store(&mut answer);
        reply(status, &answer)
    }

    /// Describes the gateway, and the servers that the principal may use.
    ///
    /// Admins and principals without rules of their own see all servers. Only admins see the configuration file and, if
    /// the gateway asks for tokens, the listeners.
    pub fn servers(&self, principal: &Principal) -> ApiResponse {
        let readiness = self.registry().readiness();
        let seen = self.visible_to(principal);
        let statuses = self.registry().statuses();
        let servers =
            statuses.iter().filter(|status| seen.has(&status.server)).map(|status| self.status(status, &seen));
        let body = json!({
            "gateway": self.about(principal),
            "ready": readiness.ready && !self.is_draining(),
            "warnings": self.warnings(&readiness, principal, &seen),
            "servers": servers.collect::<Vec<_>>(),
        });
        reply(200, &body)
    }

    /// Returns the servers that a principal sees: those with a tool, a resource or a prompt that it may use.
    fn visible_to(&self, principal: &Principal) -> VisibleServers {
        if principal.admin {
            return VisibleServers::All;
        }
        let Ok(gate) = self.operator_gate(principal) else {
            return VisibleServers::Only { servers: HashSet::new(), tools: HashSet::new() };
        };
        if !gate.is_bounded() {
            return VisibleServers::All;
        }
        gate.take_known();
        let tools = gate.tools(&gate.style()).unwrap_or_default();
        let sources = gate.admitted_links().into_iter().map(|link| link.id().to_owned());
        VisibleServers::Only {
            servers: sources.chain(tools.iter().map(|tool| tool.tool.server.clone())).collect(),
            tools: tools.into_iter().map(|tool| (tool.tool.server, tool.tool.tool)).collect(),
        }
    }

    /// Returns problems of servers, and rules that match no tool; only admins see the rules of others.
    fn warnings(&self, readiness: &ReadinessReport, principal: &Principal, seen: &VisibleServers) -> Value {
        let mut rules = self.registry().unmatched_rules();
        rules.retain(|rule| principal.admin || rule.principal.as_ref().is_none_or(|name| *name == principal.name));
        let warnings = readiness.warnings.iter().chain(rules.iter().map(|rule| &rule.warning));
        warnings.filter(|warning| seen.has(&warning.server)).map(|warning| self.warning(warning)).collect()
    }

    fn about(&self, principal: &Principal) -> Value {
        let mut about = json!({
            "pid": std::process::id(),
            "version": env!("CARGO_PKG_VERSION"),
            "since": timestamp(self.since),
            "for_s": seconds_since(self.since),
            "draining": self.is_draining(),
            "principal": {"name": principal.name, "admin": principal.admin},
        });
        self.describe_store(&mut about);
        if principal.admin {
            let file = self.registry().config().file.as_ref().map(|file| file.display().to_string());
            about["file"] = file.into();
            if let Some(why) = &*lock(&self.not_applied) {
                about["not_applied"] = self.redact(why).into();
            }
        }
        // A client without a token knows the address already.
        if principal.admin || *principal == Principal::anybody() {
            let listeners = lock(&self.listeners);
            let listeners = listeners.iter().map(|listener| {
                let stats = listener.load.stats();
                json!({
                    "listener": listener.name, "address": listener.address, "connections": stats.connections,
                    "requests": stats.requests, "sessions": stats.sessions, "refused": stats.refused.total(),
                })
            });
            about["listeners"] = listeners.collect();
        }
        about
    }

    /// Says how it is with the store that replicas share, if there is one: whether it can be reached and has lost something,
    /// and whether messages of other replicas arrive.
    fn describe_store(&self, about: &mut Value) {
        let store = self.registry().store();
        let Some(is_listening) = store.is_listening() else { return };
        about["store"] = if store.problem().is_none() { "reachable" } else { "unreachable" }.into();
        about["store_lost"] = store.has_lost().into();
        about["replicas"] = if is_listening { "listening" } else { "not listening" }.into();
    }

    /// Enables, disables or reconnects a server, as the last part of the path says; returns `None` for anything else.
    pub fn act(&self, server: &str, action: &str) -> Option<ApiResponse> {
        let registry = self.registry();
        let known = match action {
            "enable" => registry.enable(server),
            "disable" => registry.disable(server),
            "reconnect" => registry.reconnect(server),
            _ => return None,
        };
        Some(match registry.status(server).filter(|_| known) {
            Some(status) => reply(200, &self.status(&status, &VisibleServers::All)),
            None => error(404, &format!("no server {server:?} is configured")),
        })
    }

    /// Lists recent calls, newest first: the principal's own, or all for admins; all that are kept, or those after the
    /// one with a number.
    pub fn calls(&self, principal: &Principal, filter: &CallFilter, after: Option<u64>, most: usize) -> ApiResponse {
        let own = |call: &RecentCall| principal.admin || call.principal == principal.name;
        let CallPage { calls, last, lost } = self.recent().page(after, most, |call| own(call) && filter.matches(call));
        let calls: Vec<_> = calls.iter().map(call_json).collect();
        self.redacted(&json!({"calls": calls, "last": last, "lost": lost}).to_string())
    }

    /// Lists what a server wrote to its standard error last, and what became of it, after the line with this number; and
    /// the last states that it entered.
    pub fn server_log(&self, server: &str, after: u64) -> ApiResponse {
        let Some(LogPage { lines, last, lost }) = self.registry().server_log(server, after) else {
            return error(404, &format!("no server {server:?} is configured"));
        };
        let lines = lines.into_iter().map(|LogLine { number, at, source, text }| {
            json!({"number": number, "at": timestamp(at), "source": source.name(), "text": text})
        });
        let lines: Vec<_> = lines.collect();
        let states = self.registry().server_states(server);
        let states =
            states.into_iter().map(|change| json!({"at": timestamp(change.at), "state": state_name(change.state)}));
        let states: Vec<_> = states.collect();
        reply(200, &json!({"server": server, "lines": lines, "last": last, "lost": lost, "states": states}))
    }

    /// Lists the agents that have seen something that rules remember: the principal's own, or all for admins.
    pub async fn agents(&self, principal: &Principal) -> Result<ApiResponse, ApiResponse> {
        let idle = self.registry().config().settings.context.idle;
        let agents = self.registry().store().agents(idle).await.map_err(|_| no_store())?;
        let agents =
            agents.into_iter().filter(|agent| principal.admin || agent.principal == principal.name).map(|agent| {
                let RememberedAgent { principal, part, labels, known } = agent;
                json!({"principal": principal, "part": part, "labels": labels, "known": known})
            });
        let agents: Vec<_> = agents.collect();
        Ok(self.redacted(&json!({"agents": agents}).to_string()))
    }

    /// Forgets what the agents of a principal, or all, have seen.
    pub async fn reset_agents(&self, body: &[u8]) -> Result<ApiResponse, ApiResponse> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            #[serde(default)]
            principal: Option<String>,
        }
        let wrong = |_| error(400, "send {\"principal\": a name}, or {} for all");
        let Body { principal } = read_object(body).map_err(wrong)?;
        let forgotten = self.registry().store().reset(principal.as_deref()).await.map_err(|_| no_store())?;
        tracing::warn!(principal, "an operator made the gateway forget what {forgotten} agents have seen");
        let mut answer = json!({"forgotten": forgotten});
        self.tell_replicas(PeerMessage::Reset { principal }, &mut answer).await;
        Ok(reply(200, &answer))
    }

    /// Accepts the store that replicas share as it is, although it has lost something.
    pub async fn adopt_store(&self) -> Result<ApiResponse, ApiResponse> {
        let store = self.registry().store();
        if !store.is_shared() {
            return Err(error(409, "replicas share no store here: set gateway.store"));
        }
        let (epoch, had_lost) = store.adopt().ok_or_else(no_store)?;
        tracing::warn!(had_lost, "an operator accepted the store of counts and contexts as it is");
        let mut answer = json!({"adopted": had_lost});
        self.tell_replicas(PeerMessage::Adopted { epoch }, &mut answer).await;
        Ok(reply(200, &answer))
    }

    /// Tells the other replicas what an operator wants, if there may be any. Adds to the answer why they do not know it.
    async fn tell_replicas(&self, message: PeerMessage, answer: &mut Value) {
        if !self.registry().store().is_shared() {
            return;
        }
        if let Err(why) = self.state.replica.tell(None, message).await {
            answer["others_not_told"] = why.to_string().into();
        }
    }

    /// Reports on the shadow policy, with the calls that it would have decided differently, newest first.
    ///
    /// Principals see their own calls. Only admins see all calls, the counts, and which policy it is.
    pub fn shadow_report(&self, principal: &Principal, most: usize) -> ApiResponse {
        let own = |divergence: &Divergence| principal.admin || divergence.principal == principal.name;
        let shadow = self.shadow().map(|shadow| {
            let report = shadow.report();
            let divergences = report.last(most, own).into_iter().map(|divergence| {
                json!({
                    "call": divergence.call,
                    "at": timestamp(divergence.at),
                    "principal": divergence.principal,
                    "name": divergence.name,
                    "kind": divergence.kind.name(),
                    "rule": divergence.rule,
                })
            });
            let off = match report.state() {
                shadow::ShadowState::Running => None,
                shadow::ShadowState::Off(why) => Some(why),
            };
            let divergences: Vec<_> = divergences.collect();
            if !principal.admin {
                return json!({"running": off.is_none(), "divergences": divergences});
            }
            let ShadowCounts { same, different, dropped, failed } = report.counts();
            let kinds: serde_json::Map<_, _> =
                report.kinds().map(|(kind, count)| (kind.name().to_owned(), count.into())).collect();
            json!({
                "about": report.about, "running": off.is_none(), "off": off,
                "same": same, "different": different, "dropped": dropped, "failed": failed, "kinds": kinds,
                "divergences": divergences, "history": history::describe_shadow(report),
            })
        });
        self.redacted(&json!({"shadow": shadow}).to_string())
    }

    /// Renders the metrics for Prometheus, for the servers and tools that the principal may use.
    pub fn metrics(&self, principal: &Principal) -> String {
        let (counts, shadow, seen) = (&self.state.call_counts, self.shadow(), self.visible_to(principal));
        metrics::render(self.registry(), counts, &lock(&self.listeners), shadow.as_deref(), principal, &seen)
    }

    /// Describes a server, with the names of the tools that the viewer may see.
    fn status(&self, status: &ServerStatus, seen: &VisibleServers) -> Value {
        let calls = &status.calls;
        let software = [&status.name, &status.software_version].into_iter().flatten().cloned().collect::<Vec<_>>();
        let visible = status.tool_names.iter().filter(|tool| seen.has_tool(&status.server, tool));
        let tools: Vec<_> = visible.map(|tool| self.redact(tool)).collect();
        let quantile = |part| calls.latencies.quantile(part).map(millis);
        let queues = status.queues.iter().map(|queue| {
            json!({
                "name": queue.name, "slots": queue.slots, "running": queue.running, "waiting": queue.waiting,
                "entered": queue.entered, "refused": queue.refused, "timed_out": queue.timed_out,
            })
        });
        json!({
            "server": status.server,
            "kind": status.kind,
            "state": state_name(status.state),
            "ready": status.ready,
            "since": timestamp(status.since),
            "for_s": seconds_since(status.since),
            "era": status.era,
            "version": status.version,
            "name": status.name.as_deref().map(|name| self.redact(name)),
            "software": (!software.is_empty()).then(|| self.redact(&software.join(" "))),
            "description": status.description,
            "scope": status.scope.name(),
            "source": matches!(seen, VisibleServers::All).then_some(&status.source),
            "tools": status.tools.map(|_| tools.len()),
            "tool_names": tools,
            "cut_lists": status.cut_lists,
            "connections": status.connections,
            "users": status.users,
            "calls": {
                "calls": calls.calls, "ok": calls.ok, "tool_errors": calls.tool_errors, "failures": calls.failures,
                "unknown": calls.unknown, "cancelled": calls.cancelled, "denied": calls.denied,
                "in_flight": calls.in_flight,
                "p50_ms": quantile(0.5), "p90_ms": quantile(0.9), "p99_ms": quantile(0.99),
                "max_ms": calls.latencies.max().map(millis),
            },
            "last_error": status.last_error.as_ref().map(|error| {
                json!({"text": self.redact(&error.text), "at": timestamp(error.at), "ago_s": seconds_since(error.at)})
            }),
            "last_check": status.last_check.map(timestamp),
            "started_in_ms": status.started_in.map(millis),
            "restarts": status.restarts,
            "pid": status.pid,
            "problem": status.problem,
            "queues": queues.collect::<Vec<_>>(),
        })
    }

    fn warning(&self, warning: &crate::registry::Warning) -> Value {
        json!({"server": warning.server, "text": self.redact(&warning.text), "since": timestamp(warning.since)})
    }

    /// Returns a response without secrets.
    pub(super) fn redacted(&self, body: &str) -> ApiResponse {
        ApiResponse { status: 200, body: self.redact(body) }
    }

    /// Removes secrets from a text.
    fn redact(&self, text: &str) -> String {
        self.registry().secrets().redact(text).into_owned()
    }
}

/// Describes a finished call.
pub(super) fn call_json(call: &RecentCall) -> Value {
    json!({
        "id": call.id,
        "at": timestamp(call.at),
        "principal": call.principal,
        "name": call.name,
        "server": call.tool.as_ref().map(|tool| &tool.server),
        "tool": call.tool.as_ref().map(|tool| &tool.tool),
        "code": call.code.name(),
        "is_error": call.code != Code::Ok,
        "attempts": call.attempts,
        "latency_ms": millis(call.latency),
        "trace": call.trace,
    })
}

/// Returns the response for something that failed in the gateway.
fn failed(why: impl std::error::Error) -> ApiResponse {
    error(500, &why.to_string())
}

pub(super) fn error(status: u16, text: &str) -> ApiResponse {
    reply(status, &json!({"error": text}))
}

fn no_store() -> ApiResponse {
    error(503, UNREACHABLE)
}

fn reply(status: u16, body: &Value) -> ApiResponse {
    ApiResponse { status, body: body.to_string() }
}

fn timestamp(time: SystemTime) -> String {
    Utc::from(time).to_string()
}

/// Returns the whole seconds since this time, or 0 if the clock was set back.
fn seconds_since(time: SystemTime) -> u64 {
    time.elapsed().unwrap_or_default().as_secs()
}
