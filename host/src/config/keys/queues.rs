//! The keys of `queues`, and the check of queue names.

use super::super::document::NodeValue;
use super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::model::{FilePosition, QueueRules, is_id};
use super::super::section::{ConfigKey, KeyForm, read_keys, schema};

type Key = ConfigKey<QueueRules>;

/// The keys of a queue.
pub(crate) const QUEUE: &[Key] = &[
    Key::new("slots", KeyForm::Number(1, MAX_SLOTS, |queue, number| queue.slots = Some(number)))
        .about("How many calls run at a time; default: twice the number of cores, and at most 64."),
    Key::new("waiting", KeyForm::Number(0, MAX_WAITING, |queue, number| queue.waiting = Some(number)))
        .about("How many calls may wait for a slot; more are refused. Default: 1000."),
    Key::new("timeout", KeyForm::Limit(|queue, limit| queue.timeout = Some(limit)))
        .about("How long a call may wait for a slot; default: as long as the call itself may take."),
];

/// Returns the schema of a queue: the number of its slots, or a map.
pub(crate) fn schema() -> serde_json::Value {
    let mut schema = schema::object_or("integer", QUEUE);
    schema["minimum"] = 1.into();
    schema["maximum"] = MAX_SLOTS.into();
    schema
}

/// Reads `queues`.
pub(crate) fn read_queues(field: &ConfigField<'_>, context: &mut ReadContext) -> Result<Vec<QueueRules>, FieldError> {
    let mut queues = Vec::new();
    for entry in field.map()? {
        let value = field.child(entry);
        let mut rules =
            QueueRules { name: check_queue_name(&entry.key, &value, &entry.place)?, ..QueueRules::default() };
        match &value.node.value {
            NodeValue::Map(_) => read_keys(QUEUE, &mut rules, &value, context),
            // A queue without a value gets the defaults.
            NodeValue::Scalar(_) if value.node.is_null() => {}
            NodeValue::Scalar(_) => rules.slots = Some(value.count(1, MAX_SLOTS)?),
            NodeValue::List(_) => return Err(value.error("expected a number of slots or a map, found a list")),
        }
        queues.push(rules);
    }
    Ok(queues)
}

/// Reads the name of a queue.
pub(crate) fn read_queue_name(field: &ConfigField<'_>) -> Result<String, FieldError> {
    check_queue_name(&field.text()?, field, &field.node.place)
}

fn check_queue_name(name: &str, field: &ConfigField<'_>, position: &FilePosition) -> Result<String, FieldError> {
    if is_id(name) {
        return Ok(name.to_owned());
    }
    let text = format!("the name {name:?} of a queue must be letters, digits, `_` and `-`");
    Err(FieldError { place: position.clone(), ..field.error(text) })
}

const MAX_SLOTS: u64 = 10_000;
const MAX_WAITING: u64 = 1_000_000;
