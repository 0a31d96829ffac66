//! Metrics for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::OpenListener;
use super::api::VisibleServers;
use super::http::LoadStats;
use crate::config::secrets::Secrets;
use crate::logic;
use crate::logic::types::ToolRef;
use crate::logic::types::execution::Code;
use crate::logic::types::lifecycle::State;
use crate::queue::QueueStats;
use crate::record::RecordStats;
use crate::registry::{Registry, state_name};
use crate::shadow::{self, Shadow, ShadowCounts};
use crate::words::NamedCase;

/// Counts calls by tool and result code.
#[derive(Debug, Default)]
pub(super) struct ToolCallCounts(Mutex<BTreeMap<(String, String, &'static str), u64>>);

impl ToolCallCounts {
    /// Counts a call; the number of different names is limited, since they come from clients and servers.
    pub(super) fn add(&self, tool: Option<&ToolRef>, code: Code) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (server, tool) = tool.map_or(("", ""), |tool| (&tool.server, &tool.tool));
        let mut key = (server.to_owned(), tool.to_owned(), code.name());
        if counts.len() >= MOST_SERIES && !counts.contains_key(&key) {
            key.1 = "other".to_owned();
        }
        *counts.entry(key).or_default() += 1;
    }

    /// Returns the counts that a principal may see; tools whose names differ only in secrets are counted together.
    fn visible_counts(
        &self,
        seen: &VisibleServers,
        secrets: &Secrets,
    ) -> BTreeMap<(String, String, &'static str), u64> {
        let mut shown = BTreeMap::new();
        for ((server, tool, code), count) in &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // Calls with unknown names are counted together, and everybody sees them.
            if server.is_empty() || seen.has_tool(server, tool) {
                let [server, tool] = [server, tool].map(|name| secrets.redact(name).into_owned());
                *shown.entry((server, tool, *code)).or_default() += count;
            }
        }
        shown
    }
}

/// Renders all metrics that a principal may see, in the text format of Prometheus.
pub(super) fn render(
    registry: &Registry,
    tally: &ToolCallCounts,
    doors: &[OpenListener],
    shadow: Option<&Shadow>,
    seen: &VisibleServers,
) -> String {
    let mut page = MetricsPage::default();
    page.family("toolgate_calls_total", "counter", "Tool calls, by result code.");
    for ((server, tool, code), count) in tally.visible_counts(seen, &registry.secrets()) {
        page.sample("toolgate_calls_total", &[("server", &server), ("tool", &tool), ("code", code)], count);
    }
    let links = registry.links();
    page.family("toolgate_call_duration_seconds", "histogram", "How long calls took.");
    for link in links.iter().filter(|link| seen.has(link.id())) {
        let latencies = link.stats().snapshot().latencies;
        let name = "toolgate_call_duration_seconds";
        for (bound, count) in BOUNDS.iter().zip(latencies.buckets(&BOUNDS)) {
            let bound = bound.as_secs_f64().to_string();
            page.sample(&format!("{name}_bucket"), &[("server", link.id()), ("le", &bound)], count);
        }
        page.sample(&format!("{name}_bucket"), &[("server", link.id()), ("le", "+Inf")], latencies.count());
        page.sample(&format!("{name}_sum"), &[("server", link.id())], latencies.sum().as_secs_f64());
        page.sample(&format!("{name}_count"), &[("server", link.id())], latencies.count());
    }
    let mut statuses = registry.statuses();
    statuses.retain(|status| seen.has(&status.server));
    page.family("toolgate_calls_in_flight", "gauge", "Calls in flight.");
    for status in &statuses {
        page.sample("toolgate_calls_in_flight", &[("server", &status.server)], status.calls.in_flight);
    }
    page.family("toolgate_server_state", "gauge", "The state of a server: 1 for the current one.");
    for status in &statuses {
        for state in STATES {
            let labels = [("server", status.server.as_str()), ("state", state_name(state))];
            page.sample("toolgate_server_state", &labels, u64::from(status.state == state));
        }
    }
    page.family("toolgate_server_restarts_total", "counter", "Restarts of a server.");
    for status in &statuses {
        page.sample("toolgate_server_restarts_total", &[("server", &status.server)], status.restarts);
    }
    // Prometheus wants all samples of a family in one place.
    let mut queues = registry.queues();
    let used = |name: &str| statuses.iter().any(|status| status.queues.iter().any(|queue| queue.name == name));
    queues.retain(|queue| matches!(seen, VisibleServers::All) || used(&queue.name));
    let mut queue = |name: &str, kind: &str, help: &str, figure: fn(&QueueStats) -> u64| {
        page.family(name, kind, help);
        for queue in &queues {
            page.sample(name, &[("queue", queue.name.as_str())], figure(queue));
        }
    };
    queue("toolgate_queue_running", "gauge", "Calls that hold a slot.", |queue| queue.running as u64);
    queue("toolgate_queue_waiting", "gauge", "Calls that wait for a slot.", |queue| queue.waiting as u64);
    let refused = |queue: &QueueStats| queue.refused + queue.timed_out;
    queue("toolgate_queue_refused_total", "counter", "Calls that the queue refused.", refused);
    write_listeners(&mut page, doors);
    if let Some(recorder) = registry.recorder() {
        write_records(&mut page, recorder.stats());
    }
    page.family("toolgate_ready", "gauge", "Whether the gateway is ready, by the configured rule.");
    page.sample("toolgate_ready", &[], u64::from(registry.readiness().ready));
    page.family("toolgate_component_traps_total", "counter", "How often the component crashed and was replaced.");
    page.sample("toolgate_component_traps_total", &[], logic::traps());
    if let Some(shadow) = shadow {
        write_shadow(&mut page, shadow);
    }
    page.0
}

/// Writes the metrics of the shadow policy.
fn write_shadow(page: &mut MetricsPage, shadow: &Shadow) {
    let report = shadow.report();
    page.family("toolgate_shadow_running", "gauge", "Whether the shadow policy is running.");
    page.sample("toolgate_shadow_running", &[], u64::from(report.state() == shadow::ShadowState::Running));
    page.family("toolgate_shadow_calls_total", "counter", "Calls for the shadow policy, by outcome.");
    let ShadowCounts { same, different, dropped, failed } = report.counts();
    for (outcome, count) in [("same", same), ("different", different), ("dropped", dropped), ("failed", failed)] {
        page.sample("toolgate_shadow_calls_total", &[("outcome", outcome)], count);
    }
    page.family(
        "toolgate_shadow_divergences_total",
        "counter",
        "Calls that it would have decided differently, by kind.",
    );
    for (kind, count) in report.kinds() {
        page.sample("toolgate_shadow_divergences_total", &[("kind", kind.name())], count);
    }
}

/// Writes the metrics of the listeners.
fn write_listeners(page: &mut MetricsPage, doors: &[OpenListener]) {
    let doors: Vec<_> = doors.iter().map(|door| (door.name, door.load.stats())).collect();
    let mut each = |name: &str, kind: &str, help: &str, figure: fn(&LoadStats) -> u64| {
        page.family(name, kind, help);
        for (door, stats) in &doors {
            page.sample(name, &[("door", door)], figure(stats));
        }
    };
    each("toolgate_door_connections", "gauge", "Open connections.", |stats| stats.connections as u64);
    each("toolgate_door_requests_in_flight", "gauge", "MCP requests in flight.", |stats| stats.requests as u64);
    each("toolgate_door_bytes_in_flight", "gauge", "Bytes of requests and answers.", |stats| stats.bytes as u64);
    each("toolgate_door_event_bytes", "gauge", "Bytes of waiting and kept events.", |stats| stats.event_bytes as u64);
    each("toolgate_door_sessions", "gauge", "Sessions of the initialize era.", |stats| stats.sessions as u64);
    each("toolgate_door_requests_total", "counter", "MCP requests that were accepted.", |stats| stats.accepted);
    page.family("toolgate_door_refused_total", "counter", "Refused connections and requests, by reason.");
    for (door, stats) in &doors {
        for (reason, count) in stats.refused() {
            page.sample("toolgate_door_refused_total", &[("door", door), ("reason", reason)], count);
        }
    }
}

/// Writes the metrics of the recorder.
fn write_records(page: &mut MetricsPage, stats: RecordStats) {
    let RecordStats { written, dropped, failed, withheld, bytes } = stats;
    page.family("toolgate_records_total", "counter", "Calls that were recorded.");
    page.sample("toolgate_records_total", &[], written);
    page.family("toolgate_record_bytes_total", "counter", "Bytes of records that were written.");
    page.sample("toolgate_record_bytes_total", &[], bytes);
    page.family("toolgate_records_dropped_total", "counter", "Calls that were not recorded, by reason.");
    for (reason, count) in [("pressure", dropped), ("disk", failed), ("withheld", withheld)] {
        page.sample("toolgate_records_dropped_total", &[("reason", reason)], count);
    }
}

#[derive(Default)]
struct MetricsPage(String);

impl MetricsPage {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
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
const BOUNDS: [Duration; 14] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_bounded() {
        let mut page = MetricsPage::default();
        page.sample("x", &[("a", "b\"c\\d\ne")], 1);
        assert_eq!(page.0, "x{a=\"b\\\"c\\\\d\\ne\"} 1\n");
        let tally = ToolCallCounts::default();
        for n in 0..MOST_SERIES + 100 {
            tally.add(Some(&ToolRef { server: "a".to_owned(), tool: n.to_string() }), Code::Ok);
        }
        let counts = tally.0.lock().unwrap();
        assert_eq!(counts.len(), MOST_SERIES + 1);
        assert_eq!(counts[&("a".to_owned(), "other".to_owned(), "ok")], 100);
    }

    #[test]
    fn names_of_tools_show_no_secret_and_no_label_comes_twice() {
        let tally = ToolCallCounts::default();
        let mut secrets = Secrets::default();
        secrets.add("Zq9-planted/secret");
        for tool in ["get_Zq9-planted/secret", "get_Zq9-planted_secret", "get"] {
            tally.add(Some(&ToolRef { server: "a".to_owned(), tool: tool.to_owned() }), Code::Ok);
        }
        let shown = tally.visible_counts(&VisibleServers::All, &secrets).into_iter();
        let shown: Vec<_> = shown.map(|((_, tool, _), count)| (tool, count)).collect();
        assert_eq!(shown, [("get".to_owned(), 1), ("get_[REDACTED]".to_owned(), 2)]);
        let seen =
            VisibleServers::Only { servers: Default::default(), tools: [("a".to_owned(), "get".to_owned())].into() };
        assert_eq!(tally.visible_counts(&seen, &secrets).len(), 1);
    }
}
