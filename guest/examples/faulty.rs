//! A component of world `logic` that misbehaves on demand, for the tests of its host.
//!
//! `normalize` does what its name argument says. A gate accepts all settings and offers, and a call does what its
//! arguments say, or is denied. Nothing else is implemented.

#![allow(missing_docs, unsafe_code, reason = "generated glue, and a fixture")]
#![cfg(target_family = "wasm")]

wit_bindgen::generate!({ path: "wit", world: "logic" });
export!(Faulty);

use exports::toolgate::logic::{
    arguments, backoff, catalog, content, execution, filtering, lifecycle, masking, naming, reading, recovery, rules,
    search, types,
};

struct Faulty;

impl naming::Guest for Faulty {
    fn normalize(name: String) -> String {
        misbehave(&name);
        name
    }

    fn split(_: String) -> Result<types::ToolRef, naming::NameError> {
        unimplemented!()
    }

    fn fit(_: Vec<naming::Candidate>, _: naming::Audience) -> Result<Vec<naming::FittedTool>, naming::FitError> {
        unimplemented!()
    }
}

fn misbehave(fault: &str) {
    match fault {
        "panic" => panic!("the gate is stuck"),
        "chatter" => {
            eprintln!("{}", "chatter ".repeat(100_000));
            panic!("after much chatter")
        }
        "exit" => std::process::exit(3),
        "loop" => loop {
            std::hint::spin_loop();
        },
        "grow" => {
            let mut hoard = Vec::new();
            loop {
                hoard.push(vec![1_u8; 1 << 20]);
            }
        }
        "recurse" => drop(std::hint::black_box(recurse(1))),
        _ => {}
    }
}

#[expect(unconditional_recursion, reason = "that is the fault")]
fn recurse(depth: u64) -> u64 {
    let local = std::hint::black_box([depth; 64]);
    recurse(local[0] + 1) + local[1]
}

impl arguments::Guest for Faulty {
    fn parse(_: String, _: Option<String>) -> Result<arguments::Parsed, arguments::Refusal> {
        unimplemented!()
    }
}

impl filtering::Guest for Faulty {
    fn filter(_: filtering::Rules, _: Vec<String>) -> Vec<String> {
        unimplemented!()
    }

    fn decide(
        _: filtering::Policy,
        _: types::ToolRef,
        _: types::Annotations,
    ) -> Result<filtering::Decision, filtering::PolicyError> {
        unimplemented!()
    }

    fn find_unmatched(_: filtering::Policy, _: String, _: Vec<String>) -> Vec<filtering::Unmatched> {
        Vec::new()
    }
}

impl catalog::Guest for Faulty {
    type Catalog = Faulty;

    fn changes(_: Vec<types::Tool>, _: Vec<types::Tool>) -> Vec<catalog::ToolChange> {
        unimplemented!()
    }

    fn instructions(_: Vec<catalog::ServerNotes>, _: Vec<catalog::FailedServer>) -> String {
        unimplemented!()
    }
}

impl catalog::GuestCatalog for Faulty {
    fn new(_: Vec<catalog::Offered>, _: bool) -> Self {
        unimplemented!()
    }

    fn resolve(&self, _: String) -> Result<catalog::Route, naming::NameError> {
        unimplemented!()
    }

    fn tools(&self, _: naming::NamingStyle) -> Vec<catalog::ExposedTool> {
        unimplemented!()
    }
}

impl recovery::Guest for Faulty {
    fn classify(_: types::Failure, _: recovery::Context) -> recovery::Decision {
        unimplemented!()
    }
}

impl backoff::Guest for Faulty {
    fn restart_delay(_: u32, _: Option<Vec<u64>>) -> u64 {
        unimplemented!()
    }

    fn spread(_: u64) -> types::WaitRange {
        unimplemented!()
    }

    fn retry_wait(_: Option<u64>) -> types::WaitRange {
        unimplemented!()
    }
}

impl lifecycle::Guest for Faulty {
    fn default_policy() -> lifecycle::Policy {
        unimplemented!()
    }

    fn initial(_: bool) -> lifecycle::Server {
        unimplemented!()
    }

    fn step(_: lifecycle::Server, _: lifecycle::Event, _: lifecycle::Policy, _: u64) -> lifecycle::Transition {
        unimplemented!()
    }

    fn counts_as_ready(_: lifecycle::Server) -> bool {
        unimplemented!()
    }
}

impl content::Guest for Faulty {
    fn extract(_: String) -> Result<content::Extracted, content::Unreadable> {
        unimplemented!()
    }

    fn truncate(_: String, _: u64, _: String) -> String {
        unimplemented!()
    }

    fn estimate_tokens(_: String) -> u64 {
        unimplemented!()
    }
}

impl masking::Guest for Faulty {
    type Masker = Faulty;

    fn pattern_names() -> Vec<String> {
        unimplemented!()
    }

    fn group_names() -> Vec<String> {
        unimplemented!()
    }
}

impl masking::GuestMasker for Faulty {
    fn new(_: masking::Masks) -> Result<Self, masking::MaskError> {
        unimplemented!()
    }

    fn mask(&self, _: String) -> String {
        unimplemented!()
    }

    fn mask_json(&self, _: String) -> String {
        unimplemented!()
    }
}

impl rules::Guest for Faulty {
    fn known_values(_: Vec<String>) -> Vec<rules::KnownValue> {
        unimplemented!()
    }
}

impl reading::Guest for Faulty {
    fn read_calls(
        _: String,
        _: Vec<reading::KnownTool>,
        _: bool,
    ) -> Result<Vec<reading::ReadCall>, reading::ReadingError> {
        unimplemented!()
    }
}

impl search::Guest for Faulty {
    fn find(_: Vec<catalog::Offered>, _: Vec<String>, _: u32) -> Vec<Vec<search::SearchHit>> {
        unimplemented!()
    }
}

impl execution::Guest for Faulty {
    type Execution = Faulty;
    type Gate = Faulty;

    fn default_settings(_: Vec<String>) -> execution::Settings {
        unimplemented!()
    }
}

impl execution::GuestGate for Faulty {
    fn new(_: execution::Settings) -> Result<Self, execution::SettingsError> {
        Ok(Faulty)
    }

    fn offer(&self, _: String, _: Vec<types::Tool>) -> Vec<execution::OfferNote> {
        Vec::new()
    }

    fn withdraw(&self, _: String) {}

    fn tools(&self, _: naming::NamingStyle, _: Option<rules::Circumstances>) -> Vec<catalog::ExposedTool> {
        unimplemented!()
    }

    fn search(&self, _: String, _: u32, _: Option<rules::Circumstances>) -> Vec<search::FoundTool> {
        unimplemented!()
    }

    fn foresee(&self, _: types::ToolRef, _: rules::Circumstances) -> rules::Outlook {
        unimplemented!()
    }

    fn check_rules(&self) -> Vec<rules::RuleNote> {
        unimplemented!()
    }

    fn selects(&self, _: String) -> bool {
        unimplemented!()
    }

    fn admits(&self, _: String) -> bool {
        unimplemented!()
    }

    fn begin(&self, call: execution::ToolCall) -> execution::Started {
        for fault in ["panic", "exit", "loop", "grow", "recurse"] {
            if call.arguments.contains(fault) {
                misbehave(fault);
            }
        }
        let result = execution::ToolResult {
            call_id: call.id,
            name: call.name,
            tool: None,
            text: "kept out".to_owned(),
            content: Vec::new(),
            structured: None,
            more: None,
            answer: None,
            is_error: true,
            code: execution::Code::NotAllowed,
            attempts: 0,
            truncated: false,
            clean: false,
            trace: vec!["faulty: it keeps all out".to_owned()],
            learned: None,
        };
        let directive = execution::Directive::Done(result);
        execution::Started { execution: execution::Execution::new(Faulty), directive }
    }

    fn mask_json(&self, _: String, _: String) -> String {
        unimplemented!()
    }
}

impl execution::GuestExecution for Faulty {
    fn next(&self, _: execution::Event) -> execution::Directive {
        unimplemented!()
    }

    fn trace(&self) -> Vec<String> {
        unimplemented!()
    }
}
