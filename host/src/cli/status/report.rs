//! What a gateway says of itself and of its servers.

use serde::Deserialize;

use crate::cli::table;

/// The whole page.
#[derive(Debug, Deserialize)]
pub struct Report {
    /// The gateway itself.
    pub gateway: Option<About>,
    /// It is ready, by the configured measure.
    pub ready: bool,
    /// Its servers.
    pub servers: Vec<Server>,
}

/// The gateway itself.
#[derive(Debug, Deserialize)]
pub struct About {
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
    pub doors: Vec<Door>,
}

/// One of its doors.
#[derive(Debug, Deserialize)]
pub struct Door {
    door: String,
    address: String,
    /// What was turned away.
    pub refused: u64,
}

/// One server.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub struct Server {
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
    pub calls: Calls,
    /// How often it was brought up again.
    pub restarts: u64,
    /// Its process.
    pub pid: Option<u32>,
    problem: Option<String>,
    last_error: Option<LastError>,
    /// Which of its lists are longer than is taken.
    #[serde(default)]
    cut_lists: Vec<String>,
    /// The queues that its calls pass.
    pub queues: Vec<Queue>,
}

/// How the calls of a server went.
#[derive(Debug, Deserialize, Clone, PartialEq)]
pub struct Calls {
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
pub struct Queue {
    /// The calls that wait.
    pub waiting: u64,
}

#[derive(Debug, Deserialize, Clone, PartialEq)]
struct LastError {
    text: String,
    ago_s: u64,
}

impl About {
    /// Where it listens for clients, if it does.
    pub fn address(&self) -> Option<&str> {
        self.doors.iter().find(|door| door.door == "http").map(|door| door.address.as_str())
    }
}

impl Server {
    /// What is or was wrong with it.
    pub fn trouble(&self) -> Option<String> {
        let error = || {
            let LastError { text, ago_s } = self.last_error.as_ref()?;
            Some(format!("{} ({} ago)", table::first_and_last_line(text), age(*ago_s)))
        };
        let cut = || self.cut_lists.first().map(|cut| format!("some is left out: {cut}"));
        self.problem.as_deref().map(table::first_line).or_else(error).or_else(cut)
    }

    /// What a person would call news if it were otherwise.
    pub fn gist(&self) -> impl PartialEq + use<> {
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
        let server = |text: &str| Server {
            server: "a".to_owned(),
            state: "failed".to_owned(),
            for_s: 1,
            era: None,
            version: None,
            tools: None,
            calls: Calls { calls: 0, failures: 0, unknown: 0, in_flight: 0, p50_ms: None, p90_ms: None, p99_ms: None },
            restarts: 0,
            pid: None,
            problem: None,
            last_error: Some(LastError { text: text.to_owned(), ago_s: 2 }),
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
            assert_eq!(server(text).trouble().as_deref(), Some(expected));
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
