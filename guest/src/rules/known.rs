//! Which values an agent knows: those that it has learned, and those that the operator lists.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::values::{Form, forms};

/// The digest of a value that an agent knows: the first half of the SHA-256 of its kind and its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KnownValue(pub u64, pub u64);

impl KnownValue {
    /// Returns the digests of a whole text, one for each way in which it is compared.
    pub(super) fn all_of(text: &str) -> impl Iterator<Item = Self> {
        forms(text).into_iter().map(|form| KnownValue::of(&form))
    }

    pub(super) fn of(form: &Form) -> Self {
        let (kind, text) = form.parts();
        let digest = Sha256::new().chain_update(kind).chain_update([0]).chain_update(text).finalize();
        let half = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        KnownValue(half(&digest[..8]), half(&digest[8..16]))
    }
}

/// The values that an operator lists.
#[derive(Debug, Default)]
pub(super) struct KnownList {
    whole: BTreeSet<KnownValue>,
    /// Domains in lower case, with their `@`.
    domains: BTreeSet<String>,
    /// URLs up to a slash.
    prefixes: Vec<String>,
}

impl KnownList {
    /// Reads a list: `@example.com` is a domain, `https://example.com/` is all below it, and all else is a whole value.
    pub(super) fn new(listed: &[String]) -> Self {
        let mut list = KnownList::default();
        for value in listed {
            let is_prefix = value.trim_end().ends_with('/') && !value.contains(['?', '#']);
            let url = forms(value).into_iter().find_map(|form| match form {
                Form::Url(url) if is_prefix => Some(url),
                _ => None,
            });
            match (value.strip_prefix('@'), url) {
                (Some(domain), _) if !domain.contains('@') => drop(list.domains.insert(value.to_lowercase())),
                (_, Some(url)) => list.prefixes.push(url),
                _ => list.whole.extend(forms(value).iter().map(KnownValue::of)),
            }
        }
        list
    }

    /// Reports whether a text is one of the whole values, and not only one of a listed domain or below a listed URL.
    pub(super) fn has_whole(&self, text: &str) -> bool {
        KnownValue::all_of(text).any(|value| self.whole.contains(&value))
    }

    /// Reports whether a whole text is listed.
    pub(super) fn has(&self, text: &str) -> bool {
        forms(text).iter().any(|form| match form {
            Form::Mail(mail) if mail.rfind('@').is_some_and(|at| self.domains.contains(&mail[at..])) => true,
            Form::Url(url) if self.prefixes.iter().any(|prefix| url.starts_with(prefix)) => true,
            form => self.whole.contains(&KnownValue::of(form)),
        })
    }
}
