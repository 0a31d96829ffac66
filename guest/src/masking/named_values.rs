//! Names and values that are not side by side: members of an entry (`{"name":"password","value":"x"}`), pairs in a
//! list, columns of a table, elements of XML, and values on the lines below their name.

mod below;
mod elements;
mod lists;
mod tables;

use std::ops::Range;

use super::Span;
use super::rules::NAME_WORDS;

/// A name, and a possible value for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedValue {
    /// The position of the name.
    pub name: Range<usize>,
    /// The position of the value.
    pub value: Span,
    /// How the two are related.
    pub bond: NameRelation,
}

/// How a name and a value are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRelation {
    /// Members of the same object.
    Entry,
    /// A column header and a data cell.
    Column,
    /// A name and the line below it, which may also be prose.
    Below,
    /// Possibly two names, so the value must look like a secret.
    Loose,
}

/// Returns the names that may be those of secrets, with their values, given where words of such names are, in order.
pub(super) fn find(text: &str, words: &[usize]) -> Vec<NamedValue> {
    let mut found = Vec::new();
    if !words.is_empty() {
        lists::find(text, words, &mut found);
        tables::find(text, words, &mut found);
        elements::find(text, words, &mut found);
        below::find(text, words, &mut found);
    }
    found
}

/// Reports whether a value looks like a password or a generated secret, not like a word, name, path, date, version or
/// amount.
pub(super) fn looks_secret(value: &str) -> bool {
    let value = value.trim_end_matches(['!', '?', '.', ',', ';', ':']);
    let bytes = value.as_bytes();
    let has = |test: fn(&u8) -> bool| bytes.iter().any(test);
    let is_path = value.starts_with(['/', '~', '$', '%', '<', '{', '(', '#']) || value.contains("://");
    let extension = value.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_file = (2..=4).contains(&extension.len()) && extension.bytes().all(|byte| byte.is_ascii_lowercase());
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_amount = digits > 0 && bytes.len() - digits <= 2;
    let is_date_or_version = {
        let rest = value.trim_start_matches(['v', 'V']);
        let number = rest.bytes().take_while(u8::is_ascii_digit).count();
        (1..=4).contains(&number) && rest[number..].starts_with(['-', '.', ':', '/'])
    };
    let is_number =
        has(u8::is_ascii_digit) && bytes.iter().all(|byte| byte.is_ascii_digit() || b"-.:/ ,+".contains(byte));
    let long_number = bytes.len() >= 6 && digits == bytes.len();
    let sign = |byte: &u8| byte.is_ascii_punctuation() && !b"-_./:,()'\"`\\".contains(byte);
    let switches = bytes.windows(2).filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()).count();
    let odd = has(u8::is_ascii_digit) || has(sign) || switches >= 3;
    has(u8::is_ascii_alphanumeric)
        && odd
        && !may_name(value)
        && (long_number || !(is_path || is_file || is_amount || is_date_or_version || is_number))
}

/// Reports whether a value consists of lower-case letters only and is longer than ordinary words.
pub(super) fn is_long_word(value: &str) -> bool {
    value.len() >= 12 && value.bytes().all(|byte| byte.is_ascii_lowercase())
}

/// Reports whether a text may name a secret for any rule; the rules decide.
fn may_name(text: &str) -> bool {
    (0..text.len()).any(|at| begins_word(&text.as_bytes()[at..]))
}

/// Reports whether a word of names begins here.
fn begins_word(text: &[u8]) -> bool {
    let begins = |word: &&str| text.get(..word.len()).is_some_and(|here| here.eq_ignore_ascii_case(word.as_bytes()));
    // Most letters begin none.
    matches!(text.first(), Some(first) if b"pstkbjad".contains(&first.to_ascii_lowercase()))
        && NAME_WORDS.iter().any(begins)
}

/// The members, elements and attributes that contain the name of an entry.
const NAMES: &[&str] = &[
    "name",
    "key",
    "k",
    "field",
    "variable",
    "var",
    "parameter",
    "param",
    "header",
    "property",
    "attribute",
    "setting",
    "label",
    "env",
    "option",
];
/// Those that contain its value.
const VALUES: &[&str] = &["value", "values", "val", "v", "stringvalue", "string_value"];

/// Reports whether a name is one of these words, in any case.
fn is_one_of(name: &str, words: &[&str]) -> bool {
    words.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Returns the name of one of several: `password` of `passwords`.
fn singular(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    text[name.clone()].ends_with(['s', 'S']).then(|| name.start..name.end - 1)
}

/// No rule takes a shorter value for a secret.
const MIN_VALUE: usize = 6;
/// Longer texts are sentences, not names.
const MAX_NAME: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_look_chosen_and_words_do_not() {
        for value in
            ["hunter2hunter2", "hunter2", "s3cr3t", "p@ssword", "Tr0ub4dor&3", "48392011", "aBcDeFgHi", "x9-y8_z7"]
        {
            let named = may_name(value);
            assert!(named || looks_secret(value), "{value}");
        }
        for value in ["a1", "9lives-x7q", "483920", "aBcDeF"] {
            assert!(looks_secret(value), "{value}");
        }
        for value in [
            "",
            "string",
            "required",
            "Required!",
            "created_at",
            "db-credentials",
            "MyProject",
            "2024-01-01",
            "v1.2.3",
            "1.2.3-beta",
            "3600s",
            "12MB",
            "8080",
            "50%",
            "/etc/x1",
            "https://x/1",
            "tls2.crt",
            "password2",
            "******",
            "10:30",
            "${PW1}",
            "key_2",
            "48392",
            "aBcDe",
            "55501,0999",
        ] {
            assert!(!looks_secret(value), "{value}");
        }
    }

    #[test]
    fn a_long_word_has_twelve_small_letters_or_more() {
        for (value, expected) in [
            ("correcthorse", true),
            ("correcthors", false),
            ("Correcthorse", false),
            ("correcthorsebattery", true),
            ("", false),
        ] {
            assert_eq!(is_long_word(value), expected, "{value}");
        }
    }

    #[test]
    fn a_name_holds_a_word_that_names_secrets_in_any_case() {
        for (name, expected) in [
            ("db_Pass", true),
            ("pwd", true),
            ("pat", true),
            ("clientSECRET", true),
            ("token", true),
            ("x-key", true),
            ("Bearer", true),
            ("ca-bundle", true),
            ("jwt", true),
            ("Authorization", true),
            ("data", true),
            ("user", false),
            ("author", false),
            ("dat", false),
            ("", false),
        ] {
            assert_eq!(may_name(name), expected, "{name}");
        }
    }

    /// What is found in a text: each name with its value, and how the two are related.
    fn found(text: &str) -> Vec<String> {
        let told = |NamedValue { name, value, bond }: NamedValue| {
            let quoted = if value.quoted.is_some() { " (quoted)" } else { "" };
            format!("{bond:?} {} = {}{quoted}", &text[name], &text[value.start..value.end])
        };
        let words: Vec<usize> = (0..text.len()).filter(|at| begins_word(&text.as_bytes()[*at..])).collect();
        find(text, &words).into_iter().map(told).collect()
    }

    fn check(rows: &[(&str, &[&str])]) {
        for (text, expected) in rows {
            assert_eq!(found(text), *expected, "\n{text}");
        }
    }

    #[test]
    fn pairs_are_found_between_stray_quotes_and_apostrophes() {
        let pair = &["Loose password = hunter2hunter2"][..];
        check(&[
            (r#"["password", "hunter2hunter2"]"#, pair),
            ("['password', 'hunter2hunter2']", pair),
            ("('a', 'b'), [('password', 'hunter2hunter2')]", pair),
            (r#"5" wide: ["password", "hunter2hunter2"]"#, pair),
            (r#"it's ["password", "hunter2hunter2"]"#, pair),
            (r#"[it's "password", "hunter2hunter2"]"#, pair),
            ("[5\" wide\n\"password\", \"hunter2hunter2\"]", pair),
            ("[5\" wide\0\"password\", \"hunter2hunter2\"]", pair),
            (r#"["password", "hunter\"2]\\"]"#, &[r#"Loose password = hunter\"2]\\"#]),
            (r#"["password", "hunter2hunter2""#, &[]),
            (r#"["password", "hunter2hunter2"}"#, &[]),
            (r#"["password", "hunter2hunter2", 1]"#, &[]),
            (r#"{"required": ["password", "hunter2hunter2"]}"#, &[]),
        ]);
    }

    #[test]
    fn a_name_is_a_short_string_and_a_value_has_six_characters() {
        let long = |length: usize| format!("{}password", "x".repeat(length - 8));
        let (longest, too_long) = (long(MAX_NAME), long(MAX_NAME + 1));
        assert_eq!(found(&format!(r#"["{longest}", "hunter2"]"#)), [format!("Loose {longest} = hunter2")]);
        assert!(found(&format!(r#"["{too_long}", "hunter2"]"#)).is_empty());
        check(&[
            (r#"["password", "abc123"]"#, &["Loose password = abc123"]),
            (r#"["password", "abc12"]"#, &[]),
            (r#"["user", "hunter2"]"#, &[]),
            (r#"[1password, "hunter2"]"#, &[]),
            (r#"["password", 12345678]"#, &[]),
            (r#"{"name": "password", "value": 12345678}"#, &["Entry password = 12345678 (quoted)"]),
            (r#"{"name": "password", "value": "hunter2"#, &["Entry password = hunter2"]),
        ]);
    }

    #[test]
    fn rows_belong_to_the_columns_of_their_list_or_object() {
        let cell = &["Loose password = hunter2"][..];
        check(&[
            (r#"{"columns": ["password", "user"], "rows": [["hunter2", "bob"]]}"#, cell),
            (r#"[["password", "user", "age"], ["hunter2", "bob", 5]]"#, cell),
            (r#"[["password", "user", "age"], ["hunter2", "bob"]]"#, &[]),
            (r#"{"a": ["password", "user"], "rows": [["hunter2", "bob"]]}"#, &[]),
            (r#"{"columns": ["password", "user"], "a": [["hunter2", "bob"]]}"#, &[]),
        ]);
        let table = |columns: usize| {
            let fill = |last: &str| format!("[{}\"{last}\"]", "0, ".repeat(columns - 1));
            format!("[{}, {}]", fill("password"), fill("hunter2"))
        };
        assert_eq!(found(&table(64)), cell);
        assert!(found(&table(65)).is_empty());
    }

    #[test]
    fn a_value_below_its_name_is_one_word() {
        let below = &["Below password = hunter2"][..];
        check(&[
            ("password:\nhunter2", below),
            ("password =\r\n\r\n  hunter2\r\n", below),
            ("**password:**\n`hunter2`\n", &["Below **password = hunter2"]),
            ("password:\n\n\nhunter2", &[]),
            ("password\nhunter2", &[]),
            ("password:\nabc123", &["Below password = abc123"]),
            ("password:\nabc12", &[]),
            ("password:\n#hunter2", &[]),
            ("password:\nhunter2 hunter2", &[]),
            ("password:\nuser:hunter2", &[]),
            ("password:\nuser=hunter2", &[]),
            ("password:\naHVudGVyMg==", &["Below password = aHVudGVyMg=="]),
            ("user,city\nbob,password:\nhunter2", &["Below bob,password = hunter2"]),
        ]);
    }

    #[test]
    fn a_table_has_a_header_of_short_names() {
        let (column, loose) = (&["Column password = hunter2"][..], &["Loose password = hunter2"][..]);
        check(&[
            ("password,user\nhunter2,bob", column),
            ("user;password\nbob;hunter2", column),
            ("password\tuser name\nhunter2\tbob", column),
            ("\"password\",\"user\"\n\"hunter2\",\"b,ob\"", column),
            ("password, user\nhunter2, bob", loose),
            ("| password | user |\n| hunter2 | bob |", loose),
            ("password | user\n---------+-----\nhunter2 | bob", column),
            ("password | user\nhunter2 | bob", &[]),
            ("password,user\n-----\nhunter2,bob", column),
            ("password,user\n\nhunter2,bob", &[]),
            ("password,user\nx--y\nhunter2,bob", &[]),
            ("password,user\nhunter2,bob,5\nhunter2,bob", &[]),
            ("password,,user\nhunter2,5,bob", &[]),
            ("password,user!\nhunter2,bob", &[]),
            ("password,12\nhunter2,bob", &[]),
            ("password,user.\nhunter2,bob", &[]),
            ("password\tname of the\nhunter2\tbob", column),
            ("password\tname of the user\nhunter2\tbob", &[]),
            ("password,user\nabc123,bob", &["Column password = abc123"]),
            ("password,user\nabc12,bob", &[]),
            ("password,user\nhunter2 x,bobbob", &[]),
        ]);
    }

    #[test]
    fn a_table_has_cells_columns_and_a_header_of_limited_length() {
        let table = |name: usize| format!("password,{}\nhunter2,bob", "x".repeat(name));
        let piped =
            |columns: usize| format!("|{}password|\n|{}hunter2|", "x|".repeat(columns - 1), "1|".repeat(columns - 1));
        let wide = |length: usize| {
            let header = format!("password{},", format!(",{}", "x".repeat(39)).repeat(25));
            format!("{header}{}\nhunter2{}", "x".repeat(length - header.len()), ",1".repeat(26))
        };
        for (text, is_table) in [
            (table(40), true),
            (table(41), false),
            (piped(64), true),
            (piped(65), false),
            (wide(1024), true),
            (wide(1025), false),
        ] {
            assert_eq!(found(&text).len(), usize::from(is_table), "\n{text}");
        }
    }
}
