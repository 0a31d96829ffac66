//! Your own decisions: toolgate's, plus one rule. A tool that may change things gets no path outside one folder.

use toolgate_guest::catalog::ExposedTool;
use toolgate_guest::decider::{Decider, Execution, Gate};
use toolgate_guest::execution::{self, Directive, Event, Intent, Settings, SettingsError, ToolCall};
use toolgate_guest::json::{self, Value};
use toolgate_guest::naming::NamingStyle;
use toolgate_guest::rules::Circumstances;
use toolgate_guest::types::Trace;

toolgate_guest::export!(Fenced);

/// The folder, chosen at build time, because a component sees no environment.
const FOLDER: &str = match option_env!("BRAIN_FOLDER") {
    Some(folder) => folder,
    None => "/srv/agent",
};

/// The decider: only its gates differ from toolgate's.
pub struct Fenced;

impl Decider for Fenced {
    type Gate = FencedGate;
}

/// A toolgate gate that tells the model about the rule, and checks the calls that it begins.
pub struct FencedGate(execution::Gate);

impl Gate for FencedGate {
    type Execution = Watched;

    fn open(settings: Settings) -> Result<Self, SettingsError> {
        execution::Gate::new(settings).map(FencedGate)
    }

    fn inner(&self) -> &execution::Gate {
        &self.0
    }

    fn tools(&self, style: &NamingStyle, circumstances: Option<&Circumstances>) -> Vec<ExposedTool> {
        let mut tools = self.0.tools(style, circumstances);
        // A model that knows the rule need not break it.
        for tool in tools.iter_mut().filter(|tool| tool.annotations.read_only != Some(true)) {
            let own = tool.description.take().unwrap_or_default();
            tool.description = Some(format!("{own} (paths: only in {FOLDER})").trim_start().to_owned());
        }
        tools
    }

    fn begin(&self, call: ToolCall) -> (Watched, Directive) {
        let (execution, directive) = self.0.begin(call);
        let mut watched = Watched(execution);
        let directive = watched.look(directive);
        (watched, directive)
    }
}

/// A toolgate call, whose directives are checked before the host sees them.
pub struct Watched(execution::Execution);

impl Execution for Watched {
    fn next(&mut self, event: Event) -> Directive {
        let directive = self.0.next(event);
        self.look(directive)
    }

    fn trace(&self) -> Trace {
        self.0.trace()
    }
}

impl Watched {
    /// Passes a directive on, or ends the call before a person is asked or a byte is sent.
    fn look(&mut self, directive: Directive) -> Directive {
        let about_to_act = matches!(directive, Directive::Ask(_) | Directive::Request(_));
        match about_to_act.then(|| self.0.intent()).flatten().and_then(|intent| breach(&intent)) {
            Some(path) => self.0.refuse(&format!("it may change things, and {path:?} is outside of {FOLDER}")),
            None => directive,
        }
    }
}

/// Returns the first path that the tool must not get.
fn breach(intent: &Intent<'_>) -> Option<String> {
    if intent.annotations.read_only == Some(true) {
        return None;
    }
    first_outside(&json::parse(intent.arguments).ok()?)
}

fn first_outside(value: &Value<'_>) -> Option<String> {
    match value {
        Value::String(text) => leads_out(text).then(|| text.to_string()),
        Value::Array(items) => items.iter().find_map(first_outside),
        Value::Object(members) => members
            .iter()
            .find_map(|(key, value)| if leads_out(key) { Some(key.to_owned()) } else { first_outside(value) }),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Reports whether a text is a path out of the folder. It looks only at the text: a component sees no disk and follows
/// no link.
fn leads_out(text: &str) -> bool {
    let path = text.trim();
    let path = path.strip_prefix("file://").unwrap_or(path);
    let inside = path.strip_prefix(FOLDER).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    path.split('/').any(|part| part == "..") || path.starts_with('~') || (path.starts_with('/') && !inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_judged_by_its_letters() {
        for inside in ["/srv/agent", "/srv/agent/a b", "file:///srv/agent/x", "notes.txt", "a..b", "./a", "1/2", ""] {
            assert!(!leads_out(inside), "{inside}");
        }
        for outside in
            ["/", "/etc/passwd", "/srv/agents", "/srv/agent/../x", "..", "../x", "~/x", " /etc", "file:///etc"]
        {
            assert!(leads_out(outside), "{outside}");
        }
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        for arguments in [r#"{"a":{"b":[1,"/etc"]}}"#, r#"{"files":{"/etc/passwd":"x"}}"#, r#"["../x"]"#] {
            assert!(first_outside(&json::parse(arguments).unwrap()).is_some(), "{arguments}");
        }
        assert_eq!(first_outside(&json::parse(r#"{"a":["/srv/agent/x",null,1.5],"b":"c"}"#).unwrap()), None);
    }
}
