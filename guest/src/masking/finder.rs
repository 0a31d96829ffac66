//! A built-in rule, ready to find values.

use std::ops::Range;

use super::automata::expressions;
use super::keys::KeyRule;
use super::named_values::NameRelation;
use super::rules::MaskRule;
use super::shapes::{self, ShapeRule};
use super::{Span, kubernetes, pem};

/// A built-in rule, ready to find values.
#[derive(Debug)]
pub(super) enum Finder {
    /// A value after its key.
    Key(KeyRule),
    /// A value recognized by its form.
    Shape(ShapeRule),
    /// A rule that reads the whole text, if that contains a word of the rule.
    Scan(MaskRule),
}

impl Finder {
    /// Makes a rule ready, given its number in the table.
    pub(super) fn new(rule: &MaskRule, number: usize) -> Finder {
        match rule {
            MaskRule::Key(_, least) => Finder::Key(KeyRule::new(&expressions(number)[0], *least)),
            MaskRule::Shape(shape) => Finder::Shape(ShapeRule::new(expressions(number), shape.condition)),
            other => Finder::Scan(*other),
        }
    }

    /// Reports whether it recognizes values by their prefix alone, even if they are split.
    pub(super) fn is_unmistakable(&self) -> bool {
        match self {
            Finder::Shape(shape) => shape.is_unmistakable(),
            Finder::Scan(rule) => matches!(rule, MaskRule::Jwt),
            Finder::Key(_) => false,
        }
    }

    /// Reports what begins at one of its words; returns where to look next, or `None` if nothing begins here.
    pub(super) fn look(&self, text: &str, at: usize, report: &mut dyn FnMut(Span)) -> Option<usize> {
        match self {
            Finder::Key(key) => key.look(text, at, report),
            Finder::Shape(shape) => shape.look(text, at, report),
            Finder::Scan(_) => None,
        }
    }

    /// Reports whether a value that is not beside its key, which is in lower case, is a secret.
    pub(super) fn is_secret(&self, key: &str, value: &str, relation: NameRelation) -> bool {
        matches!(self, Finder::Key(rule) if rule.is_secret(key, value, relation))
    }

    /// Reports whether it reads the whole text, whatever words that contains.
    pub(super) fn reads_any_text(&self) -> bool {
        matches!(self, Finder::Scan(rule) if rule.hint().is_none())
    }

    /// Reads these parts of a text, if it does not look at the places of its words only. What has a structure is read
    /// whole.
    pub(super) fn scan(&self, text: &str, parts: &[Range<usize>], report: &mut dyn FnMut(Span)) {
        let Finder::Scan(rule) = self else { return };
        let find: fn(&str, &mut dyn FnMut(Span)) = match rule {
            MaskRule::Key(..) | MaskRule::Shape(_) => return,
            MaskRule::Pem => return pem::find(text, report),
            MaskRule::PrivatePem => return pem::find_private_keys(text, report),
            MaskRule::KubernetesSecret => return kubernetes::find(text, report),
            MaskRule::UrlPassword => shapes::find_url_passwords,
            MaskRule::Jwt => shapes::find_jwts,
            MaskRule::Email => shapes::find_emails,
            MaskRule::Base64 => shapes::find_base64,
            MaskRule::ShortBase64 => shapes::find_short_base64,
        };
        for part in parts {
            let from = part.start;
            find(&text[part.clone()], &mut |Span { start, end, .. }| report(Span::new(from + start, from + end)));
        }
    }
}
