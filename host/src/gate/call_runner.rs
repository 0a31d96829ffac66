//! What one call needs done: the directives of the component, carried out one by one.

mod server_logs;

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::call::{CallOptions, CallOutcome, Consent};
use super::forwarded::PlainText;
use super::{CallEvent, Gate, OnEvent, addresses, failures, forwarded, queueing};
use crate::failure::{Failure, RequestError};
use crate::json::JsonObject;
use crate::logic::types::WaitRange;
use crate::logic::types::execution::{
    Code, Condensed, Directive, Event, Oversize, Question, Request, Summary, ToolResult,
};
use crate::queue::{Queue, QueuePermit};
use crate::registry::{Link, Unavailable};
use crate::session::{OnProgress, Progress, Reply, RequestTimeouts, Session};
use crate::stats::{InFlightCall, StatsOutcome};
use crate::telemetry::Span;

/// A call on its way.
pub(super) struct CallRunner<'a> {
    gate: &'a Gate,
    options: &'a CallOptions,
    /// The caller's id of the call.
    call: String,
    started: Instant,
    /// The first request: connecting is not counted against the call.
    first_request: Option<FirstRequest>,
    activity: ActivityClock,
    /// How long a person has thought: that is not the server's time.
    approval_time: Duration,
    /// The session that the last request went over.
    session: Option<Arc<Session>>,
    /// The last request may have left, and nobody has answered it.
    sent: bool,
    /// How many directives have come since the deadline of the caller passed.
    late_directives: usize,
    failure: Option<RequestError>,
    /// A person was asked, and answers with another call.
    pub(super) approval_pending: bool,
    /// The server that was wanted last and could not be had.
    unavailable_link: Option<Arc<Link>>,
    /// An answer that the component has not seen, and its text.
    forwarded: Option<(Reply, String)>,
    /// What an answer that the component has seen asks of a person at an address.
    questions: Option<JsonObject>,
    /// The call in the trace that it is part of.
    pub(super) trace: Span,
}

/// When the first request was made, and of whom.
struct FirstRequest {
    link: Arc<Link>,
    at: Instant,
    counted: InFlightCall,
}

/// When the server last gave a sign of life: the time of a call counts from there, over all attempts.
#[derive(Clone)]
struct ActivityClock(Arc<Mutex<Instant>>);

impl ActivityClock {
    fn new(now: Instant) -> Self {
        ActivityClock(Arc::new(Mutex::new(now)))
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

impl<'a> CallRunner<'a> {
    pub(super) fn new(gate: &'a Gate, options: &'a CallOptions, call: String, trace: Span) -> Self {
        let started = Instant::now();
        CallRunner {
            gate,
            options,
            call,
            started,
            first_request: None,
            activity: ActivityClock::new(started),
            approval_time: Duration::ZERO,
            session: None,
            sent: false,
            late_directives: 0,
            failure: None,
            approval_pending: false,
            unavailable_link: None,
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
    pub(super) fn is_overdue(&self) -> bool {
        self.late_directives >= MOST_LATE
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
        let wanted = awaited_server(&directive).cloned();
        let carried_out = tokio::time::timeout_at(at, self.carry_out(directive)).await;
        self.late_directives += usize::from(carried_out.is_err());
        match carried_out {
            Ok(event) => event,
            // There is an answer; only nobody made it shorter.
            Err(_) if answered => Event::Condensed(Condensed { kept: None, summary: None }),
            Err(_) if !self.sent && wanted.is_some_and(|server| self.is_restarting(&server)) => {
                self.note_failure(RequestError::unsent(Failure::Restarting))
            }
            Err(_) => {
                let failure = Failure::Timeout { method: "tools/call".to_owned(), after: deadline };
                let sent = self.sent;
                self.note_failure(RequestError { failure, sent })
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
    pub(super) fn finish(self, result: ToolResult) -> CallOutcome {
        let latency = self.started.elapsed();
        self.trace.finished(&result);
        // A call that never reached its server is one of its failures all the same.
        let counted = self
            .first_request
            .map(|begun| begun.counted)
            .or_else(|| self.unavailable_link.map(|link| link.stats().begin()));
        if let Some(counted) = counted {
            counted.finish(latency.saturating_sub(self.approval_time), outcome(result.code));
        }
        let mut called = CallOutcome { result, latency, failure: self.failure, answer: None };
        if let (Some(RequestError { failure: Failure::Rpc(error), .. }), Some(tool)) =
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
            called.result.answer = called.result.answer.map(|answer| addresses::restore_urls(answer, questions));
        }
        called
    }

    /// Makes a request of a server, however long that takes.
    pub(super) async fn request(&mut self, request: Request) -> Event {
        let Request { server, method, params, forward_up_to } = request;
        let link = match self.link(&server) {
            Ok(link) => link,
            Err(failed) => return self.note_failure(failed),
        };
        let _turn = match self.enter_queues(&link, &params).await {
            Ok(turn) => turn,
            Err(failed) => return self.note_failure(failed),
        };
        let lease = match link.lease().await {
            Ok(lease) => lease,
            Err(unavailable) => return self.note_unavailable(link, &unavailable),
        };
        let session = lease.session();
        self.session = Some(Arc::clone(session));
        if self.first_request.is_none() {
            let counted = link.stats().begin();
            self.first_request = Some(FirstRequest { link: Arc::clone(&link), at: self.activity.touch(), counted });
        }
        let timeouts = self.remaining_timeouts();
        let progress = Some(self.activity.listener(self.options.events.clone()));
        let asked = crate::session::SessionRequest { method: &method, params: &params, timeouts, progress };
        self.emit(CallEvent::Requesting { server, connection: link.number() });
        let mut logs = (self.options.events.is_some() && !self.options.without_logs).then(|| session.events());
        let (span, caller) = self.trace.request(link.id(), &method, &params, session.peer(), &self.options.caller);
        let answer = pin!(session.request_for(asked, &caller));
        self.sent = true;
        let outcome = match &mut logs {
            Some(logs) => Box::pin(self.emit_logs_until(link.id(), logs, answer)).await,
            None => answer.await,
        };
        self.emit(CallEvent::Answered);
        // What was logged before the answer is told before it.
        while let Some(event) = logs.as_mut().and_then(|logs| logs.try_recv().ok()) {
            self.emit_log(link.id(), event);
        }
        self.sent = false;
        span.ended(outcome.as_ref().err());
        match outcome {
            Ok(reply) => self.handle_reply(reply, forward_up_to),
            Err(failed) => {
                if matches!(failed.failure, Failure::Timeout { .. }) {
                    link.report_timeout(session);
                }
                self.note_failure(failed)
            }
        }
    }

    /// Waits for the call's turn in the queues of its server and its tool, and holds none of them meanwhile.
    async fn enter_queues(&self, link: &Arc<Link>, params: &str) -> Result<Option<QueuePermit>, RequestError> {
        let tell = |queue: &Queue| self.emit(CallEvent::Queued { queue: queue.name().to_owned() });
        queueing::enter_queues(link, params, self.remaining_timeouts_for(link), tell).await
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
                self.unavailable_link =
                    servers.first().filter(|_| servers.len() == 1).and_then(|server| self.gate.link(server));
                self.note_failure(failed)
            }
            _ => Event::Connected,
        }
    }

    async fn reconnect(&mut self, server: &str) -> Event {
        let link = match self.link(server) {
            Ok(link) => link,
            Err(failed) => return self.note_failure(failed),
        };
        self.emit(CallEvent::Reconnecting { server: server.to_owned() });
        let _step = self.trace.step("toolgate.reconnect");
        if let Some(broken) = self.session.take() {
            link.discard_session(&broken);
        }
        let timeouts = self.remaining_timeouts();
        let acquired = match &self.first_request {
            Some(_) => link.acquire(timeouts.idle.min(timeouts.total)).await,
            None => link.lease().await,
        };
        match acquired {
            Ok(_) => Event::Reconnected,
            Err(unavailable) => self.note_unavailable(link, &unavailable),
        }
    }

    async fn reauthenticate(&mut self, server: &str) -> Event {
        let link = match self.link(server) {
            Ok(link) => link,
            Err(failed) => return self.note_failure(failed),
        };
        match link.reauthenticate(self.failure.as_ref()).await {
            Ok(()) => {
                // The time that a person took is not the server's.
                self.activity.touch();
                Event::Authenticated
            }
            Err(failed) => self.note_failure(failed),
        }
    }

    async fn wait(&mut self, range: WaitRange) -> Event {
        let WaitRange { min_ms, max_ms } = range;
        let wait = Duration::from_millis(fastrand::u64(min_ms..=max_ms.max(min_ms)));
        if wait > self.time_left() {
            // The time of the call is up before anything could come of it, and that can be said now.
            warn!(call = self.call, "the call would be over before its server may be asked again, in {wait:?}");
            let failure = Failure::Timeout { method: "tools/call".to_owned(), after: self.activity.last().elapsed() };
            return self.note_failure(RequestError::unsent(failure));
        }
        self.emit(CallEvent::Retrying { after: wait });
        let _step = self.trace.step("toolgate.retry");
        tokio::time::sleep(wait).await;
        Event::Waited
    }

    async fn ask(&mut self, question: Question) -> Event {
        self.emit(CallEvent::Asking(question.clone()));
        let since = Instant::now();
        let answer = match &self.options.approve {
            Some(approve) => approve.approve(&question).await,
            None => Consent::NoApprover,
        };
        self.approval_time += since.elapsed();
        self.approval_pending = answer == Consent::Pending;
        match answer {
            Consent::Yes => Event::Approved(true),
            Consent::No => Event::Approved(false),
            Consent::NoApprover | Consent::Pending => Event::Unasked,
        }
    }

    async fn condense(&self, oversize: Oversize) -> Event {
        let condenser = self.gate.registry().condenser();
        Event::Condensed(condenser.condense(&self.call, oversize).await)
    }

    /// An answer in which nothing is left to decide does not take the way through the component.
    fn handle_reply(&mut self, reply: Reply, forward_up_to: Option<u64>) -> Event {
        let plain = forward_up_to.and_then(|most| match self.gate.pass_through {
            true => forwarded::read_passed_through(reply.json(), most),
            false => forwarded::read_plain_text(reply.json(), most),
        });
        match plain {
            Some(PlainText { text, is_error }) => {
                self.forwarded = Some((reply, text));
                Event::Forwarded(Summary { is_error })
            }
            None => {
                self.questions = addresses::questions_with_urls(reply.json());
                Event::Answered(reply.into_json())
            }
        }
    }

    /// The server that the call needs cannot be had.
    fn note_unavailable(&mut self, link: Arc<Link>, why: &Unavailable) -> Event {
        self.unavailable_link = Some(link);
        self.note_failure(why.to_failed())
    }

    /// Keeps a failure, and tells the component.
    fn note_failure(&mut self, failed: RequestError) -> Event {
        let event = failures::event(&failed);
        self.failure = Some(failed);
        event
    }

    fn emit(&self, event: CallEvent) {
        if let Some(listener) = &self.options.events {
            listener(event);
        }
    }

    /// What is left of the time that the call has, over all attempts.
    fn remaining_timeouts(&self) -> RequestTimeouts {
        match &self.first_request {
            Some(FirstRequest { link, .. }) => self.remaining_timeouts_for(link),
            // A component that only waits has a limit, too.
            None => RequestTimeouts::of(self.options.timeout.unwrap_or(IDLE).saturating_sub(self.started.elapsed())),
        }
    }

    fn remaining_timeouts_for(&self, link: &Link) -> RequestTimeouts {
        let timeouts = link.server().timeouts;
        let idle = self.options.timeout.unwrap_or(timeouts.call);
        let total = timeouts.total.max(idle);
        match &self.first_request {
            Some(begun) => {
                let now = Instant::now();
                RequestTimeouts {
                    idle: idle.saturating_sub(now.saturating_duration_since(self.activity.last())),
                    total: total.saturating_sub(now.saturating_duration_since(begun.at)),
                }
            }
            None => RequestTimeouts { idle, total },
        }
    }

    /// How long the call may still wait, by all that limits it.
    fn time_left(&self) -> Duration {
        let RequestTimeouts { idle, total } = self.remaining_timeouts();
        let deadline = self.options.deadline.map_or(Duration::MAX, |most| most.saturating_sub(self.started.elapsed()));
        idle.min(total).min(deadline)
    }

    fn is_restarting(&self, server: &str) -> bool {
        self.link(server).is_ok_and(|link| link.is_restarting())
    }

    fn link(&self, server: &str) -> Result<Arc<Link>, RequestError> {
        let missing = || RequestError::unsent(Failure::Connect(format!("no server {server:?} is configured any more")));
        self.gate.link(server).ok_or_else(missing)
    }
}

/// How many directives a call may still have when its time is over: a component may want to retry before it learns that.
const MOST_LATE: usize = 4;
/// How long a call may wait before it has made a request, where its caller sets no limit.
const IDLE: Duration = Duration::from_secs(600);

/// The one server that is waited for while a directive is carried out.
fn awaited_server(directive: &Directive) -> Option<&String> {
    match directive {
        Directive::Request(Request { server, .. }) | Directive::Reconnect(server) => Some(server),
        Directive::Connect(servers) => servers.first().filter(|_| servers.len() == 1),
        _ => None,
    }
}

fn outcome(code: Code) -> StatsOutcome {
    match code {
        Code::Ok => StatsOutcome::Ok,
        Code::ToolError => StatsOutcome::ToolError,
        Code::OutcomeUnknown => StatsOutcome::Unknown,
        Code::Cancelled => StatsOutcome::Cancelled,
        _ => StatsOutcome::Failed,
    }
}
