//! Tests `toolgate man`.

use crate::place::Place;

#[test]
fn each_command_has_a_page() {
    let place = Place::new();
    place.run(&["man"]).ends(0).prints(".TH toolgate 1").prints("toolgate\\-call(1)").prints("Exit codes");
    place.run(&["man", "--out", "pages/man1"]).ends(0);
    let page = |name: &str| std::fs::read_to_string(place.path(&format!("work/pages/man1/{name}.1"))).unwrap();
    let help = place.run(&["--help"]).ends(0).stdout;
    let commands = help.split("Commands:").nth(1).unwrap().lines().skip(1).take_while(|line| !line.is_empty());
    // A sentence that is too long goes on below, further to the right.
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    for command in names.filter(|name| *name != "help") {
        assert!(page(&format!("toolgate-{command}")).contains("SYNOPSIS"), "{command}");
    }
    assert!(page("toolgate-rules-test").contains("SYNOPSIS"));
    assert!(!page("toolgate-call").contains(env!("CARGO_MANIFEST_DIR")));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let place = Place::new();
    let file = place.file("file", "");
    place.run(&["man", "--out", file.join("below").to_str().unwrap()]).ends(2).says("file/below");
}
