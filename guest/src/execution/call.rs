//! One running call: what it knows, what it waits for, and what it does next.

mod finding;
mod intent;
mod judging;
mod refusal;
mod words;

use std::cell::RefCell;
use std::rc::Rc;

use super::condensing::LongAnswer;
use super::gate_state::GateState;
use super::outcome::{self, Answer, Outcome};
use super::own_tools::Search;
use super::plan::Plan;
use super::{
    Code, Condensed, Directive, Event, Failed, Forward, Oversize, Question, Request, Summary, ToolCall, ToolResult,
};
use crate::arguments::{self, NoteKind};
use crate::backoff;
use crate::catalog::{Entry, NoRoute, Route};
use crate::filtering::Verdict;
use crate::naming::{self, NameError, NameProblem};
use crate::reading;
use crate::recovery::{self, Action, Context};
use crate::rules::{Circumstances, Judgement, Lesson, ToolConcerns};
use crate::schema::Document;
use crate::types::{Failure, Phase, ToolRef, Trace, TraceNote};
pub use intent::Intent;
use refusal::Refusal;
use words::{describe_long_wait, describe_tool, name_of};

/// A running call. Later offers do not affect it, except from servers that it asks to connect.
#[derive(Debug)]
pub struct Execution {
    gate: Rc<RefCell<GateState>>,
    call: ToolCall,
    notes: Vec<TraceNote>,
    /// The tool, once the name is resolved.
    tool: Option<ResolvedTool>,
    /// The tool that the name most likely means, if its server is not available.
    likely_tool: Option<ToolRef>,
    /// Set once the arguments are read as well.
    plan: Option<Plan>,
    /// The rules with limits that fit, while a person is asked: a call that is repeated with the answer counts once.
    uncounted: Option<Judgement>,
    /// What a program learns about a refusal of the call.
    refusal: Refusal,
    attempts: u32,
    /// Whether a request has reached the server, or may have.
    was_sent: bool,
    /// Whether a failed attempt may have run.
    may_have_run: bool,
    state: State,
}

/// A tool, shared with the catalog that it was found in.
#[derive(Debug)]
struct ResolvedTool {
    server: Rc<str>,
    entry: Rc<Entry>,
}

impl ResolvedTool {
    fn tool(&self) -> ToolRef {
        ToolRef::new(&*self.server, &*self.entry.tool.name)
    }
}

/// What the execution waits for.
#[derive(Debug)]
enum State {
    /// Waits until these servers have listed their tools.
    Connecting(Vec<String>),
    /// Waits until some servers have listed their tools, to find tools.
    Finding(Search),
    /// Waits for the circumstances that rules depend on, to find tools.
    FindingAllowed(Search),
    /// Waits for the circumstances that rules depend on.
    Judging(AwaitedJudgement),
    /// Waits until the call is counted.
    Counting(Judgement, Approval),
    Asking,
    Requesting,
    /// Waits before a retry; the server may have asked for so many milliseconds.
    Waiting(AfterWait, Option<u64>),
    Reconnecting,
    Reauthenticating,
    /// Waits until the text of this result is saved or summarized.
    Condensing(LongAnswer),
    /// Waits for nothing.
    Done(ResultSource),
}

/// What is known of a call that waits for the circumstances that rules depend on.
#[derive(Debug)]
struct AwaitedJudgement {
    /// Why a filter asks a person, if one does.
    reason: Option<String>,
    concerns: Rc<ToolConcerns>,
    /// Whether the circumstances have the values that the agent knows.
    has_known: bool,
    /// The circumstances without these values, if they are awaited once more with them.
    first: Option<Circumstances>,
}

/// Whether a person has approved a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Given,
    NotNeeded,
}

/// What the result is built from. `Done` is seldom requested twice, so the result itself is not kept.
#[derive(Debug)]
enum ResultSource {
    /// A code and a text.
    Text(Code, String),
    /// Tools that were found, as JSON.
    Found(String),
    /// The server's result.
    Answered(String),
    /// The server's result, whose text was too long, and what was done with it.
    Condensed(LongAnswer, Condensed),
}

/// The step after a wait.
#[derive(Clone, Copy, Debug)]
enum AfterWait {
    Request,
    Reconnect,
}

impl Execution {
    pub(super) fn begin(gate: Rc<RefCell<GateState>>, call: ToolCall) -> (Execution, Directive) {
        let mut execution = Execution {
            gate,
            call,
            notes: Vec::with_capacity(USUAL_NOTES),
            tool: None,
            likely_tool: None,
            plan: None,
            uncounted: None,
            refusal: Refusal::default(),
            attempts: 0,
            was_sent: false,
            may_have_run: false,
            state: State::Connecting(Vec::new()),
        };
        let directive = execution.start();
        (execution, directive)
    }

    /// Takes an event and returns the next directive; after `Done`, it returns `Done` again.
    pub fn next(&mut self, event: Event) -> Directive {
        match (&self.state, event) {
            (State::Done(ending), _) => Directive::Done(self.result_again(ending)),
            (state, Event::Cancelled) => {
                self.was_sent |= matches!(state, State::Requesting | State::Condensing(_));
                self.give_up(&Failure::Cancelled)
            }
            (_, Event::Failed(Failed { failure: Failure::Cancelled, phase })) => {
                self.was_sent |= phase == Phase::Sent;
                self.give_up(&Failure::Cancelled)
            }
            (State::Connecting(_), Event::Connected) => self.route(false),
            // Tools of other servers can be found even if one is not available.
            (State::Finding(search), Event::Connected | Event::Failed(_)) => {
                let search = search.clone();
                self.find(search, false)
            }
            (State::FindingAllowed(search), Event::Circumstances(circumstances)) => {
                let search = search.clone();
                self.found(&search, Some(&circumstances))
            }
            (State::Connecting(_), Event::Failed(Failed { failure, .. })) => self.connect_failed(&failure),
            (State::Judging(..), Event::Circumstances(circumstances)) => self.judge(circumstances),
            (State::Counting(..), Event::Counted(counts)) => self.counted(&counts),
            (State::Asking, Event::Approved(true)) => {
                self.note("approved by a person");
                match self.uncounted.take() {
                    Some(judgement) => self.count(judgement, Approval::Given),
                    None => self.request(),
                }
            }
            (State::Asking, Event::Approved(false)) => self.declined("a person declined it"),
            (State::Asking, Event::Unasked) => {
                self.declined("the client could not ask its user: use one that supports elicitation, or a terminal")
            }
            (State::Requesting, Event::Answered(answer)) => self.answered(answer),
            (State::Requesting, Event::Forwarded(Summary { is_error })) => self.forwarded(is_error),
            (State::Requesting, Event::Failed(Failed { failure, phase })) => self.request_failed(&failure, phase),
            (State::Waiting(AfterWait::Request, _), Event::Waited)
            | (State::Reconnecting, Event::Reconnected)
            | (State::Reauthenticating, Event::Authenticated) => self.request(),
            (State::Waiting(AfterWait::Reconnect, _), Event::Waited) => {
                self.state = State::Reconnecting;
                Directive::Reconnect(self.server())
            }
            (State::Waiting(_, Some(asked_ms)), Event::Failed(Failed { failure: Failure::Timeout, .. })) => {
                let why = describe_long_wait(&self.server(), *asked_ms);
                self.give_up_because(&Failure::Timeout, &why)
            }
            (State::Reauthenticating, Event::Failed(Failed { failure, .. })) => match failure {
                Failure::Timeout | Failure::NeedsAuth(_) => self.give_up(&failure),
                other => self.give_up(&Failure::NeedsAuth(outcome::describe(&other, &self.server()))),
            },
            (State::Condensing(_), Event::Condensed(condensed)) => self.condensed(condensed),
            // The tool has answered, so the call succeeds without the saved text or the summary.
            (State::Condensing(_), Event::Failed(_)) => {
                self.note("condensing failed");
                self.condensed(Condensed::default())
            }
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

    /// Returns the trace so far.
    pub fn trace(&self) -> Trace {
        self.notes.iter().map(|note| String::from(&**note)).collect()
    }

    fn note(&mut self, note: impl Into<TraceNote>) {
        self.notes.push(note.into());
    }

    /// Finds the tool; if `may_connect`, first connects servers whose tools are unknown.
    fn route(&mut self, may_connect: bool) -> Directive {
        let gate = Rc::clone(&self.gate);
        let gate = gate.borrow();
        let route = gate.resolve(&self.call.name);
        if may_connect {
            let missing = gate.missing(&self.call.name, &route);
            if !missing.is_empty() {
                self.note(format!("connecting to list tools: {}", missing.join(", ")));
                self.state = State::Connecting(missing.clone());
                return Directive::Connect(missing);
            }
        }
        match route {
            Ok(route) => self.plan(&gate, route),
            Err(NoRoute::Unknown(error)) => self.no_route(error),
            Err(NoRoute::Hidden(error, server, entry)) => {
                gate.access.explain(&server, &entry.tool.name, entry.tool.annotations, &mut self.notes);
                let reason = self.notes.last().cloned().unwrap_or_default();
                self.tool = Some(ResolvedTool { server, entry });
                self.fail(Code::NotAllowed, &format!("{} ({reason})", error.message))
            }
        }
    }

    fn no_route(&mut self, NameError { problem, message }: NameError) -> Directive {
        self.note(format!("name {:?} does not identify a tool", self.call.name));
        let code = match problem {
            NameProblem::InvalidName | NameProblem::Ambiguous => Code::InvalidName,
            NameProblem::UnknownServer => Code::UnknownServer,
            NameProblem::UnknownTool => Code::UnknownTool,
        };
        self.fail(code, &message)
    }

    /// Handles a server that is not available: the name may still mean a tool of another server.
    fn connect_failed(&mut self, failure: &Failure) -> Directive {
        let found = self.gate.borrow().resolve(&self.call.name).is_ok();
        if found {
            self.note("another server that the name could mean is not available");
            return self.route(false);
        }
        if let State::Connecting(servers) = &self.state {
            self.likely_tool = naming::only_reading(&self.call.name, servers);
        }
        self.give_up(failure)
    }

    /// Checks the rules, reads the arguments, and then asks for approval or sends the request.
    fn plan(&mut self, gate: &GateState, route: Route) -> Directive {
        self.note(route.note);
        let meant = self.tool.insert(ResolvedTool { server: route.server, entry: route.tool });
        let (server, tool) = (&*meant.server, &meant.entry.tool);
        let verdict = gate.access.explain(server, &tool.name, tool.annotations, &mut self.notes);
        let reason = (verdict == Verdict::Ask).then(|| self.notes.last().cloned().unwrap_or_default());
        // Some models write the whole call where its arguments belong; most do not name the tool there.
        let own = match self.call.arguments.contains(&*tool.name) {
            true => reading::as_own_call(&self.call.arguments, &tool.name, meant.entry.schema().map(Document::root)),
            false => None,
        };
        if own.is_some() {
            self.notes.push("arguments: read as a whole call of the tool".into());
        }
        let parsed = match arguments::parse(own.as_ref().unwrap_or(&self.call.arguments), meant.entry.schema()) {
            Ok(parsed) => parsed,
            Err(refusal) => {
                let text = format!("invalid arguments for {}: {refusal}", describe_tool(meant));
                self.note("arguments: over a size limit");
                return self.fail(Code::InvalidArguments, &text);
            }
        };
        self.notes.push(format!("arguments: read as {}", parsed.stage.name()).into());
        // Notes quote values, and the trace is logged.
        let results = gate.results(server).clone();
        self.notes
            .extend(parsed.notes.iter().map(|note| format!("arguments: {}", results.masker.mask(&note.text)).into()));
        let problems: Vec<&str> =
            parsed.notes.iter().filter(|note| note.kind == NoteKind::Problem).map(|note| &*note.text).collect();
        if gate.settings.check_arguments && !problems.is_empty() {
            let text = format!("invalid arguments for {}: {}", describe_tool(meant), problems.join("; "));
            return self.fail(Code::InvalidArguments, &text);
        }
        let annotations = gate.access.annotations(server, &tool.name, tool.annotations);
        let concern = gate.rules.concern(server, &tool.name);
        self.plan = Some(Plan {
            results,
            arguments: parsed.arguments,
            read_only: annotations.read_only == Some(true),
            idempotent: annotations.idempotent == Some(true),
            settings: Rc::clone(&gate.settings),
            lesson: Lesson::default(),
        });
        let reason = reason.map(TraceNote::into_owned);
        if let Some(concerns) = concern {
            let has_known = concerns.known;
            self.state = State::Judging(AwaitedJudgement { reason, concerns, has_known, first: None });
            return Directive::Circumstances(has_known);
        }
        self.ask_or_request(reason)
    }

    /// Asks a person if there is a reason to, or else sends the request.
    fn ask_or_request(&mut self, reason: Option<String>) -> Directive {
        let (Some(reason), Some(plan), Some(meant)) = (reason, &self.plan, &self.tool) else { return self.request() };
        let (bytes, most) = (plan.arguments.len(), plan.settings.ask_max_bytes);
        // A person must see all of the arguments that they approve.
        if bytes as u64 > most {
            return self.declined(&format!(
                "its arguments have {bytes} bytes, more than a person is shown (ask_max_bytes: {most})"
            ));
        }
        let question = Question { tool: meant.tool(), arguments: plan.arguments.clone(), reason };
        self.state = State::Asking;
        Directive::Ask(question)
    }

    fn request(&mut self) -> Directive {
        let (Some(plan), Some(meant)) = (&self.plan, &self.tool) else {
            return self.fail(Code::Internal, "there is no tool to call");
        };
        self.state = State::Requesting;
        self.attempts += 1;
        self.notes.push(format!("request {} to server {:?}", self.attempts, meant.server).into());
        // Without masks, a response that is short as a whole has a short text, so nothing is left to decide.
        let forward = plan.may_forward().then(|| {
            let trace = self.notes.iter().map(|note| &**note).chain([FORWARDED]).map(str::to_owned).collect();
            Forward { up_to: plan.max_untouched(), trace }
        });
        let learned = plan.lesson.learned();
        Directive::Request(Request { tool: meant.tool(), arguments: plan.arguments.clone(), forward, learned })
    }

    fn answered(&mut self, answer: String) -> Directive {
        let (Some(plan), Some(meant)) = (&self.plan, &self.tool) else {
            return self.fail(Code::Internal, "there is no tool to call");
        };
        let hidden = outcome::hidden_note(&plan.results.masker, &answer);
        self.notes.extend(hidden.map(TraceNote::from));
        match outcome::answered(plan, &answer) {
            Ok(Answer::Finished(mut outcome)) => {
                self.note(std::mem::take(&mut outcome.note));
                self.state = State::Done(ResultSource::Answered(answer));
                Directive::Done(self.result_of(outcome))
            }
            Ok(Answer::TooLong(long, text)) => {
                let (spill, summarize) = (long.spill, long.summarize);
                self.notes.extend(long.notes(text.len()));
                let oversize = Oversize { tool: meant.tool(), text, spill, summarize };
                self.state = State::Condensing(long);
                Directive::Condense(oversize)
            }
            // The tool ran, but its result is unreadable: the recovery rules decide.
            Err(why) => self.request_failed(&Failure::Protocol(why), Phase::Sent),
        }
    }

    /// Finishes the result after its text was saved or summarized, or neither.
    fn condensed(&mut self, condensed: Condensed) -> Directive {
        let State::Condensing(long) = std::mem::replace(&mut self.state, State::Requesting) else {
            return self.fail(Code::Internal, "there is no text to condense");
        };
        let Some(plan) = &self.plan else { return self.fail(Code::Internal, "there is no tool to call") };
        let condensed = long.take(plan, condensed);
        let outcome = outcome::condensed(plan, &long, &condensed);
        self.notes.extend(long.notes_on(&condensed, outcome.cut.then_some(plan.settings.max_result_bytes)));
        self.state = State::Done(ResultSource::Condensed(long, condensed));
        Directive::Done(self.result_of(outcome))
    }

    fn forwarded(&mut self, is_error: bool) -> Directive {
        self.note(FORWARDED);
        self.done(if is_error { Code::ToolError } else { Code::Ok }, String::new())
    }

    fn request_failed(&mut self, failure: &Failure, phase: Phase) -> Directive {
        self.was_sent |= phase == Phase::Sent;
        let Some(plan) = &self.plan else { return self.fail(Code::Internal, "there is no tool to call") };
        let Plan { read_only, idempotent, .. } = *plan;
        let retry = plan.settings.retry;
        let decision =
            recovery::classify(failure, &Context { phase, attempt: self.attempts, read_only, idempotent, retry });
        self.notes.extend(decision.trace.into_iter().map(TraceNote::from));
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
            Action::RetrySameSession => AfterWait::Request,
            Action::RetryNewSession => AfterWait::Reconnect,
        };
        self.may_have_run |= recovery::may_have_run(failure, phase);
        self.state = State::Waiting(then, retry_after);
        Directive::Wait(backoff::retry_wait(retry_after))
    }

    /// Ends the call; if an earlier attempt may have run, the caller must know that.
    fn give_up(&mut self, failure: &Failure) -> Directive {
        let why = outcome::describe(failure, &self.server());
        self.give_up_because(failure, &why)
    }

    /// Ends the call as after this failure, with a reason that says more than the failure does.
    fn give_up_because(&mut self, failure: &Failure, why: &str) -> Directive {
        if self.may_have_run && !self.is_safe() && *failure != Failure::Cancelled {
            self.note("an earlier attempt may have run");
            return self.outcome_unknown(why);
        }
        // A rule that was looked at before is not the reason.
        self.refusal = Refusal::default();
        let mut text = why.to_owned();
        if self.was_sent {
            text = format!("MCP tool execution failed: {text}");
        }
        self.fail(outcome::code(failure), &text)
    }

    fn outcome_unknown(&mut self, why: &str) -> Directive {
        let text = format!(
            "MCP tool execution failed: outcome unknown: {why}; the tool may have run, so check before calling it again"
        );
        self.fail(Code::OutcomeUnknown, &text)
    }

    /// Reports whether running the tool twice does no harm.
    fn is_safe(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.read_only || plan.idempotent)
    }

    fn declined(&mut self, why: &str) -> Directive {
        self.note(format!("not approved: {why}"));
        let tool = self.tool.as_ref().map(describe_tool).unwrap_or_default();
        self.fail(Code::Declined, &format!("{tool} needs a person's approval, but {why}"))
    }

    /// Ends the call with an error; its text may quote a server, so it is masked and cut like any other.
    fn fail(&mut self, code: Code, text: &str) -> Directive {
        let (hidden, text) = {
            let gate = self.gate.borrow();
            let masker = &gate.results(&self.server()).masker;
            let masked = masker.mask(text);
            (outcome::hidden_note(masker, text), outcome::fit(gate.settings.max_result_bytes, masked).0)
        };
        self.notes.extend(hidden.map(TraceNote::from));
        self.done(code, text)
    }

    fn done(&mut self, code: Code, text: String) -> Directive {
        self.state = State::Done(ResultSource::Text(code, text.clone()));
        Directive::Done(self.result(code, text))
    }

    /// Builds the result of a finished call again.
    fn result_again(&self, ending: &ResultSource) -> ToolResult {
        let plan = || self.plan.as_ref().expect("an answer follows a request, and that follows a plan");
        match ending {
            ResultSource::Text(code, text) => self.result(*code, text.clone()),
            ResultSource::Found(told) => self.found_result(told.clone()),
            ResultSource::Answered(answer) => match outcome::answered(plan(), answer) {
                Ok(Answer::Finished(outcome)) => self.result_of(outcome),
                Ok(Answer::TooLong(..)) | Err(_) => unreachable!("what was read once is read alike again"),
            },
            ResultSource::Condensed(long, condensed) => self.result_of(outcome::condensed(plan(), long, condensed)),
        }
    }

    /// Returns the result for this outcome.
    fn result_of(&self, outcome: Outcome) -> ToolResult {
        ToolResult {
            text: outcome.text,
            content: outcome.content,
            structured: outcome.structured,
            more: outcome.more,
            answer: outcome.answer,
            truncated: outcome.truncated,
            clean: outcome.clean,
            learned: outcome.taught,
            ..self.result(outcome.code, String::new())
        }
    }

    /// Returns a result that only says how the call ended.
    fn result(&self, code: Code, text: String) -> ToolResult {
        ToolResult {
            call_id: self.call.id.clone(),
            name: self.call.name.clone(),
            tool: self.tool.as_ref().map(ResolvedTool::tool).or_else(|| self.likely_tool.clone()),
            text,
            content: Vec::new(),
            structured: None,
            more: self.refusal.to_members(code),
            answer: None,
            is_error: code != Code::Ok,
            code,
            attempts: self.attempts,
            truncated: false,
            clean: false,
            trace: self.trace(),
            learned: None,
        }
    }

    /// Returns the server of the tool, or the servers that the call waits for.
    fn server(&self) -> String {
        match (&self.tool, &self.state) {
            (Some(meant), _) => String::from(&*meant.server),
            (None, State::Connecting(servers)) => servers.join(", "),
            (None, _) => self.call.name.clone(),
        }
    }
}

/// The number of notes in the trace of a successful call.
const USUAL_NOTES: usize = 8;
/// The note for a result that was forwarded without being read.
const FORWARDED: &str = "result passed through (nothing to mask)";
