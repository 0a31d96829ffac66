//! Removes the endings of English words, so that `forecasts` and `forecasting` find `forecast`.
//!
//! These are the rules of M. F. Porter, "An algorithm for suffix stripping" (1980), without those for rare endings.

/// Returns a word in lower case without its endings; a word with anything but Latin letters stays.
pub(super) fn stem(word: &str) -> String {
    let mut word = word.to_owned();
    if (3..=MAX_LENGTH).contains(&word.len()) && word.bytes().all(|letter| letter.is_ascii_lowercase()) {
        plural(&mut word);
        past(&mut word);
        if ends(&word, &["y"]) && has_vowel(&word[..word.len() - 1]) {
            replace(&mut word, 1, "i");
        }
        long_ending(&mut word);
        last_ending(&mut word);
        last_letter(&mut word);
    }
    word
}

/// The length of the longest word that is stemmed: longer ones are no English.
const MAX_LENGTH: usize = 24;

/// Some words that only look like plurals.
const SINGULAR: [&str; 8] = ["aws", "bus", "dns", "gas", "gps", "ios", "news", "sms"];

/// `ies`, `es` and `s`.
fn plural(word: &mut String) {
    if ends(word, &["sses", "ies"]) {
        replace(word, 2, "");
    } else if ends(word, &["s"]) && !ends(word, &["ss"]) && !SINGULAR.contains(&&**word) {
        replace(word, 1, "");
    }
}

/// Reports whether a word has one of these endings.
#[inline(never)]
fn ends(word: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| word.ends_with(ending))
}

/// `eed`, `ed` and `ing`.
fn past(word: &mut String) {
    if ends(word, &["eed"]) {
        if measure(&word[..word.len() - 3]) > 0 {
            replace(word, 1, "");
        }
        return;
    }
    let Some(rest) = word.strip_suffix("ed").or_else(|| word.strip_suffix("ing")) else { return };
    if !has_vowel(rest) {
        return;
    }
    word.truncate(rest.len());
    if ends(word, &["at", "bl", "iz"]) {
        word.push('e');
    } else if ends_double(word) && !ends(word, &["l", "s", "z"]) {
        word.pop();
    } else if measure(word) == 1 && ends_short(word) {
        word.push('e');
    }
}

/// `ation` and others that have a shorter form.
fn long_ending(word: &mut String) {
    let Some((ending, new)) = LONG_ENDINGS.iter().find(|(ending, _)| ends(word, &[ending])) else { return };
    if measure(&word[..word.len() - ending.len()]) > 0 {
        replace(word, ending.len(), new);
    }
}

/// `ment` and others, if two syllables remain.
fn last_ending(word: &mut String) {
    let Some(ending) = LAST_ENDINGS.iter().find(|ending| ends(word, &[ending])) else { return };
    let rest = &word[..word.len() - ending.len()];
    if measure(rest) > 1 && (*ending != "ion" || ends(rest, &["s", "t"])) {
        replace(word, ending.len(), "");
    }
}

// The longest endings come first, since `ational` is also `tional`.
const LONG_ENDINGS: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("ization", "ize"),
    ("tional", "tion"),
    ("biliti", "ble"),
    ("ation", "ate"),
    ("iviti", "ive"),
    ("alli", "al"),
    ("ator", "ate"),
    ("izer", "ize"),
];
const LAST_ENDINGS: &[&str] = &[
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ion", "ism", "ate", "iti", "ous", "ive", "ize",
    "al", "er", "ic",
];

/// A last `e`, and the second of two `l`.
fn last_letter(word: &mut String) {
    if let Some(rest) = word.strip_suffix('e') {
        let syllables = measure(rest);
        if syllables > 1 || syllables == 1 && !ends_short(rest) {
            word.pop();
        }
    }
    if ends(word, &["ll"]) && measure(word) > 1 {
        word.pop();
    }
}

#[inline(never)]
fn replace(word: &mut String, count: usize, new: &str) {
    word.truncate(word.len() - count);
    word.push_str(new);
}

/// Reports for a letter whether it is a consonant; a `y` is one at the start and behind a vowel.
fn is_consonant(word: &[u8], at: usize) -> bool {
    match word[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        b'y' => at == 0 || !is_consonant(word, at - 1),
        _ => true,
    }
}

/// Counts how often a consonant follows a vowel: about the number of syllables.
#[inline(never)]
fn measure(word: &str) -> usize {
    let word = word.as_bytes();
    (1..word.len()).filter(|&at| is_consonant(word, at) && !is_consonant(word, at - 1)).count()
}

#[inline(never)]
fn has_vowel(word: &str) -> bool {
    (0..word.len()).any(|at| !is_consonant(word.as_bytes(), at))
}

fn ends_double(word: &str) -> bool {
    let word = word.as_bytes();
    let last = word.len().wrapping_sub(1);
    word.len() > 1 && word[last] == word[last - 1] && is_consonant(word, last)
}

/// Reports whether a word ends in a consonant, a vowel and a consonant, as `hop` does.
#[inline(never)]
fn ends_short(word: &str) -> bool {
    let bytes = word.as_bytes();
    let Some(first) = bytes.len().checked_sub(3) else { return false };
    is_consonant(bytes, first)
        && !is_consonant(bytes, first + 1)
        && is_consonant(bytes, first + 2)
        && !ends(word, &["w", "x", "y"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_have_one_stem() {
        let rows = "\
            caresses:caress ponies:poni cats:cat feed:feed agreed:agre plastered:plaster motoring:motor \
            sing:sing conflated:conflat sized:size hopping:hop falling:fall filing:file happy:happi sky:sky \
            relational:relat conditional:condit digitizer:digit adjustment:adjust adoption:adopt \
            controlling:control probate:probat rate:rate searches:search forecasting:forecast \
            repositories:repositori repository:repositori news:news id:id base64:base64 прогнозы:прогнозы \
            buses:buse bus:bus apis:api organization:organ organizing:organ calculation:calcul calculator:calcul";
        for (word, expected) in rows.split(' ').filter_map(|row| row.split_once(':')) {
            assert_eq!(stem(word), expected, "{word}");
        }
        let long = "y".repeat(MAX_LENGTH) + "s";
        assert_eq!(stem(&long), long);
    }
}
