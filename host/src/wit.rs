//! The WIT contracts between hosts and components, as text.

const LOGIC: &str = "package toolgate:logic@0.1.0";
const CLIENT: &str = "package toolgate:client@0.1.0";

/// Every file of `wit/` and of `wit/client/`, as `build.rs` found them: a list kept by hand would miss the next one.
const LOGIC_FILES: &[&str] = include!(concat!(env!("OUT_DIR"), "/wit-logic.rs"));
const CLIENT_FILES: &[&str] = include!(concat!(env!("OUT_DIR"), "/wit-client.rs"));

/// Returns the WIT package `toolgate:logic` as one file.
pub fn package() -> String {
    format!("{LOGIC};\n\n{}\n", bodies(LOGIC, LOGIC_FILES))
}

/// Returns the WIT package `toolgate:client`, and `toolgate:logic` that it builds on, as one file.
pub fn client_package() -> String {
    let mut logic = String::new();
    for line in bodies(LOGIC, LOGIC_FILES).lines() {
        if !line.is_empty() {
            logic += "    ";
            logic += line;
        }
        logic.push('\n');
    }
    format!("{CLIENT};\n\n{}\n\n{LOGIC} {{\n{logic}}}\n", bodies(CLIENT, CLIENT_FILES))
}

/// Joins the contents of the files of a package without their declarations of it.
fn bodies(package: &str, files: &[&str]) -> String {
    let declaration = format!("{package};");
    let mut bodies = Vec::new();
    for file in files {
        bodies.push(file.strip_prefix(&declaration).unwrap_or(file).trim());
    }
    bodies.join("\n\n")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use wit_parser::Resolve;

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

    #[test]
    fn another_parser_finds_every_file_of_the_folder_in_what_is_printed() {
        check(&super::package(), "logic", &[("logic", "wit")]);
        check(&super::client_package(), "client", &[("logic", "wit"), ("client", "wit/client")]);
    }

    /// Parses a printed contract, and compares its interfaces and worlds with the names of the files in the folders.
    fn check(printed: &str, world: &str, packages: &[(&str, &str)]) {
        let mut resolve = Resolve::default();
        let main = resolve.push_source("printed.wit", printed).unwrap_or_else(|error| panic!("{world}: {error:#}"));
        resolve.select_world(&[main], Some(world)).unwrap();
        for (package, folder) in packages {
            let parsed = resolve.packages.iter().find(|(_, parsed)| parsed.name.name == *package).unwrap().1;
            let mut items: Vec<String> = parsed.interfaces.keys().cloned().collect();
            assert!(parsed.worlds.contains_key(*package), "{package} has {:?}", parsed.worlds);
            items.push("world".to_owned());
            items.sort();
            assert_eq!(items, names(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)), "{package}");
        }
    }

    /// Returns the names of the WIT files in a folder: an interface is named after its file.
    fn names(folder: &Path) -> Vec<String> {
        let mut names = Vec::new();
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "wit") {
                names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
            }
        }
        names.sort();
        names
    }
}
