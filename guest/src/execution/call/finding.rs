//! What a call of one of the gate's own tools does.

use super::{Execution, ResultSource, State};
use crate::execution::own_tools::{self, OwnTool, Search};
use crate::execution::{Code, Directive, ResultForm, ToolResult};
use crate::json::{Object, Value};
use crate::rules::Circumstances;

impl Execution {
    /// Begins the call: finds tools, or finds the one tool that it means.
    pub(super) fn start(&mut self) -> Directive {
        let own = self.gate.borrow().own_tool_named(&self.call.name);
        if own == Some(OwnTool::Call) {
            match own_tools::read_call(&self.call.arguments) {
                Ok((name, arguments)) => {
                    self.note(format!("call_tool means a call of {name:?}"));
                    (self.call.name, self.call.arguments) = (name, arguments);
                }
                Err(why) => return self.fail(Code::InvalidArguments, &why),
            }
        }
        let means = own.and_then(|_| self.gate.borrow().own_tool_named(&self.call.name));
        match means {
            None => self.route(true),
            Some(_) => match own_tools::read_search(&self.call.arguments) {
                Ok(search) => self.find(search, true),
                Err(why) => self.fail(Code::InvalidArguments, &why),
            },
        }
    }

    /// Finds tools. If `may_connect`, servers that have not listed their tools yet are connected first.
    pub(super) fn find(&mut self, search: Search, may_connect: bool) -> Directive {
        let gate = self.gate.borrow();
        if may_connect {
            let missing: Vec<_> =
                gate.catalog.without_offer(&|server| gate.access.selects(server)).map(str::to_owned).collect();
            if !missing.is_empty() {
                self.state = State::Finding(search);
                return Directive::Connect(missing);
            }
        }
        let restricts = gate.rules.restricts();
        drop(gate);
        if !restricts {
            return self.found(&search, None);
        }
        self.state = State::FindingAllowed(search);
        Directive::Circumstances(false)
    }

    /// Ends the call with the tools that are found.
    pub(super) fn found(&mut self, search: &Search, seen: Option<&Circumstances>) -> Directive {
        let (told, note) = {
            let gate = self.gate.borrow();
            let found = gate.find(search, seen);
            (gate.tell(&found), format!("tools found for {:?}: {}", search.query, found.len()))
        };
        self.note(note);
        self.state = State::Done(ResultSource::Found(told.clone()));
        Directive::Done(self.found_result(told))
    }

    /// Returns the result that tells which tools were found: as structured content, and as text.
    pub(super) fn found_result(&self, told: String) -> ToolResult {
        let mut block = Object::new();
        block.set("type", Value::string("text"));
        block.set("text", Value::string(told.as_str()));
        let block = Value::Object(block).to_json();
        let result = self.result(Code::Ok, String::new());
        match self.gate.borrow().settings.form {
            ResultForm::Text => {
                ToolResult { content: vec![block], structured: Some(told.clone()), text: told, ..result }
            }
            ResultForm::PassThrough => {
                let answer = format!(r#"{{"content":[{block}],"structuredContent":{told}}}"#);
                ToolResult { answer: Some(answer), ..result }
            }
        }
    }
}
