//! One connection to a simulated server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use toolgate::failure::{Failure, ProcessExit, RequestError};
use toolgate::transport::{BoxFuture, Delivery, Outgoing, Receive, RequestId, ServerStream, Transport};

use super::ledger::Standing;
use super::server::{Fate, Nature, Server, What, lock};

/// One connection to a server of the world.
pub struct Line {
    server: Arc<Server>,
    nature: Nature,
    standing: Standing,
    since: Instant,
    receiver: Arc<dyn Receive>,
    /// It ends in good manners, and takes nothing more.
    closing: AtomicBool,
    over: watch::Sender<bool>,
    /// What goes on in the process; it ends with the connection.
    tasks: Mutex<JoinSet<()>>,
}

/// What a session holds of a connection; the process ends with it.
pub struct Handle(Arc<Line>);

/// A request that reached the server.
#[derive(Clone)]
struct Request {
    id: RequestId,
    method: String,
    /// What tells this call from all others.
    marker: Option<String>,
}

impl Line {
    pub(super) fn new(
        server: Arc<Server>,
        nature: Nature,
        standing: Standing,
        receiver: Arc<dyn Receive>,
    ) -> Arc<Self> {
        let line = Arc::new(Line {
            server,
            nature,
            standing,
            since: Instant::now(),
            receiver,
            closing: AtomicBool::new(false),
            over: watch::Sender::new(false),
            tasks: Mutex::default(),
        });
        if let Some(lasts) = line.nature.lasts {
            let dying = Arc::clone(&line);
            line.spawn(async move {
                sleep(lasts).await;
                if !dying.server.is_well() {
                    dying.end();
                }
            });
        }
        line
    }

    /// The connection is over, and with it the process.
    pub(super) fn end(&self) {
        if self.over.send_replace(true) {
            return;
        }
        self.standing.end();
        let failure = if self.nature.web { Failure::Closed } else { Failure::Exited(ProcessExit::default()) };
        self.receiver.closed(RequestError::sent(failure));
        lock(&self.tasks).abort_all();
    }

    /// Sends a message.
    pub(super) fn say(&self, message: &Value) {
        if !self.is_over() {
            self.receiver.receive(message.to_string().into(), None);
        }
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    fn is_deaf(&self) -> bool {
        let age = self.since.elapsed();
        !self.server.is_well() && self.nature.deaf.is_some_and(|(from, to)| from <= age && age < to)
    }

    /// Begins something that ends with the connection.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(work);
    }

    async fn ended(&self) {
        let mut over = self.over.subscribe();
        // The sender lives as long as this does.
        let _ = over.wait_for(|over| *over).await;
    }

    async fn take(self: &Arc<Self>, request: Request) -> Result<Delivery, RequestError> {
        let ledger = &self.server.ledger;
        let refuse = |failed: RequestError| {
            request.marker.iter().for_each(|marker| ledger.refused(marker));
            Err(failed)
        };
        let call = request.marker.as_deref().map(|marker| (marker, ledger.handed(marker)));
        if !self.nature.writes_in.is_zero() {
            // One that is over lets go of its senders at once.
            let _ = timeout(self.nature.writes_in, self.ended()).await;
        }
        if self.is_over() || self.closing.load(Ordering::Relaxed) {
            return refuse(RequestError::unsent(Failure::Closed));
        }
        ledger.heard(&self.server.id, &request.method);
        let what = What { method: &request.method, call };
        let fate = if self.is_deaf() { Fate::Silence { ran: false } } else { self.server.meet(&what) };
        ledger.tell(format_args!(
            "{} on connection {}: {fate:?}",
            call.map_or(what.method, |(marker, _)| marker),
            self.standing.number()
        ));
        match fate {
            Fate::Refuse => {
                self.end();
                refuse(RequestError::unsent(Failure::Closed))
            }
            Fate::Stuck { ran } => {
                self.run(&request, ran);
                self.ended().await;
                Err(RequestError::sent(Failure::Closed))
            }
            Fate::Http { error, after, ran } => {
                tokio::select! {
                    biased;
                    () = self.ended() => return Err(RequestError::sent(Failure::Closed)),
                    () = sleep(after) => {}
                }
                self.run(&request, ran);
                let failed = RequestError::sent(Failure::Http(error.clone()));
                let unread = matches!(error.status, 400..=499);
                if matches!(error.status, 404 | 500..=599) {
                    self.standing.spurn();
                }
                if unread { refuse(failed) } else { Err(failed) }
            }
            fate if self.nature.web => {
                tokio::select! {
                    biased;
                    () = self.fulfil(&request, fate) => Ok(Delivery::Exchanged),
                    () = self.ended() => Err(RequestError::sent(Failure::Closed)),
                }
            }
            fate => {
                let line = Arc::clone(self);
                self.spawn(async move { line.fulfil(&request, fate).await });
                Ok(Delivery::Written)
            }
        }
    }

    async fn fulfil(&self, request: &Request, fate: Fate) {
        match fate {
            Fate::Answer { after, early } => {
                let result = self.do_it(request, after, early).await;
                self.answer(request, result);
            }
            Fate::AnswerAndDie { after } => {
                let result = self.do_it(request, after, true).await;
                self.answer(request, result);
                self.end();
            }
            Fate::Error { after, ran } => {
                self.run(request, ran);
                sleep(after).await;
                self.answer(request, Err(-32000));
            }
            Fate::Fail { after } => {
                let result = self.do_it(request, after, false).await.map(|mut result| {
                    result["isError"] = json!(true);
                    result
                });
                self.answer(request, result);
            }
            Fate::Garbage { after } => {
                self.run(request, true);
                sleep(after).await;
                let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[}}}}"#, request.id);
                self.receiver.receive(text.into(), self.nature.web.then_some(request.id));
            }
            Fate::Die { after, ran } => {
                sleep(after).await;
                self.run(request, ran);
                self.end();
            }
            Fate::Silence { ran } => {
                self.run(request, ran);
                std::future::pending().await
            }
            Fate::Refuse | Fate::Stuck { .. } | Fate::Http { .. } => unreachable!("these were met before"),
        }
    }

    /// Takes its time, and gives the result.
    async fn do_it(&self, request: &Request, after: Duration, early: bool) -> Result<Value, i64> {
        if request.method == "subscriptions/listen" {
            std::future::pending::<()>().await;
        }
        let Some(marker) = request.marker.clone() else {
            sleep(after).await;
            return self.server.result(&request.method, self.nature.modern);
        };
        let result = |text: String| json!({"content": [{"type": "text", "text": text}]});
        if early || !self.nature.web {
            let text = early.then(|| self.server.ledger.run(&self.server.id, &marker));
            sleep(after).await;
            return Ok(result(text.unwrap_or_else(|| self.server.ledger.run(&self.server.id, &marker))));
        }
        // Far away, work goes on whether anybody waits for it or not.
        let (done, said) = oneshot::channel();
        let server = Arc::clone(&self.server);
        self.server.work(async move {
            sleep(after).await;
            let _ = done.send(server.ledger.run(&server.id, &marker));
        });
        Ok(result(said.await.expect("work comes to its end")))
    }

    fn run(&self, request: &Request, ran: bool) {
        if let (true, Some(marker)) = (ran, &request.marker) {
            self.server.ledger.run(&self.server.id, marker);
        }
    }

    fn answer(&self, request: &Request, outcome: Result<Value, i64>) {
        let id = request.id;
        let answer = match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(code) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}),
        };
        self.receiver.receive(answer.to_string().into(), self.nature.web.then_some(id));
    }
}

impl Handle {
    pub(super) fn new(line: Arc<Line>) -> Arc<Self> {
        Arc::new(Handle(line))
    }
}

impl Transport for Handle {
    fn send(&self, message: Outgoing) -> BoxFuture<'_, Result<Delivery, RequestError>> {
        Box::pin(async move {
            if self.0.is_over() {
                return Err(RequestError::unsent(Failure::Closed));
            }
            match message.request {
                Some(id) => self.0.take(read(id, &message.text)).await,
                // Nobody listens to what needs no answer.
                None => Ok(Delivery::Written),
            }
        })
    }

    fn established(&self, _stream: ServerStream) {
        self.0.standing.settle();
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.0.closing.store(true, Ordering::Relaxed);
            tokio::select! {
                biased;
                () = self.0.ended() => {}
                () = sleep(self.0.nature.ends_in) => self.0.end(),
            }
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.over.send_replace(true);
        self.0.standing.end();
        lock(&self.0.tasks).abort_all();
    }
}

fn read(id: RequestId, text: &str) -> Request {
    #[derive(Deserialize)]
    struct Message {
        method: String,
        params: Option<Value>,
    }
    let Message { method, params } = serde_json::from_str(text).expect("a session writes JSON");
    let marker = params.as_ref().and_then(|params| params["arguments"]["marker"].as_str().map(str::to_owned));
    Request { id, method, marker }
}
