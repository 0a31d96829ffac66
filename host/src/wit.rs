//! The contract between host and component, as text.

/// The WIT package `toolgate:logic`, one interface after the other, as one file.
pub fn package() -> String {
    let bodies = FILES.iter().map(|file| file.strip_prefix(PACKAGE).unwrap_or(file).trim());
    format!("{PACKAGE}\n\n{}\n", bodies.collect::<Vec<_>>().join("\n\n"))
}

const PACKAGE: &str = "package toolgate:logic@0.1.0;";

const FILES: [&str; 12] = [
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

#[cfg(test)]
mod tests {
    #[test]
    fn the_package_is_declared_once() {
        let package = super::package();
        assert_eq!(package.matches("package toolgate:logic@0.1.0;").count(), 1);
        assert!(package.contains("\nworld logic {"));
    }
}
