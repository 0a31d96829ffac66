//! The built-in patterns and groups, and how each finds its values.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};

use super::named_values::{NameRelation, NamedValue, is_long_word, looks_secret};
use super::{Span, kubernetes, pem, values};

/// One built-in pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The name in the configuration.
    pub name: &'static str,
    rules: &'static [Rule],
}

/// Words of which a text must contain one, in any case, for a rule to find anything; empty if the rule reads any text.
type Words = &'static [&'static str];

/// One way in which a pattern finds values.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// Values of at least this many bytes after a key; the expression ignores case and may match inside a name.
    Key(Words, &'static str, usize),
    /// Values recognized by their form: the group `value` of the expression, or the whole match, if the function
    /// agrees.
    Shape(Words, &'static str, fn(&str, Span) -> bool),
    /// Any PEM block.
    Pem,
    /// The PEM block of a private key.
    PrivatePem,
    /// The data of Kubernetes Secrets.
    KubernetesSecret,
}
use Rule::{Key, KubernetesSecret, Pem, PrivatePem, Shape};

/// All patterns, the most specific first: the first one that finds a value names its mask.
pub(super) const PATTERNS: &[Pattern] = &[
    Pattern { name: "kubernetes_secret", rules: &[KubernetesSecret] },
    Pattern {
        name: "private_key",
        rules: &[PrivatePem, Key(&["key"], "private[-_. ]?key|client[-_]?key[-_]?data", 16)],
    },
    Pattern { name: "certificate", rules: &[Pem] },
    Pattern {
        name: "certificate_authority_data",
        rules: &[Key(
            &["data", "bundle"],
            "(?:certificate[-_]?authority|client[-_]?certificate|client[-_]?key)[-_]?data|ca[-_]?bundle",
            16,
        )],
    },
    Pattern {
        name: "ssh_key",
        rules: &[Shape(
            &["ssh-", "ecdsa-", "sk-"],
            r"(?:ssh-(?:rsa|dss|ed25519|ed448)|ecdsa-sha2-nistp[0-9]+|sk-[a-z0-9-]+@openssh\.com)[ \t]+[A-Za-z0-9+/]{20,}={0,3}",
            any,
        )],
    },
    Pattern {
        name: "aws_secret_key",
        rules: &[Key(
            &["secret", "session"],
            "aws[-_. ]?(?:secret(?:[-_. ]?access)?[-_. ]?key|session[-_. ]?token)|secret[-_. ]?access[-_. ]?key",
            16,
        )],
    },
    Pattern {
        name: "aws_access_key",
        rules: &[
            Shape(
                &["akia", "asia", "abia", "acca", "aroa", "aida", "agpa", "anpa", "anva", "aipa"],
                r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA|ANVA|AIPA)[A-Z0-9]{12,}",
                any,
            ),
            Key(&["access"], "aws[-_. ]?access[-_. ]?key(?:[-_. ]?id)?|access[-_. ]?key[-_. ]?id", 16),
        ],
    },
    Pattern {
        name: "github_token",
        rules: &[
            Shape(
                &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
                r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
                any,
            ),
            Key(&["token", "pat"], "(?:github|gh)[-_. ]?(?:token|pat)", 16),
        ],
    },
    Pattern {
        name: "slack_token",
        rules: &[
            Shape(&["xox", "xapp-"], r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}", any),
            Shape(
                &["hooks.slack.com/"],
                r"hooks\.slack\.com/(?:services|workflows)/(?<value>[A-Za-z0-9/_-]{16,})",
                any,
            ),
            Key(&["slack"], "slack[-_. ]?(?:bot|app|user)?[-_. ]?token", 10),
        ],
    },
    Pattern {
        name: "secret_key",
        rules: &[Key(&["secret"], "secret(?:[-_. ]?access)?(?:[-_. ]?key)?(?:[-_]?base)?", 8)],
    },
    Pattern {
        name: "api_key",
        rules: &[
            Key(&["key"], "(?:api|app|access|account|auth|encryption|master|signing|subscription)[-_. ]?key", 16),
            Shape(
                &["sk-", "sk_", "rk_"],
                r"(?:\b|\\[nrt])(?<value>sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,})",
                any,
            ),
            Shape(&["aiza"], r"AIza[A-Za-z0-9_-]{35}", any),
        ],
    },
    Pattern {
        name: "token",
        rules: &[
            Key(
                &["token", "bearer", "jwt", "authorization"],
                "(?:page|continuation)[-_. ]?token|token|bearer|jwt|authorization",
                8,
            ),
            Shape(
                &["authorization"],
                r"(?i:authorization)[ \t]*[:=][ \t]*(?i:bearer|basic|token)[ \t]+(?<value>[A-Za-z0-9._~+/-]+=*)",
                any,
            ),
            Shape(&["eyj"], r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?", any),
            Shape(
                &["bearer", "basic"],
                r"(?i:bearer|basic)[ \t]+(?<value>[A-Za-z0-9._~+/-]{16,}=*)",
                looks_like_a_credential,
            ),
            Shape(
                &["glpat-", "npm_", "hf_"],
                r"glpat-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}",
                any,
            ),
        ],
    },
    Pattern {
        name: "password",
        rules: &[
            Key(&["pass", "pwd"], "passw(?:or)?d|passwort|pass[-_. ]?phrase|pwd|_pass", 6),
            Shape(&["://"], r#"://(?u:[^\s/:@"'`<>\\]*):(?<value>(?u:[^\s/"'`<>\\])+)@"#, any),
        ],
    },
    Pattern { name: "email", rules: &[Shape(&[], r"(?u:[\w.%+-])+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}", is_not_of_a_url)] },
    Pattern { name: "base64_secret", rules: &[Shape(&[], r"[A-Za-z0-9+/]{20,}={0,2}", looks_like_base64)] },
    Pattern {
        name: "base64_short",
        rules: &[Shape(&[], r#"[:=][ \t]*\\*["']?(?<value>[A-Za-z0-9+/]{2,20}={0,2})"#, looks_like_short_base64)],
    },
];

/// The groups except `all`, and their patterns.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("basic", &["api_key", "password"]),
    ("secrets", &["api_key", "password", "token", "private_key", "secret_key"]),
    ("security", &["api_key", "password", "token", "certificate", "certificate_authority_data", "email", "ssh_key"]),
    ("kubernetes", &["kubernetes_secret", "api_key", "password", "certificate_authority_data"]),
    ("cloud", &["aws_access_key", "aws_secret_key", "api_key", "token"]),
];

/// The group of all patterns.
pub(super) const ALL: &str = "all";

/// Returns the patterns of a group.
pub(super) fn group(name: &str) -> Option<Vec<&'static str>> {
    if name == ALL {
        return Some(super::pattern_names());
    }
    GROUPS.iter().find(|(group, _)| *group == name).map(|(_, members)| members.to_vec())
}

impl Pattern {
    /// Returns the replacement for a value.
    pub(super) fn replacement(&self) -> String {
        match self.name {
            "kubernetes_secret" => "[MASKED_SECRET_DATA]".to_owned(),
            name => format!("[MASKED_{}]", name.to_ascii_uppercase()),
        }
    }

    /// Compiles its rules; returns each with its words.
    pub(super) fn finders(&self) -> impl Iterator<Item = (Finder, Words)> {
        self.rules.iter().map(|rule| match *rule {
            Key(words, keys, least) => {
                (Finder::Key(built_in(&format!("(?i:{keys})[0-9]{{0,2}}{SEPARATOR}")), least), words)
            }
            Shape(words, shape, accepts) => {
                (Finder::Shape(built_in(shape), shape.contains("(?<value>"), accepts), words)
            }
            Pem => (Finder::Pem { private_only: false }, &[PEM_WORD] as Words),
            PrivatePem => (Finder::Pem { private_only: true }, &[PEM_WORD] as Words),
            KubernetesSecret => (Finder::KubernetesSecret, &["data"] as Words),
        })
    }
}

/// A word in the first line of each PEM block; the dashes alone are too common.
const PEM_WORD: &str = "begin ";

/// What separates a key from its value: a sign, the end of an element, `, "value":` after a variable's name, and after
/// a flag also a blank or the next item of a list.
const SEPARATOR: &str = concat!(
    r#"(?:(?:\\*["'`]\]?)?[ \t]*(?:===?|:=|=>|[:=])[ \t]*|>"#,
    r#"|\\*["']?,?(?:\s|\\+[nr])*\\*["']?value\\*["']?[ \t]*:[ \t]*"#,
    r#"|\\*["'],[ \t]*|[ \t]*\n[ \t]*-[ \t]+|[ \t]+)"#
);

fn built_in(pattern: &str) -> Regex {
    // Keys and tokens are ASCII, and ASCII matching is several times faster.
    RegexBuilder::new(pattern).unicode(false).build().expect("the built-in patterns compile, as a test shows")
}

/// A compiled rule.
#[derive(Debug)]
pub(super) enum Finder {
    /// A key before its value, and the minimum length of the value.
    Key(Regex, usize),
    /// A value recognized by its form, whether it is the group `value`, and a further check.
    Shape(Regex, bool, fn(&str, Span) -> bool),
    /// PEM blocks.
    Pem {
        /// Whether to find private keys only.
        private_only: bool,
    },
    /// The data of Kubernetes Secrets.
    KubernetesSecret,
}

impl Finder {
    /// Reports whether it recognizes values by their prefix alone.
    pub(super) fn is_unmistakable(&self) -> bool {
        matches!(self, Finder::Shape(_, false, _))
    }

    /// Reports those of the named values whose names match.
    pub(super) fn find_named(&self, text: &str, named: &[NamedValue], report: &mut dyn FnMut(Span)) {
        let Finder::Key(regex, least) = self else { return };
        // All cells of a column share one name.
        let mut keys: BTreeMap<usize, Option<String>> = BTreeMap::new();
        for NamedValue { name, value: span, bond } in named {
            let key = keys.entry(name.start).or_insert_with(|| {
                let probe = format!("{}=", &text[name.clone()]);
                let key = regex.find_iter(&probe).find(|key| key.end() == probe.len());
                key.map(|key| key.as_str().to_ascii_lowercase())
            });
            let Some(key) = key else { continue };
            let value = &text[span.start..span.end];
            let meant = match bond {
                NameRelation::Entry => true,
                NameRelation::Column => is_password(key) || looks_secret(value),
                NameRelation::Below => looks_secret(value) || is_password(key) && is_long_word(value),
                NameRelation::Loose => looks_secret(value),
            };
            if meant
                && values::unmasked_length(value) >= *least
                && !(is_word_or_reference(value) || is_cursor(key) || is_accessor(value))
            {
                report(*span);
            }
        }
    }

    /// Reports everything that it finds in a text.
    pub(super) fn find(&self, text: &str, report: &mut dyn FnMut(Span)) {
        match self {
            Finder::Key(regex, least) => find_keys(regex, *least, text, report),
            Finder::Shape(regex, has_value, accepts) => matches(regex, *has_value, text, |start, end| {
                let span = Span::new(start, end);
                if accepts(text, span) {
                    report(span);
                }
            }),
            Finder::Pem { private_only } => {
                pem::find(text, *private_only, &mut |start, end| report(Span::new(start, end)));
            }
            Finder::KubernetesSecret => kubernetes::find(text, report),
        }
    }
}

/// Reports each match of an expression, or its group `value`.
pub(super) fn matches(regex: &Regex, has_value: bool, text: &str, mut report: impl FnMut(usize, usize)) {
    if has_value {
        for found in regex.captures_iter(text) {
            if let Some(value) = found.name("value").or(found.get(0)) {
                report(value.start(), value.end());
            }
        }
    } else {
        regex.find_iter(text).for_each(|found| report(found.start(), found.end()));
    }
}

fn find_keys(regex: &Regex, least: usize, text: &str, report: &mut dyn FnMut(Span)) {
    let mut at = 0;
    while let Some(key) = regex.find_at(text, at) {
        at = key.end();
        let by_sign = key.as_str().trim_end_matches([' ', '\t']).ends_with([':', '=', '>']);
        let flag = is_flag(text, key.start());
        if !by_sign && !flag {
            continue;
        }
        let name = key.as_str().to_ascii_lowercase();
        let is_password = is_password(&name);
        let Some(mut span) = values::after(text, key.as_str(), at) else { continue };
        let in_quotes = text[at..span.start].ends_with(['"', '\'', '`']);
        let behind = text[span.end..].trim_start_matches('\\');
        let closed = !in_quotes || behind.starts_with(['"', '\'', '`']);
        // The next string in an object is a key, not the value of a flag at the end of the string before.
        if !by_sign && in_quotes && closed && behind[1..].trim_start().starts_with(':') {
            continue;
        }
        if !is_password {
            let credential = after_scheme(text, span.start);
            // A bare value ends at the blank after its scheme; the word after that is the credential.
            if !in_quotes && credential > span.start {
                span.end = values::after(text, "", credential).map_or(credential, |rest| rest.end);
            }
            span.start = credential.min(span.end);
        }
        let value = &text[span.start..span.end];
        // The value of a flag counts even if it is short; a placeholder such as `<TOKEN>` is already excluded.
        let least = if flag && !value.starts_with(['-', '$', '%']) { 1 } else { least };
        // `Token::Value(x)` is a name in code.
        let is_path_of_code = !is_password && value.starts_with(':');
        let is_code = !in_quotes && (value.ends_with(['(', '[']) || is_accessor(value) || is_path_of_code);
        let is_prose = !in_quotes && key.as_str().ends_with(": ") && is_prose(value, &text[span.end..]);
        let is_path = name.starts_with("pwd") && value.starts_with(['/', '~']);
        let is_cursor = is_cursor(&name);
        let is_secret = values::unmasked_length(value) >= least
            && !(is_word_or_reference(value) || is_path || is_cursor || is_code)
            && (is_password || in_quotes || !value.contains([' ', '\t']) && !is_prose);
        if is_secret {
            report(span);
        }
        // Quoted text that is no secret may still contain one, and so may the rest of the line after an unclosed quote;
        // a bare value has been read completely.
        if closed && (is_secret || !in_quotes) {
            at = at.max(span.end);
        }
    }
}

fn is_password(key: &str) -> bool {
    ["pass", "pwd", "_pass"].iter().any(|start| key.starts_with(start))
}

/// Reports whether a key is a page token, which is not a secret.
fn is_cursor(key: &str) -> bool {
    key.starts_with("page") || key.starts_with("continuation")
}

/// Reports whether a key belongs to a command-line flag such as `--db-password`.
fn is_flag(text: &str, key: usize) -> bool {
    let before = &text.as_bytes()[key.saturating_sub(MAX_FLAG)..key];
    let name = before.iter().rev().take_while(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)).count();
    before[before.len() - name..].starts_with(b"-")
}

/// The maximum length of a flag before its key.
const MAX_FLAG: usize = 48;

/// Returns the position of the credential, after `Bearer`, `Basic` or the like.
fn after_scheme(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    for scheme in ["bearer", "basic", "token", "digest", "apikey", "negotiate"] {
        if rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)) {
            let blanks = rest[scheme.len()..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            return if blanks > 0 { at + scheme.len() + blanks } else { at };
        }
    }
    at
}

/// Reports whether a value is code that reads the secret from elsewhere: `os.environ`, `process.env.TOKEN`,
/// `getPassword()`.
fn is_accessor(value: &str) -> bool {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let (path, call) =
        value.strip_suffix("()").or_else(|| value.strip_suffix("();")).map_or((value, false), |path| (path, true));
    let environment = ["os.environ", "process.env.", "env.", "ENV["].iter().any(|start| path.starts_with(start));
    (call || environment) && path.split('.').all(is_name)
}

/// Reports whether a value is a type, an absence, or a variable whose value is elsewhere.
fn is_word_or_reference(value: &str) -> bool {
    let word = value.to_ascii_lowercase();
    let inside = |open: &str, close: &str| {
        value
            .strip_prefix(open)
            .and_then(|rest| rest.strip_suffix(close))
            .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte)))
    };
    ["string", "integer", "boolean", "number", "object", "undefined", "required", "optional"].contains(&word.as_str())
        || inside("${", "}")
        || inside("$(", ")")
        || inside("{{", "}}")
}

/// Reports whether a value is a word followed by another one: `unexpected token: identifier expected`.
fn is_prose(value: &str, rest: &str) -> bool {
    let mut following = rest.chars().take(2);
    value.bytes().all(|byte| byte.is_ascii_alphabetic())
        && value.len() < 20
        && following.next() == Some(' ')
        && following.next().is_some_and(char::is_alphanumeric)
}

fn any(_: &str, _: Span) -> bool {
    true
}

/// Reports whether a text is long or contains signs that words lack: `basic authentication` is no credential.
fn looks_like_a_credential(text: &str, span: Span) -> bool {
    let value = &text[span.start..span.end];
    value.len() >= 24 || value.bytes().any(|byte| byte.is_ascii_digit() || b"=_~+".contains(&byte))
}

/// Reports whether this is an e-mail address, not the user of a URL such as `ssh://git@example.com`.
fn is_not_of_a_url(text: &str, span: Span) -> bool {
    let before = &text.as_bytes()[span.start.saturating_sub(MAX_USER)..span.start];
    let user = before.iter().rev().take_while(|byte| !byte.is_ascii_whitespace() && !b"/\"'<>".contains(byte)).count();
    // Images for dense screens have names such as `icon@2x.png`.
    let picture = text[span.start..span.end]
        .split_once('@')
        .is_some_and(|(_, host)| host.starts_with("2x.") || host.starts_with("3x."));
    !picture && !before[..before.len() - user].ends_with(b"//")
}

/// The maximum length of a user name in a URL.
const MAX_USER: usize = 128;

/// Reports whether a text is mixed like base64: not a hash, an identifier or a path.
fn looks_like_base64(text: &str, span: Span) -> bool {
    let value = &text.as_bytes()[span.start..span.end];
    let slashes = value.iter().filter(|byte| **byte == b'/').count();
    let padded = value.ends_with(b"=") && value.len().is_multiple_of(4);
    // In random base64, one character in 64 is a slash and one in six is a digit; paths and class names differ.
    let digits = value.iter().filter(|byte| byte.is_ascii_digit() || **byte == b'+').count();
    (padded || is_mixed(value) && digits + slashes >= 2) && slashes <= 1 + value.len() / 24
}

/// Reports whether a text is a whole value in groups of four characters, padded or mixed.
fn looks_like_short_base64(text: &str, span: Span) -> bool {
    let value = &text.as_bytes()[span.start..span.end];
    let ends =
        text.as_bytes().get(span.end).is_none_or(|byte| byte.is_ascii_whitespace() || b"\"'`,;&\\}])<".contains(byte));
    ends && value.len().is_multiple_of(4) && (value.ends_with(b"=") || is_mixed(value))
}

fn is_mixed(value: &[u8]) -> bool {
    value.iter().any(u8::is_ascii_uppercase)
        && value.iter().any(u8::is_ascii_lowercase)
        && value.iter().any(|byte| !byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use regex_syntax::ParserBuilder;
    use regex_syntax::hir::literal::Extractor;

    use super::*;

    #[test]
    fn every_pattern_compiles_and_every_group_has_known_patterns() {
        let names = super::super::pattern_names();
        assert!(PATTERNS.iter().all(|pattern| pattern.finders().count() > 0));
        assert!(GROUPS.iter().flat_map(|(_, members)| *members).all(|name| names.contains(name)));
        assert_eq!(group("all").unwrap().len(), 16);
        assert_eq!(group("none"), None);
    }

    /// Every match begins with one of the literals that are taken from the expression: each must hold a word.
    #[test]
    fn nothing_is_found_without_a_word_of_its_rule() {
        for rule in PATTERNS.iter().flat_map(|pattern| pattern.rules) {
            let (Key(words, expression, _) | Shape(words, expression, _)) = rule else { continue };
            let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
            let parsed = parser.parse(&expression.replace("(?i:", "(?:")).unwrap();
            let found = Extractor::new().limit_total(1_000).extract(&parsed);
            for literal in found.literals().filter(|_| !words.is_empty()).unwrap_or_default() {
                let literal = String::from_utf8_lossy(literal.as_bytes()).to_ascii_lowercase();
                assert!(words.iter().any(|word| literal.contains(word)), "{literal:?} of {expression}");
            }
            assert!(found.is_finite() || words.is_empty(), "a match of {expression} may begin with anything");
        }
    }

    /// Asks whether the first so many bytes of a text are accepted.
    fn check(accepts: fn(&str, Span) -> bool, rows: &[(&str, usize, bool)]) {
        for (text, length, expected) in rows {
            assert_eq!(accepts(text, Span::new(0, *length)), *expected, "the first {length} bytes of {text:?}");
        }
    }

    #[test]
    fn a_credential_is_long_or_has_a_sign_that_words_do_not_have() {
        check(
            looks_like_a_credential,
            &[
                ("authentication", 14, false),
                ("abcdefghijklmnopqrstuvw", 23, false),
                ("abcdefghijklmnopqrstuvwx", 24, true),
                ("abcdefghijklmnop1", 17, true),
                ("abcdefghijklmnop=", 17, true),
                ("abcdefghijklmnop_", 17, true),
            ],
        );
    }

    #[test]
    fn base64_is_padded_or_mixed_and_has_few_slashes() {
        check(
            looks_like_base64,
            &[
                ("abcdefghijklmnopqrs=", 20, true),
                ("Abcdefghijklmnopqrs12", 21, true),
                ("Abcdefghijklmnopqrst1", 21, false),
                ("abcdefghijklmnopqrs12", 21, false),
                ("Ab/defghijklmnopqrs1", 20, true),
                ("Ab/defghi/jklmnopqrs1", 21, false),
            ],
        );
        check(
            looks_like_short_base64,
            &[
                ("abcd", 4, false),
                ("abc=", 4, true),
                ("dGVzdA==", 8, true),
                ("aB3d", 4, true),
                ("aB3d rest", 4, true),
                ("aB3d\"", 4, true),
                ("aB3d:rest", 4, false),
                ("aB3de", 5, false),
            ],
        );
    }

    #[test]
    fn a_word_of_prose_is_short_and_another_word_follows_it() {
        let long = "a".repeat(20);
        for (value, rest, expected) in [
            ("identifier", " expected", true),
            ("identifier", "", false),
            ("identifier", "  expected", false),
            ("identifier", ", expected", false),
            ("identifier", " - expected", false),
            ("identifier2", " expected", false),
            (&long[..19], " expected", true),
            (&long, " expected", false),
        ] {
            assert_eq!(is_prose(value, rest), expected, "{value}{rest}");
        }
    }

    #[test]
    fn an_accessor_is_a_path_of_names_that_is_called_or_of_the_environment() {
        for (value, expected) in [
            ("os.environ", true),
            ("process.env.API_KEY", true),
            ("getPassword()", true),
            ("config.get();", true),
            ("_private()", true),
            ("1get()", false),
            ("get-it()", false),
            ("env.A-B", false),
            ("getPassword", false),
            ("()", false),
        ] {
            assert_eq!(is_accessor(value), expected, "{value}");
        }
    }

    #[test]
    fn a_credential_begins_behind_its_scheme_and_a_blank() {
        for (text, expected) in [("Bearer abc", 7), ("basic \tabc", 7), ("bearerabc", 0), ("abc", 0)] {
            assert_eq!(after_scheme(text, 0), expected, "{text}");
        }
    }

    #[test]
    fn the_user_of_a_url_is_no_address() {
        for (before, expected) in
            [("ssh://", false), ("ssh://x:", false), ("ssh://h ", true), ("to ", true), ("", true)]
        {
            let text = format!("{before}git@example.com");
            assert_eq!(is_not_of_a_url(&text, Span::new(before.len(), text.len())), expected, "{text}");
        }
    }
}
