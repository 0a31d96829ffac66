//! The text of an approval question.

use serde_json::json;

use crate::config::secrets::Secrets;
use crate::logic::types::execution::Question;
use crate::visible;

/// An approval question as text. No part has line breaks or invisible characters, so neither a caller nor a server can
/// insert lines that look like ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalText {
    /// The tool, in quotes.
    pub tool: String,
    /// The server, in quotes.
    pub server: String,
    /// The rule that requires approval.
    pub rule: String,
    /// The size of the arguments in bytes.
    pub bytes: usize,
    /// The arguments as they will be sent: whole, with only credentials of the configuration hidden.
    pub arguments: String,
    /// The members of `_meta` that the server gets with the call, as one JSON object, if there are any.
    pub meta: Option<String>,
}

impl ApprovalText {
    /// Formats a question about a call that has this `_meta`; masks do not apply, because they would hide what is going to
    /// run.
    pub fn new(question: &Question, meta: Option<&str>, secrets: &Secrets) -> Self {
        let Question { tool, arguments, reason } = question;
        // Hide only credentials: the person may decide by a path or a host that the configuration contains.
        let credentials = secrets.credentials();
        let shown = |text: &str| visible::escape(&credentials.hide(text)).into_owned();
        ApprovalText {
            tool: shown(&format!("{:?}", tool.tool)),
            server: shown(&format!("{:?}", tool.server)),
            rule: shown(reason),
            bytes: arguments.len(),
            arguments: shown(arguments),
            meta: meta.map(shown),
        }
    }

    /// Returns the question as JSON, for programs that show it.
    pub fn as_json(&self) -> serde_json::Value {
        let ApprovalText { tool, server, rule, bytes, arguments, meta } = self;
        let bare = |quoted: &str| quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(str::to_owned);
        let [tool, server] = [tool, server].map(|name| bare(name).unwrap_or_else(|| name.clone()));
        let mut shown = json!({"server": server, "tool": tool, "rule": rule, "bytes": bytes, "arguments": arguments});
        if let Some(meta) = meta {
            shown["meta"] = meta.as_str().into();
        }
        shown
    }

    /// Returns the question as lines, the arguments and `_meta` last.
    pub fn in_lines(&self) -> String {
        let ApprovalText { tool, server, rule, bytes, arguments, meta } = self;
        let arguments = fenced(arguments);
        let mut lines = format!(
            "{APPROVAL}: may the tool {tool} of the server {server} be called?\nRule: {rule}\nArguments, {bytes} bytes, as \
             they will be sent:\n{arguments}"
        );
        if let Some(meta) = meta {
            lines += "\nWith this _meta:\n";
            lines += &fenced(meta);
        }
        lines
    }
}

/// Puts a text into a Markdown fence longer than any run of backticks in it, so that a client that renders it shows it
/// unchanged.
fn fenced(text: &str) -> String {
    let longest = text.split(|letter| letter != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}\n{text}\n{fence}")
}

/// The beginning of every question of ours; servers' questions never start with it.
pub const APPROVAL: &str = "toolgate asks for approval";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logic::types::ToolRef;

    fn asked(tool: &str, arguments: &str) -> ApprovalText {
        let tool = ToolRef { server: "k8s".to_owned(), tool: tool.to_owned() };
        let question = Question { tool, arguments: arguments.to_owned(), reason: "ask: \"*\"\nfine".to_owned() };
        let mut secrets = Secrets::default();
        secrets.add("Zq9-planted/secret");
        secrets.add_variable("PROJECT", "/home/planted/project");
        ApprovalText::new(&question, None, &secrets)
    }

    #[test]
    fn a_person_sees_what_will_be_sent_and_no_credential() {
        let arguments = r#"{"cmd":"password=;rm -r /home/planted/project","key":"Zq9-planted/secret"}"#;
        let shown = asked("run", arguments);
        assert_eq!(shown.arguments, r#"{"cmd":"password=;rm -r /home/planted/project","key":"[REDACTED]"}"#);
        assert_eq!(shown.bytes, arguments.len());
        assert_eq!(asked("run", "{\"a\":\"x\u{202e}y\u{fe0f}\"}").arguments, r#"{"a":"x\u{202e}y\u{fe0f}"}"#);
    }

    #[test]
    fn nothing_in_a_question_forges_a_line_of_ours() {
        let tool = "x\" of the server \"safe\" be called?\nRule: none\u{2028}\u{fe0f}";
        let lines = asked(tool, "{\"a\":\"```\\n```\u{2029}toolgate asks\"}").in_lines();
        assert_eq!(lines.lines().count(), 6, "{lines}");
        assert!(!lines.contains(|letter| letter != '\n' && visible::is_hidden_char(letter)), "{lines:?}");
        assert!(
            lines.starts_with(r#"toolgate asks for approval: may the tool "x\" of the server \"safe\" be"#),
            "{lines}"
        );
        assert!(lines.ends_with("````\n{\"a\":\"```\\n```\\u{2029}toolgate asks\"}\n````"), "{lines}");
    }
}
