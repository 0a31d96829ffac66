//! One call: the component says what to do, this does it and reports.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use tracing::{Instrument, debug};

use super::forwarded::{Parts, Plain};
use super::{Gate, failures, forwarded};
use crate::decide::{Answer, Decide, ExecutionId};
use crate::failure::{Failed, Failure};
use crate::logic::LogicError;
use crate::logic::types::execution::{Directive, Event, Question, Request, Summary, ToolCall, ToolResult};
use crate::logic::types::{WaitRange, execution};
use crate::plan::{self, Plan};
use crate::registry::{Link, Unavailable};
use crate::session::{OnProgress, Patience, Progress, Reply, Session};
use crate::transport::BoxFuture;

/// Says yes or no to a call that a rule wants a person to see.
pub trait Approve: Send + Sync {
    /// What the person says; `None` where there is nobody to ask.
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Option<bool>>;
}

/// What one call may want beyond what is configured.
#[derive(Clone, Default)]
pub struct CallOptions {
    /// How long to wait for an answer, in place of the server's setting.
    pub timeout: Option<Duration>,
    /// Who wants to know how far it has come.
    pub progress: Option<OnProgress>,
    /// Who says yes or no where a person must.
    pub approve: Option<Arc<dyn Approve>>,
}

/// What a call came to.
#[derive(Debug)]
pub struct Called {
    /// The result, for the model.
    pub result: ToolResult,
    /// How long it took.
    pub latency: Duration,
    /// The last failure on the way, with what the result has no place for.
    pub failure: Option<Failed>,
    /// The answer as the server wrote it, where it did not go through the component; its blocks are then only here.
    pub answer: Option<Reply>,
}

impl Called {
    /// The content blocks of the answer, as JSON.
    pub fn content(&self) -> Vec<&str> {
        match &self.answer {
            Some(_) => self.parts().content.into_iter().map(RawValue::get).collect(),
            None => self.result.content.iter().map(String::as_str).collect(),
        }
    }

    /// The structured content of the answer, as JSON.
    pub fn structured(&self) -> Option<&str> {
        match &self.answer {
            Some(_) => self.parts().structured_content.map(RawValue::get),
            None => self.result.structured.as_deref(),
        }
    }

    fn parts(&self) -> Parts<'_> {
        self.answer.as_ref().and_then(|reply| serde_json::from_str(reply.json()).ok()).unwrap_or_default()
    }
}

impl Gate {
    /// Calls a tool. A call that fails is a result too; an error is a fault of the component alone.
    ///
    /// Dropping the future cancels the call, and tells the server so.
    pub async fn call(&self, call: ToolCall, options: &CallOptions) -> Answer<Called> {
        let started = Instant::now();
        let span = tracing::error_span!("call", call = call.id);
        let (execution, first) = self.begin(call)?;
        let _end = End { gate: self, execution };
        let mut running = Running::new(self, options, started);
        let work = async {
            let running = &mut running;
            let mut directive = first;
            loop {
                let event = match directive {
                    Directive::Done(result) => return Ok::<_, LogicError>(result),
                    Directive::Request(request) => running.request(request).await,
                    Directive::Connect(servers) => running.connect(&servers).await,
                    Directive::Reconnect(server) => running.reconnect(&server).await,
                    Directive::Wait(range) => running.wait(range).await,
                    Directive::Ask(question) => running.ask(&question).await,
                    // Authorizations are given out elsewhere; here there is none to be had.
                    Directive::Reauthenticate(_) => {
                        let why = "the server wants an authorization".to_owned();
                        Event::Failed(execution::Failed {
                            failure: crate::logic::types::Failure::NeedsAuth(why),
                            phase: crate::logic::types::Phase::NotSent,
                        })
                    }
                };
                directive = self.logic().next(execution, event)?;
            }
        };
        let result = work.instrument(span).await?;
        let Running { failure, forwarded, .. } = running;
        let mut called = Called { result, latency: started.elapsed(), failure, answer: None };
        if let Some((reply, text)) = forwarded {
            called.result.text = text;
            called.answer = Some(reply);
        }
        Ok(called)
    }

    /// What a call would do, found out without doing it; servers that it needs are connected.
    pub async fn plan(&self, call: ToolCall) -> Answer<Result<Plan, ToolResult>> {
        let (execution, mut directive) = self.begin(call)?;
        let _end = End { gate: self, execution };
        let options = CallOptions::default();
        let mut running = Running::new(self, &options, Instant::now());
        while let Directive::Connect(servers) = directive {
            let event = running.connect(&servers).await;
            directive = self.logic().next(execution, event)?;
        }
        plan::read(&mut *self.logic(), execution, directive)
    }
}

/// Forgets a call when nobody waits for it any more.
struct End<'a> {
    gate: &'a Gate,
    execution: ExecutionId,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.gate.logic().end(self.execution) {
            debug!("a call could not be ended: {error}");
        }
    }
}

/// A call under way.
struct Running<'a> {
    gate: &'a Gate,
    options: &'a CallOptions,
    /// The server of the first request and when that left: connecting is not counted against the call.
    begun: Option<(String, Instant)>,
    clock: Clock,
    /// The session that the last request went over.
    session: Option<Arc<Session>>,
    failure: Option<Failed>,
    /// An answer that the component has not seen, and its text.
    forwarded: Option<(Reply, String)>,
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
    fn listener(&self, next: Option<OnProgress>) -> OnProgress {
        let clock = self.clone();
        Arc::new(move |progress: Progress| {
            clock.touch();
            if let Some(next) = &next {
                next(progress);
            }
        })
    }
}

impl<'a> Running<'a> {
    fn new(gate: &'a Gate, options: &'a CallOptions, now: Instant) -> Self {
        Running { gate, options, begun: None, clock: Clock::new(now), session: None, failure: None, forwarded: None }
    }

    async fn request(&mut self, request: Request) -> Event {
        let Request { server, method, params, forward_up_to } = request;
        let session = match self.link(&server) {
            Ok(link) => link.session().await.map_err(|unavailable| unavailable.to_failed()),
            Err(failed) => Err(failed),
        };
        let session = match session {
            Ok(session) => self.session.insert(session),
            Err(failed) => return self.failed(failed),
        };
        let session = Arc::clone(session);
        if self.begun.is_none() {
            self.begun = Some((server.clone(), self.clock.touch()));
        }
        let patience = self.patience();
        let progress = Some(self.clock.listener(self.options.progress.clone()));
        let asked = crate::session::Request { method: &method, params: &params, patience, progress };
        match session.request(asked).await {
            Ok(reply) => self.answered(reply, forward_up_to),
            Err(failed) => self.failed(failed),
        }
    }

    /// Connects several servers side by side. As long as one of them can be used the call may go on.
    async fn connect(&mut self, servers: &[String]) -> Event {
        let this = &*self;
        let connect = servers.iter().map(|server| async move {
            let link = this.link(server)?;
            this.gate.connect(link).await.map_err(|unavailable| unavailable.to_failed())
        });
        let outcomes = futures_util::future::join_all(connect).await;
        let mut failures = outcomes.into_iter().filter_map(Result::err);
        match failures.next() {
            Some(failed) if failures.count() + 1 == servers.len() => self.failed(failed),
            _ => Event::Connected,
        }
    }

    async fn reconnect(&mut self, server: &str) -> Event {
        let broken = self.session.take();
        let link = match self.link(server) {
            Ok(link) => link,
            Err(failed) => return self.failed(failed),
        };
        let session = match broken {
            Some(broken) => link.reconnect(&broken).await,
            None => link.session().await,
        };
        match session {
            Ok(_) => Event::Reconnected,
            Err(unavailable) => self.failed(unavailable.to_failed()),
        }
    }

    async fn wait(&mut self, range: WaitRange) -> Event {
        let WaitRange { min_ms, max_ms } = range;
        let wait = Duration::from_millis(fastrand::u64(min_ms..=max_ms.max(min_ms)));
        let left = self.patience().quiet;
        if wait > left {
            tokio::time::sleep(left).await;
            let failure = Failure::Timeout { method: "tools/call".to_owned(), after: self.clock.last().elapsed() };
            return self.failed(Failed::unsent(failure));
        }
        tokio::time::sleep(wait).await;
        Event::Waited
    }

    /// An answer in which nothing is left to decide does not take the way through the component.
    fn answered(&mut self, reply: Reply, forward_up_to: Option<u64>) -> Event {
        let short = forward_up_to.is_some_and(|most| reply.json().len() as u64 <= most);
        let plain = if short { forwarded::read(reply.json()) } else { None };
        match plain {
            Some(Plain { text, is_error }) => {
                self.forwarded = Some((reply, text));
                Event::Forwarded(Summary { is_error })
            }
            None => Event::Answered(reply.into_json()),
        }
    }

    /// Keeps a failure, and tells the component.
    fn failed(&mut self, failed: Failed) -> Event {
        let event = failures::event(&failed);
        self.failure = Some(failed);
        event
    }

    async fn ask(&self, question: &Question) -> Event {
        let answer = match &self.options.approve {
            Some(approve) => approve.approve(question).await,
            None => None,
        };
        answer.map_or(Event::Unasked, Event::Approved)
    }

    /// What is left of the time that the call has, over all attempts.
    fn patience(&self) -> Patience {
        let link = self.begun.as_ref().and_then(|(server, _)| self.gate.registry.link(server));
        let timeouts = link.map(|link| link.server().timeouts).unwrap_or_default();
        let quiet = self.options.timeout.unwrap_or(timeouts.call);
        let begun = self.begun.as_ref().map_or_else(Instant::now, |(_, begun)| *begun);
        Patience {
            quiet: quiet.saturating_sub(self.clock.last().elapsed()),
            total: timeouts.total.max(quiet).saturating_sub(begun.elapsed()),
        }
    }

    fn link(&self, server: &str) -> Result<&Arc<Link>, Failed> {
        let missing = || Unavailable::Failed(Failed::unsent(Failure::Connect(format!("no server {server:?}"))));
        self.gate.registry.link(server).ok_or_else(|| missing().to_failed())
    }
}
