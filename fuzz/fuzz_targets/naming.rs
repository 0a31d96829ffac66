//! Whatever tools are called, each gets a name that its audience accepts, and the name leads back to it.
//!
//! The input is a schema, a line with an outer prefix, and lines with a server and a tool each.

#![no_main]

use std::collections::{BTreeMap, BTreeSet};

use libfuzzer_sys::arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use toolgate_fuzz::schema;
use toolgate_guest::catalog::Catalog;
use toolgate_guest::naming::{self, Audience, Candidate, FitError, NamingStyle, Target};
use toolgate_guest::types::{Tool, ToolRef};

fuzz_target!(|data: &[u8]| {
    let mut dice = Unstructured::new(data);
    let schema = dice.ratio(1, 2).and_then(|some| some.then(|| schema::draw(&mut dice, 4)).transpose());
    let schema = schema.expect("drawing goes on with zeros where the input ends");
    let text = <&str>::arbitrary_take_rest(dice).unwrap_or_default();
    let (prefix, lines) = text.split_once('\n').unwrap_or(("", text));
    let pairs = lines.split('\n').filter_map(|line| line.split_once(' '));
    let tools: Vec<ToolRef> = pairs.map(|(server, tool)| ToolRef::new(server, tool)).collect();
    for target in Target::ALL {
        names_fit(&tools, schema.as_deref(), &Audience { target, prefix: prefix.to_owned() });
        lowering_is_final(schema.as_deref(), target);
        names_lead_back(&tools, NamingStyle::Fitted(Audience { target, prefix: String::new() }), text);
    }
    for style in [NamingStyle::Dot, NamingStyle::DoubleUnderscore, NamingStyle::McpPrefix, NamingStyle::McpUnderscore] {
        names_lead_back(&tools, style, text);
    }
});

fn names_fit(tools: &[ToolRef], schema: Option<&str>, audience: &Audience) {
    let candidate = |tool: &ToolRef| Candidate { tool: tool.clone(), schema: schema.map(str::to_owned) };
    let candidates: Vec<Candidate> = tools.iter().map(candidate).collect();
    let fitted = match naming::fit(&candidates, audience) {
        Ok(fitted) => fitted,
        Err(FitError::PrefixTooLong(least)) => {
            return assert!(audience.prefix.chars().count() + least as usize > rules(audience.target).0);
        }
        Err(error) => panic!("{error}"),
    };
    let (limit, signs) = rules(audience.target);
    let mut names: BTreeMap<&ToolRef, &str> = BTreeMap::new();
    for tool in &fitted {
        let name = tool.name.as_str();
        assert!(!name.is_empty() && name.len() + audience.prefix.chars().count() <= limit, "{name:?} for {audience:?}");
        assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || signs.contains(letter)), "{name:?}");
        let leads = audience.target == Target::Gemini && audience.prefix.is_empty();
        assert!(!leads || name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'), "{name:?}");
        assert_eq!(*names.entry(&tool.tool).or_insert(name), name, "two names for one tool");
    }
    assert_eq!(names.values().collect::<BTreeSet<_>>().len(), names.len(), "one name for two tools: {names:?}");
    let backwards: Vec<Candidate> = candidates.iter().rev().cloned().collect();
    let again = naming::fit(&backwards, audience).expect("the order decides nothing");
    assert!(again.iter().rev().eq(&fitted), "another order, other names");
}

/// The longest name, and what it may hold beyond letters and digits.
fn rules(target: Target) -> (usize, &'static str) {
    match target {
        Target::Mcp => (128, "_.-"),
        Target::Anthropic => (128, "_-"),
        Target::Openai => (64, "_-"),
        Target::Gemini => (64, "_.-"),
        Target::Cursor => (60, "_"),
    }
}

fn lowering_is_final(schema: Option<&str>, target: Target) {
    let once = naming::lower(schema, target).expect("the schema is JSON");
    assert_eq!(naming::lower(Some(&once), target).as_ref(), Ok(&once), "{schema:?} lowered twice for {target:?}");
}

fn names_lead_back(tools: &[ToolRef], style: NamingStyle, input: &str) {
    let is_id =
        |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let mut offers: BTreeMap<&str, Vec<Tool>> = BTreeMap::new();
    for ToolRef { server, tool } in tools.iter().filter(|tool| is_id(&tool.server)) {
        offers.entry(server).or_default().push(Tool { name: tool.clone(), ..Tool::default() });
    }
    let mut catalog = Catalog::new(offers.keys().copied(), style.clone(), true);
    for (server, tools) in offers {
        catalog.offer(server, tools);
    }
    for exposed in catalog.list(&style) {
        let found = catalog.find(&exposed.name).map(|(tool, _)| tool);
        assert_eq!(found.as_ref(), Ok(&exposed.tool), "{:?} in {style:?}", exposed.name);
    }
    // What no table knows must still be answered; where it leads somewhere, that exists.
    for name in input.split([' ', '\n']) {
        if let Ok((found, _)) = catalog.find(name) {
            assert!(catalog.has(&found.server, &found.tool));
        }
        catalog.candidates(name, &|_| true);
        if let Ok(ToolRef { server, tool }) = naming::split(name) {
            assert!(naming::readings(name).contains(&(&server, &tool)) || name.len() > 1_024);
            assert!(naming::readings(&format!("{server}.{tool}")).contains(&(&server, &tool)) || name.len() > 1_024);
        }
    }
}
