//! Recognizes a query that is the name of a tool.

use super::text::squeezed;

/// How exactly a query names a tool; higher is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// It does not.
    None,
    /// With the same letters and digits: `get user` for `get_user`.
    Letters,
    /// In another case, or with `-` for `_`.
    Case,
    /// Sign by sign.
    Exact,
}

/// Returns a hash of the letters of a tool's name, and one of those with its server's name before: most names are not
/// the query, and a number says so at once.
pub(super) fn letters(server: &str, tool: &str) -> [u32; 2] {
    let tool = squeezed(tool);
    [hash(&tool), hash(&(squeezed(server) + &tool))]
}

/// Returns a hash of a text, as Fowler, Noll and Vo define it.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// A query that may be the name of a tool.
pub(super) struct Name<'q> {
    query: &'q str,
    letters: String,
    /// The hashes of the letters, and of those behind `mcp`.
    hashes: [u32; 2],
}

impl<'q> Name<'q> {
    /// Prepares a query.
    pub(super) fn new(query: &'q str) -> Self {
        let letters = squeezed(query);
        let hashes = [hash(&letters), hash(without_mcp(&letters))];
        Name { query: query.trim(), letters, hashes }
    }

    /// Reports whether the query may name the tool with these letters. If it does not, it differs in more than case and
    /// separators.
    pub(super) fn may_be(&self, letters: [u32; 2]) -> bool {
        self.hashes.iter().any(|hash| letters.contains(hash))
    }

    /// Returns how exactly the query names a tool, with or without its server.
    pub(super) fn compare(&self, server: &str, tool: &str) -> Match {
        let mut best = compare(self.query, tool);
        for query in [self.query, without_mcp(self.query).trim_start_matches('_')] {
            let Some((own, rest)) = query.split_at_checked(server.len()) else { continue };
            for name in SEPARATORS.iter().filter_map(|separator| rest.strip_prefix(separator)) {
                best = best.max(compare(own, server).min(compare(name, tool)));
            }
        }
        if best > Match::None {
            return best;
        }
        let (server, tool) = (squeezed(server), squeezed(tool));
        let is_whole = |letters: &str| letters.strip_suffix(&*tool).is_some_and(|own| own.is_empty() || own == server);
        let is_named = !tool.is_empty() && (is_whole(&self.letters) || is_whole(without_mcp(&self.letters)));
        if is_named { Match::Letters } else { Match::None }
    }
}

/// Returns what is behind `mcp`, with which some clients begin all names: `mcp__server__tool`.
fn without_mcp(name: &str) -> &str {
    name.strip_prefix("mcp").unwrap_or(name)
}

fn compare(text: &str, name: &str) -> Match {
    let plain = |byte: u8| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() };
    if name.is_empty() {
        Match::None
    } else if text == name {
        Match::Exact
    } else if text.bytes().map(plain).eq(name.bytes().map(plain)) {
        Match::Case
    } else {
        Match::None
    }
}

/// What may be between the name of a server and that of a tool.
const SEPARATORS: [&str; 6] = [".", "__", "_", "/", ":", " "];
