//! Rewrites a regular expression of RE2, which CEL has, for the crate `regex`: their classes and escapes differ.

/// Rewrites an expression; the error is a sentence.
pub(super) fn rewrite(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut letters = pattern.chars().peekable();
    let mut is_class = false;
    // Whether the last thing was a repetition, which cannot be repeated.
    let mut is_repeated = false;
    while let Some(letter) = letters.next() {
        let repeats = !is_class && matches!(letter, '*' | '+' | '?' | '{');
        match letter {
            '\\' => escape(&mut letters, is_class, &mut out)?,
            '[' if is_class => match letters.peek() {
                // A class of POSIX such as `[:alpha:]`.
                Some(':') => {
                    out.push('[');
                    for letter in letters.by_ref() {
                        out.push(letter);
                        if letter == ']' {
                            break;
                        }
                    }
                }
                _ => out.push_str("\\["),
            },
            '[' => {
                is_class = true;
                out.push('[');
                out.extend(letters.next_if_eq(&'^'));
                if letters.next_if_eq(&']').is_some() {
                    out.push_str("\\]");
                }
            }
            ']' if is_class => {
                is_class = false;
                out.push(']');
            }
            '&' | '~' if is_class => out.extend(['\\', letter]),
            '*' | '+' | '?' | '{' if repeats && is_repeated => {
                return Err(format!("`{letter}` repeats a repetition"));
            }
            '{' => {
                out.push('{');
                let digits: String = letters.clone().take_while(char::is_ascii_digit).collect();
                let most = letters.clone().skip(digits.len() + 1).take_while(char::is_ascii_digit).collect::<String>();
                if [digits, most].iter().any(|count| count.parse::<u64>().is_ok_and(|count| count > 1000)) {
                    return Err("a repetition has at most 1000 times".to_owned());
                }
                for letter in letters.by_ref() {
                    out.push(letter);
                    if letter == '}' {
                        break;
                    }
                }
            }
            '(' if letters.peek() == Some(&'?') => {
                let flags: String = letters.clone().skip(1).take_while(|flag| flag.is_ascii_alphabetic()).collect();
                if flags.contains('x') {
                    return Err("the flag `x` is not supported".to_owned());
                }
                out.push('(');
                // This question mark repeats nothing.
                out.extend(letters.next());
            }
            other => out.push(other),
        }
        // A question mark behind a repetition makes it lazy.
        let is_lazy = repeats && letters.next_if_eq(&'?').inspect(|mark| out.push(*mark)).is_some();
        is_repeated = repeats || is_lazy;
    }
    Ok(out)
}

/// Rewrites an escape behind its backslash.
fn escape(
    letters: &mut std::iter::Peekable<std::str::Chars<'_>>,
    is_class: bool,
    out: &mut String,
) -> Result<(), String> {
    let Some(letter) = letters.next() else { return Err("it ends with a backslash".to_owned()) };
    match letter {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' if !is_class => out.push_str("(?-u:\\b)"),
        'Q' => {
            let mut quoted = String::new();
            while let Some(letter) = letters.next() {
                if letter == '\\' && letters.next_if_eq(&'E').is_some() {
                    break;
                }
                quoted.push(letter);
            }
            out.push_str(&regex::escape(&quoted));
        }
        'B' | 'u' | 'U' | '<' | '>' | 'C' => return Err(format!("`\\{letter}` is not supported")),
        other => out.extend(['\\', other]),
    }
    Ok(())
}
