//! Parses a text with placeholders, without expanding it.

use std::collections::BTreeSet;

/// A text with placeholders.
pub(super) struct TextTemplate<'t>(pub(super) Vec<TemplatePart<'t>>);

/// A part of a template.
pub(super) enum TemplatePart<'t> {
    /// Literal text.
    Text(&'t str),
    /// A placeholder.
    Value {
        /// Where the value comes from.
        source: ValueSource<'t>,
        /// The value if there is none.
        default: Option<TextTemplate<'t>>,
    },
}

/// The source of a placeholder's value.
pub(super) enum ValueSource<'t> {
    /// A variable.
    Variable(&'t str),
    /// The session id.
    Session,
    /// The content of a file.
    File(TextTemplate<'t>),
    /// The home folder.
    Home,
    /// The workspace folder.
    Workspace,
    /// The folder that toolgate was started in.
    StartFolder,
    /// The name of the workspace folder.
    WorkspaceName,
    /// The path separator.
    Separator,
    /// The answer to an input.
    Input(&'t str),
    /// The output of a command.
    Command(&'t str),
}

/// The reason why a text cannot be parsed.
pub(super) struct TemplateError {
    /// The byte offset of the placeholder.
    pub(super) at: usize,
    /// What is wrong, and how to fix it. It quotes only names, because the text may be a secret.
    pub(super) text: String,
}

/// Parses a template.
pub(super) fn parse(text: &str, bare_dollar: bool) -> Result<TextTemplate<'_>, TemplateError> {
    TemplateParser::new(text, bare_dollar).template(0)
}

/// Returns the variables that the text uses, as far as it can be parsed.
pub(super) fn variables(text: &str, bare_dollar: bool) -> BTreeSet<&str> {
    let mut parser = TemplateParser::new(text, bare_dollar);
    // The error is reported when the text is expanded.
    let _ = parser.template(0);
    parser.names
}

struct TemplateParser<'t> {
    text: &'t str,
    at: usize,
    bare_dollar: bool,
    names: BTreeSet<&'t str>,
}

impl<'t> TemplateParser<'t> {
    fn new(text: &'t str, bare_dollar: bool) -> Self {
        TemplateParser { text, at: 0, bare_dollar, names: BTreeSet::new() }
    }

    /// Parses up to the end of the text or, within braces, up to the closing brace.
    fn template(&mut self, depth: usize) -> Result<TextTemplate<'t>, TemplateError> {
        let mut parts = Vec::new();
        let mut plain = self.at;
        while let Some(next) = self.rest().chars().next() {
            if depth > 0 && next == '}' {
                break;
            }
            let start = self.at;
            match self.part(depth)? {
                None => self.at += next.len_utf8(),
                Some(part) => {
                    parts.push(TemplatePart::Text(&self.text[plain..start]));
                    parts.push(part);
                    plain = self.at;
                }
            }
        }
        parts.push(TemplatePart::Text(&self.text[plain..self.at]));
        Ok(TextTemplate(parts))
    }

    /// Parses the placeholder or escape that begins here; returns `None` if the character is literal.
    fn part(&mut self, depth: usize) -> Result<Option<TemplatePart<'t>>, TemplateError> {
        let rest = self.rest();
        if rest.starts_with("$${") {
            self.at += 3;
            return Ok(Some(TemplatePart::Text("${")));
        }
        if rest.starts_with("${") {
            return self.braces(depth).map(Some);
        }
        if rest.starts_with("{{") {
            return self.dotted().map(Some);
        }
        Ok(self.word().map(|name| TemplatePart::Value { source: ValueSource::Variable(name), default: None }))
    }

    /// Parses PowerShell's `$env:VAR` if it is a word of its own, and `$VAR` if the file may use that.
    fn word(&mut self) -> Option<&'t str> {
        let rest = self.rest().strip_prefix('$')?;
        let apart = !self.text[..self.at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        let shell = apart && rest.get(..ENV.len()).is_some_and(|start| start.eq_ignore_ascii_case(ENV));
        let skipped = if shell { ENV.len() } else { 0 };
        let name = rest[skipped..].split(|c| !in_name(c)).next().unwrap_or_default();
        if !is_name(name) || !(shell || self.bare_dollar) {
            return None;
        }
        self.at += 1 + skipped + name.len();
        self.names.insert(name);
        Some(name)
    }

    /// Parses `${…}`.
    fn braces(&mut self, depth: usize) -> Result<TemplatePart<'t>, TemplateError> {
        let start = self.at;
        self.at += 2;
        if self.eat("/}") {
            return Ok(TemplatePart::Value { source: ValueSource::Separator, default: None });
        }
        let name = self.take(in_name);
        let source = if !self.rest().starts_with(":-") && self.eat(":") {
            match name {
                "env" => {
                    // `ProgramFiles(x86)` is a valid name too.
                    let name = self.take(|c| in_name(c) || "().".contains(c));
                    self.variable(start, name)?
                }
                "input" => ValueSource::Input(self.take(|c| c != '}' && c != ':')),
                "file" => ValueSource::File(self.nested(start, depth)?),
                "cmd" => ValueSource::Command(self.command(start)?),
                _ => return Err(unknown(start, name)),
            }
        } else {
            match name {
                "userHome" => ValueSource::Home,
                "workspaceFolder" => ValueSource::Workspace,
                "cwd" => ValueSource::StartFolder,
                "workspaceFolderBasename" => ValueSource::WorkspaceName,
                "pathSeparator" => ValueSource::Separator,
                _ => self.variable(start, name)?,
            }
        };
        let default = if self.eat(":-") { Some(self.nested(start, depth)?) } else { None };
        match (self.eat("}"), self.rest()) {
            (true, _) => Ok(TemplatePart::Value { source, default }),
            (false, "") => Err(unclosed(start)),
            (false, _) => Err(no_name(start)),
        }
    }

    fn variable(&mut self, start: usize, name: &'t str) -> Result<ValueSource<'t>, TemplateError> {
        if !is_name(name) {
            return Err(if self.rest().is_empty() { unclosed(start) } else { no_name(start) });
        }
        self.names.insert(name);
        Ok(ValueSource::Variable(name))
    }

    fn nested(&mut self, start: usize, depth: usize) -> Result<TextTemplate<'t>, TemplateError> {
        if depth == MAX_DEPTH {
            return Err(TemplateError { at: start, text: format!("\"${{\" is nested more than {MAX_DEPTH} deep") });
        }
        self.template(depth + 1)
    }

    /// Parses a command up to its closing brace; the shell parses the rest, so only braces are counted.
    fn command(&mut self, start: usize) -> Result<&'t str, TemplateError> {
        let rest = self.rest();
        let mut open = 1;
        for (at, c) in rest.char_indices() {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                _ => {}
            }
            if open == 0 {
                let command = &rest[..at];
                self.at += at;
                self.names.extend(
                    command
                        .split('$')
                        .skip(1)
                        .map(|word| word.strip_prefix('{').unwrap_or(word))
                        .filter_map(leading_name),
                );
                return Ok(command);
            }
        }
        Err(unclosed(start))
    }

    /// Parses `{{.VAR}}`, and `{{'{{'}}` for a literal `{{` as in Go templates.
    fn dotted(&mut self) -> Result<TemplatePart<'t>, TemplateError> {
        let start = self.at;
        let malformed = |text: &str| TemplateError {
            at: start,
            text: format!("{text}; for a plain \"{{{{\" write {{{{'{{{{'}}}}"),
        };
        let rest = &self.rest()[2..];
        let Some(end) = rest.find("}}") else {
            return Err(malformed("\"{{\" has no closing \"}}\""));
        };
        self.at += 2 + end + 2;
        let inner = rest[..end].trim();
        if matches!(inner, "'{{'" | "\"{{\"" | "`{{`") {
            return Ok(TemplatePart::Text("{{"));
        }
        let source = match inner.strip_prefix('.') {
            Some("SESSION_ID") => ValueSource::Session,
            Some(name) if is_name(name) && name.chars().all(in_name) => {
                self.names.insert(name);
                ValueSource::Variable(name)
            }
            _ => return Err(malformed("between \"{{\" and \"}}\", write a dot and one name, as in {{.TOKEN}}")),
        };
        Ok(TemplatePart::Value { source, default: None })
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn eat(&mut self, what: &str) -> bool {
        let found = self.rest().starts_with(what);
        self.at += if found { what.len() } else { 0 };
        found
    }

    fn take(&mut self, allowed: impl Fn(char) -> bool) -> &'t str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !allowed(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }
}

fn unclosed(at: usize) -> TemplateError {
    TemplateError { at, text: format!("\"${{\" has no closing \"}}\"; {PLAIN}") }
}

fn no_name(at: usize) -> TemplateError {
    let text = "after \"${\", write one name and then \"}\" or \":-\", as in ${TOKEN} or ${TOKEN:-default}";
    TemplateError { at, text: format!("{text}; {PLAIN}") }
}

fn unknown(at: usize, name: &str) -> TemplateError {
    let known = "${VAR}, ${VAR:-default}, ${env:VAR}, ${file:PATH}, ${input:ID}, ${cmd:COMMAND}, ${userHome}, ${workspaceFolder}";
    TemplateError { at, text: format!("\"${{{name}:\" is not known; there are: {known}; {PLAIN}") }
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Reports whether the text begins like a name; `{{.VAR}}` also checks the rest.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

fn leading_name(text: &str) -> Option<&str> {
    text.split(|c| !in_name(c)).next().filter(|name| is_name(name))
}

const ENV: &str = "env:";
const PLAIN: &str = "for a plain \"${\" write \"$${\"";
/// Deeper than anyone writes, and far from exhausting the stack.
const MAX_DEPTH: usize = 8;
