//! The person at the terminal, if there is one: questions, approvals, and how far things are.

use std::collections::HashMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toolgate::config::model::ConfigInput;
use toolgate::config::variables::InputPrompter;
use toolgate::gate::{APPROVAL, ApprovalText, Approve, CallEvent, Consent, OnEvent};
use toolgate::logic::types::execution::Question;
use toolgate::registry::Registry;
use toolgate::session::{OnProgress, Progress};
use toolgate::transport::BoxFuture;

use super::style;

/// The person at the terminal. What was answered once is not asked again.
#[derive(Default)]
pub struct TerminalPrompter {
    answers: Mutex<HashMap<String, Option<String>>>,
}

impl TerminalPrompter {
    /// Whether there is somebody to ask: they must see the question and be able to type.
    pub fn is_interactive() -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks for a yes; `None` where nobody is there.
    pub fn confirm(question: &str) -> Option<bool> {
        let answer = ask(&style::clean(question), false)?;
        Some(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

impl InputPrompter for TerminalPrompter {
    fn ask(&self, input: &ConfigInput) -> Option<String> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
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

/// Asks at the terminal whether a call may be made.
pub struct TerminalApprover(pub Arc<Registry>);

impl Approve for TerminalApprover {
    fn approve<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Consent> {
        let text = ApprovalText::new(question, &self.0.secrets());
        let ApprovalText { tool, server, rule, bytes, arguments } = text;
        // The question comes last: what is long scrolls away what stands before it.
        let text = format!(
            "{APPROVAL}: {rule}\narguments, {bytes} bytes, as they will be sent:\n{arguments}\ncall the tool {tool} of the \
             server {server} with these arguments? [y/N] "
        );
        Box::pin(async move {
            // The servers go on talking while a person thinks.
            match tokio::task::spawn_blocking(move || TerminalPrompter::confirm(&text)).await {
                Ok(Some(true)) => Consent::Yes,
                Ok(Some(false)) => Consent::No,
                Ok(None) | Err(_) => Consent::NoApprover,
            }
        })
    }
}

/// Asks one question on standard error and reads one line; `None` where nobody is there.
fn ask(question: &str, hidden: bool) -> Option<String> {
    if !TerminalPrompter::is_interactive() {
        return None;
    }
    let mut err = io::stderr();
    write!(err, "{question}").and_then(|()| err.flush()).ok()?;
    let _quiet = hidden.then(EchoOff::new);
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).ok().filter(|read| *read > 0)?;
    Some(line)
}

/// While this lives, what is typed is not shown.
struct EchoOff;

/// How the terminal was before, while it is quiet.
#[cfg(unix)]
static BEFORE: Mutex<Option<rustix::termios::Termios>> = Mutex::new(None);

/// Makes the terminal show again what is typed, where it does not; also if who asked was never answered.
pub fn restore_echo() {
    #[cfg(unix)]
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, &before);
        style::write_stderr(format_args!(""));
    }
}

impl EchoOff {
    fn new() -> Self {
        #[cfg(unix)]
        {
            use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
            if let Ok(before) = tcgetattr(io::stdin()) {
                let mut quiet = before.clone();
                quiet.local_modes.remove(LocalModes::ECHO);
                *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
                let _ = tcsetattr(io::stdin(), OptionalActions::Now, &quiet);
            }
        }
        EchoOff
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        restore_echo();
    }
}

/// Shows the progress of a call, on a terminal only.
pub struct CallProgressBar(Option<ProgressBar>);

/// Makes a text fit to be shown.
pub type TextCleaner = Arc<dyn Fn(&str) -> String + Send + Sync>;

impl CallProgressBar {
    /// A bar that shows itself at the first progress.
    pub fn new(name: &str) -> Self {
        if !io::stderr().is_terminal() {
            return CallProgressBar(None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_prefix(style::clean(name));
        CallProgressBar(Some(bar))
    }

    /// The same where the call is a gateway's.
    pub fn progress(&self, clean: TextCleaner) -> Option<OnProgress> {
        let listener = self.listener(clean)?;
        Some(Arc::new(move |progress| listener(CallEvent::Progress(progress))))
    }

    /// Takes the progress of the call.
    pub fn listener(&self, clean: TextCleaner) -> Option<OnEvent> {
        let bar = self.0.clone()?;
        Some(Arc::new(move |event| {
            if let CallEvent::Progress(progress) = event {
                show(&bar, progress, &clean);
            }
        }))
    }
}

fn show(bar: &ProgressBar, progress: Progress, clean: &TextCleaner) {
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
    // Progress may be fractions of one; a bar counts whole steps.
    let steps = |value: f64| (value * 1000.0).max(0.0) as u64;
    match total {
        Some(total) => {
            bar.set_length(steps(total));
            bar.set_position(steps(progress));
        }
        None => bar.set_position(progress.max(0.0) as u64),
    }
    bar.set_message(clean(message.as_deref().unwrap_or_default()).replace('\n', " "));
}

impl Drop for CallProgressBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
