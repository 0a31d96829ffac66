use std::path::{Path, PathBuf};

use super::super::parse;
use super::super::resolve::{ResolvedShadow, resolve_shadow};
use super::super::variables::Variables;
use super::complaints;
use super::entries::check;

#[test]
fn a_candidate_is_a_component_or_a_configuration_or_both() {
    let path = |name: &str| Some(PathBuf::from(name));
    let rows = [
        ("{config: next.yaml}", ResolvedShadow { logic: None, config: path("/etc/tg/next.yaml"), sample: 1.0 }),
        (
            "{logic: '${DIR}/new.wasm', sample: 0.25}",
            ResolvedShadow { logic: path("/opt/new.wasm"), config: None, sample: 0.25 },
        ),
        (
            "{logic: ./a.wasm, config: ../b.yaml, sample: 1}",
            ResolvedShadow { logic: path("/etc/tg/./a.wasm"), config: path("/etc/tg/../b.yaml"), sample: 1.0 },
        ),
    ];
    for (section, expected) in rows {
        let config = parse(&format!("shadow: {section}"), Path::new("/etc/tg/toolgate.yaml")).unwrap();
        let found = resolve_shadow(&config, &Variables::of_test(&[("DIR", "/opt")])).unwrap().unwrap();
        let tidy = |path: Option<PathBuf>| path.map(|path| path.components().collect::<PathBuf>());
        let found = ResolvedShadow { logic: tidy(found.logic), config: tidy(found.config), ..found };
        let expected = ResolvedShadow { logic: tidy(expected.logic), config: tidy(expected.config), ..expected };
        assert_eq!(found, expected, "{section}");
    }
    let config = parse("shadow:", Path::new("toolgate.yaml")).unwrap();
    assert_eq!(resolve_shadow(&config, &Variables::of_test(&[])), Ok(None));
}

#[test]
fn a_shadow_without_a_candidate_or_with_a_strange_sample_is_refused() {
    let rows = [
        (
            "shadow: {sample: 0.5}",
            "toolgate.yaml:1:9: shadow: needs a candidate: the `logic` to try, or the `config`, or both",
        ),
        (
            "shadow: {config: x, sample: 1.5}",
            "toolgate.yaml:1:29: shadow.sample: expected a number from 0 to 1, found 1.5",
        ),
        (
            "shadow: {config: x, sample: NaN}",
            "toolgate.yaml:1:29: shadow.sample: expected a number from 0 to 1, found text",
        ),
        ("shadow: {configs: x}", "toolgate.yaml:1:10: shadow: unknown key \"configs\"; did you mean \"config\"?"),
        ("shadow: true", "toolgate.yaml:1:9: shadow: expected a map, found true or false"),
    ];
    check(rows, |text| complaints("toolgate.yaml", text));
}
