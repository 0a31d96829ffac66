//! The WIT contracts between hosts and components, as text.

/// Returns the WIT package `toolgate:logic` as one file.
pub fn package() -> String {
    format!("{LOGIC};\n\n{}\n", bodies(LOGIC, &LOGIC_FILES).join("\n\n"))
}

/// Returns the WIT package `toolgate:client`, and `toolgate:logic` that it builds on, as one file.
pub fn client_package() -> String {
    let logic = bodies(LOGIC, &LOGIC_FILES).join("\n\n");
    let indented = logic.lines().map(|line| if line.is_empty() { String::new() } else { format!("    {line}") });
    let logic = indented.collect::<Vec<_>>().join("\n");
    format!("{CLIENT};\n\n{}\n\n{LOGIC} {{\n{logic}\n}}\n", bodies(CLIENT, &CLIENT_FILES).join("\n\n"))
}

/// Returns the contents of files without their package declaration.
fn bodies<'a>(package: &str, files: &'a [&str]) -> Vec<&'a str> {
    let body =
        |file: &'a str| file.strip_prefix(package).and_then(|rest| rest.strip_prefix(';')).unwrap_or(file).trim();
    files.iter().map(|file| body(file)).collect()
}

const LOGIC: &str = "package toolgate:logic@0.1.0";
const CLIENT: &str = "package toolgate:client@0.1.0";

const LOGIC_FILES: [&str; 12] = [
    include_str!("../wit/types.wit"),
    include_str!("../wit/naming.wit"),
    include_str!("../wit/arguments.wit"),
    include_str!("../wit/filtering.wit"),
    include_str!("../wit/catalog.wit"),
    include_str!("../wit/recovery.wit"),
    include_str!("../wit/backoff.wit"),
    include_str!("../wit/lifecycle.wit"),
    include_str!("../wit/content.wit"),
    include_str!("../wit/masking.wit"),
    include_str!("../wit/execution.wit"),
    include_str!("../wit/world.wit"),
];

const CLIENT_FILES: [&str; 4] = [
    include_str!("../wit/client/transport.wit"),
    include_str!("../wit/client/tool-executor.wit"),
    include_str!("../wit/client/tools.wit"),
    include_str!("../wit/client/world.wit"),
];

#[cfg(test)]
mod tests {
    #[test]
    fn a_package_is_declared_once() {
        let package = super::package();
        assert_eq!(package.matches("package toolgate:logic@0.1.0;").count(), 1);
        assert!(package.contains("\nworld logic {"));
    }

    #[test]
    fn the_package_of_the_client_holds_the_one_that_it_builds_on() {
        let package = super::client_package();
        assert_eq!(package.matches("package ").count(), 2, "{package}");
        assert!(package.starts_with("package toolgate:client@0.1.0;\n"));
        assert!(package.contains("\nworld client {") && package.contains("\npackage toolgate:logic@0.1.0 {\n"));
    }
}
