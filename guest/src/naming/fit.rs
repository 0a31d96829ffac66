//! Gives every tool a name that a model's provider accepts, independent of the order of the tools.

use std::collections::{BTreeMap, BTreeSet};

use super::lower::lower;
use super::target::Target;
use crate::ordered;
use crate::types::ToolRef;

/// A target, and the prefix that its client puts before every name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Audience {
    /// The target whose limits apply.
    pub target: Target,
    /// The client's prefix, which counts against the length limit.
    pub prefix: String,
}

/// A tool that needs a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The tool.
    pub tool: ToolRef,
    /// The schema of its arguments.
    pub schema: Option<String>,
}

/// A tool with a name and a schema that the audience accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FittedTool {
    /// The name to show.
    pub name: String,
    /// The tool that the name means.
    pub tool: ToolRef,
    /// The schema to show.
    pub schema: String,
}

/// The reason why no names can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitError {
    /// The prefix leaves fewer than this many characters, the minimum for a name.
    PrefixTooLong(u32),
    /// The schema of this tool is not JSON.
    BadSchema(ToolRef),
}

impl std::fmt::Display for FitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FitError::PrefixTooLong(least) => {
                write!(f, "the outer prefix leaves fewer than {least} characters for a name")
            }
            FitError::BadSchema(ToolRef { server, tool }) => {
                write!(f, "server {server:?}: the schema of tool {tool:?} is not JSON")
            }
        }
    }
}

impl std::error::Error for FitError {}

/// Gives each tool, in the given order, a name and a schema that the audience accepts.
pub fn fit(tools: &[Candidate], audience: &Audience) -> Result<Vec<FittedTool>, FitError> {
    let pairs: Vec<(&str, &str)> = tools.iter().map(|c| (c.tool.server.as_str(), c.tool.tool.as_str())).collect();
    names(&pairs, audience)?
        .into_iter()
        .zip(tools)
        .map(|(name, Candidate { tool, schema })| {
            let schema = lower(schema.as_deref(), audience.target).map_err(|_| FitError::BadSchema(tool.clone()))?;
            Ok(FittedTool { name, tool: tool.clone(), schema })
        })
        .collect()
}

/// Gives each (server, tool), in the given order, the name `server__tool` as the audience accepts it.
fn names(tools: &[(&str, &str)], audience: &Audience) -> Result<Vec<String>, FitError> {
    joined_names(tools, "__", audience)
}

/// Gives each (server, tool), in the given order, a name that the audience accepts, joined by this separator.
pub fn joined_names(tools: &[(&str, &str)], separator: &str, audience: &Audience) -> Result<Vec<String>, FitError> {
    let room = audience.target.limit().saturating_sub(audience.prefix.chars().count());
    if room < LEAST_ROOM {
        return Err(FitError::PrefixTooLong(LEAST_ROOM as u32));
    }
    // A sorted map makes the result independent of the given order, and merges a tool that is listed twice.
    let mut named: BTreeMap<(&str, &str), String> =
        ordered::map(tools.iter().map(|&(server, tool)| ((server, tool), plain(server, separator, tool, audience))));
    let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
    for name in named.values() {
        *wanted.entry(name.clone()).or_default() += 1;
    }
    // A suffixed name must differ from every plain one, even from one that several tools wanted and none got: a model
    // that writes it means one of those tools.
    let mut suffixed: BTreeSet<String> = BTreeSet::new();
    for (&(server, tool), name) in &mut named {
        if name.len() <= room && wanted[name] == 1 {
            continue;
        }
        let head = &name[..name.len().min(room - SUFFIX)];
        let mut salt = 0;
        *name = loop {
            let name = format!("{head}_{:08x}", hash(server, tool, salt));
            if !wanted.contains_key(&name) && suffixed.insert(name.clone()) {
                break name;
            }
            salt += 1;
        };
    }
    Ok(tools.iter().map(|pair| named[pair].clone()).collect())
}

/// Returns the joined name in characters that the target accepts, of any length; it is ASCII.
fn plain(server: &str, separator: &str, tool: &str, audience: &Audience) -> String {
    let clean = |letter: char| if audience.target.accepts(letter) { letter } else { '_' };
    let mut name: String = server.chars().chain(separator.chars()).chain(tool.chars()).map(clean).collect();
    // After a prefix, the first character of the name is not the first character overall.
    let first = audience.prefix.is_empty() && audience.target == Target::Gemini;
    if first && !name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
        name.insert(0, '_');
    }
    name
}

/// Hashes the server and the tool with FNV-1a, folded to 32 bits: short, stable, and without a dependency.
fn hash(server: &str, tool: &str, salt: u64) -> u32 {
    // 0xff never occurs in UTF-8, so `a`, `bc` differs from `ab`, `c`. The salt comes first, because two texts that
    // collide would collide again with any suffix.
    let bytes = server.bytes().chain([0xff]).chain(tool.bytes());
    let state = bytes.fold(FNV_OFFSET ^ salt, |state, byte| (state ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    (state >> 32) as u32 ^ state as u32
}

/// The length of a suffix: `_` and eight hexadecimal digits.
const SUFFIX: usize = 9;
/// The shortest name that can carry a suffix.
const LEAST_ROOM: usize = SUFFIX + 1;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    fn audience(target: Target, prefix: &str) -> Audience {
        Audience { target, prefix: prefix.into() }
    }

    fn name(server: &str, tool: &str, target: Target, prefix: &str) -> String {
        names(&[(server, tool)], &audience(target, prefix)).unwrap().remove(0)
    }

    #[test]
    fn a_name_keeps_what_its_target_accepts() {
        for (target, server, tool, expected) in [
            (Target::Mcp, "a-b", "x.y z", "a-b__x.y_z"),
            (Target::Anthropic, "a-b", "x.y", "a-b__x_y"),
            (Target::Openai, "a", "größe", "a__gr__e"),
            (Target::Gemini, "a-b", "x.y/z", "a-b__x.y_z"),
            (Target::Gemini, "1a", "x", "_1a__x"),
            (Target::Gemini, "-a", "x", "_-a__x"),
            (Target::Gemini, "_a", "x", "_a__x"),
            (Target::Gemini, "é", "x", "___x"),
            (Target::Cursor, "a-b", "x.y", "a_b__x_y"),
            (Target::Openai, "", "", "__"),
        ] {
            assert_eq!(name(server, tool, target, ""), expected, "{target:?} {server} {tool}");
        }
        assert_eq!(name("1a", "x", Target::Gemini, "mcp_"), "1a__x");
    }

    #[test]
    fn a_name_that_is_too_long_is_cut_and_gets_a_hash() {
        let long = "x".repeat(61);
        assert_eq!(name("a", &long, Target::Openai, ""), format!("a__{long}"));
        let cut = name("a", &long, Target::Openai, "p");
        assert_eq!(cut, format!("a__{}_{:08x}", &long[..51], hash("a", &long, 0)));
        assert_eq!(cut.len(), 63);
    }

    #[test]
    fn the_hash_never_changes() {
        // FNV-1a of "a" is af63dc4c8601ec8c, as its authors publish it.
        let state = (FNV_OFFSET ^ u64::from(b'a')).wrapping_mul(FNV_PRIME);
        assert_eq!(state, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(names(&[("a", "x.y"), ("a", "x/y")], &audience(Target::Openai, "")).unwrap(), HASHED);
    }
    const HASHED: [&str; 2] = ["a__x_y_e56adb06", "a__x_y_e55602ab"];

    #[test]
    fn all_members_of_a_collision_get_a_hash_and_the_same_tool_the_same_name() {
        let tools = [("a", "b__c"), ("a__b", "c"), ("a", "d"), ("a", "b__c")];
        let names = names(&tools, &audience(Target::Openai, "")).unwrap();
        assert_eq!(names[0], format!("a__b__c_{:08x}", hash("a", "b__c", 0)));
        assert_eq!(names[1], format!("a__b__c_{:08x}", hash("a__b", "c", 0)));
        assert_eq!(names[2], "a__d");
        assert_eq!(names[3], names[0]);
    }

    #[test]
    fn a_suffixed_name_gives_way_to_a_plain_one() {
        let taken = format!("b__c_{:08x}", hash("a", "b__c", 0));
        let tools = [("a", "b__c"), ("a__b", "c"), ("a", taken.as_str())];
        let names = names(&tools, &audience(Target::Openai, "")).unwrap();
        assert_eq!(names[0], format!("a__b__c_{:08x}", hash("a", "b__c", 1)));
        assert_eq!(names[2], format!("a__{taken}"));
    }

    #[test]
    fn a_prefix_that_leaves_too_little_is_refused() {
        for target in Target::ALL {
            let prefix = |left: usize| "é".repeat(target.limit() - left);
            assert!(names(&[("a", "b")], &audience(target, &prefix(10))).is_ok());
            let refused = names(&[], &audience(target, &prefix(9)));
            assert_eq!(refused, Err(FitError::PrefixTooLong(10)), "{target:?}");
        }
        assert!(names(&[], &audience(Target::Mcp, &"p".repeat(1000))).is_err());
    }

    #[test]
    fn a_schema_that_is_no_json_is_named() {
        let candidates =
            ["{}", "{"].map(|schema| Candidate { tool: ToolRef::new("a", schema), schema: Some(schema.into()) });
        let refused = fit(&candidates, &audience(Target::Mcp, "")).unwrap_err();
        assert_eq!(refused, FitError::BadSchema(ToolRef::new("a", "{")));
        assert_eq!(refused.to_string(), r#"server "a": the schema of tool "{" is not JSON"#);
    }

    /// A small generator of numbers (xorshift), so that a failure comes again.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % end as u64) as usize
        }

        /// Few letters, so that names collide, and now and then a long run of one of them.
        fn word(&mut self) -> String {
            let letters = ["a", "b", "_", "__", ".", "-", "/", "é", "1", "😀"];
            let long = if self.below(4) == 0 { 50 } else { 1 };
            (0..self.below(4)).map(|_| letters[self.below(letters.len())].repeat(1 + self.below(long))).collect()
        }
    }

    #[test]
    fn names_are_accepted_unique_and_independent_of_order_and_of_others() {
        let mut dice = Dice(7);
        for round in 0..150 {
            let target = Target::ALL[round % 5];
            let audience = audience(target, &"p".repeat([0, 5, target.limit() - 10][dice.below(3)]));
            let room = target.limit() - audience.prefix.len();
            let owned: Vec<(String, String)> = (0..dice.below(60)).map(|_| (dice.word(), dice.word())).collect();
            let mut tools: Vec<(&str, &str)> = owned.iter().map(|(server, tool)| (&**server, &**tool)).collect();
            let given = names(&tools, &audience).unwrap();

            let mut owner = BTreeMap::new();
            for (name, tool) in given.iter().zip(&tools) {
                assert!(
                    (1..=room).contains(&name.len()) && name.chars().all(|letter| target.accepts(letter)),
                    "{name}"
                );
                let first = name.chars().next().unwrap();
                let starts_well = first.is_ascii_alphabetic() || first == '_';
                assert!(starts_well || target != Target::Gemini || !audience.prefix.is_empty(), "{name}");
                assert_eq!(owner.entry(name.clone()).or_insert(*tool), tool, "{name} means two tools");
                let alone = plain(tool.0, "__", tool.1, &audience);
                let twins =
                    tools.iter().any(|other| other != tool && plain(other.0, "__", other.1, &audience) == alone);
                assert_eq!(*name == alone, alone.len() <= room && !twins, "{name}");
            }
            for at in (1..tools.len()).rev() {
                tools.swap(at, dice.below(at + 1));
            }
            for (name, tool) in names(&tools, &audience).unwrap().iter().zip(&tools) {
                assert_eq!(owner[name], *tool, "another order gives another name");
            }
        }
    }
}
