//! What servers wrote to their standard error last, and what became of them, for operators.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tokio::sync::watch;

use crate::lock::lock;
use crate::logic::types::lifecycle::State;
use crate::visible;

/// The logs of all servers, by their ids.
#[derive(Default)]
pub(super) struct ServerLogs {
    by_server: Mutex<HashMap<String, Arc<ServerLog>>>,
    /// Counts the lines of all servers.
    count: Arc<watch::Sender<u64>>,
}

/// The last lines about one server, over all its connections, within limits on their number and size.
#[derive(Default)]
pub(super) struct ServerLog {
    lines: Mutex<KeptLines>,
    /// The last states that the server entered, oldest first. Lines would push them out.
    states: Mutex<VecDeque<StateChange>>,
    count: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct KeptLines {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// The number of the last line.
    last: u64,
}

/// A line about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The number of the line among those about the server, from 1.
    pub number: u64,
    /// When it was written.
    pub at: SystemTime,
    /// Who wrote it.
    pub source: LogSource,
    /// The text.
    pub text: String,
}

/// A state that a server entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateChange {
    /// When it entered the state.
    pub at: SystemTime,
    /// The state.
    pub state: State,
}

/// Who wrote a line about a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogSource {
    /// The server, to its standard error.
    Stderr,
    /// toolgate, about a start or an end of the server, for example.
    Toolgate,
}

/// The lines about a server after a certain one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPage {
    /// The lines, oldest first, without secrets and without characters that a person could not see.
    pub lines: Vec<LogLine>,
    /// The number of the last line, after which the next page begins.
    pub last: u64,
    /// How many lines after the given one are no longer kept.
    pub lost: u64,
}

impl LogSource {
    /// Returns the name of the source.
    pub fn name(self) -> &'static str {
        match self {
            LogSource::Stderr => "stderr",
            LogSource::Toolgate => "toolgate",
        }
    }
}

impl ServerLogs {
    /// Returns the log of a server, which its connections share.
    pub(super) fn of(&self, server: &str) -> Arc<ServerLog> {
        let mut logs = lock(&self.by_server);
        if let Some(known) = logs.get(server) {
            return Arc::clone(known);
        }
        let log = Arc::new(ServerLog { count: Arc::clone(&self.count), ..ServerLog::default() });
        logs.insert(server.to_owned(), Arc::clone(&log));
        log
    }

    /// Forgets the logs of all other servers.
    pub(super) fn retain(&self, is_configured: impl Fn(&str) -> bool) {
        lock(&self.by_server).retain(|server, _| is_configured(server));
    }

    /// Returns a count of lines, which changes with each line.
    pub(super) fn changed(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

impl ServerLog {
    /// Adds a line that the server wrote to its standard error. It is masked only when somebody reads it, since most
    /// lines are never read.
    pub(super) fn add_stderr(&self, line: &[u8]) {
        let line = &line[..line.len().min(MOST_LINE)];
        self.add(LogSource::Stderr, String::from_utf8_lossy(line).into_owned());
    }

    /// Adds the first line of what toolgate says about the server; what follows is what the server wrote itself.
    pub(super) fn add_event(&self, text: &str) {
        let line = text.lines().next().unwrap_or_default().trim_end_matches("; it last wrote:");
        self.add(LogSource::Toolgate, line[..line.floor_char_boundary(MOST_LINE)].to_owned());
    }

    /// Notes the state that the server enters.
    pub(super) fn add_state(&self, state: State) {
        let mut states = lock(&self.states);
        if states.back().is_some_and(|last| last.state == state) {
            return;
        }
        states.push_back(StateChange { at: SystemTime::now(), state });
        if states.len() > MOST_STATES {
            states.pop_front();
        }
    }

    /// Returns the last states that the server entered, oldest first.
    pub(super) fn states(&self) -> Vec<StateChange> {
        lock(&self.states).iter().copied().collect()
    }

    fn add(&self, source: LogSource, text: String) {
        let mut kept = lock(&self.lines);
        kept.last += 1;
        kept.bytes += size(&text);
        let number = kept.last;
        kept.lines.push_back(LogLine { number, at: SystemTime::now(), source, text });
        while kept.lines.len() > MOST_LINES || kept.bytes > MOST_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes -= size(&oldest.text);
        }
        drop(kept);
        self.count.send_modify(|count| *count += 1);
    }

    /// Returns the lines after this number, masked. A number that is not reached yet belongs to an earlier gateway, so
    /// all lines are new.
    pub(super) fn page(&self, after: u64, mask: &dyn Fn(&str) -> Option<String>) -> LogPage {
        let (mut lines, last) = {
            let kept = lock(&self.lines);
            (kept.lines.iter().cloned().collect::<Vec<_>>(), kept.last)
        };
        let after = if after > last { 0 } else { after };
        let oldest = lines.first().map_or(last, |line| line.number - 1);
        // What is masked may have begun in an earlier line.
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let texts = masked(&texts, mask);
        for (line, text) in lines.iter_mut().zip(texts) {
            line.text = visible::cut(&visible::escape_except(&text, SHOWN), MOST_SHOWN);
        }
        lines.retain(|line| line.number > after);
        LogPage { lines, last, lost: oldest.saturating_sub(after) }
    }
}

/// Masks lines one by one, and what spans several of them, such as a private key.
fn masked(lines: &[&str], mask: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let hidden = || HIDDEN.to_owned();
    let alone = |line: &str| mask(line).unwrap_or_else(hidden);
    let Some(together) = mask(&lines.join("\n")) else { return lines.iter().map(|_| hidden()).collect() };
    let together: Vec<String> = together.split('\n').map(alone).collect();
    if together.len() == lines.len() {
        return together;
    }
    // Several lines became another number of lines. Those around them are the same either way; the rest is hidden.
    let mut lines: Vec<String> = lines.iter().map(|line| alone(line)).collect();
    let before = lines.iter().zip(&together).take_while(|(one, other)| one == other).count();
    let after = lines.iter().rev().zip(together.iter().rev()).take_while(|(one, other)| one == other).count();
    let end = lines.len() - after.min(lines.len() - before);
    lines[before..end].fill_with(hidden);
    lines
}

/// Returns roughly how much memory a line uses.
fn size(text: &str) -> usize {
    text.len() + size_of::<LogLine>()
}

/// The most lines that are kept of a server.
const MOST_LINES: usize = 200;
/// The most bytes that they may take together.
const MOST_BYTES: usize = 64 << 10;
/// The most states that are kept of a server: an hour of one that is restarted every minute.
const MOST_STATES: usize = 128;
/// The most bytes that are kept of a line; more than is shown, so that what is masked is whole.
const MOST_LINE: usize = 8 << 10;
/// The most characters of a line that are shown.
const MOST_SHOWN: usize = 1000;
/// Stands for a line that cannot be masked.
const HIDDEN: &str = "[MASKED]";
/// Characters that are shown as they are although they are hidden elsewhere: tabs, and what follows many pictures.
const SHOWN: &str = "\t\u{fe0f}";

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[&str]) -> Arc<ServerLog> {
        let log = ServerLogs::default().of("a");
        lines.iter().for_each(|line| log.add_stderr(line.as_bytes()));
        log
    }

    fn texts(page: &LogPage) -> Vec<&str> {
        page.lines.iter().map(|line| line.text.as_str()).collect()
    }

    fn unmasked(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_reader_that_comes_again_gets_each_line_once_and_learns_what_it_missed() {
        let log = log(&["one", "two"]);
        log.add_event("the server ended; it last wrote:\ntwo");
        let first = log.page(0, &unmasked);
        assert_eq!((texts(&first), first.last, first.lost), (vec!["one", "two", "the server ended"], 3, 0));
        assert_eq!(first.lines[2].source, LogSource::Toolgate);
        assert_eq!(log.page(3, &unmasked), LogPage { lines: Vec::new(), last: 3, lost: 0 });
        (0..300).for_each(|number| log.add_stderr(format!("line {number}").as_bytes()));
        let next = log.page(3, &unmasked);
        assert_eq!((next.lines.len(), next.last, next.lost), (MOST_LINES, 303, 100));
        assert_eq!(next.lines[0].text, "line 100");
        assert_eq!(texts(&log.page(301, &unmasked)), ["line 298", "line 299"]);
        // Of a gateway that ran before.
        assert_eq!(log.page(1000, &unmasked).lines.len(), MOST_LINES);
    }

    #[test]
    fn the_last_states_are_kept_whatever_the_server_writes() {
        let log = log(&[]);
        let alternating = [State::Connecting, State::Connecting, State::Ready].into_iter().cycle().take(3000);
        alternating.for_each(|state| {
            log.add_stderr(b"line");
            log.add_state(state);
        });
        let states = log.states();
        assert_eq!(states.len(), MOST_STATES);
        assert_eq!(states.last().map(|change| change.state), Some(State::Ready));
        assert!(states.windows(2).all(|pair| pair[0].state != pair[1].state && pair[0].at <= pair[1].at));
    }

    #[test]
    fn lines_of_any_size_take_little_and_control_nothing() {
        let log = log(&["a\u{1b}[2J\u{202e}b\tc"]);
        assert_eq!(texts(&log.page(0, &unmasked)), ["a\\u{1b}[2J\\u{202e}b\tc"]);
        (0..100).for_each(|_| log.add_stderr(&[0xff; 100_000]));
        let page = log.page(0, &unmasked);
        assert!(page.lines.len() < 10 && page.lost > 90, "{} lines, {} lost", page.lines.len(), page.lost);
        assert!(page.lines.iter().all(|line| line.text.chars().count() == MOST_SHOWN + 1));
        assert!(lock(&log.lines).bytes <= MOST_BYTES);
    }

    #[test]
    fn a_mask_over_several_lines_hides_them_and_no_others() {
        let key = "-BEGIN-\nabc\n-END-";
        let mask = |text: &str| Some(text.replace(key, "[KEY]").replace("hunter2", "[PASSWORD]"));
        let lines = ["one hunter2", "-BEGIN-", "abc", "-END-", "two"];
        let expected = ["one [PASSWORD]", HIDDEN, HIDDEN, HIDDEN, "two"];
        assert_eq!(texts(&log(&lines).page(0, &mask)), expected);
        assert_eq!(texts(&log(&lines).page(2, &mask)), expected[2..]);
        assert_eq!(texts(&log(&["a", "b"]).page(0, &|_| None)), [HIDDEN; 2]);
        assert_eq!(texts(&log(&["-BEGIN-", "abc", "-END-"]).page(0, &mask)), [HIDDEN; 3]);
    }
}
