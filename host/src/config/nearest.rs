//! The word that was probably meant.

/// The known word nearest to this one, where it is near enough to be meant.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Nothing that long was ever meant, and to compare it would cost.
    if word.len() > 64 {
        return None;
    }
    let plain = fold(word);
    let longest = |known: &str| known.chars().count().max(plain.chars().count());
    known
        .into_iter()
        .map(|known| (strsim::damerau_levenshtein(&plain, &fold(known)), known))
        // A third of the letters may be wrong, and one in a short word.
        .filter(|(distance, known)| *distance <= (longest(known) / 3).max(1) && *distance < longest(known))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// The end of a message about an unknown word: what was probably meant, or nothing.
pub fn hint<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    nearest(word, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

/// Whether two words are one but for what people write in different ways: `envFile`, `env_file` and `env-file`.
pub fn is_same_word(one: &str, other: &str) -> bool {
    letters(one).eq(letters(other))
}

/// A word without what people write in different ways.
pub fn fold(word: &str) -> String {
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
