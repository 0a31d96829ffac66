//! Compiles the expressions of the built-in masks to automata, and the words with which their matches begin to a table.
//!
//! An instance of the component then starts with finished automata; compiling them would take it 15 ms.

// This runs on the machine that builds; what the component may not call is none of its business.
#![allow(clippy::disallowed_methods)]

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use regex_automata::dfa::{StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;

#[path = "src/masking/rules.rs"]
#[allow(dead_code)]
mod rules;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/masking/rules.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut words: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut code = String::from("static EXPRESSIONS: &[&[&[u8]]] = &[\n");
    for (number, rule) in rules::PATTERNS.iter().flat_map(|pattern| pattern.rules).enumerate() {
        code += "&[";
        let expressions = rule.expressions();
        for (stage, expression) in expressions.iter().enumerate() {
            let automaton = builder().configure(anchored()).build(expression);
            let automaton = automaton.unwrap_or_else(|error| panic!("{expression}: {error}"));
            let name = format!("{number}-{stage}.dfa");
            write_automaton(&out.join(&name), &automaton);
            write!(code, "aligned!({name:?}), ").expect("a string takes all");
        }
        code += "],\n";
        let own = match (rule, expressions.first()) {
            // What separates it from its value adds nothing to the beginning of a key.
            (rules::MaskRule::Key(keys, _), _) => first_words(keys),
            (_, Some(first)) => first_words(first),
            (_, None) => rule.hint().into_iter().map(str::to_owned).collect(),
        };
        for word in own {
            words.entry(word).or_default().push(number);
        }
    }
    for word in rules::NAME_WORDS {
        words.entry(word.to_string()).or_default();
    }
    code += "];\nstatic WORDS: &[Word] = &[\n";
    for (word, rules) in &words {
        let (length, in_names) = (word.len(), rules::NAME_WORDS.contains(&word.as_str()));
        writeln!(code, "Word {{ length: {length}, rules: &{rules:?}, in_names: {in_names} }},")
            .expect("a string takes all");
    }
    code += "];\n";
    code += &word_table(&words.keys().map(String::as_bytes).collect::<Vec<_>>());
    write_file(&out.join("automata.rs"), code.as_bytes());
}

/// Builds automata for ASCII, which keys and tokens are.
fn builder() -> dense::Builder {
    let mut builder = dense::Builder::new();
    builder.syntax(syntax::Config::new().unicode(false).utf8(false)).thompson(thompson::Config::new().utf8(false));
    builder
}

/// For a match that begins where the search does.
fn anchored() -> dense::Config {
    dense::Config::new().start_kind(StartKind::Anchored).minimize(true).accelerate(false)
}

/// Returns words in lower case, with one of which each match begins.
fn first_words(expression: &str) -> Vec<String> {
    // Which case a letter has does not matter for the words, and would multiply them.
    let expression = expression.replace("(?i:", "(?:");
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(&expression);
    let parsed = parsed.unwrap_or_else(|error| panic!("{expression}: {error}"));
    let found = Extractor::new().limit_literal_len(MAX_WORD).extract(&parsed);
    let found = found.literals().unwrap_or_else(|| panic!("a match of {expression} may begin with anything"));
    let mut words: Vec<String> =
        found.iter().map(|word| String::from_utf8_lossy(word.as_bytes()).to_ascii_lowercase()).collect();
    words.sort();
    words.dedup();
    // Then the words of a rule are found in the order of their beginnings.
    assert!(words.iter().all(|word| word.len() + 1 >= MAX_WORD), "{words:?} of {expression} are too short");
    words
}

/// The maximum length of a word: longer ones would be rarer, and many more.
const MAX_WORD: usize = 4;

/// Returns the code of a table that finds all words at once, also inside one another: the automaton of Aho and Corasick.
fn word_table(words: &[&[u8]]) -> String {
    // A state stands for what was read last; the first one, for nothing that begins a word.
    let mut children = vec![BTreeMap::<u8, usize>::new()];
    let mut ends: Vec<Vec<usize>> = vec![Vec::new()];
    for (index, word) in words.iter().enumerate() {
        let mut state = 0;
        for byte in *word {
            let new = children.len();
            state = *children[state].entry(*byte).or_insert(new);
            if state == new {
                children.push(BTreeMap::new());
                ends.push(Vec::new());
            }
        }
        ends[state].push(index);
    }
    let mut letters: Vec<u8> = words.concat();
    letters.sort();
    letters.dedup();
    // The class of a byte is its column; a byte that no word contains has the first one.
    let width = letters.len() + 1;
    let mut next = vec![vec![0; width]; children.len()];
    let mut queue = VecDeque::from([(0, 0)]);
    while let Some((state, shorter)) = queue.pop_front() {
        // What ends a shorter text that was read ends this one too.
        if state != shorter {
            let also = ends[shorter].clone();
            ends[state].extend(also);
        }
        for (column, letter) in letters.iter().enumerate() {
            let after = if state == shorter { 0 } else { next[shorter][column + 1] };
            next[state][column + 1] = match children[state].get(letter) {
                Some(child) => {
                    queue.push_back((*child, after));
                    *child
                }
                None => after,
            };
        }
    }
    // States in which words end come last, and a state is the place of its row, which saves a multiplication.
    let mut order: Vec<usize> = (0..next.len()).collect();
    order.sort_by_key(|state| !ends[*state].is_empty());
    let place = |state: usize| width * order.iter().position(|other| *other == state).expect("each state has a place");
    let places: Vec<usize> = (0..next.len()).map(place).collect();
    let rows: Vec<usize> = order.iter().flat_map(|state| &next[*state]).map(|state| places[*state]).collect();
    let found: Vec<&Vec<usize>> = order.iter().map(|state| &ends[*state]).filter(|ends| !ends.is_empty()).collect();
    let class =
        |byte: u8| letters.iter().position(|letter| *letter == byte.to_ascii_lowercase()).map_or(0, |at| at + 1);
    let classes: Vec<usize> = (0..=u8::MAX).map(class).collect();
    format!(
        "const WIDTH: usize = {width};\nconst FIRST_FOUND: usize = {};\nstatic CLASSES: [u8; 256] = {classes:?};\n\
         static NEXT: [u16; {}] = {rows:?};\nstatic FOUND: [&[usize]; {}] = {};\n",
        rows.len() - width * found.len(),
        rows.len(),
        found.len(),
        format!("{found:?}").replace('[', "&[").replacen('&', "", 1),
    )
}

fn write_automaton(path: &Path, automaton: &dense::DFA<Vec<u32>>) {
    let is_big_endian = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let (bytes, padding) =
        if is_big_endian { automaton.to_bytes_big_endian() } else { automaton.to_bytes_little_endian() };
    write_file(path, &bytes[padding..]);
}

fn write_file(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
