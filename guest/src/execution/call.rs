//! One call under way: what it waits for, what it knows, and what comes next.

use std::cell::RefCell;
use std::rc::Rc;

use super::gate::Inner;
use super::outcome::{self, Plan};
use super::{Code, Directive, Event, Failed, Question, Request, Summary, ToolCall, ToolResult};
use crate::arguments::{self, NoteKind};
use crate::backoff;
use crate::catalog::{NoRoute, Route};
use crate::filtering::Verdict;
use crate::json;
use crate::naming::{NameError, NameProblem};
use crate::recovery::{self, Action, Context};
use crate::types::{Failure, Phase, ToolRef, Trace};

/// A call under way. What it decides on is fixed when it begins, but for servers that it asks to connect.
#[derive(Debug)]
pub struct Execution {
    gate: Rc<RefCell<Inner>>,
    call: ToolCall,
    trace: Trace,
    /// The tool that is meant, once the name has led to one.
    tool: Option<ToolRef>,
    /// Set once the arguments are read too.
    plan: Option<Plan>,
    attempts: u32,
    /// An attempt was given up of which nobody knows whether it ran.
    may_have_run: bool,
    state: State,
}

/// What the execution waits for.
#[derive(Clone, Debug)]
enum State {
    /// For these servers to come up.
    Connecting(Vec<String>),
    Asking,
    Requesting,
    Waiting(Then),
    Reconnecting,
    Reauthenticating,
    Done(Box<ToolResult>),
}

/// What follows a wait.
#[derive(Clone, Copy, Debug)]
enum Then {
    Request,
    Reconnect,
}

impl Execution {
    pub(super) fn begin(gate: Rc<RefCell<Inner>>, call: ToolCall) -> (Execution, Directive) {
        let mut execution = Execution {
            gate,
            call,
            trace: Trace::new(),
            tool: None,
            plan: None,
            attempts: 0,
            may_have_run: false,
            state: State::Connecting(Vec::new()),
        };
        let directive = execution.route(true);
        (execution, directive)
    }

    /// Takes what happened and says what to do next. After `Done` it says `Done` again.
    pub fn next(&mut self, event: Event) -> Directive {
        if let State::Done(result) = &self.state {
            return Directive::Done((**result).clone());
        }
        match (self.state.clone(), event) {
            (_, Event::Cancelled | Event::Failed(Failed { failure: Failure::Cancelled, .. })) => {
                self.give_up(&Failure::Cancelled)
            }
            (State::Connecting(_), Event::Connected) => self.route(false),
            (State::Connecting(_), Event::Failed(Failed { failure, .. })) => self.connect_failed(&failure),
            (State::Asking, Event::Approved(true)) => {
                self.trace.push("approved by a person".to_owned());
                self.request()
            }
            (State::Asking, Event::Approved(false)) => self.declined("a person declined it"),
            (State::Asking, Event::Unasked) => self.declined("nobody could be asked"),
            (State::Requesting, Event::Answered(result)) => self.answered(&result),
            (State::Requesting, Event::Forwarded(Summary { is_error })) => self.forwarded(is_error),
            (State::Requesting, Event::Failed(Failed { failure, phase })) => self.request_failed(&failure, phase),
            (State::Waiting(Then::Request), Event::Waited)
            | (State::Reconnecting, Event::Reconnected)
            | (State::Reauthenticating, Event::Authenticated) => self.request(),
            (State::Waiting(Then::Reconnect), Event::Waited) => {
                self.state = State::Reconnecting;
                Directive::Reconnect(self.server())
            }
            (State::Reauthenticating, Event::Failed(Failed { failure, .. })) => match failure {
                Failure::Timeout | Failure::NeedsAuth(_) => self.give_up(&failure),
                other => self.give_up(&Failure::NeedsAuth(outcome::describe(&other, &self.server()))),
            },
            (_, Event::Failed(Failed { failure, .. })) => self.give_up(&failure),
            (state, event) => {
                let text = format!("the host reported {} while {}", name_of(&event), state.awaits());
                match self.is_safe() || self.attempts == 0 {
                    true => self.fail(Code::Internal, &text),
                    false => self.outcome_unknown(&text),
                }
            }
        }
    }

    /// How it was decided so far.
    pub fn trace(&self) -> &[String] {
        match &self.state {
            State::Done(result) => &result.trace,
            _ => &self.trace,
        }
    }

    /// Finds the tool, asking for servers that have not spoken yet where `may_connect`.
    fn route(&mut self, may_connect: bool) -> Directive {
        let gate = Rc::clone(&self.gate);
        let gate = gate.borrow();
        let route = gate.resolve(&self.call.name);
        if may_connect {
            let missing = gate.missing(&self.call.name, &route);
            if !missing.is_empty() {
                self.trace.push(format!("servers that have not been asked yet: {}", missing.join(", ")));
                self.state = State::Connecting(missing.clone());
                return Directive::Connect(missing);
            }
        }
        match route {
            Ok(route) => self.plan(&gate, route),
            Err(NoRoute::Unknown(error)) => self.no_route(error),
            Err(NoRoute::Hidden(error, server, entry)) => {
                let tool = ToolRef::new(&*server, &*entry.tool.name);
                self.trace.extend(gate.access.decide(&tool, entry.tool.annotations).trace);
                self.fail(Code::NotAllowed, &error.message)
            }
        }
    }

    fn no_route(&mut self, NameError { problem, message }: NameError) -> Directive {
        self.trace.push(format!("name {:?} leads to no tool", self.call.name));
        let code = match problem {
            NameProblem::InvalidName | NameProblem::Ambiguous => Code::InvalidName,
            NameProblem::UnknownServer => Code::UnknownServer,
            NameProblem::UnknownTool => Code::UnknownTool,
        };
        self.fail(code, &message)
    }

    /// A server did not come up; the name may still mean a tool of another one.
    fn connect_failed(&mut self, failure: &Failure) -> Directive {
        let found = self.gate.borrow().resolve(&self.call.name).is_ok();
        if found {
            self.trace.push("a server that could be meant too did not come up".to_owned());
            return self.route(false);
        }
        self.give_up(failure)
    }

    /// The tool is known: asks the rules, reads the arguments, and then sends or asks.
    fn plan(&mut self, gate: &Inner, route: Route) -> Directive {
        self.trace.push(route.note);
        let entry = route.tool;
        let tool = ToolRef::new(&*route.server, &*entry.tool.name);
        self.tool = Some(tool.clone());
        let decision = gate.access.decide(&tool, entry.tool.annotations);
        let reason = decision.trace.last().cloned().unwrap_or_default();
        self.trace.extend(decision.trace);
        let parsed = match arguments::parse(&self.call.arguments, entry.schema()) {
            Ok(parsed) => parsed,
            Err(refusal) => {
                self.trace.push("arguments: refused".to_owned());
                let text = format!("invalid arguments for {}: {refusal}", spell(&tool));
                return self.fail(Code::InvalidArguments, &text);
            }
        };
        self.trace.push(format!("arguments: read as {}", parsed.stage.name()));
        // Notes quote values, and a trace is logged.
        let masker = gate.masker(&tool.server);
        self.trace.extend(parsed.notes.iter().map(|note| format!("arguments: {}", masker.mask(&note.text))));
        let problems: Vec<&str> =
            parsed.notes.iter().filter(|note| note.kind == NoteKind::Problem).map(|note| &*note.text).collect();
        if gate.settings.check_arguments && !problems.is_empty() {
            let text = format!("invalid arguments for {}: {}", spell(&tool), problems.join("; "));
            return self.fail(Code::InvalidArguments, &text);
        }
        let annotations = gate.access.annotations(&tool.server, &tool.tool, entry.tool.annotations);
        self.plan = Some(Plan {
            masker,
            arguments: parsed.arguments,
            read_only: annotations.read_only == Some(true),
            idempotent: annotations.idempotent == Some(true),
            retry: gate.settings.retry,
            form: gate.settings.form,
            max_result_bytes: gate.settings.max_result_bytes,
            tool: tool.clone(),
        });
        if decision.verdict == Verdict::Ask {
            self.state = State::Asking;
            let arguments = self.plan.as_ref().map_or_else(String::new, |plan| plan.arguments.clone());
            return Directive::Ask(Question { tool, arguments, reason });
        }
        self.request()
    }

    fn request(&mut self) -> Directive {
        let Some(plan) = &self.plan else { return self.fail(Code::Internal, "there is no tool to call") };
        self.state = State::Requesting;
        self.attempts += 1;
        self.trace.push(format!("request {} to server {:?}", self.attempts, plan.tool.server));
        let mut params = String::with_capacity(plan.arguments.len() + plan.tool.tool.len() + 32);
        params.push_str("{\"name\":");
        json::write_string(&plan.tool.tool, &mut params);
        params.push_str(",\"arguments\":");
        params.push_str(&plan.arguments);
        params.push('}');
        // With nothing to mask, an answer that is short as a whole needs no cut either: nothing is left to decide.
        let unread = plan.masker.is_empty();
        let limit = if plan.max_result_bytes == 0 { u64::MAX } else { plan.max_result_bytes };
        Directive::Request(Request {
            server: plan.tool.server.clone(),
            method: "tools/call".to_owned(),
            params,
            forward_up_to: unread.then_some(limit),
        })
    }

    fn answered(&mut self, result: &str) -> Directive {
        let Some(plan) = &self.plan else { return self.fail(Code::Internal, "there is no tool to call") };
        match outcome::answered(plan, result) {
            Ok(outcome) => {
                self.trace.push(outcome.note.clone());
                let result = ToolResult {
                    text: outcome.text,
                    content: outcome.content,
                    structured: outcome.structured,
                    answer: outcome.answer,
                    truncated: outcome.truncated,
                    ..self.result(outcome.code, String::new())
                };
                self.done(result)
            }
            // The tool ran, and what it said cannot be read: that is for the rules of recovery.
            Err(why) => self.request_failed(&Failure::Protocol(why), Phase::Sent),
        }
    }

    fn forwarded(&mut self, is_error: bool) -> Directive {
        self.trace.push("answer forwarded unread".to_owned());
        let result = self.result(if is_error { Code::ToolError } else { Code::Ok }, String::new());
        self.done(result)
    }

    fn request_failed(&mut self, failure: &Failure, phase: Phase) -> Directive {
        let Some(plan) = &self.plan else { return self.fail(Code::Internal, "there is no tool to call") };
        let Plan { read_only, idempotent, retry, .. } = *plan;
        let decision =
            recovery::classify(failure, &Context { phase, attempt: self.attempts, read_only, idempotent, retry });
        self.trace.extend(decision.trace);
        let retry_after = match failure {
            Failure::Http(http) => http.retry_after_ms,
            _ => None,
        };
        let then = match decision.action {
            Action::Surface => return self.give_up(failure),
            Action::OutcomeUnknown => return self.outcome_unknown(&outcome::describe(failure, &self.server())),
            Action::Reauthenticate => {
                self.state = State::Reauthenticating;
                return Directive::Reauthenticate(self.server());
            }
            Action::RetrySameSession => Then::Request,
            Action::RetryNewSession => Then::Reconnect,
        };
        self.may_have_run |= recovery::may_have_run(failure, phase);
        self.state = State::Waiting(then);
        Directive::Wait(backoff::retry_wait(retry_after))
    }

    /// Nothing more is tried. Where an earlier attempt may have run, that is what the caller must know.
    fn give_up(&mut self, failure: &Failure) -> Directive {
        let why = outcome::describe(failure, &self.server());
        if self.may_have_run && !self.is_safe() && *failure != Failure::Cancelled {
            self.trace.push("an earlier attempt may have run".to_owned());
            return self.outcome_unknown(&why);
        }
        self.fail(outcome::code(failure), &format!("MCP tool execution failed: {why}"))
    }

    fn outcome_unknown(&mut self, why: &str) -> Directive {
        let text = format!(
            "MCP tool execution failed: outcome unknown: {why}; the tool may have run, so check before calling it again"
        );
        self.fail(Code::OutcomeUnknown, &text)
    }

    /// Whether running the tool twice does no harm.
    fn is_safe(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.read_only || plan.idempotent)
    }

    fn declined(&mut self, why: &str) -> Directive {
        self.trace.push(format!("not approved: {why}"));
        let tool = self.plan.as_ref().map(|plan| spell(&plan.tool)).unwrap_or_default();
        self.fail(Code::Declined, &format!("MCP tool execution failed: {tool} needs a person's approval, and {why}"))
    }

    /// Ends with an error; its text may hold words of a server, so it is masked and cut like any other.
    fn fail(&mut self, code: Code, text: &str) -> Directive {
        let text = {
            let gate = self.gate.borrow();
            outcome::fit(gate.settings.max_result_bytes, &gate.masker(&self.server()).mask(text)).0
        };
        let result = self.result(code, text);
        self.done(result)
    }

    fn done(&mut self, result: ToolResult) -> Directive {
        self.state = State::Done(Box::new(result.clone()));
        Directive::Done(result)
    }

    /// A result that says nothing but how the call ended.
    fn result(&mut self, code: Code, text: String) -> ToolResult {
        ToolResult {
            call_id: self.call.id.clone(),
            name: self.call.name.clone(),
            tool: self.tool.clone(),
            text,
            content: Vec::new(),
            structured: None,
            answer: None,
            is_error: code != Code::Ok,
            code,
            attempts: self.attempts,
            truncated: false,
            trace: std::mem::take(&mut self.trace),
        }
    }

    /// The server that is meant; before it is known, those that are waited for.
    fn server(&self) -> String {
        match (&self.tool, &self.state) {
            (Some(tool), _) => tool.server.clone(),
            (None, State::Connecting(servers)) => servers.join(", "),
            (None, _) => self.call.name.clone(),
        }
    }
}

fn spell(tool: &ToolRef) -> String {
    format!("tool {:?} of server {:?}", tool.tool, tool.server)
}

impl State {
    fn awaits(&self) -> &'static str {
        match self {
            State::Connecting(_) => "servers were to be connected",
            State::Asking => "a person was to be asked",
            State::Requesting => "an answer was awaited",
            State::Waiting(_) => "a wait was under way",
            State::Reconnecting => "a new session was to be opened",
            State::Reauthenticating => "an authorization was to be got",
            State::Done(_) => "the call was over",
        }
    }
}

fn name_of(event: &Event) -> &'static str {
    match event {
        Event::Connected => "connected",
        Event::Answered(_) => "answered",
        Event::Forwarded(_) => "forwarded",
        Event::Failed(_) => "failed",
        Event::Reconnected => "reconnected",
        Event::Authenticated => "authenticated",
        Event::Waited => "waited",
        Event::Approved(_) => "approved",
        Event::Unasked => "unasked",
        Event::Cancelled => "cancelled",
    }
}
