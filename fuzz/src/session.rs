//! The settings of a gate, the tools of its servers, a call, and what a host may report.

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use toolgate_guest::execution::{Event, Failed, ResultForm, Settings, Summary};
use toolgate_guest::filtering::{DestructivePolicy, SelectedServer};
use toolgate_guest::naming::{Audience, NamingStyle, Target};
use toolgate_guest::recovery::RetryPolicy;
use toolgate_guest::types::{Annotations, Failure, HttpFailure, Phase, RpcFailure, Tool};

/// Two of them make one name, and one grant, with different tools.
pub const SERVERS: [&str; 3] = ["a", "a__b", "c-1"];
/// The tools of each server.
pub const TOOLS: [&str; 5] = ["x", "b__x", "_b", "get_x", "x.y"];
const GLOBS: [&str; 7] = ["*", "x", "GET_*", "any", " ", "?__x", "x.y"];
const GRANTS: [&str; 7] = ["mcp_integration", "server:a", "tool:a__b/x", "mcp_a", "mcp_a__b_x", "mcp_a__b", "extra"];
const SCHEMAS: [&str; 3] = ["{}", r#"{"properties":{"n":{"type":"integer"}}}"#, "no JSON"];
const ANSWERS: [&str; 4] = [r#"{"content":[{"type":"text","text":"hi"}]}"#, r#"{"isError":true}"#, "{}", "[]"];
const STATUSES: [u16; 9] = [0, 200, 400, 401, 403, 404, 429, 503, 600];

/// The settings of a gate; some cannot be used.
pub fn settings(dice: &mut Unstructured<'_>) -> Result<Settings> {
    let mut settings = Settings::new(SERVERS.map(str::to_owned));
    for server in &mut settings.policy.servers {
        server.rules.allow = dice.ratio(1, 2)?.then(|| some(dice, &GLOBS)).transpose()?;
        server.rules.deny = some(dice, &GLOBS)?;
        server.ask = some(dice, &GLOBS)?;
        server.requires = if dice.ratio(1, 8)? { some(dice, &GRANTS)? } else { Vec::new() };
    }
    if dice.ratio(1, 2)? {
        let servers = some(dice, &SERVERS)?.into_iter();
        let select = |id| Ok(SelectedServer { id, tools: some(dice, &GLOBS)? });
        settings.policy.selection = Some(servers.map(select).collect::<Result<_>>()?);
    }
    settings.policy.capabilities = dice.ratio(1, 2)?.then(|| some(dice, &GRANTS)).transpose()?;
    settings.policy.read_only = dice.ratio(1, 4)?;
    settings.policy.destructive =
        *dice.choose(&[DestructivePolicy::Allow, DestructivePolicy::Ask, DestructivePolicy::Deny])?;
    let fitted = Audience { target: *dice.choose(&Target::ALL)?, prefix: String::new() };
    let styles = [NamingStyle::Dot, NamingStyle::DoubleUnderscore, NamingStyle::McpPrefix, NamingStyle::Fitted(fitted)];
    settings.style = dice.choose(&styles)?.clone();
    settings.bare_names = dice.arbitrary()?;
    settings.check_arguments = dice.arbitrary()?;
    settings.retry = *dice.choose(&[RetryPolicy::Safe, RetryPolicy::Always, RetryPolicy::Never])?;
    settings.form = *dice.choose(&[ResultForm::Text, ResultForm::PassThrough])?;
    settings.max_result_bytes = dice.int_in_range(0..=64)?;
    Ok(settings)
}

/// What each server offers.
pub fn offers(dice: &mut Unstructured<'_>) -> Result<Vec<(&'static str, Vec<Tool>)>> {
    let mut tool = |name: &str| {
        let (read_only, destructive, idempotent) = (dice.arbitrary()?, dice.arbitrary()?, dice.arbitrary()?);
        let input_schema = Some(dice.choose(&SCHEMAS)?.to_string());
        let annotations = Annotations { read_only, destructive, idempotent, open_world: None };
        Ok(Tool { name: name.into(), description: None, input_schema, annotations })
    };
    SERVERS.iter().map(|server| Ok((*server, TOOLS.iter().map(|name| tool(name)).collect::<Result<_>>()?))).collect()
}

/// A name in one of the forms that models write, or anything.
pub fn name(dice: &mut Unstructured<'_>) -> Result<String> {
    let (server, tool) = (*dice.choose(&SERVERS)?, *dice.choose(&TOOLS)?);
    Ok(match dice.int_in_range(0..=5)? {
        0 => format!("{server}.{tool}"),
        1 => format!("{server}__{tool}"),
        2 => format!("mcp__{server}__{tool}"),
        3 => format!("mcp_{server}_{tool}"),
        4 => tool.to_owned(),
        _ => dice.arbitrary()?,
    })
}

/// Arguments as a model writes them.
pub fn arguments(dice: &mut Unstructured<'_>) -> Result<String> {
    Ok(dice.choose(&["", "n: 1", r#"{"n":"x"}"#, "free text"])?.to_string())
}

/// Something that a host reports, in season or not.
pub fn event(dice: &mut Unstructured<'_>) -> Result<Event> {
    Ok(match dice.int_in_range(0..=11)? {
        0 => Event::Connected,
        1 => Event::Answered(dice.choose(&ANSWERS)?.to_string()),
        2 => Event::Forwarded(Summary { is_error: dice.arbitrary()? }),
        3 => Event::Reconnected,
        4 => Event::Authenticated,
        5 => Event::Waited,
        6 => Event::Approved(dice.arbitrary()?),
        7 => Event::Unasked,
        8 => Event::Cancelled,
        _ => Event::Failed(Failed { failure: failure(dice)?, phase: *dice.choose(&[Phase::Sent, Phase::NotSent])? }),
    })
}

fn failure(dice: &mut Unstructured<'_>) -> Result<Failure> {
    Ok(match dice.int_in_range(0..=11)? {
        0 => Failure::Cancelled,
        1 => Failure::Timeout,
        2 => Failure::Connect("refused".into()),
        3 => Failure::Closed,
        4 => Failure::Exited(dice.arbitrary()?),
        5 => Failure::Rpc(RpcFailure { code: -32603, message: "closed".into() }),
        6 => Failure::Protocol("no JSON".into()),
        7 => Failure::QueueFull(String::new()),
        8 => Failure::NeedsAuth("no token".into()),
        9 => Failure::RestartInProgress,
        10 => Failure::RestartFailed("exit code 1".into()),
        11 => Failure::RulesUnavailable("no store".into()),
        _ => Failure::Http(HttpFailure {
            status: *dice.choose(&STATUSES)?,
            session: dice.arbitrary()?,
            challenge: dice.arbitrary()?,
            retry_after_ms: dice.arbitrary()?,
        }),
    })
}

/// Whether a request that ended so may have made its tool run, by the table of the contract and not by the code's.
pub fn may_have_run(event: &Event) -> bool {
    match event {
        Event::Answered(_) => true,
        Event::Failed(Failed { phase: Phase::Sent, failure }) => match failure {
            Failure::Timeout | Failure::Closed | Failure::Exited(_) | Failure::Protocol(_) => true,
            Failure::Http(http) => !(400..500).contains(&http.status),
            _ => false,
        },
        _ => false,
    }
}

/// Up to two of a pool.
fn some(dice: &mut Unstructured<'_>, pool: &[&str]) -> Result<Vec<String>> {
    (0..dice.int_in_range(0..=2)?).map(|_| Ok(dice.choose(pool)?.to_string())).collect()
}
