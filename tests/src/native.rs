//! The logic without its sandbox: the guest's code as a native implementation of [`Decide`].

use std::collections::BTreeMap;

use toolgate::decide::{Decide, ExecutionId, GateId, LogicResult};
use toolgate::logic::types::{
    Failure, Json, Tool, ToolRef, arguments, catalog, content, execution, filtering, lifecycle, masking, naming,
    reading, recovery, rules, search,
};
use toolgate_guest as logic;
use toolgate_guest::schema::Document;

use convert::Convert;

/// The component's own type conversions, compiled against the host's types.
#[path = "../../guest/src/export/convert.rs"]
mod convert;

/// The host's generated types under the names that the conversions expect.
mod wit {
    pub use toolgate::logic::types::{
        arguments, catalog, content, execution, filtering, lifecycle, masking, naming, reading, recovery, rules, search,
    };
    pub mod types {
        pub use toolgate::logic::types::{
            Annotations, Failure, HttpFailure, Phase, RpcFailure, Tool, ToolRef, WaitRange,
        };
    }
}

/// The guest's code, compiled natively.
#[derive(Debug, Default)]
pub struct Native {
    gates: BTreeMap<GateId, logic::execution::Gate>,
    executions: BTreeMap<ExecutionId, (GateId, logic::execution::Execution)>,
    next_id: u64,
}

impl Native {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Decide for Native {
    fn normalize(&mut self, name: &str) -> LogicResult<String> {
        Ok(logic::naming::normalize(name))
    }

    fn split(&mut self, name: &str) -> LogicResult<Result<ToolRef, naming::NameError>> {
        Ok(logic::naming::split(name).convert())
    }

    fn fit(
        &mut self,
        tools: &[naming::Candidate],
        audience: &naming::Audience,
    ) -> LogicResult<Result<Vec<naming::FittedTool>, naming::FitError>> {
        let tools: Vec<logic::naming::Candidate> = tools.to_vec().convert();
        Ok(logic::naming::fit(&tools, &audience.clone().convert()).convert())
    }

    fn parse_arguments(
        &mut self,
        text: &str,
        schema: Option<&Json>,
    ) -> LogicResult<Result<arguments::Parsed, arguments::Refusal>> {
        let schema = schema.and_then(|schema| logic::json::parse(schema).ok()).map(Document::new);
        Ok(logic::arguments::parse(text, schema.as_ref()).convert())
    }

    fn filter(&mut self, rules: &filtering::Rules, tools: &[String]) -> LogicResult<Vec<String>> {
        let kept = logic::filtering::filter(&rules.clone().convert(), tools.iter().map(String::as_str));
        Ok(kept.into_iter().map(str::to_owned).collect())
    }

    fn classify(&mut self, failure: &Failure, context: recovery::Context) -> LogicResult<recovery::Decision> {
        Ok(logic::recovery::classify(&failure.clone().convert(), &context.convert()).convert())
    }

    fn restart_delay(&mut self, restarts: u32, schedule_ms: Option<&[u64]>) -> LogicResult<u64> {
        Ok(logic::backoff::restart_delay(restarts, schedule_ms))
    }

    fn extract(&mut self, result: &Json) -> LogicResult<Result<content::Extracted, content::Unreadable>> {
        Ok(match logic::content::extract(result) {
            Ok(extracted) => Ok(content::Extracted {
                text: extracted.text,
                blocks: extracted.blocks.iter().map(logic::json::Value::to_json).collect(),
                structured: extracted.structured.as_ref().map(logic::json::Value::to_json),
                is_error: extracted.is_error,
            }),
            Err(unreadable) => Err(unreadable.convert()),
        })
    }

    fn truncate(&mut self, text: &str, max_bytes: u64, why: &str) -> LogicResult<String> {
        Ok(logic::content::truncate(text, max_bytes, why))
    }

    fn mask(&mut self, masks: &masking::Masks, text: &str) -> LogicResult<Result<String, masking::MaskError>> {
        Ok(match logic::masking::Masker::new(&masks.clone().convert()) {
            Ok(masker) => Ok(masker.mask(text).into_owned()),
            Err(error) => Err(error.convert()),
        })
    }

    fn expose(
        &mut self,
        offers: &[catalog::Offered],
        style: &naming::NamingStyle,
    ) -> LogicResult<Vec<catalog::ExposedTool>> {
        let offers = offers.iter().map(|offered| (offered.server.clone(), offered.tools.clone().convert()));
        Ok(logic::catalog::Catalog::open(offers, false).list(&style.clone().convert()).convert())
    }

    fn instructions(
        &mut self,
        servers: &[catalog::ServerNotes],
        failed: &[catalog::FailedServer],
    ) -> LogicResult<String> {
        let (servers, failed): (Vec<_>, Vec<_>) = (servers.to_vec().convert(), failed.to_vec().convert());
        Ok(logic::catalog::instructions(&servers, &failed))
    }

    fn read_calls(
        &mut self,
        text: &str,
        tools: &[reading::KnownTool],
        loose: bool,
    ) -> LogicResult<Result<Vec<reading::ReadCall>, reading::ReadingError>> {
        let tools: Vec<_> = tools.iter().map(|tool| (tool.name.clone(), tool.input_schema.clone())).collect();
        Ok(logic::reading::read_calls_of(text, &tools, loose).convert())
    }

    fn search(
        &mut self,
        tools: &[catalog::Offered],
        queries: &[String],
        limit: u32,
    ) -> LogicResult<Vec<Vec<search::SearchHit>>> {
        let offered: Vec<_> =
            tools.iter().map(|offered| (offered.server.clone(), offered.tools.clone().convert())).collect();
        Ok(logic::search::find(&offered, queries, limit as usize).convert())
    }

    fn known_values(&mut self, texts: &[String]) -> LogicResult<Vec<rules::KnownValue>> {
        Ok(logic::rules::known_values(texts).convert())
    }

    fn default_policy(&mut self) -> LogicResult<lifecycle::Policy> {
        Ok(logic::lifecycle::Policy::default().convert())
    }

    fn initial(&mut self, enabled: bool) -> LogicResult<lifecycle::Server> {
        Ok(logic::lifecycle::Server::new(enabled).convert())
    }

    fn step(
        &mut self,
        server: lifecycle::Server,
        event: &lifecycle::Event,
        policy: &lifecycle::Policy,
        now_ms: u64,
    ) -> LogicResult<lifecycle::Transition> {
        let (event, policy) = (event.clone().convert(), policy.clone().convert());
        Ok(logic::lifecycle::step(&server.convert(), &event, &policy, now_ms).convert())
    }

    fn default_settings(&mut self, servers: &[String]) -> LogicResult<execution::Settings> {
        Ok(logic::execution::Settings::new(servers.to_vec()).convert())
    }

    fn open_gate(&mut self, settings: &execution::Settings) -> LogicResult<Result<GateId, execution::SettingsError>> {
        Ok(match logic::execution::Gate::new(settings.clone().convert()) {
            Ok(gate) => {
                let id = GateId::from(self.id());
                self.gates.insert(id, gate);
                Ok(id)
            }
            Err(error) => Err(error.convert()),
        })
    }

    fn offer(&mut self, gate: GateId, server: &str, tools: &[Tool]) -> LogicResult<Vec<execution::OfferNote>> {
        Ok(self.gates[&gate].offer(server, tools.to_vec().convert()).convert())
    }

    fn withdraw(&mut self, gate: GateId, server: &str) -> LogicResult<()> {
        self.gates[&gate].withdraw(server);
        Ok(())
    }

    fn tools(
        &mut self,
        gate: GateId,
        style: &naming::NamingStyle,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<catalog::ExposedTool>> {
        let circumstances = circumstances.cloned().convert();
        Ok(self.gates[&gate].tools(&style.clone().convert(), circumstances.as_ref()).convert())
    }

    fn find_tools(
        &mut self,
        gate: GateId,
        query: &str,
        limit: u32,
        circumstances: Option<&rules::Circumstances>,
    ) -> LogicResult<Vec<search::FoundTool>> {
        let circumstances = circumstances.cloned().convert();
        Ok(self.gates[&gate].search(query, limit as usize, circumstances.as_ref()).convert())
    }

    fn foresee(
        &mut self,
        gate: GateId,
        tool: &ToolRef,
        circumstances: &rules::Circumstances,
    ) -> LogicResult<rules::Outlook> {
        Ok(self.gates[&gate].foresee(&tool.clone().convert(), &circumstances.clone().convert()).convert())
    }

    fn check_rules(&mut self, gate: GateId) -> LogicResult<Vec<rules::RuleNote>> {
        Ok(self.gates[&gate].check_rules().convert())
    }

    fn mask_json(&mut self, gate: GateId, server: &str, json: &str) -> LogicResult<String> {
        Ok(self.gates[&gate].mask_json(server, json))
    }

    fn selects(&mut self, gate: GateId, server: &str) -> LogicResult<bool> {
        Ok(self.gates[&gate].selects(server))
    }

    fn admits(&mut self, gate: GateId, server: &str) -> LogicResult<bool> {
        Ok(self.gates[&gate].admits(server))
    }

    fn begin(&mut self, gate: GateId, call: execution::ToolCall) -> LogicResult<(ExecutionId, execution::Directive)> {
        let (execution, directive) = self.gates[&gate].begin(call.convert());
        let id = ExecutionId::from(self.id());
        self.executions.insert(id, (gate, execution));
        Ok((id, directive.convert()))
    }

    fn next(&mut self, execution: ExecutionId, event: execution::Event) -> LogicResult<execution::Directive> {
        let (_, execution) = self.executions.get_mut(&execution).expect("the execution was begun here");
        Ok(execution.next(event.convert()).convert())
    }

    fn trace(&mut self, execution: ExecutionId) -> LogicResult<Vec<String>> {
        Ok(self.executions[&execution].1.trace().to_vec())
    }

    fn end(&mut self, execution: ExecutionId) -> LogicResult<()> {
        self.executions.remove(&execution);
        Ok(())
    }

    fn close_gate(&mut self, gate: GateId) -> LogicResult<()> {
        self.executions.retain(|_, (owner, _)| *owner != gate);
        self.gates.remove(&gate);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_masks_the_json_of_a_server_alike_with_and_without_a_sandbox() {
        check(&mut Native::default());
        check(&mut crate::supervisor());
    }

    fn check(logic: &mut impl Decide) {
        let masks = |group: &str| masking::Masks { groups: vec![group.to_owned()], patterns: vec![], custom: vec![] };
        let mut settings = logic.default_settings(&["a".to_owned(), "b".to_owned()]).unwrap();
        settings.masks = masks("basic");
        settings.server_settings = vec![execution::ServerSettings {
            server: "a".to_owned(),
            masks: masks("security"),
            summarize_above_tokens: None,
            structured_text: false,
        }];
        let gate = logic.open_gate(&settings).unwrap().unwrap();
        let both = r#"{"password":"hunter2hunter2","from":"a@example.com"}"#;
        for (server, json, expected) in [
            ("a", both, r#"{"password":"[MASKED_PASSWORD]","from":"[MASKED_EMAIL]"}"#),
            ("b", both, r#"{"password":"[MASKED_PASSWORD]","from":"a@example.com"}"#),
            ("b", "{\"n\": 1.10}", "{\"n\": 1.10}"),
        ] {
            assert_eq!(logic.mask_json(gate, server, json).unwrap(), expected, "{server}");
        }
        assert!(logic.admits(gate, "a").unwrap() && !logic.admits(gate, "unknown").unwrap());
        assert!(logic.selects(gate, "a").unwrap() && !logic.selects(gate, "unknown").unwrap());
        logic.close_gate(gate).unwrap();
    }
}
