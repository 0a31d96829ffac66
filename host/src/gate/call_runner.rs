//! Carries out the component's directives for one call.

mod server_logs;

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::{info, warn};

use super::call::log_end;
use super::call_options::{AdminDecision, CallOptions, CallOutcome, Consent};
use super::circumstances::JudgedWith;
use super::forwarded::PlainText;
use super::{CallEvent, Gate, OnEvent, addresses, failures, forwarded, output_check, queueing};
use crate::agent::{CountMode, count_of_writes};
use crate::failure::{Failure, RequestError};
use crate::gate_settings::{RESOURCE_SERVER, offers_resource_tools};
use crate::json::JsonObject;
use crate::logic::types::execution::{
    Code, Condensed, Directive, Event, Oversize, Question, Request, Summary, ToolResult,
};
use crate::logic::types::rules::AgentContext;
use crate::logic::types::{ToolRef, WaitRange};
use crate::queue::{Queue, QueuePermit};
use crate::registry::{Link, Unavailable};
use crate::rpc;
use crate::session::{OnProgress, Progress, Reply, RequestTimeouts, Session, SessionRequest};
use crate::stats::{InFlightCall, StatsOutcome};
use crate::telemetry::Span;

/// A running call.
pub(super) struct CallRunner<'a> {
    gate: &'a Gate,
    options: &'a CallOptions,
    /// The caller's id of the call.
    call: String,
    started: Instant,
    /// The first request; connecting before it does not use up the call's time.
    first_request: Option<FirstRequest>,
    activity: ActivityClock,
    /// How long a person took to approve, which does not count as the server's time.
    approval_time: Duration,
    /// The session of the last request.
    session: Option<Arc<Session>>,
    /// Whether the last request may have been sent and has no answer.
    sent: bool,
    /// How many directives came after the caller's deadline.
    late_directives: usize,
    failure: Option<RequestError>,
    /// Whether a person was asked and will answer with a repeated call.
    pub(super) approval_pending: bool,
    /// What an admin decided about the call, which outlives the runner.
    decision: &'a OnceLock<AdminDecision>,
    /// The last server that could not be reached.
    unavailable_link: Option<Arc<Link>>,
    /// A result that did not pass through the component, and its text.
    forwarded: Option<(Reply, String)>,
    /// Input requests with URLs in a result that passed through the component.
    questions: Option<JsonObject>,
    /// The span of the call in its trace.
    pub(super) trace: Span,
    /// Whether the call counts for rules with limits.
    pub(super) count_mode: CountMode,
    /// The labels that the agent gets by the call.
    labels: Option<AgentContext>,
    /// What was known of the agent when rules judged the call.
    judged: Option<JudgedWith>,
}

/// The server and the time of the first request.
struct FirstRequest {
    link: Arc<Link>,
    at: Instant,
    counted: InFlightCall,
}

/// The time of the server's last sign of life, from which a call's timeout counts, over all attempts.
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

    /// Returns a progress listener that notes the time and passes the progress on.
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
    pub(super) fn new(
        gate: &'a Gate,
        options: &'a CallOptions,
        call: String,
        trace: Span,
        decision: &'a OnceLock<AdminDecision>,
    ) -> Self {
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
            decision,
            unavailable_link: None,
            forwarded: None,
            questions: None,
            trace,
            count_mode: CountMode::Count,
            labels: None,
            judged: None,
        }
    }

    /// Returns when the call began.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Reports whether the component had enough chances to end the call after the caller's deadline.
    pub(super) fn is_overdue(&self) -> bool {
        self.late_directives >= MOST_LATE
    }

    /// Carries out a directive within the time that the call has left.
    pub(super) async fn run(&mut self, directive: Directive) -> Event {
        match self.options.deadline {
            None => self.carry_out(directive).await,
            Some(deadline) => Box::pin(self.run_until(directive, deadline)).await,
        }
    }

    /// Returns the event for a call that the gateway ends, whose directive was dropped; `is_answered` if there is a
    /// result already.
    pub(super) fn stop(&mut self, is_answered: bool) -> Event {
        if is_answered {
            return not_condensed();
        }
        let sent = self.sent;
        self.note_failure(RequestError { failure: Failure::Stopped, sent })
    }

    async fn run_until(&mut self, directive: Directive, deadline: Duration) -> Event {
        let at = self.started + deadline;
        let answered = matches!(directive, Directive::Condense(_));
        let wanted = awaited_server(&directive).cloned();
        let carried_out = tokio::time::timeout_at(at, self.carry_out(directive)).await;
        self.late_directives += usize::from(carried_out.is_err());
        match carried_out {
            Ok(event) => event,
            Err(_) if answered => not_condensed(),
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
            // Boxed, so that most calls do not pay for its size.
            seldom => Box::pin(self.carry_out_seldom(seldom)).await,
        }
    }

    async fn carry_out_seldom(&mut self, directive: Directive) -> Event {
        match directive {
            Directive::Connect(servers) => self.connect(&servers).await,
            Directive::Reconnect(server) => self.reconnect(&server).await,
            Directive::Wait(range) => self.wait(range).await,
            Directive::Circumstances(with_known) => self.circumstances(with_known).await,
            Directive::Count(rules) => match self.gate.count(&rules, self.count_mode).await {
                Ok(counted) => Event::Counted(counted),
                Err(failed) => self.note_failure(failed),
            },
            Directive::Ask(question) => self.ask(question).await,
            Directive::Condense(oversize) => self.condense(oversize).await,
            Directive::Reauthenticate(server) => self.reauthenticate(&server).await,
            // Never passed in: `carry_out` handles a request, and the loop returns at `Done`.
            Directive::Request(_) | Directive::Done(_) => Event::Cancelled,
        }
    }

    /// Builds the outcome of the call.
    pub(super) async fn finish(self, mut result: ToolResult) -> CallOutcome {
        let trace = self.options.caller.trace_id();
        if let Some(labels) = self.labels.clone() {
            self.gate.learn_again(trace, labels).await;
        }
        if let (Some(tool), Some(learned)) = (&result.tool, result.learned.take()) {
            let judged = self.judged.unwrap_or_default();
            self.gate.learn_from(trace, &tool.server, learned, &judged).await;
        }
        let latency = self.started.elapsed();
        self.trace.finished(&result);
        // A call that never reached its server counts as one of its failures, or as denied.
        let denied = || Some(&result.tool.as_ref().filter(|_| is_kept_back(result.code))?.server);
        let counted = self
            .first_request
            .map(|begun| begun.counted)
            .or_else(|| self.unavailable_link.map(|link| link.stats().begin()))
            .or_else(|| Some(self.gate.registry().link(denied()?)?.stats().begin()));
        if let Some(counted) = counted {
            counted.finish(latency.saturating_sub(self.approval_time), outcome(result.code));
        }
        log_end(&result, self.options.principal.as_deref(), latency);
        result.trace.extend(self.decision.get().map(AdminDecision::note));
        let mut called = CallOutcome { result, latency, failure: self.failure, answer: None };
        if let (Some(RequestError { failure: Failure::Rpc(error), .. }), Some(tool)) =
            (&mut called.failure, &called.result.tool)
        {
            // The component masks only the parts of an error that it receives.
            *error = self.gate.mask_error(&tool.server, error.clone());
        }
        if let Some(RequestError { failure: failure @ Failure::Stopped, .. }) = &called.failure {
            called.result.text += &format!(" ({failure})");
        }
        if let Some((reply, text)) = self.forwarded {
            called.result.text = text;
            called.answer = Some(reply);
        }
        if let Some(questions) = &self.questions {
            called.result.answer = called.result.answer.map(|answer| addresses::restore_urls(answer, questions));
        }
        called.result.trace.extend(output_check::note(self.gate, &called));
        called
    }

    async fn request(&mut self, request: Request) -> Event {
        let Request { tool: ToolRef { server, tool }, arguments, forward, learned } = request;
        if server == RESOURCE_SERVER && offers_resource_tools(&self.gate.registry().config(), &self.gate.view()) {
            if let Err(failed) = self.learn(learned).await {
                return self.note_failure(failed);
            }
            return Event::Answered(Box::pin(self.gate.call_resource_tool(&tool, &arguments, self.options)).await);
        }
        let link = match self.link(&server) {
            Ok(link) => link,
            Err(failed) => return self.note_failure(failed),
        };
        let _turn = match self.enter_queues(&link, &tool).await {
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
        if let Err(failed) = self.learn(learned).await {
            return self.note_failure(failed);
        }
        if let Err(failed) = self.note_input(&server).await {
            return self.note_failure(failed);
        }
        let timeouts = self.remaining_timeouts();
        let progress = Some(self.activity.listener(self.options.events.clone()));
        let (method, params) = ("tools/call", rpc::call_params(&tool, &arguments));
        let asked = SessionRequest { method, params: &params, timeouts, progress };
        self.emit(CallEvent::Requesting { server, connection: link.number() });
        let mut logs = (self.options.events.is_some() && !self.options.without_logs).then(|| session.events());
        let (span, caller) = self.trace.request(link.id(), method, &params, session.peer(), &self.options.caller);
        let answer = pin!(session.request_for(asked, &caller));
        self.sent = true;
        let outcome = match &mut logs {
            Some(logs) => Box::pin(self.emit_logs_until(link.id(), logs, answer)).await,
            None => answer.await,
        };
        self.emit(CallEvent::Answered);
        // Log messages that came before the result are emitted before it.
        while let Some(event) = logs.as_mut().and_then(|logs| logs.try_recv().ok()) {
            self.emit_log(link.id(), event);
        }
        self.sent = false;
        span.ended(outcome.as_ref().err());
        match outcome {
            Ok(reply) => self.handle_reply(reply, forward.map(|forward| forward.up_to)),
            Err(failed) => {
                if matches!(failed.failure, Failure::Timeout { .. }) {
                    link.report_timeout(session);
                }
                self.note_failure(failed)
            }
        }
    }

    /// Waits for the call's turn in the queues of its server and its tool, without holding a slot meanwhile.
    async fn enter_queues(&self, link: &Arc<Link>, tool: &str) -> Result<Option<QueuePermit>, RequestError> {
        let tell = |queue: &Queue| self.emit(CallEvent::Queued { queue: queue.name().to_owned() });
        queueing::enter_queues(link, tool, self.remaining_timeouts_for(link), tell).await
    }

    /// Remembers what the agent learns by sending the call.
    async fn learn(&mut self, learned: Option<AgentContext>) -> Result<(), RequestError> {
        self.labels = None;
        let Some(learned) = learned else { return Ok(()) };
        let labels = AgentContext { labels: learned.labels.clone(), known: Vec::new() };
        self.gate.learn(self.options.caller.trace_id(), learned).await?;
        self.labels = Some(labels);
        Ok(())
    }

    /// Remembers that answers to questions of the server go to it with the request. Nothing shows any more what it asked, so
    /// they count as text of the agent's own.
    async fn note_input(&self, server: &str) -> Result<(), RequestError> {
        if self.options.caller.input.is_empty() {
            return Ok(());
        }
        Box::pin(self.gate.note_written(self.options.caller.trace_id(), server)).await
    }

    async fn circumstances(&mut self, with_known: bool) -> Event {
        let client = self.options.client.as_deref().unwrap_or_default();
        // Counted first: a write that comes now is not among the labels.
        let writes = count_of_writes();
        match self.gate.circumstances_of_call(client, self.options.caller.trace_id(), with_known).await {
            Ok(circumstances) => {
                let labels = circumstances.context.labels.clone();
                self.judged.get_or_insert(JudgedWith { labels, writes });
                Event::Circumstances(circumstances)
            }
            Err(failed) => self.note_failure(failed),
        }
    }

    /// Connects several servers at the same time; the call can go on if one of them can be used.
    async fn connect(&mut self, servers: &[String]) -> Event {
        let this = &*self;
        let connect = servers.iter().map(|server| async move {
            let connected = match this.gate.connect(&*this.link(server)?).await {
                // The server was reconfigured while the call waited for it.
                Err(Unavailable::Closed) => this.gate.connect(&*this.link(server)?).await,
                connected => connected,
            };
            connected.map(drop).map_err(|unavailable| unavailable.to_failed())
        });
        let outcomes = futures_util::future::join_all(connect).await;
        let mut failures: Vec<RequestError> = outcomes.into_iter().filter_map(Result::err).collect();
        if failures.is_empty() || failures.len() < servers.len() {
            return Event::Connected;
        }
        // With several servers, nobody knows which one the call was for.
        self.unavailable_link =
            servers.first().filter(|_| servers.len() == 1).and_then(|server| self.gate.link(server));
        // Of several reasons, the caller can mend a wrong configuration.
        let place = failures.iter().position(|failed| matches!(failed.failure, Failure::Misconfigured(_)));
        let failed = failures.swap_remove(place.unwrap_or(0));
        self.note_failure(failed)
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
                // The time that a person took does not count as the server's.
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
            // The call's time ends before the retry, so it fails now.
            warn!(call = self.call, "the call times out before the retry, which is due in {wait:?}");
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
            Consent::Admin(decision) => {
                let (AdminDecision { admin, approved }, tool) = (&decision, &question.tool);
                let principal = self.options.principal.as_deref();
                let (server, tool) = (&*tool.server, &*tool.tool);
                info!(
                    target: "toolgate::calls",
                    call = self.call, principal, server, tool, admin = &**admin, approved, "an admin decided the call"
                );
                let approved = *approved;
                let _ = self.decision.set(decision);
                Event::Approved(approved)
            }
            Consent::Failed(why) => self.note_failure(RequestError::unsent(Failure::RulesUnavailable(why))),
            Consent::NoApprover | Consent::Pending => Event::Unasked,
        }
    }

    async fn condense(&self, oversize: Oversize) -> Event {
        let condenser = self.gate.registry().condenser();
        Event::Condensed(condenser.condense(&self.call, oversize).await)
    }

    /// Handles a result; one that needs no decision bypasses the component.
    fn handle_reply(&mut self, reply: Reply, forward_up_to: Option<u64>) -> Event {
        // The component says why it refuses what is nested too deep.
        let forward_up_to = forward_up_to.filter(|_| !reply.is_too_deep());
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

    /// Notes that the server of the call is unavailable.
    fn note_unavailable(&mut self, link: Arc<Link>, why: &Unavailable) -> Event {
        self.unavailable_link = Some(link);
        self.note_failure(why.to_failed())
    }

    /// Stores a failure, and returns it as an event for the component.
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

    /// Returns the time that the call has left, over all attempts.
    fn remaining_timeouts(&self) -> RequestTimeouts {
        match &self.first_request {
            Some(FirstRequest { link, .. }) => self.remaining_timeouts_for(link),
            // Before the first request, a component that only waits needs a limit too.
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

    /// Returns how long the call may still wait, by all its limits.
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

/// How many directives a call may have after its deadline; a component may ask for a retry before it learns of the
/// timeout.
const MOST_LATE: usize = 4;
/// How long a call may wait before its first request if the caller sets no limit.
const IDLE: Duration = Duration::from_secs(600);

/// Returns the event for a result that arrived in time, but was not condensed in time.
fn not_condensed() -> Event {
    Event::Condensed(Condensed { kept: None, summary: None })
}

/// Returns the single server that a directive waits for.
fn awaited_server(directive: &Directive) -> Option<&String> {
    match directive {
        Directive::Request(Request { tool: ToolRef { server, .. }, .. }) | Directive::Reconnect(server) => Some(server),
        Directive::Connect(servers) => servers.first().filter(|_| servers.len() == 1),
        _ => None,
    }
}

/// Returns what a code means for the statistics.
pub(crate) fn outcome(code: Code) -> StatsOutcome {
    match code {
        Code::Ok => StatsOutcome::Ok,
        Code::ToolError => StatsOutcome::ToolError,
        Code::OutcomeUnknown => StatsOutcome::Unknown,
        Code::Cancelled => StatsOutcome::Cancelled,
        // No server is to blame for any of these, and none has seen the call.
        Code::NotAllowed
        | Code::Declined
        | Code::InvalidArguments
        | Code::InvalidName
        | Code::UnknownServer
        | Code::UnknownTool => StatsOutcome::Denied,
        _ => StatsOutcome::Failed,
    }
}

/// Reports whether a call counts for its server although nothing was sent: a rule, a filter or a person kept it back.
pub(crate) fn is_kept_back(code: Code) -> bool {
    matches!(code, Code::NotAllowed | Code::Declined)
}
