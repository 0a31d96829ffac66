//! What one call needs done: the directives of the component, carried out one by one.

mod hearing;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::call::{CallOptions, Called, Consent};
use super::forwarded::Plain;
use super::{CallEvent, Gate, OnEvent, addresses, failures, forwarded, turn};
use crate::failure::{Failed, Failure};
use crate::json::Object;
use crate::logic::types::WaitRange;
use crate::logic::types::execution::{
    Code, Condensed, Directive, Event, Oversize, Question, Request, Summary, ToolResult,
};
use crate::queue::{Queue, Turn};
use crate::registry::{Link, Unavailable};
use crate::session::{OnProgress, Patience, Progress, Reply, Session};
use crate::stats::{InFlight, Outcome};
use crate::telemetry::Span;

/// A call on its way.
pub(super) struct Errand<'a> {
    gate: &'a Gate,
    options: &'a CallOptions,
    /// The caller's id of the call.
    call: String,
    started: Instant,
    /// The first request: connecting is not counted against the call.
    begun: Option<Begun>,
    clock: Clock,
    /// How long a person has thought: that is not the server's time.
    thought: Duration,
    /// The session that the last request went over.
    session: Option<Arc<Session>>,
    /// The last request may have left, and nobody has answered it.
    sent: bool,
    /// How many directives have come since the deadline of the caller passed.
    late: usize,
    failure: Option<Failed>,
    /// A person was asked, and answers with another call.
    pub(super) pending: bool,
    /// The server that was wanted last and could not be had.
    missed: Option<Arc<Link>>,
    /// An answer that the component has not seen, and its text.
    forwarded: Option<(Reply, String)>,
    /// What an answer that the component has seen asks of a person at an address.
    questions: Option<Object>,
    /// The call in the trace that it is part of.
    pub(super) trace: Span,
}

/// When the first request was made, and of whom.
struct Begun {
    link: Arc<Link>,
    at: Instant,
    counted: InFlight,
}

/// When the server last gave a sign of life: the time of a call counts from there, over all attempts.
#[derive(Clone)]
struct Clock(Arc<Mutex<Instant>>);

impl Clock {
    fn new(now: Instant) -> Self {
        Clock(Arc::new(Mutex::new(now)))
    }

    fn touch(&self) -> Instant {
        let now = Instant::now();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = now;
        now
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A listener that notes the time and passes the news on.
    fn listener(&self, next: Option<OnEvent>) -> OnProgress {
        let clock = self.clone();
        Arc::new(move |progress: Progress| {
            clock.touch();
            if let Some(next) = &next {
                next(CallEvent::Progress(progress));
            }
        })
    }
}

impl<'a> Errand<'a> {
    pub(super) fn new(gate: &'a Gate, options: &'a CallOptions, call: String, trace: Span) -> Self {
        let started = Instant::now();
        Errand {
            gate,
            options,
            call,
            started,
            begun: None,
            clock: Clock::new(started),
            thought: Duration::ZERO,
            session: None,
            sent: false,
            late: 0,
            failure: None,
            pending: false,
            missed: None,
            forwarded: None,
            questions: None,
            trace,
        }
    }

    /// When the call began.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Whether the component has had every chance to end the call since the deadline of the caller passed.
    pub(super) fn is_late(&self) -> bool {
        self.late >= MOST_LATE
    }

    /// Carries out a directive, within what time the call has left.
    pub(super) async fn run(&mut self, directive: Directive) -> Event {
        match self.options.deadline {
            None => self.carry_out(directive).await,
            Some(deadline) => self.run_until(directive, deadline).await,
        }
    }

    async fn run_until(&mut self, directive: Directive, deadline: Duration) -> Event {
        let at = self.started + deadline;
        let answered = matches!(directive, Directive::Condense(_));
        let wanted = wanted(&directive).cloned();
        let carried_out = tokio::time::timeout_at(at, self.carry_out(directive)).await;
        self.late += usize::from(carried_out.is_err());
        match carried_out {
            Ok(event) => event,
            // There is an answer; only nobody made it shorter.
            Err(_) if answered => Event::Condensed(Condensed { kept: None, summary: None }),
            Err(_) if !self.sent && wanted.is_some_and(|server| self.is_restarting(&server)) => {
                self.failed(Failed::unsent(Failure::Restarting))
            }
            Err(_) => {
                let failure = Failure::Timeout { method: "tools/call".to_owned(), after: deadline };
                let sent = self.sent;
                self.failed(Failed { failure, sent })
            }
        }
    }

    async fn carry_out(&mut self, directive: Directive) -> Event {
        match directive {
            Directive::Request(request) => self.request(request).await,
            Directive::Connect(servers) => self.connect(&servers).await,
            Directive::Reconnect(server) => self.reconnect(&server).await,
            Directive::Wait(range) => self.wait(range).await,
            Directive::Ask(question) => self.ask(question).await,
            Directive::Condense(oversize) => self.condense(oversize).await,
            Directive::Reauthenticate(server) => self.reauthenticate(&server).await,
            // There is nothing to do, and nobody asks for it.
            Directive::Done(_) => Event::Cancelled,
        }
    }

    /// What the call came to.
    pub(super) fn finish(self, result: ToolResult) -> Called {
        let latency = self.started.elapsed();
        self.trace.finished(&result);
        // A call that never reached its server is one of its failures all the same.
        let counted = self.begun.map(|begun| begun.counted).or_else(|| self.missed.map(|link| link.stats().begin()));
        if let Some(counted) = counted {
            counted.finish(latency.saturating_sub(self.thought), outcome(result.code));
        }
        let mut called = Called { result, latency, failure: self.failure, answer: None };
        if let (Some(Failed { failure: Failure::Rpc(error), .. }), Some(tool)) =
            (&mut called.failure, &called.result.tool)
        {
            // The component masks what it is told; of an error that is not all.
            *error = self.gate.mask_error(&tool.server, error.clone());
        }
        if let Some((reply, text)) = self.forwarded {
            called.result.text = text;
            called.answer = Some(reply);
        }
        if let Some(questions) = &self.questions {
            called.result.answer = called.result.answer.map(|answer| addresses::put_back(answer, questions));
        }
        called
    }

    /// Makes a request of a server, however long that takes.
    pub(super) async fn request(&mut self, request: Request) -> Event {
        let Request { server, method, params, forward_up_to } = request;
        let link = match self.link(&server) {
            Ok(link) => link,
            Err(failed) => return self.failed(failed),
        };
        let _turn = match self.queue(&link, &params).await {
            Ok(turn) => turn,
            Err(failed) => return self.failed(failed),
        };
        let lease = match link.lease().await {
            Ok(lease) => lease,
            Err(unavailable) => return self.unavailable(link, &unavailable),
        };
        let session = lease.session();
        self.session = Some(Arc::clone(session));
        if self.begun.is_none() {
            let counted = link.stats().begin();
            self.begun = Some(Begun { link: Arc::clone(&link), at: self.clock.touch(), counted });
        }
        let patience = self.patience();
        let progress = Some(self.clock.listener(self.options.events.clone()));
        let asked = crate::session::Request { method: &method, params: &params, patience, progress };
        self.tell(CallEvent::Requesting { server, connection: link.number() });
        let mut logs = (self.options.events.is_some() && !self.options.without_logs).then(|| session.news());
        let (span, caller) = self.trace.request(link.id(), &method, &params, session.peer(), &self.options.caller);
        let answer = pin!(session.request_for(asked, &caller));
        self.sent = true;
        let outcome = match &mut logs {
            Some(logs) => Box::pin(self.hear(link.id(), logs, answer)).await,
            None => answer.await,
        };
        self.tell(CallEvent::Answered);
        // What was logged before the answer is told before it.
        while let Some(news) = logs.as_mut().and_then(|logs| logs.try_recv().ok()) {
            self.heard(link.id(), news);
        }
        self.sent = false;
        span.ended(outcome.as_ref().err());
        match outcome {
            Ok(reply) => self.answered(reply, forward_up_to),
            Err(failed) => {
                if matches!(failed.failure, Failure::Timeout { .. }) {
                    link.doubt(session);
                }
                self.failed(failed)
            }
        }
    }

    /// Waits for the call's turn in the queues of its server and its tool, and holds none of them meanwhile.
    async fn queue(&self, link: &Arc<Link>, params: &str) -> Result<Option<Turn>, Failed> {
        let tell = |queue: &Queue| self.tell(CallEvent::Queued { queue: queue.name().to_owned() });
        turn(link, params, self.patience_with(link), tell).await
    }

    /// Connects several servers side by side. As long as one of them can be used the call may go on.
    async fn connect(&mut self, servers: &[String]) -> Event {
        let this = &*self;
        let connect = servers.iter().map(|server| async move {
            let connected = match this.gate.connect(&*this.link(server)?).await {
                // It was configured anew while the call waited for it.
                Err(Unavailable::Closed) => this.gate.connect(&*this.link(server)?).await,
                connected => connected,
            };
            connected.map(drop).map_err(|unavailable| unavailable.to_failed())
        });
        let outcomes = futures_util::future::join_all(connect).await;
        let mut failures = outcomes.into_iter().filter_map(Result::err);
        match failures.next() {
            Some(failed) if failures.count() + 1 == servers.len() => {
                // Which of several was meant, nobody knows.
                self.missed = servers.first().filter(|_| servers.len() == 1).and_then(|server| self.gate.link(server));
                self.failed(failed)
            }
            _ => Event::Connected,
        }
    }

    async fn reconnect(&mut self, server: &str) -> Event {
        let link = match self.link(server) {
            Ok(link) => link,
            Err(failed) => return self.failed(failed),
        };
        self.tell(CallEvent::Reconnecting { server: server.to_owned() });
        let _step = self.trace.step("toolgate.reconnect");
        if let Some(broken) = self.session.take() {
            link.give_up(&broken);
        }
        let patience = self.patience();
        let acquired = match &self.begun {
            Some(_) => link.acquire(patience.quiet.min(patience.total)).await,
            None => link.lease().await,
        };
        match acquired {
            Ok(_) => Event::Reconnected,
            Err(unavailable) => self.unavailable(link, &unavailable),
        }
    }

    async fn reauthenticate(&mut self, server: &str) -> Event {
        let link = match self.link(server) {
            Ok(link) => link,
            Err(failed) => return self.failed(failed),
        };
        match link.reauthenticate(self.failure.as_ref()).await {
            Ok(()) => {
                // The time that a person took is not the server's.
                self.clock.touch();
                Event::Authenticated
            }
            Err(failed) => self.failed(failed),
        }
    }

    async fn wait(&mut self, range: WaitRange) -> Event {
        let WaitRange { min_ms, max_ms } = range;
        let wait = Duration::from_millis(fastrand::u64(min_ms..=max_ms.max(min_ms)));
        if wait > self.left() {
            // The time of the call is up before anything could come of it, and that can be said now.
            warn!(call = self.call, "the call would be over before its server may be asked again, in {wait:?}");
            let failure = Failure::Timeout { method: "tools/call".to_owned(), after: self.clock.last().elapsed() };
            return self.failed(Failed::unsent(failure));
        }
        self.tell(CallEvent::Retrying { after: wait });
        let _step = self.trace.step("toolgate.retry");
        tokio::time::sleep(wait).await;
        Event::Waited
    }

    async fn ask(&mut self, question: Question) -> Event {
        self.tell(CallEvent::Asking(question.clone()));
        let since = Instant::now();
        let answer = match &self.options.approve {
            Some(approve) => approve.approve(&question).await,
            None => Consent::Nobody,
        };
        self.thought += since.elapsed();
        self.pending = answer == Consent::Pending;
        match answer {
            Consent::Yes => Event::Approved(true),
            Consent::No => Event::Approved(false),
            Consent::Nobody | Consent::Pending => Event::Unasked,
        }
    }

    async fn condense(&self, oversize: Oversize) -> Event {
        let condenser = self.gate.registry().condenser();
        Event::Condensed(condenser.condense(&self.call, oversize).await)
    }

    /// An answer in which nothing is left to decide does not take the way through the component.
    fn answered(&mut self, reply: Reply, forward_up_to: Option<u64>) -> Event {
        let plain = forward_up_to.and_then(|most| match self.gate.pass_through {
            true => forwarded::pass(reply.json(), most),
            false => forwarded::read(reply.json(), reply.long(), most),
        });
        match plain {
            Some(Plain { text, is_error }) => {
                self.forwarded = Some((reply, text));
                Event::Forwarded(Summary { is_error })
            }
            None => {
                self.questions = addresses::questions(reply.json());
                Event::Answered(reply.into_json())
            }
        }
    }

    /// The server that the call needs cannot be had.
    fn unavailable(&mut self, link: Arc<Link>, why: &Unavailable) -> Event {
        self.missed = Some(link);
        self.failed(why.to_failed())
    }

    /// Keeps a failure, and tells the component.
    fn failed(&mut self, failed: Failed) -> Event {
        let event = failures::event(&failed);
        self.failure = Some(failed);
        event
    }

    fn tell(&self, event: CallEvent) {
        if let Some(listener) = &self.options.events {
            listener(event);
        }
    }

    /// What is left of the time that the call has, over all attempts.
    fn patience(&self) -> Patience {
        match &self.begun {
            Some(Begun { link, .. }) => self.patience_with(link),
            // A component that only waits has a limit, too.
            None => Patience::of(self.options.timeout.unwrap_or(IDLE).saturating_sub(self.started.elapsed())),
        }
    }

    fn patience_with(&self, link: &Link) -> Patience {
        let timeouts = link.server().timeouts;
        let quiet = self.options.timeout.unwrap_or(timeouts.call);
        let total = timeouts.total.max(quiet);
        match &self.begun {
            Some(begun) => {
                let now = Instant::now();
                Patience {
                    quiet: quiet.saturating_sub(now.saturating_duration_since(self.clock.last())),
                    total: total.saturating_sub(now.saturating_duration_since(begun.at)),
                }
            }
            None => Patience { quiet, total },
        }
    }

    /// How long the call may still wait, by all that limits it.
    fn left(&self) -> Duration {
        let Patience { quiet, total } = self.patience();
        let deadline = self.options.deadline.map_or(Duration::MAX, |most| most.saturating_sub(self.started.elapsed()));
        quiet.min(total).min(deadline)
    }

    fn is_restarting(&self, server: &str) -> bool {
        self.link(server).is_ok_and(|link| link.is_restarting())
    }

    fn link(&self, server: &str) -> Result<Arc<Link>, Failed> {
        let missing = || Failed::unsent(Failure::Connect(format!("no server {server:?} is configured any more")));
        self.gate.link(server).ok_or_else(missing)
    }
}

/// How many directives a call may still have when its time is over: a component may want to retry before it learns that.
const MOST_LATE: usize = 4;
/// How long a call may wait before it has made a request, where its caller sets no limit.
const IDLE: Duration = Duration::from_secs(600);

/// The one server that is waited for while a directive is carried out.
fn wanted(directive: &Directive) -> Option<&String> {
    match directive {
        Directive::Request(Request { server, .. }) | Directive::Reconnect(server) => Some(server),
        Directive::Connect(servers) => servers.first().filter(|_| servers.len() == 1),
        _ => None,
    }
}

fn outcome(code: Code) -> Outcome {
    match code {
        Code::Ok => Outcome::Ok,
        Code::ToolError => Outcome::ToolError,
        Code::OutcomeUnknown => Outcome::Unknown,
        Code::Cancelled => Outcome::Cancelled,
        _ => Outcome::Failed,
    }
}
