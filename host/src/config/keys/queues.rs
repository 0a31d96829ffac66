//! The keys of `queues`, and the names of queues wherever they stand.

use super::super::document::Value;
use super::super::model::{Place, QueueRules};
use super::super::native::is_id;
use super::super::reading::{Given, Misfit, Reading};
use super::super::schema;
use super::server::limit;
use super::{Form, Key, read};

/// The keys of a queue.
pub const QUEUE: &[Key<QueueRules>] = &[
    Key::new(
        "slots",
        Form::Number(1, MAX_SLOTS),
        "",
        "How many calls run at a time; twice the number of cores and at most 64, if not given.",
        |queue, given, _| {
            queue.slots = Some(given.count(1, MAX_SLOTS)?);
            Ok(())
        },
    ),
    Key::new(
        "waiting",
        Form::Number(0, MAX_WAITING),
        "",
        "How many calls may wait for their turn, 1000 if not given; one more is refused.",
        |queue, given, _| {
            queue.waiting = Some(given.count(0, MAX_WAITING)?);
            Ok(())
        },
    ),
    Key::new(
        "timeout",
        Form::Span,
        "",
        "How long a call may wait for its turn; as long as the call itself may take, if not given.",
        |queue, given, reading| {
            queue.timeout = Some(limit(given, reading)?);
            Ok(())
        },
    ),
];

/// The schema of a queue: the number of its slots, or a map.
pub fn schema() -> serde_json::Value {
    let mut schema = schema::object_or("integer", QUEUE);
    schema["minimum"] = 1.into();
    schema["maximum"] = MAX_SLOTS.into();
    schema
}

/// Reads `queues`.
pub fn queues(given: &Given<'_>, reading: &mut Reading) -> Result<Vec<QueueRules>, Misfit> {
    let mut queues = Vec::new();
    for entry in given.map()? {
        let value = given.within(entry);
        let mut rules = QueueRules { name: checked(&entry.key, &value, &entry.place)?, ..QueueRules::default() };
        match &value.node.value {
            Value::Map(_) => read(QUEUE, &mut rules, &value, reading),
            // A queue of which nothing is said is one of the usual size.
            Value::Scalar(_) if value.node.is_null() => {}
            Value::Scalar(_) => rules.slots = Some(value.count(1, MAX_SLOTS)?),
            Value::List(_) => return Err(value.misfit("expected a number of slots or a map, found a list")),
        }
        queues.push(rules);
    }
    Ok(queues)
}

/// The name of a queue.
pub fn name(given: &Given<'_>) -> Result<String, Misfit> {
    checked(&given.text()?, given, &given.node.place)
}

fn checked(name: &str, given: &Given<'_>, place: &Place) -> Result<String, Misfit> {
    if is_id(name) {
        return Ok(name.to_owned());
    }
    let text = format!("the name {name:?} of a queue must be letters, digits, `_` and `-`");
    Err(Misfit { place: place.clone(), ..given.misfit(text) })
}

const MAX_SLOTS: u64 = 10_000;
const MAX_WAITING: u64 = 1_000_000;
