//! The API for operators: the state of servers, tools, recent calls and the shadow policy, and actions on servers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Gateway;
use super::bounds;
use super::client::Principal;
use super::recent::RecentCall;
use crate::calendar::Utc;
use crate::calendar::millis;
use crate::gate::{CallEvent, CallOptions, OnEvent};
use crate::json::JsonObject;
use crate::logic::types::execution::ToolCall;
use crate::registry::{Link, ReadinessReport, ServerStatus, state_name};
use crate::shadow::{self, Divergence, ShadowCounts};
use crate::words::NamedCase;

/// A response to an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// The JSON text.
    pub body: String,
}

/// An operator's action on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerAction {
    /// Enables the server.
    Enable,
    /// Disables the server.
    Disable,
    /// Reconnects to the server.
    Reconnect,
}

impl ServerAction {
    /// Parses the last part of the path.
    pub fn read(text: &str) -> Option<Self> {
        match text {
            "enable" => Some(ServerAction::Enable),
            "disable" => Some(ServerAction::Disable),
            "reconnect" => Some(ServerAction::Reconnect),
            _ => None,
        }
    }
}

impl Gateway {
    /// Reports whether the gateway is ready, by the configured rule; a principal also gets the warnings of its servers.
    pub fn ready(&self, principal: Option<&Principal>) -> ApiResponse {
        let readiness = self.registry().readiness();
        let status = if readiness.ready { 200 } else { 503 };
        let mut answer = json!({"ready": readiness.ready});
        if let Some(principal) = principal {
            answer["warnings"] = self.warnings(&readiness, principal, &self.visible_to(principal));
        }
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
        let servers = statuses.iter().filter(|status| seen.has(&status.server)).map(|status| self.status(status));
        reply(
            200,
            &json!({
                "gateway": self.about(principal),
                "ready": readiness.ready,
                "warnings": self.warnings(&readiness, principal, &seen),
                "servers": servers.collect::<Vec<_>>(),
            }),
        )
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
        });
        if principal.admin {
            let file = self.registry().config().file.as_ref().map(|file| file.display().to_string());
            about["file"] = file.into();
        }
        // A client without a token knows the address already.
        if principal.admin || *principal == Principal::anybody() {
            let doors = self.listeners().into_iter().map(|door| {
                let stats = door.load.stats();
                let refused: u64 = stats.refused().iter().map(|(_, count)| count).sum();
                json!({
                    "door": door.name, "address": door.address, "connections": stats.connections,
                    "requests": stats.requests, "sessions": stats.sessions, "refused": refused,
                })
            });
            about["doors"] = doors.collect();
        }
        about
    }

    /// Enables, disables or reconnects a server.
    pub fn act(&self, server: &str, action: ServerAction) -> ApiResponse {
        let registry = self.registry();
        let known = match action {
            ServerAction::Enable => registry.enable(server),
            ServerAction::Disable => registry.disable(server),
            ServerAction::Reconnect => registry.reconnect(server),
        };
        match registry.status(server).filter(|_| known) {
            Some(status) => reply(200, &self.status(&status)),
            None => missing(server),
        }
    }

    /// Lists the tools that the principal may use; servers that never listed any are connected, within a time limit.
    pub async fn tools(&self, principal: &Principal) -> ApiResponse {
        let gate = match self.operator_gate(principal) {
            Ok(gate) => gate,
            Err(refused) => return refused,
        };
        let known = |link: &Arc<Link>| link.known_tools().is_some();
        let failed = if gate.links().iter().all(known) {
            Vec::new()
        } else {
            match tokio::time::timeout(CONNECT, gate.refresh()).await {
                Ok(refreshed) => {
                    refreshed.failed.iter().map(|(server, why)| (server.clone(), why.to_string())).collect()
                }
                Err(_) => {
                    let late = gate.links().into_iter().filter(|link| !known(link));
                    let why = |link: &Link| match link.status().last_error {
                        Some(error) => error.text,
                        None => format!("no list of tools within {CONNECT:?}"),
                    };
                    late.map(|link| (link.id().to_owned(), why(&link))).collect()
                }
            }
        };
        gate.take_known();
        let style = self.state.active().options.names.clone().unwrap_or_else(|| gate.style());
        let tools = match gate.tools(&style) {
            Ok(tools) => tools,
            Err(error) => return reply(500, &json!({"error": error.to_string()})),
        };
        let shown = tools.iter().map(|tool| {
            let mut out = JsonObject::default();
            // The name by which clients call it.
            out.set("name", if self.state.expose.is_some() { &tool.tool.tool } else { &tool.name });
            out.set("server", &tool.tool.server);
            out.set("tool", &tool.tool.tool);
            let definition = gate.definition(&tool.tool).and_then(|raw| JsonObject::read(raw.get()));
            let mut definition = definition.unwrap_or_default();
            // A server must not choose the name or the owner of its tool.
            definition.retain(|name| !matches!(name, "name" | "server" | "tool"));
            if let Some(description) = &tool.description {
                definition.set("description", description);
            }
            out.extend(&definition);
            (tool.tool.server.clone(), out)
        });
        let mut shown: Vec<_> = shown.collect();
        if let Err(error) = gate.mask_descriptions(&mut shown) {
            return reply(500, &json!({"error": error.to_string()}));
        }
        let mut out = JsonObject::default();
        out.set("tools", &shown.iter().map(|(_, tool)| tool).collect::<Vec<_>>());
        let failed = failed.iter().map(|(server, why)| json!({"server": server, "reason": self.redact(why)}));
        out.set("failed", &failed.collect::<Vec<_>>());
        ApiResponse { status: 200, body: self.redact(&out.to_text()) }
    }

    /// Lists recent calls, newest first: the principal's own, or all for admins.
    pub fn calls(&self, principal: &Principal, most: usize) -> ApiResponse {
        let own = |call: &RecentCall| principal.admin || call.principal == principal.name;
        let calls = self.recent().last(most, own).into_iter().map(|call| {
            json!({
                "id": call.id,
                "at": timestamp(call.at),
                "principal": call.principal,
                "name": call.name,
                "server": call.tool.as_ref().map(|tool| &tool.server),
                "tool": call.tool.as_ref().map(|tool| &tool.tool),
                "code": call.code.name(),
                "is_error": call.code != crate::logic::types::execution::Code::Ok,
                "attempts": call.attempts,
                "latency_ms": millis(call.latency),
                "trace": call.trace,
            })
        });
        let calls: Vec<_> = calls.collect();
        ApiResponse { status: 200, body: self.redact(&json!({"calls": calls}).to_string()) }
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
                "divergences": divergences,
            })
        });
        ApiResponse { status: 200, body: self.redact(&json!({"shadow": shadow}).to_string()) }
    }

    /// Calls a tool for an operator who tries it out.
    pub async fn try_call(&self, principal: &Principal, body: &[u8]) -> ApiResponse {
        #[derive(Deserialize)]
        struct Body {
            name: String,
            #[serde(default)]
            arguments: Option<Box<RawValue>>,
        }
        let Ok(Body { name, arguments }) = serde_json::from_slice::<Body>(body) else {
            return reply(400, &json!({"error": "send {\"name\": …, \"arguments\": an object or text}"}));
        };
        if let Err(refused) = bounds::check_tool_name(&name) {
            return reply(400, &json!({"error": refused.message}));
        }
        let arguments = arguments.map_or_else(String::new, |raw| {
            serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
        });
        let gate = match self.operator_gate(principal) {
            Ok(gate) => gate,
            Err(refused) => return refused,
        };
        gate.take_known();
        let name = match &self.state.expose {
            Some(server) => format!("{server}.{name}"),
            None => name,
        };
        let call = ToolCall::new(name, arguments);
        let (inside, who, note) =
            (Arc::clone(&self.state), principal.name.clone(), self.state.relay.track_work(&principal.name));
        let events: OnEvent = Arc::new(move |event| match event {
            CallEvent::Abandoned { result, latency } => inside.remember(&who, *result, latency),
            event => note(event),
        });
        let options = CallOptions {
            principal: Some(principal.name.as_str().into()),
            events: Some(events),
            ..CallOptions::default()
        };
        let called = match gate.call(call, &options).await {
            Ok(called) => called,
            Err(error) => return reply(500, &json!({"error": error.to_string()})),
        };
        let body =
            serde_json::to_string(&called.as_json()).expect("shapes have string keys only, so they are always JSON");
        self.state.remember(&principal.name, called.result, called.latency);
        ApiResponse { status: 200, body: self.redact(&body) }
    }

    /// Renders the metrics for Prometheus, for the servers and tools that the principal may use.
    pub fn metrics(&self, principal: &Principal) -> String {
        let (doors, shadow) = (self.listeners(), self.shadow());
        super::metrics::render(
            self.registry(),
            &self.state.call_counts,
            &doors,
            shadow.as_deref(),
            &self.visible_to(principal),
        )
    }

    fn status(&self, status: &ServerStatus) -> Value {
        let calls = &status.calls;
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
            "tools": status.tools,
            "cut_lists": status.cut_lists,
            "connections": status.connections,
            "users": status.users,
            "calls": {
                "calls": calls.calls, "ok": calls.ok, "tool_errors": calls.tool_errors, "failures": calls.failures,
                "unknown": calls.unknown, "cancelled": calls.cancelled, "in_flight": calls.in_flight,
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

    /// Removes secrets from a text.
    fn redact(&self, text: &str) -> String {
        self.registry().secrets().redact(text).into_owned()
    }
}

/// The servers and tools that a principal may see.
pub(super) enum VisibleServers {
    All,
    Only { servers: HashSet<String>, tools: HashSet<(String, String)> },
}

impl VisibleServers {
    pub(super) fn has(&self, server: &str) -> bool {
        match self {
            VisibleServers::All => true,
            VisibleServers::Only { servers, .. } => servers.contains(server),
        }
    }

    pub(super) fn has_tool(&self, server: &str, tool: &str) -> bool {
        match self {
            VisibleServers::All => true,
            VisibleServers::Only { tools, .. } => tools.contains(&(server.to_owned(), tool.to_owned())),
        }
    }
}

fn reply(status: u16, body: &Value) -> ApiResponse {
    ApiResponse { status, body: body.to_string() }
}

fn missing(server: &str) -> ApiResponse {
    reply(404, &json!({"error": format!("no server {server:?} is configured")}))
}

fn timestamp(time: SystemTime) -> String {
    Utc::from(time).to_string()
}

/// Returns the whole seconds since this time, or 0 if the clock was set back.
fn seconds_since(time: SystemTime) -> u64 {
    time.elapsed().unwrap_or_default().as_secs()
}

/// How long listing tools waits for servers.
const CONNECT: Duration = Duration::from_secs(10);
