//! Finds the known word that a misspelt one probably stands for.

/// Returns the known word nearest to this one, if it is near enough.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // No known word is that long, and the comparison would be slow.
    if word.len() > 64 {
        return None;
    }
    let plain = fold(word);
    let longest = |known: &str| known.chars().count().max(plain.chars().count());
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&plain, &fold(known)), known))
        // A third of the letters may differ, and one in a short word.
        .filter(|(distance, known)| *distance <= (longest(known) / 3).max(1) && *distance < longest(known))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Returns the end of a message about an unknown word: a suggestion, or an empty string.
pub(crate) fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

/// Reports whether two words differ only in case, `_` and `-`, such as `envFile`, `env_file` and `env-file`.
pub(crate) fn is_same_word(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// Returns a word in lower case without `_`, `-` and spaces.
pub(crate) fn fold(word: &str) -> String {
    letters(word).collect()
}

fn letters(word: &str) -> impl Iterator<Item = char> {
    word.chars().filter(|letter| !matches!(letter, '_' | '-' | ' ')).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_understood_and_another_word_is_not() {
        let known = ["command", "args", "env", "env_file", "url", "headers", "working_dir"];
        let rows = [
            ("comand", Some("command")),
            ("commnad", Some("command")),
            ("cmmand", Some("command")),
            ("arg", Some("args")),
            ("header", Some("headers")),
            ("urll", Some("url")),
            ("workingdirectory", None),
            ("envfle", Some("env_file")),
            ("x", None),
            ("", None),
            ("timeout", None),
        ];
        for (word, expected) in rows {
            assert_eq!(nearest(word, known), expected, "{word:?}");
        }
    }
}
