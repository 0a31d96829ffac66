//! The data of Kubernetes Secrets anywhere in a text, even if the text is cut off.
//!
//! This is not a parser: it scans JSON and YAML for objects, and each object keeps its `data` until its kind is known,
//! which may come later.

use memchr::memmem;

use super::Span;

mod block;
mod flow;

/// Reports the values under `data` and `stringData` of each Secret.
pub(super) fn find(text: &str, report: &mut dyn FnMut(Span)) {
    if has_data(text.as_bytes()) && may_have_secret(text) {
        flow::scan(text).into_iter().chain(block::scan(text)).for_each(report);
    }
}

/// Reports whether a text may say that something is a Secret: by its kind, by its type, or by the version of an object
/// that breaks off before its kind.
fn may_have_secret(text: &str) -> bool {
    let bytes = text.as_bytes();
    let contains = |word: &str| memmem::find(bytes, word.as_bytes()).is_some();
    let has_value = |word: &str| {
        let begins = |at: &usize| bytes[..*at].last().is_none_or(|byte| is_blank(byte) || b"{}[],:\"'".contains(byte));
        let ends = |at: usize| {
            let after = bytes[at + word.len()..].iter().find(|byte| matches!(byte, b'\n' | 0) || !is_blank(byte));
            word.ends_with('/') || after.is_none_or(|byte| b"\n{}[],\"'#\0".contains(byte))
        };
        memmem::find_iter(bytes, word).filter(begins).any(ends)
    };
    if !["kind", "apiVersion", "type"].into_iter().any(contains) {
        return false;
    }
    // The kind may break off, too: on the last line, or in the next few characters.
    let is_last = |rest: &str| !rest.contains('\n') || rest.chars().filter(|c| !c.is_whitespace()).nth(64).is_none();
    ["Secret", "SecretList", "Opaque", "kubernetes.io/", "v1"].into_iter().any(has_value)
        || memmem::rfind(bytes, b"kind").is_some_and(|at| is_last(&text[at..]))
}

/// Reports whether a byte is blank or part of a blank that is not ASCII.
fn is_blank(byte: &u8) -> bool {
    *byte <= b' ' || !byte.is_ascii()
}

/// Reports whether a text may have a member `data`, `stringData` or `string_data`; most that say `data` have none.
fn has_data(text: &[u8]) -> bool {
    memmem::find_iter(text, "ata").any(|at| {
        let is_member = |start: &&str| {
            let before = text[..at].strip_suffix(start.as_bytes());
            before.is_some_and(|before| before.last().is_none_or(|byte| is_blank(byte) || b",{}[]:\"'".contains(byte)))
        };
        let after = text[at + "ata".len()..].iter().find(|byte| !is_blank(byte) && !b"\"'".contains(byte));
        after == Some(&b':') && ["d", "stringD", "string_d"].iter().any(is_member)
    })
}

/// The open objects at one position of a text, outermost first.
#[derive(Debug, Default)]
struct Objects {
    open: Vec<Object>,
    /// Values under `data` of an object whose kind is not known yet.
    waiting: Vec<Waiting>,
    /// The values of Secrets.
    found: Vec<Span>,
}

/// An object, or a list in JSON.
#[derive(Debug, Default)]
struct Object {
    is_list: bool,
    /// Where the object begins, if it is in braces.
    start: Option<usize>,
    /// The current member.
    member: Member,
    kind: Kind,
    /// Whether its `type` is one that Secrets have.
    secret_type: bool,
    /// Whether its `apiVersion`, if it has one, is that of Secrets.
    core: Option<bool>,
    /// Whether it is the `data` of the object around it.
    is_data: bool,
    /// How many values were waiting when it began.
    waiting: usize,
}

#[derive(Debug)]
struct Waiting {
    span: Span,
    /// The index of the object whose kind decides.
    owner: usize,
    /// Whether it was already passed up from a list item to the list.
    handed_up: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Unknown,
    Secret,
    SecretList,
    Other,
}

/// The members of an object that matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Member {
    #[default]
    None,
    Kind,
    ApiVersion,
    Type,
    Data,
    Items,
    Other,
}

impl Member {
    fn named(key: &str) -> Member {
        match key {
            "kind" => Member::Kind,
            "apiVersion" | "api_version" => Member::ApiVersion,
            "type" => Member::Type,
            "data" | "stringData" | "string_data" => Member::Data,
            "items" => Member::Items,
            _ => Member::Other,
        }
    }
}

/// How an object ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// At its closing bracket or its last line.
    Closed,
    /// Where the text breaks off.
    Cut,
}

impl Objects {
    /// Begins an object or list as the value of the current member.
    fn begin(&mut self, start: Option<usize>, is_list: bool) {
        let is_data = !is_list && self.open.last().is_some_and(|parent| parent.member == Member::Data);
        self.open.push(Object { is_list, start, is_data, waiting: self.waiting.len(), ..Object::default() });
    }

    /// Records a scalar value of the current member; `whole` is false if the text breaks off inside it.
    fn value(&mut self, value: &str, span: Span, whole: bool) {
        let Some(object) = self.open.last_mut() else { return };
        match object.member {
            // Once a Secret, always a Secret: later members may be forged or belong to the next object.
            Member::Kind if !matches!(object.kind, Kind::Secret | Kind::SecretList) => {
                object.kind = match value {
                    "Secret" => Kind::Secret,
                    "SecretList" => Kind::SecretList,
                    cut if !whole && "Secret".starts_with(cut) => Kind::Secret,
                    "" => Kind::Unknown,
                    _ => Kind::Other,
                }
            }
            Member::ApiVersion => object.core = Some(value == "v1"),
            Member::Type => object.secret_type = value == "Opaque" || value.starts_with("kubernetes.io/"),
            _ => {}
        }
        self.wait(span);
    }

    /// Adds a value that is `data`, or inside it, to the values that wait for the kind of their object.
    fn wait(&mut self, span: Span) {
        self.wait_in_data(span);
        if self.open.last().is_some_and(|object| object.member == Member::Data) {
            self.wait_for(self.open.len() - 1, span);
        }
    }

    /// Adds a value inside `data`, but not `data` itself, to the values that wait for the kind of their object.
    fn wait_in_data(&mut self, span: Span) {
        if self.open.last().is_some_and(|object| object.is_data) {
            self.wait_for(self.open.len().saturating_sub(2), span);
        }
    }

    fn wait_for(&mut self, owner: usize, span: Span) {
        if span.start < span.end {
            self.waiting.push(Waiting { span, owner, handed_up: false });
        }
    }

    /// Ends the innermost object: its waiting values are reported, dropped, or passed up to the list that contains it.
    fn end(&mut self, end: usize, ending: Ending) {
        let Some(object) = self.open.pop() else { return };
        let index = self.open.len();
        let is_secret = match object.kind {
            Kind::Secret | Kind::SecretList => true,
            Kind::Other => false,
            // `kubectl` writes the kind after the data, so an incomplete object of the core API may be a Secret: mask
            // it.
            Kind::Unknown => object.secret_type || (object.core == Some(true) && ending == Ending::Cut),
        };
        let parents = self.open.iter().enumerate().rev();
        let list = parents.take(2).find(|(_, parent)| !parent.is_list);
        let list = list.filter(|(_, list)| list.member == Member::Items && object.kind == Kind::Unknown);
        let list = list.map(|(index, _)| index);
        let mut kept = object.waiting;
        for at in object.waiting..self.waiting.len() {
            let Waiting { span, owner, handed_up } = self.waiting[at];
            let stays = if owner < index {
                Some(Waiting { span, owner, handed_up })
            } else if is_secret {
                self.found.push(span);
                None
            } else {
                list.filter(|_| !handed_up).map(|owner| Waiting { span, owner, handed_up: true })
            };
            if let Some(waiting) = stays {
                self.waiting[kept] = waiting;
                kept += 1;
            }
        }
        self.waiting.truncate(kept);
        // An object or list under `data` is one value; as `data` itself, only a list is.
        let Some(start) = object.start else { return };
        let whole = Span { quoted: Some(0), ..Span::new(start, end) };
        if object.is_data { self.wait_in_data(whole) } else { self.wait(whole) }
    }

    /// Ends all objects from this depth on, because the text breaks off.
    fn cut(&mut self, depth: usize, end: usize) {
        while self.open.len() > depth {
            self.end(end, Ending::Cut);
        }
    }
}

#[cfg(test)]
mod tests;
