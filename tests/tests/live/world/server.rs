//! A simulated server, without a process or socket, but with everything that can go wrong with either.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolgate::failure::{Failure, HttpError, RequestError};
use toolgate::transport::{BoxFuture, Connect, Receive, Transport};

use super::ledger::Ledger;
use super::line::{Handle, Line};

/// A server of the world.
pub struct Server {
    pub id: String,
    pub ledger: Arc<Ledger>,
    me: Weak<Server>,
    mind: Mutex<Box<dyn Mind>>,
    /// It does nothing wrong any more.
    well: AtomicBool,
    /// Counts the changes of its tools.
    edition: AtomicU64,
    /// It does not declare that it announces changes of its tools.
    is_quiet: AtomicBool,
    lines: Mutex<Vec<Weak<Line>>>,
    /// What goes on though its connection is gone.
    work: Mutex<JoinSet<()>>,
}

/// Decides what a server does.
pub trait Mind: Send + 'static {
    /// What the next connection is like.
    fn nature(&mut self) -> Nature {
        Nature::default()
    }

    /// What becomes of a request, or of the wish to `connect`.
    fn meet(&mut self, what: &What<'_>) -> Fate;
}

/// What a server meets.
#[derive(Clone, Copy, Debug)]
pub struct What<'a> {
    /// The method, or `connect`.
    pub method: &'a str,
    /// What tells a call from all others, and how often it was handed over.
    pub call: Option<(&'a str, u32)>,
}

/// What a connection is like.
#[derive(Clone, Debug, Default)]
pub struct Nature {
    /// It speaks 2026-07-28, and nothing else.
    pub modern: bool,
    /// Each request has an exchange of its own, and work goes on when the connection is gone.
    pub web: bool,
    /// How long it lasts.
    pub lasts: Option<Duration>,
    /// From when to when it answers nothing.
    pub deaf: Option<(Duration, Duration)>,
    /// How long it takes to write a request.
    pub writes_in: Duration,
    /// How long it takes to end in good manners.
    pub ends_in: Duration,
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Fate {
    /// It is answered after a time; the tool runs at the beginning of it or at the end.
    Answer { after: Duration, early: bool },
    /// It is answered with a JSON-RPC error.
    Error { after: Duration, ran: bool },
    /// The tool runs, and says that it failed.
    Fail { after: Duration },
    /// The tool runs, and the answer cannot be read.
    Garbage { after: Duration },
    /// It is never answered.
    Silence { ran: bool },
    /// The connection ends before anything is written.
    Refuse,
    /// The connection ends before the answer.
    Die { after: Duration, ran: bool },
    /// The connection ends right after the answer.
    AnswerAndDie { after: Duration },
    /// It is answered with an HTTP error.
    Http { error: HttpError, after: Duration, ran: bool },
    /// It never leaves the hand of the sender, and may have arrived all the same.
    Stuck { ran: bool },
}

impl Fate {
    /// An answer at once.
    pub const WELL: Fate = Fate::Answer { after: Duration::ZERO, early: true };

    /// An answer after this many seconds.
    pub fn after(seconds: u64) -> Fate {
        Fate::Answer { after: Duration::from_secs(seconds), early: true }
    }
}

impl<F: FnMut(&str) -> Fate + Send + 'static> Mind for F {
    fn meet(&mut self, what: &What<'_>) -> Fate {
        self(what.method)
    }
}

impl Server {
    /// A server that does nothing wrong.
    pub fn new(id: &str, ledger: &Arc<Ledger>) -> Arc<Self> {
        Arc::new_cyclic(|me| Server {
            id: id.to_owned(),
            ledger: Arc::clone(ledger),
            me: me.clone(),
            mind: Mutex::new(Box::new(|_: &str| Fate::WELL)),
            well: AtomicBool::new(false),
            edition: AtomicU64::new(0),
            is_quiet: AtomicBool::new(false),
            lines: Mutex::default(),
            work: Mutex::default(),
        })
    }

    /// From now on this decides what it does.
    pub fn minds(&self, mind: impl Mind) {
        *lock(&self.mind) = Box::new(mind);
    }

    /// From now on it does nothing wrong, on connections of before too.
    pub fn recover(&self) {
        self.well.store(true, Ordering::Relaxed);
    }

    /// From now on this decides what it does, though it was well before.
    pub fn fall_ill(&self, mind: impl Mind) {
        self.minds(mind);
        self.well.store(false, Ordering::Relaxed);
    }

    pub fn is_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }

    /// What becomes of a request.
    pub fn meet(&self, what: &What<'_>) -> Fate {
        if self.is_well() { Fate::WELL } else { lock(&self.mind).meet(what) }
    }

    /// All its connections end.
    pub fn kill(&self) {
        self.lines().iter().for_each(|line| line.end());
    }

    /// It has other tools, and says so.
    pub fn change_tools(&self) {
        self.edition.fetch_add(1, Ordering::Relaxed);
        let news = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        self.lines().iter().for_each(|line| line.say(&news));
    }

    /// It has other tools, and does not say so.
    pub fn change_tools_quietly(&self) {
        self.edition.fetch_add(1, Ordering::Relaxed);
    }

    /// From now on it does not declare that it announces changes of its tools.
    pub fn be_quiet(&self) {
        self.is_quiet.store(true, Ordering::Relaxed);
    }

    /// The tool that only the present edition has.
    pub fn extra(&self) -> String {
        format!("extra_{}", self.edition.load(Ordering::Relaxed))
    }

    /// Does something that no connection can stop.
    pub fn work(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.work);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    /// The result of a request that is no call.
    pub fn result(&self, method: &str, modern: bool) -> Result<Value, i64> {
        let capabilities = json!({"tools": {"listChanged": !self.is_quiet.load(Ordering::Relaxed)}});
        match (method, modern) {
            ("server/discover", true) => Ok(json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})),
            // A version that is not supported, and a method that there is not.
            ("initialize", true) => Err(-32022),
            ("server/discover", false) => Err(-32601),
            ("initialize", false) => Ok(json!({"protocolVersion": "2025-11-25", "capabilities": capabilities})),
            ("tools/list", _) => Ok(json!({"tools": self.tools()})),
            ("ping", false) => Ok(json!({})),
            _ => Err(-32601),
        }
    }

    fn tools(&self) -> Vec<Value> {
        let tool = |name: &str, annotations: Value| {
            let schema =
                json!({"type": "object", "properties": {"marker": {"type": "string"}}, "required": ["marker"]});
            json!({"name": name, "inputSchema": schema, "annotations": annotations})
        };
        vec![
            tool("read", json!({"readOnlyHint": true})),
            tool("set", json!({"idempotentHint": true})),
            tool("act", json!({})),
            tool("forbidden", json!({})),
            tool(&self.extra(), json!({"readOnlyHint": false})),
        ]
    }

    fn lines(&self) -> Vec<Arc<Line>> {
        let mut lines = lock(&self.lines);
        lines.retain(|line| line.strong_count() > 0);
        lines.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Connect for Server {
    fn connect(&self, receiver: Arc<dyn Receive>) -> BoxFuture<'_, Result<Arc<dyn Transport>, RequestError>> {
        Box::pin(async move {
            let standing = self.ledger.attempt(&self.id);
            let (nature, fate) = {
                let mut mind = lock(&self.mind);
                let nature = mind.nature();
                let well = Nature { modern: nature.modern, web: nature.web, ..Nature::default() };
                if self.is_well() {
                    (well, Fate::WELL)
                } else {
                    (nature, mind.meet(&What { method: "connect", call: None }))
                }
            };
            match fate {
                Fate::Answer { after, .. } => sleep(after).await,
                Fate::Silence { .. } | Fate::Stuck { .. } => std::future::pending().await,
                Fate::Http { error, after, .. } => {
                    sleep(after).await;
                    return Err(RequestError::sent(Failure::Http(error)));
                }
                _ => return Err(RequestError::unsent(Failure::Connect("refused".to_owned()))),
            }
            let server = self.me.upgrade().expect("a world keeps its servers");
            let line = Line::new(server, nature, standing, receiver);
            lock(&self.lines).push(Arc::downgrade(&line));
            Ok(Handle::new(line) as Arc<dyn Transport>)
        })
    }
}

pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
