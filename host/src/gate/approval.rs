//! What a person is told who is asked whether a call may be made.

use crate::config::secrets::Secrets;
use crate::logic::types::execution::Question;
use crate::visible;

/// A question in words. None of its parts has a line break or a character that cannot be seen, so that neither a caller nor a
/// server can write lines into it that look like ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalText {
    /// The tool, in quotes.
    pub tool: String,
    /// The server, in quotes.
    pub server: String,
    /// The rule that asks.
    pub rule: String,
    /// How many bytes of arguments will be sent.
    pub bytes: usize,
    /// The arguments as they will be sent: whole, and unmasked but for credentials that the configuration brought in.
    pub arguments: String,
}

impl ApprovalText {
    /// Puts a question into words. The masks are for what servers answer; here they would hide what is going to run.
    pub fn new(question: &Question, secrets: &Secrets) -> Self {
        let Question { tool, arguments, reason } = question;
        // Only credentials: a path or a host of the configuration may be what the person decides on.
        let credentials = secrets.credentials();
        let shown = |text: &str| visible::escape(&credentials.hide(text)).into_owned();
        ApprovalText {
            tool: shown(&format!("{:?}", tool.tool)),
            server: shown(&format!("{:?}", tool.server)),
            rule: shown(reason),
            bytes: arguments.len(),
            arguments: shown(arguments),
        }
    }

    /// The question in lines, of which the arguments are the last. They stand in a fence of Markdown, longer than any row of
    /// backticks in them, so that a client that renders it shows them as they are.
    pub fn in_lines(&self) -> String {
        let ApprovalText { tool, server, rule, bytes, arguments } = self;
        let longest = arguments.split(|letter| letter != '`').map(str::len).max().unwrap_or_default();
        let fence = "`".repeat((longest + 1).max(3));
        format!(
            "{APPROVAL}: may the tool {tool} of the server {server} be called?\nRule: {rule}\nArguments, {bytes} bytes, as \
             they will be sent:\n{fence}\n{arguments}\n{fence}"
        )
    }
}

/// How every question of ours begins, and no server's does.
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
        ApprovalText::new(&question, &secrets)
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
