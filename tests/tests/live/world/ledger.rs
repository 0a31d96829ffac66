//! Records what simulated servers have seen, to check it against the rules.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::server::lock;

/// What the servers of a world have seen.
pub struct Ledger {
    origin: Instant,
    pages: Mutex<Pages>,
    story: Story,
}

/// What happened, line by line; whoever has it can read it when all else is lost.
#[derive(Clone, Default)]
pub struct Story(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Pages {
    calls: HashMap<String, Seen>,
    attempts: Vec<Attempt>,
    heard: Vec<Heard>,
    /// The most connections that a server had at one time.
    crowds: BTreeMap<String, usize>,
}

/// What became of one call at its server.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How often it was handed to a transport.
    pub handed: u32,
    /// How often it was then said that it cannot have run.
    pub refused: u32,
    /// What it said each time that it ran.
    pub runs: Vec<String>,
}

/// One connection, from the moment when it was asked for.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The server that was to be reached.
    pub server: String,
    /// When it was asked for.
    pub at: Duration,
    /// The handshake came to its end.
    pub settled: bool,
    /// It turned a call away in a way that may make the next who comes go another way.
    pub spurned: bool,
    /// When there was nothing left of it.
    pub gone: Option<Duration>,
}

/// One request that reached a server.
#[derive(Clone, Debug)]
pub struct Heard {
    /// When.
    pub at: Duration,
    /// Which server.
    pub server: String,
    /// The method.
    pub method: String,
}

/// A connection that there is something left of.
pub struct Standing {
    ledger: Arc<Ledger>,
    number: usize,
}

impl Ledger {
    pub fn new(story: &Story) -> Arc<Self> {
        Arc::new(Ledger { origin: Instant::now(), pages: Mutex::default(), story: story.clone() })
    }

    /// Adds a line to the story.
    pub fn tell(&self, line: impl fmt::Display) {
        lock(&self.story.0).push(format!("{:>10.3} {line}", self.now().as_secs_f64()));
    }

    /// How old the world is.
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Notes that a connection was asked for.
    pub fn attempt(self: &Arc<Self>, server: &str) -> Standing {
        let mut pages = self.pages();
        let number = pages.attempts.len();
        self.tell(format_args!("connection {number} to {server}"));
        pages.attempts.push(Attempt {
            server: server.to_owned(),
            at: self.now(),
            settled: false,
            spurned: false,
            gone: None,
        });
        let in_use = |attempt: &&Attempt| attempt.server == server && attempt.gone.is_none() && !attempt.spurned;
        let standing = pages.attempts.iter().filter(in_use).count();
        let crowd = pages.crowds.entry(server.to_owned()).or_default();
        *crowd = standing.max(*crowd);
        Standing { ledger: Arc::clone(self), number }
    }

    /// Notes a request.
    pub fn heard(&self, server: &str, method: &str) {
        let (at, server, method) = (self.now(), server.to_owned(), method.to_owned());
        self.pages().heard.push(Heard { at, server, method });
    }

    /// Notes that a call was handed to a transport, and says how often that was.
    pub fn handed(&self, marker: &str) -> u32 {
        let mut pages = self.pages();
        let seen = pages.call(marker);
        seen.handed += 1;
        seen.handed
    }

    /// Notes that a call was turned away.
    pub fn refused(&self, marker: &str) {
        self.pages().call(marker).refused += 1;
    }

    /// Runs a call, and gives what it says.
    pub fn run(&self, server: &str, marker: &str) -> String {
        let mut pages = self.pages();
        let runs = &mut pages.call(marker).runs;
        let run = format!("{marker}, run {} on {server}", runs.len() + 1);
        runs.push(run.clone());
        self.tell(&run);
        run
    }

    /// What became of a call.
    pub fn seen(&self, marker: &str) -> Seen {
        self.pages().calls.get(marker).cloned().unwrap_or_default()
    }

    /// All connections of a server, in the order in which they were asked for.
    pub fn attempts(&self, server: &str) -> Vec<Attempt> {
        self.pages().attempts.iter().filter(|attempt| attempt.server == server).cloned().collect()
    }

    /// Connections that something is left of, of all servers.
    pub fn standing(&self) -> Vec<Attempt> {
        self.pages().attempts.iter().filter(|attempt| attempt.gone.is_none()).cloned().collect()
    }

    /// The most connections that a server had at one time, but for those that calls wait on which are used for no others.
    pub fn crowd(&self, server: &str) -> usize {
        self.pages().crowds.get(server).copied().unwrap_or_default()
    }

    /// When a server was asked for this.
    pub fn times(&self, server: &str, method: &str) -> Vec<Duration> {
        let pages = self.pages();
        let meant = pages.heard.iter().filter(|heard| heard.server == server && heard.method == method);
        meant.map(|heard| heard.at).collect()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        lock(&self.pages)
    }
}

impl Story {
    pub fn text(&self) -> String {
        lock(&self.0).join("\n")
    }
}

impl Pages {
    fn call(&mut self, marker: &str) -> &mut Seen {
        self.calls.entry(marker.to_owned()).or_default()
    }
}

impl Standing {
    pub fn number(&self) -> usize {
        self.number
    }

    /// Notes that the handshake came to its end.
    pub fn settle(&self) {
        self.ledger.tell(format_args!("connection {} is up", self.number));
        self.ledger.pages().attempts[self.number].settled = true;
    }

    /// Notes that whoever comes next may go another way.
    pub fn spurn(&self) {
        self.ledger.pages().attempts[self.number].spurned = true;
    }

    /// Notes that nothing is left of the connection.
    pub fn end(&self) {
        let now = self.ledger.now();
        let gone = &mut self.ledger.pages().attempts[self.number].gone;
        if gone.is_none() {
            *gone = Some(now);
            self.ledger.tell(format_args!("connection {} is gone", self.number));
        }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.end();
    }
}
