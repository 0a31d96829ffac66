//! Tests of finding and killing descendants.

use super::*;

#[test]
fn a_process_is_among_the_descendants_of_its_ancestors_until_it_is_killed() {
    let mut shell = std::process::Command::new("sh");
    // Two levels. A name with a parenthesis or a space does no harm, because the last parenthesis counts.
    let mut shell = shell.args(["-c", "sh -c 'sleep 1000; :' & wait"]).spawn().unwrap();
    let found = loop {
        let ours = of(std::process::id());
        let theirs = of(shell.id());
        assert!(ours.iter().any(|process| process.id == shell.id()));
        if theirs.len() == 2 {
            break theirs;
        }
        std::thread::yield_now();
    };
    let stale: Vec<_> =
        found.iter().map(|process| Process { started: process.started + 1, ..process.clone() }).collect();
    kill(&stale);
    assert_eq!(of(shell.id()), found, "a process that started at another time is another process");
    kill(&found);
    shell.wait().unwrap();
}
