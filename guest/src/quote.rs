//! Quotes names as `{:?}` does, without its cost if nothing needs an escape.

/// Writes a quoted name between two texts.
pub fn quoted_between(before: &str, name: &str, after: &str) -> String {
    if !is_plain(name) {
        return format!("{before}{name:?}{after}");
    }
    let mut out = String::with_capacity(before.len() + name.len() + after.len() + 2);
    out.push_str(before);
    out.push('"');
    out.push_str(name);
    out.push('"');
    out.push_str(after);
    out
}

/// Reports whether `{:?}` would only add quotes; any name that is not ASCII counts as false.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::quoted_between;
    use proptest::prelude::*;

    #[test]
    fn every_ascii_letter_is_written_as_the_formatter_writes_it() {
        for letter in '\0'..='\u{ff}' {
            let name = format!("a{letter}b");
            assert_eq!(quoted_between("<", &name, ">"), format!("<{name:?}>"));
        }
    }

    proptest! {
        #[test]
        fn any_name_is_written_as_the_formatter_writes_it(name in ".{0,20}") {
            prop_assert_eq!(quoted_between("", &name, ""), format!("{name:?}"));
        }
    }
}
