//! The person at the terminal: prompts, approvals and progress.

use std::collections::HashMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex};

use crate::config::model::ConfigInput;
use crate::config::variables::InputPrompter;
use crate::gate::{APPROVAL, ApprovalText, Approve, CallEvent, Consent, OnEvent};
use crate::lock::lock;
use crate::logic::types::execution::Question;
use crate::registry::Registry;
use crate::session::{OnProgress, Progress};
use crate::transport::BoxFuture;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::printer::Printer;
use super::style;

/// Prompts the person at the terminal, and asks for each input only once.
#[derive(Default)]
pub(super) struct TerminalPrompter {
    answers: Mutex<HashMap<String, Option<String>>>,
}

impl TerminalPrompter {
    /// Reports whether a person can see a prompt and type an answer.
    pub(super) fn is_interactive() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks for a line of text, or returns `None` if there is no answer.
    pub(super) fn line(question: &str) -> Option<String> {
        ask(&style::clean(question), false)
    }

    /// Asks a yes-or-no question, or returns `None` if nobody can answer.
    pub(super) fn confirm(question: &str) -> Option<bool> {
        let answer = ask(&style::clean(question), false)?;
        Some(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

impl InputPrompter for TerminalPrompter {
    fn ask(&self, input: &ConfigInput) -> Option<String> {
        let mut answers = lock(&self.answers);
        let answer = answers.entry(input.id.clone()).or_insert_with(|| {
            let what = input.description.as_deref().unwrap_or(&input.id);
            let options =
                if input.options.is_empty() { String::new() } else { format!(" ({})", input.options.join(", ")) };
            let typed = ask(&format!("{}{}: ", style::clean(what), style::clean(&options)), input.password)?;
            match typed.trim_end_matches(['\r', '\n']) {
                "" => input.default.clone(),
                typed => Some(typed.to_owned()),
            }
        });
        answer.clone()
    }
}

/// Asks at the terminal whether a call may run.
pub(super) struct TerminalApprover(pub Arc<Registry>);

impl Approve for TerminalApprover {
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent> {
        let text = ApprovalText::new(question, None, &self.0.secrets());
        let ApprovalText { tool, server, rule, bytes, arguments, .. } = text;
        // The question comes last, because long arguments would scroll it away.
        let text = format!(
            "{APPROVAL}: {rule}\narguments, {bytes} bytes, as they will be sent:\n{arguments}\ncall the tool {tool} of the \
             server {server} with these arguments? [y/N] "
        );
        Box::pin(async move {
            // Block another thread: the servers keep running while a person thinks.
            match tokio::task::spawn_blocking(move || TerminalPrompter::confirm(&text)).await {
                Ok(Some(true)) => Consent::Yes,
                Ok(Some(false)) => Consent::No,
                Ok(None) | Err(_) => Consent::NoApprover,
            }
        })
    }
}

/// Prints a prompt to standard error and reads one line, or returns `None` if nobody can answer.
fn ask(question: &str, hidden: bool) -> Option<String> {
    if !TerminalPrompter::is_interactive() {
        return None;
    }
    // A line that is drawn again and again would hide the question, and what is typed.
    if let Some(bar) = lock(&WAITING).take() {
        bar.finish_and_clear();
    }
    let mut err = io::stderr();
    write!(err, "{question}").and_then(|()| err.flush()).ok()?;
    let _quiet = hidden.then(EchoOff::new);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line)
}

/// Hides typed text while it exists.
struct EchoOff;

/// The terminal settings from before text was hidden.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Shows typed text again if it is hidden, even if the prompt was never answered.
pub(super) fn restore_echo() {
    if let Some(before) = lock(&BEFORE).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        style::write_stderr(format_args!(""));
    }
}

impl EchoOff {
    fn new() -> Self {
        if let Ok(before) = tcgetattr(io::stdin()) {
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO);
            *lock(&BEFORE) = Some(before);
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &quiet);
        }
        EchoOff
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        restore_echo();
    }
}

/// A progress bar for a call, which only a terminal shows.
pub(super) struct CallProgressBar(Option<ProgressBar>);

impl CallProgressBar {
    /// Creates a bar that appears with the first progress.
    pub(super) fn new(name: &str) -> Self {
        if !io::stderr().is_terminal() {
            return CallProgressBar(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_prefix(style::clean(name));
        CallProgressBar(Some(bar))
    }

    /// Reports whether the call has made progress, which the bar shows.
    pub(super) fn is_shown(&self) -> bool {
        self.0.as_ref().is_some_and(|bar| !bar.is_hidden())
    }

    /// Returns a listener for the progress of a call through a gateway.
    pub(super) fn progress(&self, printer: &Printer) -> Option<OnProgress> {
        let listener = self.listener(printer)?;
        Some(Arc::new(move |progress| listener(CallEvent::Progress(progress))))
    }

    /// Returns a listener for the events of a call.
    pub(super) fn listener(&self, printer: &Printer) -> Option<OnEvent> {
        let (bar, printer) = (self.0.clone()?, printer.clone());
        Some(Arc::new(move |event| {
            if let CallEvent::Progress(progress) = event {
                show(&bar, progress, &printer);
            }
        }))
    }
}

/// A line at the end of a terminal that says which servers have not answered yet.
pub(super) struct WaitingLine {
    bar: Option<ProgressBar>,
    waiting: Mutex<Vec<String>>,
}

impl WaitingLine {
    /// Creates the line for these servers; only a terminal that is not plain shows it.
    pub(super) fn new<'n>(servers: impl IntoIterator<Item = &'n str>) -> Self {
        let waiting: Vec<String> = servers.into_iter().map(style::clean).collect();
        let is_shown = !waiting.is_empty() && style::stderr().is_colourful();
        let line = WaitingLine { bar: is_shown.then(ProgressBar::new_spinner), waiting: Mutex::new(waiting) };
        if let Some(bar) = &line.bar {
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            line.show();
            bar.enable_steady_tick(TICK);
            *lock(&WAITING) = Some(bar.clone());
        }
        line
    }

    /// Takes a server that has answered off the line.
    pub(super) fn answered(&self, server: &str) {
        let server = style::clean(server);
        lock(&self.waiting).retain(|waiting| *waiting != server);
        self.show();
    }

    /// Prints something while the line is out of the way.
    pub(super) fn print<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    fn show(&self) {
        let waiting = lock(&self.waiting).join(", ");
        match &self.bar {
            Some(bar) if waiting.is_empty() => bar.finish_and_clear(),
            Some(bar) => bar.set_message(format!("waiting for {waiting}")),
            None => {}
        }
    }
}

impl Drop for WaitingLine {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            *lock(&WAITING) = None;
        }
    }
}

/// The bar of the line of those who are waited for, while there is one.
static WAITING: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes to standard error while the line of those who are waited for is out of the way.
pub(super) fn beside_waiting_line(write: impl FnOnce()) {
    let bar = lock(&WAITING).clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

fn show(bar: &ProgressBar, progress: Progress, printer: &Printer) {
    let Progress { progress, total, message, .. } = progress;
    if bar.is_hidden() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    let template = match total {
        Some(_) => "{prefix} [{bar:30}] {percent}% {msg}",
        None => "{prefix} {spinner} {pos} {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // Progress may be a fraction; a bar counts whole steps.
    let steps = |value: f64| (value * 1000.0).max(0.0) as u64;
    match total {
        Some(total) => {
            bar.set_length(steps(total));
            bar.set_position(steps(progress));
        }
        None => bar.set_position(progress.max(0.0) as u64),
    }
    bar.set_message(printer.clean(message.as_deref().unwrap_or_default()).replace('\n', " "));
}

impl Drop for CallProgressBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// How often the line of those who are waited for moves.
const TICK: std::time::Duration = std::time::Duration::from_millis(120);
