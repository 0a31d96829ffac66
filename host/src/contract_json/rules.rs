//! The JSON of rules, and of what surrounds a call.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::macros::{json_as, json_by_name};
use crate::logic::types::rules::{
    AgentContext, CallCount, CallLimit, Caller, Circumstances, Effect, KnownValue, LimitScope, ResultRule, Rule,
    RuleSet,
};

json_by_name!(LimitScope);
json_as!(RuleSet as RuleSetJson, Rule as RuleJson, Effect as EffectJson, CallLimit as CallLimitJson);
json_as!(ResultRule as ResultRuleJson, CallCount as CallCountJson);
json_as!(Circumstances as CircumstancesJson, Caller as CallerJson, AgentContext as AgentContextJson);

#[derive(Serialize, Deserialize)]
#[serde(remote = "RuleSet", deny_unknown_fields, expecting = "rules: an object with lists, results and known")]
struct RuleSetJson {
    #[serde(default)]
    lists: Vec<Vec<Rule>>,
    #[serde(default)]
    results: Vec<ResultRule>,
    #[serde(default)]
    known: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Rule", deny_unknown_fields, expecting = "a rule: an object with name, tools, when and then")]
struct RuleJson {
    name: String,
    tools: Vec<String>,
    #[serde(rename = "when", default, skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
    #[serde(rename = "then")]
    effect: Effect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<CallLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    because: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Effect", rename_all = "snake_case")]
enum EffectJson {
    Deny,
    Ask,
    Allow,
    Label(Vec<String>),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CallLimit", deny_unknown_fields, expecting = "a limit: an object with calls, per_ms and by")]
struct CallLimitJson {
    calls: u32,
    per_ms: u64,
    by: LimitScope,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ResultRule", deny_unknown_fields, expecting = "an object with tools and labels")]
struct ResultRuleJson {
    tools: String,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    trusted: bool,
    #[serde(default)]
    trusted_fields: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CallCount", deny_unknown_fields, expecting = "a count: an object with calls and ends_in_ms")]
struct CallCountJson {
    calls: u32,
    ends_in_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Circumstances", expecting = "an object with principal, now_ms, labels and known")]
struct CircumstancesJson {
    #[serde(flatten)]
    caller: Caller,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    now_ms: Option<u64>,
    #[serde(flatten)]
    context: AgentContext,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Caller")]
struct CallerJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    principal: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    admin: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    client: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AgentContext")]
struct AgentContextJson {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "digests")]
    known: Vec<KnownValue>,
}

/// A known value as a text of 32 hexadecimal digits.
pub(crate) struct KnownDigest(pub KnownValue);

impl Serialize for KnownDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (high, low) = self.0;
        serializer.serialize_str(&format!("{high:016x}{low:016x}"))
    }
}

impl<'de> Deserialize<'de> for KnownDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let whole = u128::from_str_radix(&text, 16).ok().filter(|_| text.len() == 32);
        let whole = whole.ok_or_else(|| D::Error::custom("a known value has 32 hexadecimal digits"))?;
        Ok(KnownDigest(((whole >> 64) as u64, whole as u64)))
    }
}

/// Known values as digests.
mod digests {
    use super::{Deserialize, Deserializer, KnownDigest, KnownValue, Serializer};

    pub(super) fn serialize<S: Serializer>(known: &[KnownValue], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(known.iter().map(|value| KnownDigest(*value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<KnownValue>, D::Error> {
        let known: Vec<KnownDigest> = Vec::deserialize(deserializer)?;
        Ok(known.into_iter().map(|KnownDigest(value)| value).collect())
    }
}
