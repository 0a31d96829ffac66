//! A connection to Redis for commands, which is opened again whenever it fails.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ServerError, ServerErrorKind, Value};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tracing::{info, warn};

use super::super::StoreError;
use super::address::RedisAddress;
use super::probe::{Probe, Probed};
use super::script::Script;

/// A connection to Redis for commands, which is opened again whenever it fails.
pub(super) struct Connection {
    address: Arc<RedisAddress>,
    state: watch::Sender<ConnectionState>,
    /// Tells the task that an operation failed, so that the connection may be broken.
    doubted: Arc<Notify>,
    /// Keeps the connection open; it ends with this value.
    _task: JoinSet<()>,
}

#[derive(Clone)]
enum ConnectionState {
    /// It was not tried yet.
    Opening,
    /// It can be used.
    Open(MultiplexedConnection),
    /// It cannot be used; the text says why.
    Failed(String),
}

impl Connection {
    /// Opens a connection in a task. The probe must succeed for the connection to be used.
    pub(super) fn new(address: Arc<RedisAddress>, probe: Arc<Probe>) -> Self {
        let state = watch::Sender::new(ConnectionState::Opening);
        let doubted = Arc::new(Notify::new());
        let mut task = JoinSet::new();
        task.spawn(keep_open(address.clone(), state.clone(), doubted.clone(), probe));
        Connection { address, state, doubted, _task: task }
    }

    /// Returns why the connection cannot be used now.
    pub(super) fn problem(&self) -> Option<String> {
        match &*self.state.borrow() {
            ConnectionState::Opening => Some("it is not connected yet".to_owned()),
            ConnectionState::Open(_) => None,
            ConnectionState::Failed(why) => Some(why.clone()),
        }
    }

    /// Waits until the connection was tried, which takes a second at most.
    pub(super) async fn tried(&self) {
        // The sender is here, so it is not gone.
        let _ = self.state.subscribe().wait_for(|state| !matches!(state, ConnectionState::Opening)).await;
    }

    /// Runs a command within the limit of one operation.
    pub(super) async fn run(&self, command: &Cmd) -> Result<Value, StoreError> {
        self.run_until(Instant::now() + LIMIT, command).await
    }

    /// Runs a script within the limit of one operation. Its text is sent only if Redis does not know it.
    pub(super) async fn run_script(
        &self,
        script: &Script,
        keys: &[String],
        args: &[Vec<u8>],
    ) -> Result<Value, StoreError> {
        let limit = Instant::now() + LIMIT;
        let command = |name, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(keys.len()).arg(keys).arg(args);
            command
        };
        match self.run_until(limit, &command("EVALSHA", &script.digest)).await {
            Err(StoreError::Refused(why)) if why.starts_with(NO_SCRIPT) => {
                self.run_until(limit, &command("EVAL", script.text)).await
            }
            answer => answer,
        }
    }

    async fn run_until(&self, limit: Instant, command: &Cmd) -> Result<Value, StoreError> {
        let state = self.state.borrow().clone();
        let state = match state {
            // Only the first operations come so early, and they need not fail for it.
            ConnectionState::Opening => {
                let _ = timeout_at(limit, self.tried()).await;
                self.state.borrow().clone()
            }
            state => state,
        };
        let mut commands = match state {
            ConnectionState::Open(commands) => commands,
            ConnectionState::Failed(why) => return Err(StoreError::Unreachable(why)),
            ConnectionState::Opening => return Err(StoreError::Unreachable(no_answer(LIMIT))),
        };
        let mut asked = pin!(commands.send_packed_command(command));
        let answer = match timeout_at(limit, &mut asked).await {
            // A busy process may not have read what has arrived.
            Err(_) => timeout(LATE_READ, asked).await,
            answer => answer,
        };
        match answer {
            Ok(Ok(Value::ServerError(error))) => {
                let text = self.address.hide_password(describe(&error));
                if !is_unusable(error.kind()) {
                    return Err(StoreError::Refused(text));
                }
                self.doubted.notify_one();
                Err(StoreError::Unreachable(text))
            }
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(StoreError::Unreachable(self.address.describe(&error))),
            Err(_) => {
                self.doubted.notify_one();
                Err(StoreError::Unreachable(no_answer(LIMIT)))
            }
        }
    }
}

/// Opens the connection again and again.
async fn keep_open(
    address: Arc<RedisAddress>,
    state: watch::Sender<ConnectionState>,
    doubted: Arc<Notify>,
    probe: Arc<Probe>,
) {
    let (mut wait, mut was_reported) = (SHORTEST_WAIT, false);
    loop {
        let began = Instant::now();
        let why = match address.open().await {
            Ok((commands, driver)) => {
                let on_probed = || {
                    if std::mem::take(&mut was_reported) {
                        info!("the store can be reached again");
                    }
                    state.send_replace(ConnectionState::Open(commands.clone()));
                };
                tokio::select! {
                    why = probe_until_failed(&commands, &doubted, &probe, on_probed) => address.hide_password(why),
                    () = driver => "it closed the connection".to_owned(),
                }
            }
            Err(why) => why,
        };
        if !std::mem::replace(&mut was_reported, true) {
            warn!("the store cannot be reached: {why}");
        }
        // With the connection, everything that it still may answer is forgotten.
        state.send_replace(ConnectionState::Failed(why));
        wait = if began.elapsed() > LONGEST_WAIT * 4 { SHORTEST_WAIT } else { wait };
        // Replicas that lost the store together do not all come back together.
        sleep(wait.mul_f64(0.5 + fastrand::f64())).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Probes a connection regularly, and when an operation doubts it, until it fails; returns why. `on_probed` is called once
/// it can be used.
async fn probe_until_failed(
    commands: &MultiplexedConnection,
    doubted: &Notify,
    probe: &Probe,
    on_probed: impl FnOnce(),
) -> String {
    let mut on_probed = Some(on_probed);
    loop {
        if let Err(why) = probe_once(commands, probe).await {
            return why;
        }
        if let Some(on_probed) = on_probed.take() {
            on_probed();
        }
        let _ = timeout(PROBE, doubted.notified()).await;
    }
}

/// Tries whether Redis can be written and still has what this replica wrote; an error says why it cannot be used.
async fn probe_once(commands: &MultiplexedConnection, probe: &Probe) -> Result<(), String> {
    ask_probe(commands, &probe.write()).await?;
    let confirmed = probe.confirmed();
    let answer = ask_probe(commands, &probe.look()).await?;
    let probed = probe.judge(answer, confirmed).map_err(|error| error.to_string())?;
    if let Probed::Lost(end) = probed {
        ask_probe(commands, &end).await?;
        let answer = ask_probe(commands, &probe.look()).await?;
        probe.judge(answer, 0).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Sends one command of a probe.
async fn ask_probe(commands: &MultiplexedConnection, command: &Cmd) -> Result<Value, String> {
    match timeout(PROBE_LIMIT, commands.clone().send_packed_command(command)).await {
        Ok(Ok(Value::ServerError(error))) => Err(describe(&error)),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(no_answer(PROBE_LIMIT)),
    }
}

/// Says what Redis answered, such as `NOPERM this user has no permissions to run the 'set' command`.
fn describe(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()
}

/// Reports whether a server with this error can be used for nothing; another server may have its address soon.
fn is_unusable(kind: Option<ServerErrorKind>) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, ReadOnly};
    matches!(kind, Some(BusyLoading | ClusterDown | MasterDown | ReadOnly))
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

/// How long one operation may take; in tests longer, since they share their machine with others.
const LIMIT: Duration = Duration::from_millis(if cfg!(test) { 2_000 } else { 250 });
/// How long to wait for an answer that may have arrived in time.
const LATE_READ: Duration = Duration::from_millis(20);
/// How often to try whether the connection still works, and how long that may take.
const PROBE: Duration = Duration::from_secs(1);
const PROBE_LIMIT: Duration = LIMIT.saturating_mul(2);
/// How long to wait before a connection is opened again: at first, and at most.
const SHORTEST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// What the error for an unknown script begins with.
const NO_SCRIPT: &str = "NOSCRIPT";
