//! The built-in patterns and groups as data, which the build script reads too: it compiles the expressions.

/// One built-in pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// The name in the configuration.
    pub name: &'static str,
    /// The ways in which it finds values.
    pub rules: &'static [MaskRule],
}

/// One way in which a pattern finds values.
#[derive(Clone, Copy, Debug)]
pub(super) enum MaskRule {
    /// Values of at least this many bytes after a key; the expression ignores case and may match inside a name.
    Key(&'static str, usize),
    /// Values recognized by their form.
    Shape(Shape),
    /// Any PEM block.
    Pem,
    /// The PEM block of a private key.
    PrivatePem,
    /// The data of Kubernetes Secrets.
    KubernetesSecret,
    /// The password in a URL.
    UrlPassword,
    /// JSON Web Tokens.
    Jwt,
    /// E-mail addresses.
    Email,
    /// Long base64.
    Base64,
    /// Short base64 after a colon or an equals sign.
    ShortBase64,
}
use MaskRule::{Base64, Email, Jwt, Key, KubernetesSecret, Pem, PrivatePem, ShortBase64, UrlPassword};

/// The form of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// What precedes the value, as an expression; empty if the value is recognized alone.
    pub before: &'static str,
    /// The value, as an expression.
    pub value: &'static str,
    /// What else must be true.
    pub condition: Condition,
    /// Whether the value cannot be mistaken for anything else, so that every group has it masked.
    pub in_all_groups: bool,
}

/// What must be true of a value besides its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    /// The value does not begin inside a word.
    BeginsWord,
    /// The value is long or contains signs that words lack: `basic authentication` has no credential.
    LooksLikeCredential,
}

/// A value that is recognized alone.
const fn shape(value: &'static str) -> MaskRule {
    after("", value, Condition::Always)
}

/// A value that is recognized after something else, or by another condition.
const fn after(before: &'static str, value: &'static str, condition: Condition) -> MaskRule {
    MaskRule::Shape(Shape { before, value, condition, in_all_groups: false })
}

/// A token that cannot be mistaken for anything else: every group has it masked.
const fn token(before: &'static str, value: &'static str, condition: Condition) -> MaskRule {
    MaskRule::Shape(Shape { before, value, condition, in_all_groups: true })
}

/// All patterns, the most specific first: the first one that finds a value names its mask.
pub(super) const PATTERNS: &[Pattern] = &[
    Pattern { name: "kubernetes_secret", rules: &[KubernetesSecret] },
    Pattern { name: "private_key", rules: &[PrivatePem, Key("private[-_. ]?key|client[-_]?key[-_]?data", 16)] },
    Pattern { name: "certificate", rules: &[Pem] },
    Pattern {
        name: "certificate_authority_data",
        rules: &[Key("(?:certificate[-_]?authority|client[-_]?certificate|client[-_]?key)[-_]?data|ca[-_]?bundle", 16)],
    },
    Pattern {
        name: "ssh_key",
        // The type of a hardware key has a limit: without one, `sk-sk-sk-…` would be read again from each `sk-`.
        rules: &[shape(concat!(
            r"(?:ssh-(?:rsa|dss|ed25519|ed448)|ecdsa-sha2-nistp[0-9]+|sk-[a-z0-9-]{1,48}@openssh\.com)",
            r"[ \t]+[A-Za-z0-9+/]{20,}={0,3}"
        ))],
    },
    Pattern {
        name: "aws_secret_key",
        rules: &[Key(
            "aws[-_. ]?(?:secret(?:[-_. ]?access)?[-_. ]?key|session[-_. ]?token)|secret[-_. ]?access[-_. ]?key",
            16,
        )],
    },
    Pattern {
        name: "aws_access_key",
        rules: &[
            token("", r"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA|AGPA|ANPA|ANVA|AIPA)[A-Z0-9]{12,}", Condition::Always),
            Key("aws[-_. ]?access[-_. ]?key(?:[-_. ]?id)?|access[-_. ]?key[-_. ]?id", 16),
        ],
    },
    Pattern {
        name: "github_token",
        rules: &[
            token("", r"gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}", Condition::Always),
            Key("(?:github|gh)[-_. ]?(?:token|pat)", 16),
        ],
    },
    Pattern {
        name: "slack_token",
        rules: &[
            token("", r"xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}", Condition::Always),
            token(r"hooks\.slack\.com/(?:services|workflows)/", r"[A-Za-z0-9/_-]{16,}", Condition::Always),
            Key("slack[-_. ]?(?:bot|app|user)?[-_. ]?token", 10),
        ],
    },
    Pattern { name: "secret_key", rules: &[Key("secret(?:[-_. ]?access)?(?:[-_. ]?key)?(?:[-_]?base)?", 8)] },
    Pattern {
        name: "api_key",
        rules: &[
            Key("(?:api|app|access|account|auth|encryption|master|signing|subscription)[-_. ]?key", 16),
            token("", r"sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}", Condition::BeginsWord),
            token("", r"AIza[A-Za-z0-9_-]{35}", Condition::Always),
        ],
    },
    Pattern {
        name: "token",
        rules: &[
            Key("(?:page|continuation)[-_. ]?token|token|bearer|jwt|authorization", 8),
            after(
                r"(?i:authorization)[ \t]*[:=][ \t]*(?i:bearer|basic|token)[ \t]+",
                r"[A-Za-z0-9._~+/-]+=*",
                Condition::Always,
            ),
            Jwt,
            after(r"(?i:bearer|basic)[ \t]+", r"[A-Za-z0-9._~+/-]{16,}=*", Condition::LooksLikeCredential),
            token("", r"glpat-[A-Za-z0-9_-]{16,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,}", Condition::Always),
        ],
    },
    Pattern { name: "password", rules: &[Key("passw(?:or)?d|passwort|pass[-_. ]?phrase|pwd|_pass", 6), UrlPassword] },
    Pattern { name: "email", rules: &[Email] },
    Pattern { name: "base64_secret", rules: &[Base64] },
    Pattern { name: "base64_short", rules: &[ShortBase64] },
    // What it takes out is no value that a rule could find.
    Pattern { name: "hidden", rules: &[] },
];

/// The groups except `all`, and their patterns. Each but `hidden` also has the unmistakable tokens of all patterns.
pub(super) const GROUPS: &[(&str, &[&str])] = &[
    ("basic", &["hidden", "api_key", "password"]),
    ("secrets", &["hidden", "api_key", "password", "token", "private_key", "secret_key"]),
    (
        "security",
        &["hidden", "api_key", "password", "token", "certificate", "certificate_authority_data", "email", "ssh_key"],
    ),
    ("kubernetes", &["hidden", "kubernetes_secret", "api_key", "password", "certificate_authority_data"]),
    ("cloud", &["aws_access_key", "aws_secret_key", "api_key", "token"]),
    ("hidden", &["hidden"]),
];

/// What separates a key from its value: a sign, the end of an element, `, "value":` after a variable's name, and after
/// a flag also a blank or the next item of a list.
const SEPARATOR: &str = concat!(
    r#"(?:(?:\\*["'`]\]?)?[ \t]*(?:===?|:=|=>|[:=])[ \t]*|>"#,
    r#"|\\*["']?,?(?:\s|\\+[nr])*\\*["']?value\\*["']?[ \t]*:[ \t]*"#,
    r#"|\\*["'],[ \t]*|[ \t]*\n[ \t]*-[ \t]+|[ \t]+)"#
);

/// Words that the name of a secret contains.
pub(super) const NAME_WORDS: &[&str] =
    &["pass", "pwd", "pat", "secret", "token", "key", "bearer", "bundle", "jwt", "authorization", "data"];

impl MaskRule {
    /// Returns the expressions that the rule applies one after the other; none if it is not made of expressions.
    pub(super) fn expressions(&self) -> Vec<String> {
        match self {
            Key(keys, _) => vec![format!("(?i:{keys})[0-9]{{0,2}}{SEPARATOR}")],
            MaskRule::Shape(Shape { before: "", value, .. }) => vec![value.to_string()],
            MaskRule::Shape(Shape { before, value, .. }) => vec![before.to_string(), value.to_string()],
            _ => Vec::new(),
        }
    }

    /// Reports whether every group has its values masked.
    pub(super) fn is_in_all_groups(&self) -> bool {
        matches!(self, MaskRule::Shape(shape) if shape.in_all_groups)
    }

    /// Returns a word in lower case without which a rule that is not made of expressions finds nothing.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Pem | PrivatePem => Some("begin "),
            KubernetesSecret => Some("data"),
            UrlPassword => Some("://"),
            Jwt => Some("eyj"),
            Key(..) | MaskRule::Shape(_) | Email | Base64 | ShortBase64 => None,
        }
    }
}
