//! A gateway's report on itself and its servers, as its API sends it.

use serde::Deserialize;

use crate::cli::table;

/// The whole report.
#[derive(Debug, Deserialize)]
pub(crate) struct StatusReport {
    /// The gateway itself.
    pub gateway: Option<GatewayInfo>,
    /// True if it is ready, by the configured rule.
    pub ready: bool,
    /// Its servers.
    pub servers: Vec<ServerReport>,
}

impl StatusReport {
    /// Returns whether the gateway is ready, in words.
    pub(crate) fn readiness(&self) -> &'static str {
        match &self.gateway {
            Some(gateway) if gateway.draining => "draining",
            _ if self.ready => "ready",
            _ => "not ready",
        }
    }
}

/// The gateway itself.
#[derive(Debug, Deserialize)]
pub(crate) struct GatewayInfo {
    /// Its process id.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
    /// How long it has been running, in seconds.
    pub for_s: u64,
    /// Whether it is about to stop.
    #[serde(default)]
    pub draining: bool,
    /// Its configuration file, which only admins see.
    #[serde(default)]
    pub file: Option<String>,
    /// Why that file is not in effect as it is now.
    #[serde(default)]
    pub not_applied: Option<String>,
    /// Whether the store of the replicas has lost something that no operator has accepted.
    #[serde(default)]
    pub store_lost: bool,
    /// Its listeners, which only admins see.
    #[serde(default)]
    pub listeners: Vec<ListenerInfo>,
}

/// A listener of the gateway.
#[derive(Debug, Deserialize)]
pub(crate) struct ListenerInfo {
    listener: String,
    address: String,
    /// How many connections and requests it refused.
    pub refused: u64,
}

/// One server.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub(crate) struct ServerReport {
    /// Its id.
    pub server: String,
    /// Its state.
    pub state: String,
    /// How long it has been in that state, in seconds.
    pub for_s: u64,
    /// The protocol era that it speaks.
    pub era: Option<String>,
    /// The version of MCP that it speaks.
    pub version: Option<String>,
    /// The name and version of its program.
    #[serde(default)]
    pub software: Option<String>,
    /// Who shares a connection to it.
    #[serde(default)]
    pub scope: Option<String>,
    /// How many tools it has.
    pub tools: Option<u64>,
    /// Statistics of its calls.
    pub calls: CallCounts,
    /// How often it was restarted.
    pub restarts: u64,
    /// Its process id.
    pub pid: Option<u32>,
    problem: Option<String>,
    last_error: Option<LastErrorReport>,
    /// Its lists that are longer than the limit.
    #[serde(default)]
    cut_lists: Vec<String>,
    /// The queues that its calls wait in.
    pub queues: Vec<QueueReport>,
}

/// Statistics of a server's calls.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub(crate) struct CallCounts {
    /// All calls.
    pub calls: u64,
    /// Calls that failed.
    pub failures: u64,
    /// Calls that failed although the tool may have run.
    pub unknown: u64,
    /// Calls that a tool answered with an error of its own.
    #[serde(default)]
    pub tool_errors: u64,
    /// Calls that the rules or a person denied.
    #[serde(default)]
    pub denied: u64,
    /// Calls in flight.
    pub in_flight: u64,
    /// The median latency.
    pub p50_ms: Option<f64>,
    /// The 90th percentile of the latencies.
    pub p90_ms: Option<f64>,
    /// The 99th percentile of the latencies.
    pub p99_ms: Option<f64>,
}

/// A queue of calls.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub(crate) struct QueueReport {
    /// How many calls wait.
    pub waiting: u64,
}

#[derive(Debug, Deserialize, Clone, PartialEq)]
struct LastErrorReport {
    text: String,
    ago_s: u64,
}

impl GatewayInfo {
    /// Returns the address of the HTTP listener, if there is one.
    pub(crate) fn address(&self) -> Option<&str> {
        self.listeners.iter().find(|info| info.listener == "http").map(|info| info.address.as_str())
    }
}

impl ServerReport {
    /// Returns what is wrong with the server now, or was last.
    pub(crate) fn last_problem(&self) -> Option<String> {
        let error = || {
            let LastErrorReport { text, ago_s } = self.last_error.as_ref()?;
            Some(format!("{} ({} ago)", table::first_and_last_line(text), age(*ago_s)))
        };
        let cut = || self.cut_lists.first().map(|cut| format!("the list is incomplete: {cut}"));
        self.problem.as_deref().map(table::first_line).or_else(error).or_else(cut)
    }

    /// Returns the parts whose change a person would want to see.
    pub(crate) fn notable_state(&self) -> impl PartialEq + use<> {
        let error = self.last_error.as_ref().map(|error| error.text.clone());
        (self.state.clone(), self.version.clone(), self.tools, self.restarts, self.pid, self.problem.clone(), error)
    }
}

/// Formats a time span in one unit.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Formats a short time span with two or three digits.
pub(crate) fn milliseconds(time: f64) -> String {
    match time {
        ..1.0 => format!("{time:.2}ms"),
        1.0..10.0 => format!("{time:.1}ms"),
        10.0..1000.0 => format!("{time:.0}ms"),
        _ => format!("{:.1}s", time / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_has_what_the_server_wrote_last() {
        let server = |text: &str| ServerReport {
            server: "a".to_owned(),
            state: "failed".to_owned(),
            for_s: 1,
            era: None,
            version: None,
            software: None,
            scope: None,
            tools: None,
            calls: CallCounts {
                calls: 0,
                failures: 0,
                unknown: 0,
                tool_errors: 0,
                denied: 0,
                in_flight: 0,
                p50_ms: None,
                p90_ms: None,
                p99_ms: None,
            },
            restarts: 0,
            pid: None,
            problem: None,
            last_error: Some(LastErrorReport { text: text.to_owned(), ago_s: 2 }),
            cut_lists: Vec::new(),
            queues: Vec::new(),
        };
        let rows = [
            (
                "it ended; it last wrote:\n  at line 1\nno such token\n",
                "it ended; it last wrote: no such token (2s ago)",
            ),
            ("it ended", "it ended (2s ago)"),
        ];
        for (text, expected) in rows {
            assert_eq!(server(text).last_problem().as_deref(), Some(expected));
        }
    }

    #[test]
    fn times_are_as_long_as_they_need_be() {
        for (seconds, expected) in [(0, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (86_400, "1d"), (900_000, "10d")]
        {
            assert_eq!(age(seconds), expected);
        }
        for (time, expected) in [(0.127, "0.13ms"), (1.26, "1.3ms"), (12.6, "13ms"), (1234.0, "1.2s")] {
            assert_eq!(milliseconds(time), expected);
        }
    }
}
