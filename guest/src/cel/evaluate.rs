//! Evaluates a condition, and stops when that costs too much.

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use super::functions;
use super::tree::{Comprehension, Expression, Kind, Macro, Operator};
use super::value::{Compared, List, Map, Value};

/// What a condition sees of the world.
pub trait Environment<'a> {
    /// Returns a variable by its number; `None` if its value is not known yet.
    fn variable(&'a self, variable: usize) -> Option<Value<'a>>;

    /// Calls a foreign function by its number; the error is a sentence.
    fn call(&'a self, function: usize, arguments: &[Value<'a>]) -> Result<Value<'a>, String>;
}

/// The reason why a condition has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// It depends on a variable whose value is not known yet.
    Unknown,
    /// It fails at this byte of the condition, for this reason.
    Error(usize, String),
}

pub(super) type Evaluated<'a> = Result<Value<'a>, NoValue>;

/// Evaluates a condition.
pub(super) fn evaluate<'a>(root: &'a Expression, environment: &'a dyn Environment<'a>) -> Evaluated<'a> {
    Evaluation { environment, left: Cell::new(MAX_COST) }.value(root, &mut Vec::new())
}

/// The maximum cost of a condition: each part that is evaluated costs one, and so does each item or 16 bytes of text
/// that it reads or makes.
const MAX_COST: usize = 50_000;

struct Evaluation<'a> {
    environment: &'a dyn Environment<'a>,
    /// The cost that is left.
    left: Cell<usize>,
}

impl<'a> Evaluation<'a> {
    fn spend(&self, cost: usize, at: usize) -> Result<(), NoValue> {
        match self.left.get().checked_sub(cost) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                // What comes after must fail as well, or an absorbed failure would let it go on.
                self.left.set(0);
                Err(NoValue::Error(at, "the condition costs too much to evaluate".to_owned()))
            }
        }
    }

    /// Returns the cost of reading a value, which is too much if it is not all counted.
    fn weight(&self, value: &Value<'a>) -> usize {
        value.weight(self.left.get() + 1)
    }

    fn value(&self, node: &'a Expression, locals: &mut Vec<Value<'a>>) -> Evaluated<'a> {
        let at = node.at;
        self.spend(1, at)?;
        let fail = |message: String| Err(NoValue::Error(at, message));
        match &node.kind {
            Kind::Null => Ok(Value::Null),
            Kind::Bool(truth) => Ok(Value::Bool(*truth)),
            Kind::Int(number) => Ok(Value::Int(*number)),
            Kind::Double(number) => Ok(Value::Double(*number)),
            Kind::String(text) => Ok(Value::String(Cow::Borrowed(text))),
            Kind::Type(name) => Ok(Value::Type(name)),
            Kind::Variable(variable) => self.environment.variable(*variable).ok_or(NoValue::Unknown),
            Kind::Local(local) => Ok(locals[*local].clone()),
            Kind::List(items) => {
                let items: Result<Vec<_>, _> = items.iter().map(|item| self.value(item, locals)).collect();
                items.map(Value::list)
            }
            Kind::Map(members) => self.map(members, locals),
            Kind::Select(value, name) => {
                let value = self.value(value, locals)?;
                self.member(&value, &Value::String(Cow::Borrowed(name)), at)
            }
            Kind::Has(value, name) => match self.value(value, locals)? {
                Value::Map(map) => {
                    let name = Value::String(Cow::Borrowed(name));
                    Ok(Value::Bool(self.look_up(&map, &name, at)?.is_some()))
                }
                other => fail(format!("a {} has no member {name:?}", other.kind())),
            },
            Kind::Index(value, index) => {
                let value = self.value(value, locals)?;
                let index = self.value(index, locals)?;
                self.member(&value, &index, at)
            }
            Kind::Not(operand) => match self.value(operand, locals)? {
                Value::Bool(truth) => Ok(Value::Bool(!truth)),
                other => fail(format!("`!` needs a bool, found a {}", other.kind())),
            },
            Kind::Negate(operand) => match self.value(operand, locals)?.calculable().as_ref() {
                Value::Int(number) => match number.checked_neg() {
                    Some(number) => Ok(Value::Int(number)),
                    None => fail("the number is too large".to_owned()),
                },
                Value::Double(number) => Ok(Value::Double(-number)),
                other => fail(format!("`-` needs a number, found a {}", other.kind())),
            },
            Kind::And(parts) => self.junction(parts.iter().map(|part| self.truth(part, locals)), false),
            Kind::Or(parts) => self.junction(parts.iter().map(|part| self.truth(part, locals)), true),
            Kind::Choose(parts) => {
                let [condition, one, other] = &**parts;
                let chosen = if self.truth(condition, locals)? { one } else { other };
                self.value(chosen, locals)
            }
            Kind::Binary(operator, sides) => {
                let [left, right] = &**sides;
                let left = self.value(left, locals)?;
                let right = self.value(right, locals)?;
                self.binary(*operator, &left, &right, at)
            }
            Kind::Matches(text, regex) => match self.value(text, locals)? {
                Value::String(text) => {
                    self.spend(text.len(), at)?;
                    Ok(Value::Bool(regex.is_match(&text)))
                }
                other => fail(format!("matches needs a text, found a {}", other.kind())),
            },
            Kind::Call(function, arguments) => {
                let mut arguments = self.all(arguments, locals, at)?;
                for argument in &mut arguments {
                    *argument = argument.calculable().into_owned();
                }
                let made = functions::call(*function, &arguments, at)?;
                self.spend(self.weight(&made), at)?;
                Ok(made)
            }
            Kind::Foreign(function, arguments) => {
                let arguments = self.all(arguments, locals, at)?;
                self.environment.call(*function, &arguments).or_else(fail)
            }
            Kind::Macro(kind, parts) => self.comprehension(*kind, parts, locals, at),
        }
    }

    /// Evaluates arguments, and pays for reading them.
    fn all(
        &self,
        arguments: &'a [Expression],
        locals: &mut Vec<Value<'a>>,
        at: usize,
    ) -> Result<Vec<Value<'a>>, NoValue> {
        let values: Vec<Value<'a>> =
            arguments.iter().map(|argument| self.value(argument, locals)).collect::<Result<_, _>>()?;
        for value in &values {
            self.spend(self.weight(value), at)?;
        }
        Ok(values)
    }

    fn truth(&self, node: &'a Expression, locals: &mut Vec<Value<'a>>) -> Result<bool, NoValue> {
        match self.value(node, locals)? {
            Value::Bool(truth) => Ok(truth),
            other => Err(NoValue::Error(node.at, format!("expected a bool, found a {}", other.kind()))),
        }
    }

    /// Joins truths: one that decides makes up for all failures.
    fn junction(&self, truths: impl Iterator<Item = Result<bool, NoValue>>, decides: bool) -> Evaluated<'a> {
        let mut failed: Option<NoValue> = None;
        for truth in truths {
            match truth {
                Ok(truth) if truth == decides => return Ok(Value::Bool(decides)),
                Ok(_) => {}
                // What is not known yet may still decide.
                Err(NoValue::Unknown) => failed = Some(NoValue::Unknown),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn map(&self, members: &'a [(Expression, Expression)], locals: &mut Vec<Value<'a>>) -> Evaluated<'a> {
        let mut made: Vec<(Value<'a>, Value<'a>)> = Vec::with_capacity(members.len());
        for (key_node, value) in members {
            let key = self.value(key_node, locals)?;
            if !is_key(&key) || matches!(key, Value::Double(_) | Value::Number(_)) {
                let message = format!("a {} cannot be a key", key.kind());
                return Err(NoValue::Error(key_node.at, message));
            }
            self.spend(made.len(), key_node.at)?;
            if made.iter().any(|(other, _)| *other == key) {
                return Err(NoValue::Error(key_node.at, "this key is there twice".to_owned()));
            }
            made.push((key, self.value(value, locals)?));
        }
        Ok(Value::Map(Map::Made(made.into())))
    }

    /// Returns a member of a map, if it is there. Of arguments, no other member may have a name that some servers take for
    /// this one: then nobody knows which of them the server reads.
    fn look_up(&self, map: &Map<'a>, key: &Value<'a>, at: usize) -> Result<Option<Value<'a>>, NoValue> {
        self.spend(map.len() / 16, at)?;
        if let Value::String(name) = key
            && let Some(twin) = map.twin_of(name)
        {
            return Err(NoValue::Error(at, format!("some servers take the member {twin:?} for {name:?}")));
        }
        Ok(map.get(key))
    }

    /// Returns a member of a map or an item of a list.
    fn member(&self, value: &Value<'a>, index: &Value<'a>, at: usize) -> Evaluated<'a> {
        let fail = |message: String| Err(NoValue::Error(at, message));
        match (value, index.calculable().as_ref()) {
            (Value::Map(map), index) if is_key(index) => match (self.look_up(map, index, at)?, index) {
                (Some(value), _) => Ok(value),
                (None, Value::String(name)) => fail(format!("there is no member {name:?}")),
                (None, _) => fail("there is no such member".to_owned()),
            },
            (Value::List(list), Value::Int(number)) => {
                match usize::try_from(*number).ok().and_then(|number| list.get(number)) {
                    Some(item) => Ok(item),
                    None => fail(format!("a list of {} items has no item {number}", list.len())),
                }
            }
            (Value::List(list), Value::Double(number)) if number.fract() == 0.0 => {
                self.member(&Value::List(list.clone()), &Value::Int(*number as i64), at)
            }
            (_, Value::String(name)) => fail(format!("a {} has no member {name:?}", value.kind())),
            (_, index) => fail(format!("a {} has no item at a {}", value.kind(), index.kind())),
        }
    }

    fn binary(&self, operator: Operator, left: &Value<'a>, right: &Value<'a>, at: usize) -> Evaluated<'a> {
        use Operator::{Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual, NotEqual};
        self.spend(self.weight(left).min(self.weight(right)), at)?;
        let fail = |message: String| Err(NoValue::Error(at, message));
        match operator {
            Equal => Ok(Value::Bool(left == right)),
            NotEqual => Ok(Value::Bool(left != right)),
            Less | LessOrEqual | Greater | GreaterOrEqual => match left.order(right) {
                Some(Compared(order)) => Ok(Value::Bool(order.is_some_and(|order| match operator {
                    Less => order == Ordering::Less,
                    LessOrEqual => order != Ordering::Greater,
                    Greater => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }))),
                None => fail(mismatch(operator, left, right)),
            },
            In => match right {
                Value::List(list) => {
                    self.spend(self.weight(right), at)?;
                    Ok(Value::Bool(list.iter().any(|item| item == *left)))
                }
                Value::Map(map) if is_key(left) => Ok(Value::Bool(self.look_up(map, left, at)?.is_some())),
                _ => fail(mismatch(operator, left, right)),
            },
            _ => self.arithmetic(operator, left, right, at),
        }
    }

    fn arithmetic(&self, operator: Operator, left: &Value<'a>, right: &Value<'a>, at: usize) -> Evaluated<'a> {
        use Operator::{Add, Divide, Multiply, Remainder, Subtract};
        let fail = |message: String| Err(NoValue::Error(at, message));
        let (left, right) = (&*left.calculable(), &*right.calculable());
        let made = match (left, right) {
            (Value::Int(left), Value::Int(right)) => {
                if *right == 0 && matches!(operator, Divide | Remainder) {
                    return fail("division by zero".to_owned());
                }
                let made = match operator {
                    Add => left.checked_add(*right),
                    Subtract => left.checked_sub(*right),
                    Multiply => left.checked_mul(*right),
                    Divide => left.checked_div(*right),
                    _ => left.checked_rem(*right),
                };
                made.map(Value::Int)
            }
            (Value::Double(left), Value::Double(right)) if operator != Remainder => {
                Some(Value::Double(match operator {
                    Add => left + right,
                    Subtract => left - right,
                    Multiply => left * right,
                    _ => left / right,
                }))
            }
            (Value::String(left), Value::String(right)) if operator == Add => {
                self.spend((left.len() + right.len()) / 16, at)?;
                Some(Value::String(Cow::Owned(format!("{left}{right}"))))
            }
            (Value::List(left), Value::List(right)) if operator == Add => {
                self.spend(left.len() + right.len(), at)?;
                Some(Value::List(List::Made(left.iter().chain(right.iter()).collect())))
            }
            (Value::Timestamp(time), Value::Duration(duration))
            | (Value::Duration(duration), Value::Timestamp(time))
                if operator == Add =>
            {
                time.plus(*duration).map(Value::Timestamp)
            }
            (Value::Timestamp(time), Value::Duration(duration)) if operator == Subtract => {
                time.plus(duration.negated()).map(Value::Timestamp)
            }
            (Value::Timestamp(later), Value::Timestamp(earlier)) if operator == Subtract => {
                later.since(*earlier).map(Value::Duration)
            }
            (Value::Duration(left), Value::Duration(right)) if operator == Add => {
                left.plus(*right).map(Value::Duration)
            }
            (Value::Duration(left), Value::Duration(right)) if operator == Subtract => {
                left.plus(right.negated()).map(Value::Duration)
            }
            _ => return fail(mismatch(operator, left, right)),
        };
        made.map_or_else(|| fail("the result is too large".to_owned()), Ok)
    }

    fn comprehension(
        &self,
        kind: Macro,
        parts: &'a Comprehension,
        locals: &mut Vec<Value<'a>>,
        at: usize,
    ) -> Evaluated<'a> {
        let items: Vec<Value<'a>> = match self.value(&parts.range, locals)? {
            Value::List(list) => {
                self.spend(list.len(), at)?;
                list.iter().collect()
            }
            Value::Map(map) => {
                self.spend(map.len(), at)?;
                if let Some((one, other)) = map.twins() {
                    return Err(NoValue::Error(
                        at,
                        format!("some servers take the members {one:?} and {other:?} for one"),
                    ));
                }
                map.iter().map(|(key, _)| key).collect()
            }
            other => return Err(NoValue::Error(at, format!("expected a list or a map, found a {}", other.kind()))),
        };
        let mut fits = |item: Value<'a>| match &parts.condition {
            Some(condition) => {
                locals.push(item);
                let truth = self.truth(condition, locals);
                locals.pop();
                truth
            }
            None => Ok(true),
        };
        match kind {
            Macro::All => self.junction(items.into_iter().map(fits), false),
            Macro::Exists => self.junction(items.into_iter().map(fits), true),
            Macro::ExistsOne => {
                let mut count = 0;
                for item in items {
                    count += usize::from(fits(item)?);
                }
                Ok(Value::Bool(count == 1))
            }
            Macro::Filter | Macro::Map => {
                let mut kept = Vec::new();
                for item in items {
                    if fits(item.clone())? {
                        kept.push(item);
                    }
                }
                let Some(value) = &parts.value else { return Ok(Value::list(kept)) };
                let mut made = Vec::with_capacity(kept.len());
                for item in kept {
                    locals.push(item);
                    let value = self.value(value, locals);
                    locals.pop();
                    made.push(value?);
                }
                Ok(Value::list(made))
            }
        }
    }
}

/// Reports whether a value can be looked up in a map.
fn is_key(value: &Value<'_>) -> bool {
    matches!(value, Value::Bool(_) | Value::Int(_) | Value::Double(_) | Value::Number(_) | Value::String(_))
}

fn mismatch(operator: Operator, left: &Value<'_>, right: &Value<'_>) -> String {
    format!("`{}` does not take a {} and a {}", operator.sign(), left.kind(), right.kind())
}
