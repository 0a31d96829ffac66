//! What a gateway says of itself and of its servers.

use serde::Deserialize;

use crate::cli::table;

/// The whole page.
#[derive(Debug, Deserialize)]
pub struct StatusReport {
    /// The gateway itself.
    pub gateway: Option<GatewayInfo>,
    /// It is ready, by the configured measure.
    pub ready: bool,
    /// Its servers.
    pub servers: Vec<ServerReport>,
}

/// The gateway itself.
#[derive(Debug, Deserialize)]
pub struct GatewayInfo {
    /// Its process id.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
    /// For how long it has run.
    pub for_s: u64,
    /// Its configuration; only admins are told.
    #[serde(default)]
    pub file: Option<String>,
    /// Its doors; only admins are told.
    #[serde(default)]
    pub doors: Vec<ListenerInfo>,
}

/// One of its doors.
#[derive(Debug, Deserialize)]
pub struct ListenerInfo {
    door: String,
    address: String,
    /// What was turned away.
    pub refused: u64,
}

/// One server.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub struct ServerReport {
    /// Its id.
    pub server: String,
    /// Where it stands.
    pub state: String,
    /// For how long.
    pub for_s: u64,
    /// The era that it speaks.
    pub era: Option<String>,
    /// The version of MCP that it speaks.
    pub version: Option<String>,
    /// How many tools it has.
    pub tools: Option<u64>,
    /// How its calls went.
    pub calls: CallCounts,
    /// How often it was brought up again.
    pub restarts: u64,
    /// Its process.
    pub pid: Option<u32>,
    problem: Option<String>,
    last_error: Option<LastErrorReport>,
    /// Which of its lists are longer than is taken.
    #[serde(default)]
    cut_lists: Vec<String>,
    /// The queues that its calls pass.
    pub queues: Vec<QueueReport>,
}

/// How the calls of a server went.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub struct CallCounts {
    /// All of them.
    pub calls: u64,
    /// Those that failed.
    pub failures: u64,
    /// Those of which nobody knows whether they ran.
    pub unknown: u64,
    /// Those under way.
    pub in_flight: u64,
    /// Half of them took no longer.
    pub p50_ms: Option<f64>,
    /// Nine of ten took no longer.
    pub p90_ms: Option<f64>,
    /// All but one of a hundred took no longer.
    pub p99_ms: Option<f64>,
}

/// A queue of calls.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub struct QueueReport {
    /// The calls that wait.
    pub waiting: u64,
}

#[derive(Debug, Deserialize, Clone, PartialEq)]
struct LastErrorReport {
    text: String,
    ago_s: u64,
}

impl GatewayInfo {
    /// Where it listens for clients, if it does.
    pub fn address(&self) -> Option<&str> {
        self.doors.iter().find(|door| door.door == "http").map(|door| door.address.as_str())
    }
}

impl ServerReport {
    /// What is or was wrong with it.
    pub fn last_problem(&self) -> Option<String> {
        let error = || {
            let LastErrorReport { text, ago_s } = self.last_error.as_ref()?;
            Some(format!("{} ({} ago)", table::first_and_last_line(text), age(*ago_s)))
        };
        let cut = || self.cut_lists.first().map(|cut| format!("some is left out: {cut}"));
        self.problem.as_deref().map(table::first_line).or_else(error).or_else(cut)
    }

    /// What a person would call news if it were otherwise.
    pub fn notable_state(&self) -> impl PartialEq + use<> {
        let error = self.last_error.as_ref().map(|error| error.text.clone());
        (self.state.clone(), self.version.clone(), self.tools, self.restarts, self.pid, self.problem.clone(), error)
    }
}

/// A time span in one unit.
pub fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A short time span to two or three figures.
pub fn milliseconds(time: f64) -> String {
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
            tools: None,
            calls: CallCounts {
                calls: 0,
                failures: 0,
                unknown: 0,
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
