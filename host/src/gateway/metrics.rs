//! Metrics for Prometheus.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::Mutex;
use std::time::Duration;

use super::OpenListener;
use super::call_target::CallTarget;
use super::client::Principal;
use super::load::LoadStats;
use super::visible_servers::VisibleServers;
use crate::config::secrets::Secrets;
use crate::lock::lock;
use crate::logic;
use crate::logic::types::execution::Code;
use crate::logic::types::lifecycle::State;
use crate::queue::QueueStats;
use crate::record::RecordStats;
use crate::registry::{Registry, state_name};
use crate::shadow::{self, Shadow, ShadowCounts};
use crate::words::NamedCase;

/// Counts calls by principal, tool and result code.
#[derive(Debug, Default)]
pub(super) struct ToolCallCounts(Mutex<BTreeMap<CountedCalls, u64>>);

/// Calls that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CountedCalls {
    principal: String,
    target: CallTarget,
    code: &'static str,
}

/// The labels of a count of calls, as a viewer sees them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CallSeries {
    principal: String,
    server: String,
    tool: String,
    code: &'static str,
}

impl ToolCallCounts {
    /// Counts a call; the number of different names is limited, since they come from clients and servers, and more so if
    /// no server has listed the tool.
    pub(super) fn add(&self, principal: &str, target: CallTarget, is_listed: bool, code: Code) {
        let mut counts = lock(&self.0);
        let mut calls = CountedCalls { principal: principal.to_owned(), target, code: code.name() };
        let most = if is_listed { MOST_SERIES } else { MOST_SERIES / 4 };
        if counts.len() >= most && !counts.contains_key(&calls) {
            calls.principal = OTHER.to_owned();
            if let CallTarget::Tool { tool, .. } = &mut calls.target {
                *tool = OTHER.to_owned();
            }
        }
        *counts.entry(calls).or_default() += 1;
    }

    /// Returns the counts that a principal may see; names that differ only in secrets are counted together. Only admins
    /// see the names of other principals.
    fn visible_counts(
        &self,
        viewer: &Principal,
        seen: &VisibleServers,
        secrets: &Secrets,
    ) -> BTreeMap<CallSeries, u64> {
        let mut shown = BTreeMap::new();
        for (CountedCalls { principal, target, code }, count) in &*lock(&self.0) {
            let principal = if viewer.admin || viewer.name == *principal { principal } else { OTHER };
            if let Some(target) = seen_target(target, seen) {
                let (server, tool) = target.labels();
                let [principal, server, tool] = [principal, server, tool].map(|name| secrets.redact(name).into_owned());
                *shown.entry(CallSeries { principal, server, tool, code }).or_default() += count;
            }
        }
        shown
    }
}

/// Returns what a viewer may know about what calls were of; `None` if it does not see them at all. To it, a name of a
/// server that it may not know about means nothing.
fn seen_target<'a>(target: &'a CallTarget, seen: &VisibleServers) -> Option<&'a CallTarget> {
    match target {
        CallTarget::Tool { server, tool } => Some(target).filter(|_| seen.has_tool(server, tool)),
        CallTarget::Server(server) if !seen.has(server) => Some(&CallTarget::Nothing),
        CallTarget::Server(_) | CallTarget::OwnTool(_) | CallTarget::Nothing => Some(target),
    }
}

/// Renders all metrics that a principal may see, in the text format of Prometheus.
pub(super) fn render(
    registry: &Registry,
    tally: &ToolCallCounts,
    listeners: &[OpenListener],
    shadow: Option<&Shadow>,
    viewer: &Principal,
    seen: &VisibleServers,
) -> String {
    let mut page = MetricsPage::default();
    let counts = tally.visible_counts(viewer, seen, &registry.secrets());
    let calls = counts.iter().map(|(CallSeries { principal, server, tool, code }, count)| {
        let labels = [("server", server.as_str()), ("tool", tool), ("code", code), ("principal", principal)];
        (labels, count)
    });
    page.metric("toolgate_calls_total", "counter", "Tool calls, by result code and principal.", calls);
    write_durations(&mut page, registry, seen);
    write_servers(&mut page, registry, seen);
    write_listeners(&mut page, listeners);
    if let Some(recorder) = registry.recorder() {
        write_records(&mut page, recorder.stats());
    }
    let ready = u64::from(registry.readiness().ready);
    page.figure("toolgate_ready", "gauge", "Whether the gateway is ready, by the configured rule.", ready);
    if registry.store().is_shared() {
        let reachable = u64::from(registry.store().problem().is_none());
        page.figure(
            "toolgate_store_reachable",
            "gauge",
            "Whether the store of the replicas can be reached.",
            reachable,
        );
        let lost = u64::from(registry.store().has_lost());
        let help = "Whether the store of the replicas has lost something that no operator has accepted.";
        page.figure("toolgate_store_lost", "gauge", help, lost);
        let listening = u64::from(registry.store().is_listening().unwrap_or_default());
        page.figure("toolgate_replicas_listening", "gauge", "Whether messages of other replicas arrive.", listening);
    }
    let help = "How often the component crashed and was replaced.";
    page.figure("toolgate_component_traps_total", "counter", help, logic::traps());
    if let Some(shadow) = shadow {
        write_shadow(&mut page, shadow);
    }
    page.0
}

/// Writes how long calls took, by server.
fn write_durations(page: &mut MetricsPage, registry: &Registry, seen: &VisibleServers) {
    let (name, bounds) = ("toolgate_call_duration_seconds", BOUNDS.map(Duration::from_micros));
    page.family(name, "histogram", "How long calls took.");
    for link in registry.links().iter().filter(|link| seen.has(link.id())) {
        let latencies = link.stats().snapshot().latencies;
        for (bound, count) in bounds.iter().zip(latencies.buckets(&bounds)) {
            let bound = bound.as_secs_f64().to_string();
            page.sample(&format!("{name}_bucket"), &[("server", link.id()), ("le", &bound)], count);
        }
        page.sample(&format!("{name}_bucket"), &[("server", link.id()), ("le", "+Inf")], latencies.count());
        page.sample(&format!("{name}_sum"), &[("server", link.id())], latencies.sum().as_secs_f64());
        page.sample(&format!("{name}_count"), &[("server", link.id())], latencies.count());
    }
}

/// Writes the metrics of servers and of their queues.
fn write_servers(page: &mut MetricsPage, registry: &Registry, seen: &VisibleServers) {
    let mut statuses = registry.statuses();
    statuses.retain(|status| seen.has(&status.server));
    let in_flight = statuses.iter().map(|status| ([("server", status.server.as_str())], status.calls.in_flight));
    page.metric("toolgate_calls_in_flight", "gauge", "Calls in flight.", in_flight);
    let states = statuses.iter().flat_map(|status| {
        STATES.map(|state| {
            let labels = [("server", status.server.as_str()), ("state", state_name(state))];
            (labels, u64::from(status.state == state))
        })
    });
    page.metric("toolgate_server_state", "gauge", "The state of a server: 1 for the current one.", states);
    let restarts = statuses.iter().map(|status| ([("server", status.server.as_str())], status.restarts));
    page.metric("toolgate_server_restarts_total", "counter", "Restarts of a server.", restarts);
    let mut queues = registry.queues();
    let used = |name: &str| statuses.iter().any(|status| status.queues.iter().any(|queue| queue.name == name));
    queues.retain(|queue| matches!(seen, VisibleServers::All) || used(&queue.name));
    let mut each = |name: &str, kind: &str, help: &str, figure: fn(&QueueStats) -> u64| {
        page.metric(name, kind, help, queues.iter().map(|queue| ([("queue", queue.name.as_str())], figure(queue))));
    };
    each("toolgate_queue_running", "gauge", "Calls that hold a slot.", |queue| queue.running as u64);
    each("toolgate_queue_waiting", "gauge", "Calls that wait for a slot.", |queue| queue.waiting as u64);
    let refused = |queue: &QueueStats| queue.refused + queue.timed_out;
    each("toolgate_queue_refused_total", "counter", "Calls that the queue refused.", refused);
}

/// Writes the metrics of the shadow policy.
fn write_shadow(page: &mut MetricsPage, shadow: &Shadow) {
    let report = shadow.report();
    let running = u64::from(report.state() == shadow::ShadowState::Running);
    page.figure("toolgate_shadow_running", "gauge", "Whether the shadow policy is running.", running);
    let ShadowCounts { same, different, dropped, failed } = report.counts();
    let outcomes = [("same", same), ("different", different), ("dropped", dropped), ("failed", failed)];
    let outcomes = outcomes.map(|(outcome, count)| ([("outcome", outcome)], count));
    page.metric("toolgate_shadow_calls_total", "counter", "Calls for the shadow policy, by outcome.", outcomes);
    let help = "Calls that it would have decided differently, by kind.";
    let kinds = report.kinds().map(|(kind, count)| ([("kind", kind.name())], count));
    page.metric("toolgate_shadow_divergences_total", "counter", help, kinds);
}

/// Writes the metrics of the listeners.
fn write_listeners(page: &mut MetricsPage, listeners: &[OpenListener]) {
    let stats: Vec<_> = listeners.iter().map(|listener| (listener.name, listener.load.stats())).collect();
    let mut each = |name: &str, kind: &str, help: &str, figure: fn(&LoadStats) -> u64| {
        page.metric(name, kind, help, stats.iter().map(|(listener, stats)| ([("listener", *listener)], figure(stats))));
    };
    each("toolgate_listener_connections", "gauge", "Open connections.", |stats| stats.connections as u64);
    each("toolgate_listener_requests_in_flight", "gauge", "MCP requests in flight.", |stats| stats.requests as u64);
    each("toolgate_listener_bytes_in_flight", "gauge", "Bytes of requests and answers.", |stats| stats.bytes as u64);
    let event_bytes = |stats: &LoadStats| stats.event_bytes as u64;
    each("toolgate_listener_event_bytes", "gauge", "Bytes of waiting and kept events.", event_bytes);
    each("toolgate_listener_sessions", "gauge", "Sessions of the initialize era.", |stats| stats.sessions as u64);
    each("toolgate_listener_requests_total", "counter", "MCP requests that were accepted.", |stats| stats.accepted);
    let refused = stats.iter().flat_map(|(listener, stats)| {
        stats.refused.by_reason().map(|(reason, count)| ([("listener", *listener), ("reason", reason)], count))
    });
    let help = "Refused connections and requests, by reason.";
    page.metric("toolgate_listener_refused_total", "counter", help, refused);
}

/// Writes the metrics of the recorder.
fn write_records(page: &mut MetricsPage, stats: RecordStats) {
    let RecordStats { written, dropped, failed, withheld, bytes } = stats;
    page.figure("toolgate_records_total", "counter", "Calls that were recorded.", written);
    page.figure("toolgate_record_bytes_total", "counter", "Bytes of records that were written.", bytes);
    let lost = [("pressure", dropped), ("disk", failed), ("withheld", withheld)];
    let lost = lost.map(|(reason, count)| ([("reason", reason)], count));
    page.metric("toolgate_records_dropped_total", "counter", "Calls that were not recorded, by reason.", lost);
}

#[derive(Default)]
struct MetricsPage(String);

impl MetricsPage {
    /// Writes a metric with its samples, which Prometheus wants in one place.
    fn metric<'a, const N: usize>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = ([(&'a str, &'a str); N], impl Display)>,
    ) {
        self.family(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, &labels, value);
        }
    }

    /// Writes a metric that is a single number.
    fn figure(&mut self, name: &str, kind: &str, help: &str, value: u64) {
        self.metric(name, kind, help, [([], value)]);
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (place, (label, value)) in labels.iter().enumerate() {
            self.0.push(if place == 0 { '{' } else { ',' });
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

const MOST_SERIES: usize = 2_000;
/// The label of names beyond the limit, and of principals that the viewer may not know.
const OTHER: &str = "other";
const STATES: [State; 8] = [
    State::Disabled,
    State::Dormant,
    State::Connecting,
    State::Ready,
    State::Degraded,
    State::Restarting,
    State::Failed,
    State::NeedsAuth,
];
/// The bounds of the histogram's buckets, in microseconds.
const BOUNDS: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000, 60_000_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(server: &str, tool: &str) -> CallTarget {
        CallTarget::Tool { server: server.to_owned(), tool: tool.to_owned() }
    }

    #[test]
    fn labels_are_escaped_and_bounded() {
        let mut page = MetricsPage::default();
        page.sample("x", &[("a", "b\"c\\d\ne")], 1);
        assert_eq!(page.0, "x{a=\"b\\\"c\\\\d\\ne\"} 1\n");
        let tally = ToolCallCounts::default();
        for n in 0..MOST_SERIES + 100 {
            tally.add("ann", tool("a", &n.to_string()), true, Code::Ok);
        }
        tally.add("ann", tool("a", "unlisted"), false, Code::Ok);
        let counts = tally.0.lock().unwrap();
        assert_eq!(counts.len(), MOST_SERIES + 1);
        let others = CountedCalls { principal: "other".to_owned(), target: tool("a", "other"), code: "ok" };
        assert_eq!(counts[&others], 101);
    }

    #[test]
    fn a_call_of_a_server_that_the_viewer_was_not_given_looks_like_any_unknown_name() {
        let tally = ToolCallCounts::default();
        for target in
            [CallTarget::Server("payroll".to_owned()), CallTarget::Server("a".to_owned()), CallTarget::Nothing]
        {
            tally.add("ann", target, false, Code::UnknownServer);
        }
        tally.add("ann", CallTarget::OwnTool("find_tools"), false, Code::Ok);
        let seen = VisibleServers::Only { servers: ["a".to_owned()].into(), tools: Default::default() };
        for (seen, expected) in [
            (
                &VisibleServers::All,
                &["a/unknown=1", "payroll/unknown=1", "toolgate/find_tools=1", "unknown/unknown=1"][..],
            ),
            (&seen, &["a/unknown=1", "toolgate/find_tools=1", "unknown/unknown=2"]),
        ] {
            let ann = Principal { name: "ann".to_owned(), admin: false };
            let counts = tally.visible_counts(&ann, seen, &Secrets::default()).into_iter();
            let counts: Vec<_> =
                counts.map(|(CallSeries { server, tool, .. }, count)| format!("{server}/{tool}={count}")).collect();
            assert_eq!(counts, expected);
        }
    }

    #[test]
    fn names_of_tools_show_no_secret_and_no_label_comes_twice() {
        let tally = ToolCallCounts::default();
        let ann = Principal { name: "ann".to_owned(), admin: false };
        let mut secrets = Secrets::default();
        secrets.add("Zq9-planted/secret");
        for name in ["get_Zq9-planted/secret", "get_Zq9-planted_secret", "get"] {
            tally.add("ann", tool("a", name), true, Code::Ok);
        }
        let shown = tally.visible_counts(&ann, &VisibleServers::All, &secrets).into_iter();
        let shown: Vec<_> = shown.map(|(series, count)| (series.tool, count)).collect();
        assert_eq!(shown, [("get".to_owned(), 1), ("get_[REDACTED]".to_owned(), 2)]);
        let seen =
            VisibleServers::Only { servers: Default::default(), tools: [("a".to_owned(), "get".to_owned())].into() };
        assert_eq!(tally.visible_counts(&ann, &seen, &secrets).len(), 1);
    }

    #[test]
    fn only_admins_see_who_else_calls() {
        let tally = ToolCallCounts::default();
        for name in ["ann", "bob", "eve"] {
            tally.add(name, CallTarget::Nothing, false, Code::UnknownServer);
        }
        let seen = |admin: bool| {
            let viewer = Principal { name: "ann".to_owned(), admin };
            let counts = tally.visible_counts(&viewer, &VisibleServers::All, &Secrets::default());
            counts.into_iter().map(|(series, count)| format!("{}={count}", series.principal)).collect::<Vec<_>>()
        };
        assert_eq!(seen(true), ["ann=1", "bob=1", "eve=1"]);
        assert_eq!(seen(false), ["ann=1", "other=2"]);
    }
}
