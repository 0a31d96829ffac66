//! The page of `toolgate access --html`: one file that needs nothing else.

/// Returns the page with this JSON as its data.
pub(super) fn page(json: &str) -> String {
    // Only the start of a tag or of a comment could end a script early, and both start with `<`. In JSON, `<` occurs
    // only in strings.
    let page = PAGE.replacen("THEME", include_str!("../../theme.css"), 1);
    let (before, after) = page.split_once(HERE).expect("the page has a place for its data");
    [before, &json.replace('<', "\\u003c"), after].concat()
}

const PAGE: &str = include_str!("page.html");
const HERE: &str = "\"DATA\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_server_says_ends_the_data() {
        let page = page(r#"{"access":[{"name":"</script><img src=x onerror=alert(1)><!--"}]}"#);
        assert!(page.contains(r#"\u003c/script>\u003cimg src=x"#), "{page}");
        assert_eq!(page.matches("</script>").count(), PAGE.matches("</script>").count());
        assert!(!page.contains(HERE));
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        let page = page("{}");
        for word in ["http://", "https://", "src=", "@import", "url(", "THEME"] {
            assert!(!page.contains(word), "{word}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}
