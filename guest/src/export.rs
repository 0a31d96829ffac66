//! The exports of the component: each calls the plain code, or another crate's decider.

#[cfg(feature = "client")]
mod client;
mod convert;
#[cfg(feature = "component")]
mod heap;

use std::cell::RefCell;
use std::marker::PhantomData;

use crate as logic;
use crate::decider::{Decider, Execution, Gate};
use crate::schema::Document;
use bindings::exports::toolgate::logic as wit;
use convert::Convert;

#[allow(unsafe_code, missing_docs, reason = "generated glue of the canonical ABI")]
pub mod bindings {
    #[cfg(not(feature = "client"))]
    wit_bindgen::generate!({ path: "wit", world: "logic", pub_export_macro: true });
    #[cfg(feature = "client")]
    wit_bindgen::generate!({
        path: ["wit", "wit/client"],
        world: "toolgate:client/client",
        generate_all,
        pub_export_macro: true,
    });
}

#[cfg(feature = "component")]
#[allow(unsafe_code, reason = "generated glue of the canonical ABI")]
mod ours {
    crate::export!(crate::decider::DefaultDecider);
}

/// All exports of world `logic`, with this decider.
pub struct Component<B>(PhantomData<B>);

impl<B: Decider> wit::naming::Guest for Component<B> {
    fn normalize(name: String) -> String {
        logic::naming::normalize(&name)
    }

    fn split(name: String) -> Result<wit::types::ToolRef, wit::naming::NameError> {
        logic::naming::split(&name).convert()
    }

    fn fit(
        tools: Vec<wit::naming::Candidate>,
        audience: wit::naming::Audience,
    ) -> Result<Vec<wit::naming::FittedTool>, wit::naming::FitError> {
        let tools: Vec<logic::naming::Candidate> = tools.convert();
        logic::naming::fit(&tools, &audience.convert()).convert()
    }
}

impl<B: Decider> wit::arguments::Guest for Component<B> {
    fn parse(text: String, schema: Option<String>) -> Result<wit::arguments::Parsed, wit::arguments::Refusal> {
        let schema = schema.as_deref().and_then(|schema| logic::json::parse(schema).ok()).map(Document::new);
        logic::arguments::parse(&text, schema.as_ref()).convert()
    }
}

impl<B: Decider> wit::filtering::Guest for Component<B> {
    fn filter(rules: wit::filtering::Rules, tools: Vec<String>) -> Vec<String> {
        let kept = logic::filtering::filter(&rules.convert(), tools.iter().map(String::as_str));
        kept.into_iter().map(str::to_owned).collect()
    }

    fn decide(
        policy: wit::filtering::Policy,
        tool: wit::types::ToolRef,
        annotations: wit::types::Annotations,
    ) -> Result<wit::filtering::Decision, wit::filtering::PolicyError> {
        B::decide(&policy.convert(), &tool.convert(), annotations.convert()).convert()
    }

    fn find_unmatched(
        policy: wit::filtering::Policy,
        server: String,
        tools: Vec<String>,
    ) -> Vec<wit::filtering::Unmatched> {
        logic::filtering::find_unmatched(&policy.convert(), &server, &tools).convert()
    }
}

impl<B: Decider> wit::catalog::Guest for Component<B> {
    type Catalog = logic::catalog::Catalog;

    fn changes(before: Vec<wit::types::Tool>, after: Vec<wit::types::Tool>) -> Vec<wit::catalog::ToolChange> {
        let (before, after): (Vec<logic::types::Tool>, Vec<logic::types::Tool>) = (before.convert(), after.convert());
        logic::catalog::changes(&before.iter().collect::<Vec<_>>(), &after.iter().collect::<Vec<_>>()).convert()
    }

    fn instructions(servers: Vec<wit::catalog::ServerNotes>, failed: Vec<wit::catalog::FailedServer>) -> String {
        let (servers, failed): (Vec<_>, Vec<_>) = (servers.convert(), failed.convert());
        logic::catalog::instructions(&servers, &failed)
    }
}

impl wit::catalog::GuestCatalog for logic::catalog::Catalog {
    fn new(servers: Vec<wit::catalog::Offered>, bare_names: bool) -> Self {
        logic::catalog::Catalog::open(
            servers.into_iter().map(|offered| (offered.server, offered.tools.convert())),
            bare_names,
        )
    }

    fn resolve(&self, name: String) -> Result<wit::catalog::Route, wit::naming::NameError> {
        let (tool, trace) = self.find(&name).map_err(Convert::convert)?;
        Ok(wit::catalog::Route { tool: tool.convert(), trace })
    }

    fn tools(&self, style: wit::naming::NamingStyle) -> Vec<wit::catalog::ExposedTool> {
        self.list(&style.convert()).convert()
    }
}

impl<B: Decider> wit::recovery::Guest for Component<B> {
    fn classify(failure: wit::types::Failure, context: wit::recovery::Context) -> wit::recovery::Decision {
        logic::recovery::classify(&failure.convert(), &context.convert()).convert()
    }
}

impl<B: Decider> wit::backoff::Guest for Component<B> {
    fn restart_delay(restarts: u32, schedule_ms: Option<Vec<u64>>) -> u64 {
        logic::backoff::restart_delay(restarts, schedule_ms.as_deref())
    }

    fn spread(delay_ms: u64) -> wit::types::WaitRange {
        logic::backoff::spread(delay_ms).convert()
    }

    fn retry_wait(retry_after_ms: Option<u64>) -> wit::types::WaitRange {
        logic::backoff::retry_wait(retry_after_ms).convert()
    }
}

impl<B: Decider> wit::lifecycle::Guest for Component<B> {
    fn default_policy() -> wit::lifecycle::Policy {
        B::default_policy().convert()
    }

    fn initial(enabled: bool) -> wit::lifecycle::Server {
        logic::lifecycle::Server::new(enabled).convert()
    }

    fn step(
        server: wit::lifecycle::Server,
        event: wit::lifecycle::Event,
        policy: wit::lifecycle::Policy,
        now_ms: u64,
    ) -> wit::lifecycle::Transition {
        B::step(&server.convert(), &event.convert(), &policy.convert(), now_ms).convert()
    }

    fn counts_as_ready(server: wit::lifecycle::Server) -> bool {
        logic::lifecycle::counts_as_ready(&server.convert())
    }
}

impl<B: Decider> wit::content::Guest for Component<B> {
    fn extract(result: String) -> Result<wit::content::Extracted, wit::content::Unreadable> {
        let extracted = logic::content::extract(&result).map_err(Convert::convert)?;
        Ok(wit::content::Extracted {
            text: extracted.text,
            blocks: extracted.blocks.iter().map(logic::json::Value::to_json).collect(),
            structured: extracted.structured.as_ref().map(logic::json::Value::to_json),
            is_error: extracted.is_error,
        })
    }

    fn truncate(text: String, max_bytes: u64, why: String) -> String {
        logic::content::truncate(&text, max_bytes, &why)
    }

    fn estimate_tokens(text: String) -> u64 {
        logic::content::estimate_tokens(text.len())
    }
}

impl<B: Decider> wit::masking::Guest for Component<B> {
    type Masker = logic::masking::Masker;

    fn pattern_names() -> Vec<String> {
        logic::masking::pattern_names().into_iter().map(str::to_owned).collect()
    }

    fn group_names() -> Vec<String> {
        logic::masking::group_names().into_iter().map(str::to_owned).collect()
    }
}

impl wit::masking::GuestMasker for logic::masking::Masker {
    fn new(masks: wit::masking::Masks) -> Result<Self, wit::masking::MaskError> {
        logic::masking::Masker::new(&masks.convert()).map_err(Convert::convert)
    }

    fn mask(&self, text: String) -> String {
        self.mask(&text).into_owned()
    }

    fn mask_json(&self, text: String) -> String {
        self.mask_json(&text).into_owned()
    }
}

impl<B: Decider> wit::rules::Guest for Component<B> {
    fn known_values(texts: Vec<String>) -> Vec<wit::rules::KnownValue> {
        logic::rules::known_values(&texts).convert()
    }
}

impl<B: Decider> wit::reading::Guest for Component<B> {
    fn read_calls(
        text: String,
        tools: Vec<wit::reading::KnownTool>,
        loose: bool,
    ) -> Result<Vec<wit::reading::ReadCall>, wit::reading::ReadingError> {
        let tools: Vec<_> = tools.into_iter().map(|tool| (tool.name, tool.input_schema)).collect();
        logic::reading::read_calls_of(&text, &tools, loose).convert()
    }
}

impl<B: Decider> wit::search::Guest for Component<B> {
    fn find(tools: Vec<wit::catalog::Offered>, queries: Vec<String>, limit: u32) -> Vec<Vec<wit::search::SearchHit>> {
        let offered: Vec<_> = tools.into_iter().map(|offered| (offered.server, offered.tools.convert())).collect();
        logic::search::find(&offered, &queries, limit as usize).convert()
    }
}

impl<B: Decider> wit::execution::Guest for Component<B> {
    type Execution = RefCell<<B::Gate as Gate>::Execution>;
    type Gate = B::Gate;

    fn default_settings(servers: Vec<String>) -> wit::execution::Settings {
        B::default_settings(servers).convert()
    }
}

impl<G: Gate> wit::execution::GuestGate for G {
    fn new(settings: wit::execution::Settings) -> Result<Self, wit::execution::SettingsError> {
        G::open(settings.convert()).map_err(Convert::convert)
    }

    fn offer(&self, server: String, tools: Vec<wit::types::Tool>) -> Vec<wit::execution::OfferNote> {
        Gate::offer(self, &server, tools.convert()).convert()
    }

    fn withdraw(&self, server: String) {
        Gate::withdraw(self, &server);
    }

    fn tools(
        &self,
        style: wit::naming::NamingStyle,
        circumstances: Option<wit::rules::Circumstances>,
    ) -> Vec<wit::catalog::ExposedTool> {
        Gate::tools(self, &style.convert(), circumstances.convert().as_ref()).convert()
    }

    fn search(
        &self,
        query: String,
        limit: u32,
        circumstances: Option<wit::rules::Circumstances>,
    ) -> Vec<wit::search::FoundTool> {
        Gate::search(self, &query, limit as usize, circumstances.convert().as_ref()).convert()
    }

    fn foresee(&self, tool: wit::types::ToolRef, circumstances: wit::rules::Circumstances) -> wit::rules::Outlook {
        Gate::foresee(self, &tool.convert(), &circumstances.convert()).convert()
    }

    fn check_rules(&self) -> Vec<wit::rules::RuleNote> {
        Gate::check_rules(self).convert()
    }

    fn selects(&self, server: String) -> bool {
        Gate::selects(self, &server)
    }

    fn admits(&self, server: String) -> bool {
        Gate::admits(self, &server)
    }

    fn begin(&self, call: wit::execution::ToolCall) -> wit::execution::Started {
        let (execution, directive) = Gate::begin(self, call.convert());
        let execution = wit::execution::Execution::new(RefCell::new(execution));
        wit::execution::Started { execution, directive: directive.convert() }
    }

    fn mask_json(&self, server: String, text: String) -> String {
        Gate::mask_json(self, &server, &text)
    }
}

impl<E: Execution> wit::execution::GuestExecution for RefCell<E> {
    fn next(&self, event: wit::execution::Event) -> wit::execution::Directive {
        self.borrow_mut().next(event.convert()).convert()
    }

    fn trace(&self) -> Vec<String> {
        self.borrow().trace()
    }
}
