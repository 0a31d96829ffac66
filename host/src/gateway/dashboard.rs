//! The dashboard's page: one response, joined from the files in `dashboard/`.

use std::sync::LazyLock;

/// Returns the page, with this nonce for its style and its script.
pub(super) fn page(nonce: &str) -> String {
    PAGE.replace("NONCE", nonce)
}

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let style = concat!(include_str!("../theme.css"), include_str!("dashboard/style.css"));
    let page = include_str!("dashboard/page.html").replacen("STYLE", style, 1);
    page.replacen("SCRIPT", SCRIPT, 1)
});

/// The scripts, which share one scope; the last one starts the page.
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("dashboard/text.js"),
    include_str!("dashboard/rows.js"),
    include_str!("dashboard/views.js"),
    include_str!("dashboard/requests.js"),
    include_str!("dashboard/updates.js"),
    include_str!("dashboard/servers.js"),
    include_str!("dashboard/server_log.js"),
    include_str!("dashboard/tools.js"),
    include_str!("dashboard/trial.js"),
    include_str!("dashboard/as.js"),
    include_str!("dashboard/resources.js"),
    include_str!("dashboard/calls.js"),
    include_str!("dashboard/approvals.js"),
    include_str!("dashboard/access.js"),
    include_str!("dashboard/candidate.js"),
    include_str!("dashboard/rules.js"),
    include_str!("dashboard/agents.js"),
    include_str!("dashboard/charts.js"),
    include_str!("dashboard/shadow.js"),
    include_str!("dashboard/overview.js"),
    include_str!("dashboard/start.js"),
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_one_small_response_that_needs_no_other() {
        let page = page("0123");
        assert!(page.len() <= 150_000, "{} bytes", page.len());
        for (text, count) in [("nonce=\"0123\"", 2), ("<script", 1), ("</script>", 1), ("<style", 1), ("</style>", 1)] {
            assert_eq!(page.matches(text).count(), count, "{text}");
        }
        // The name of a format, which nobody opens.
        let addresses = page.replace("http://www.w3.org/2000/svg", "");
        for text in ["NONCE", "STYLE", "SCRIPT", "src=", "http://", "https://", "innerHTML"] {
            assert!(!addresses.contains(text), "{text}");
        }
        assert!(page.ends_with("start();\n\n</script>\n</body>\n</html>\n"));
    }
}
