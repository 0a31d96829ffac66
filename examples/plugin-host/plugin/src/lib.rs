//! A plugin that reports the weather, and tries what it was not granted.

mod bindings {
    wit_bindgen::generate!({
        path: ["../../../wit", "../../../wit/client", "wit"],
        world: "example:reporter/reporter",
        generate_all,
    });
    use super::Reporter;
    export!(Reporter);
}

use bindings::toolgate::client::tools;
use bindings::toolgate::logic::execution::ToolCall;
use bindings::toolgate::logic::naming::NamingStyle;

struct Reporter;

impl bindings::Guest for Reporter {
    async fn report() -> String {
        let mut lines = Vec::new();
        let listed = tools::list_tools(NamingStyle::Dot).await;
        let names: Vec<String> = listed.into_iter().map(|tool| tool.name).collect();
        lines.push(format!("I may use: {}", names.join(", ")));
        for (name, arguments) in [
            ("demo.forecast", "city: Bern, days: 1"),
            // A tool of a granted server, and a server that is not granted.
            ("demo.fail", "message: hello"),
            ("vault.echo", "text: all your secrets"),
        ] {
            let call = ToolCall { id: name.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() };
            let result = tools::call_tool(call).await;
            lines.push(format!("{name}: {:?}: {}", result.code, result.text));
        }
        lines.join("\n")
    }
}
