//! The functions of CEL: sizes, texts, conversions and times.

use std::borrow::Cow;

use super::evaluate::{Evaluated, NoValue};
use super::time::{Duration, Timestamp, time_zone};
use super::tree::{FUNCTIONS, Function};
use super::value::Value;

/// Calls a function.
pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>], at: usize) -> Evaluated<'a> {
    let made = match function {
        Function::Size => size(arguments),
        Function::Contains | Function::StartsWith | Function::EndsWith => compare(function, arguments),
        Function::Int | Function::Double | Function::String | Function::Bool => convert(function, &arguments[0]),
        Function::Type => Some(Value::Type(arguments[0].type_name())),
        Function::Dyn => Some(arguments[0].clone()),
        Function::Timestamp => timestamp(&arguments[0]),
        Function::Duration => duration(&arguments[0]),
        Function::LowerAscii
        | Function::UpperAscii
        | Function::Trim
        | Function::Split
        | Function::Join
        | Function::Replace
        | Function::Substring
        | Function::IndexOf
        | Function::LastIndexOf
        | Function::CharAt => text(function, arguments),
        _ => part_of_time(function, arguments),
    };
    made.ok_or_else(|| {
        let name = FUNCTIONS.iter().find(|known| known.function == function).map_or("", |known| known.name);
        let kinds: Vec<String> = arguments.iter().map(show).collect();
        NoValue::Error(at, format!("{name} does not take {}", kinds.join(" and ")))
    })
}

/// Describes an argument without showing what a text says.
fn show(value: &Value<'_>) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        other => format!("a {}", other.kind()),
    }
}

fn size<'a>(arguments: &[Value<'a>]) -> Option<Value<'a>> {
    let count = match &arguments[0] {
        Value::String(text) => text.chars().count(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return None,
    };
    whole(count)
}

fn whole<'a>(count: usize) -> Option<Value<'a>> {
    i64::try_from(count).ok().map(Value::Int)
}

fn compare<'a>(function: Function, arguments: &[Value<'a>]) -> Option<Value<'a>> {
    let (text, part) = (arguments[0].as_str()?, arguments[1].as_str()?);
    Some(Value::Bool(match function {
        Function::Contains => text.contains(part),
        Function::StartsWith => text.starts_with(part),
        _ => text.ends_with(part),
    }))
}

fn convert<'a>(function: Function, value: &Value<'a>) -> Option<Value<'a>> {
    match (function, value) {
        (Function::Int, Value::Int(_)) | (Function::Double, Value::Double(_)) | (Function::Bool, Value::Bool(_)) => {
            Some(value.clone())
        }
        (Function::Int, Value::Double(number)) => {
            // The limits themselves are not whole numbers of 64 bits in both directions.
            let is_in_range = *number > -9_223_372_036_854_775_808.0 && *number < 9_223_372_036_854_775_808.0;
            is_in_range.then_some(Value::Int(*number as i64))
        }
        (Function::Int, Value::String(text)) => text.parse().ok().map(Value::Int),
        (Function::Int, Value::Timestamp(time)) => Some(Value::Int(time.seconds())),
        (Function::Double, Value::Int(number)) => Some(Value::Double(*number as f64)),
        (Function::Double, Value::String(text)) => text.parse().ok().map(Value::Double),
        (Function::Bool, Value::String(text)) => match &**text {
            "1" | "t" | "true" | "TRUE" | "True" => Some(Value::Bool(true)),
            "0" | "f" | "false" | "FALSE" | "False" => Some(Value::Bool(false)),
            _ => None,
        },
        (Function::String, value) => written(value).map(|text| Value::String(Cow::Owned(text))),
        _ => None,
    }
}

/// Writes a value as text.
fn written(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Double(number) => written_double(*number),
        Value::Timestamp(time) => time.to_string(),
        Value::Duration(duration) => duration.to_string(),
        _ => return None,
    })
}

/// Writes a double with as few digits as tell it from others; a large or small one with an exponent.
fn written_double(number: f64) -> String {
    if !number.is_finite() {
        let sign = if number == f64::NEG_INFINITY { "-" } else { "" };
        return if number.is_nan() { "NaN".to_owned() } else { format!("{sign}Infinity") };
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>().unwrap_or_default() {
        -4..6 => number.to_string(),
        exponent if exponent < 0 => format!("{digits}e-{:02}", -exponent),
        exponent => format!("{digits}e+{exponent:02}"),
    }
}

fn timestamp<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    match value {
        Value::Timestamp(time) => Some(*time),
        Value::Int(seconds) => Timestamp::new(*seconds, 0),
        Value::String(text) => Timestamp::read(text),
        _ => None,
    }
    .map(Value::Timestamp)
}

fn duration<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    match value {
        Value::Duration(duration) => Some(*duration),
        Value::String(text) => Duration::read(text),
        _ => None,
    }
    .map(Value::Duration)
}

/// Returns a part of a time of day or date, or a whole duration in a unit.
fn part_of_time<'a>(function: Function, arguments: &[Value<'a>]) -> Option<Value<'a>> {
    let offset = match arguments.get(1) {
        None => 0,
        Some(zone) => time_zone(zone.as_str()?)?,
    };
    let part = match (&arguments[0], arguments.len()) {
        (Value::Timestamp(time), _) => {
            let civil = time.civil(offset);
            match function {
                Function::GetFullYear => civil.year,
                Function::GetMonth => civil.month - 1,
                Function::GetDate => civil.day,
                Function::GetDayOfMonth => civil.day - 1,
                Function::GetDayOfWeek => civil.weekday,
                Function::GetDayOfYear => civil.yearday,
                Function::GetHours => civil.hours,
                Function::GetMinutes => civil.minutes,
                Function::GetSeconds => civil.seconds,
                _ => civil.millis,
            }
        }
        (Value::Duration(duration), 1) => match function {
            Function::GetHours => duration.whole(3_600_000_000_000),
            Function::GetMinutes => duration.whole(60_000_000_000),
            Function::GetSeconds => duration.whole(1_000_000_000),
            Function::GetMilliseconds => duration.millis_of_second(),
            _ => return None,
        },
        _ => return None,
    };
    Some(Value::Int(part))
}

/// Calls a function of texts; places in a text are counted in characters.
fn text<'a>(function: Function, arguments: &[Value<'a>]) -> Option<Value<'a>> {
    let number = |at: usize| match arguments.get(at) {
        Some(Value::Int(number)) => Some(*number),
        _ => None,
    };
    if function == Function::Join {
        let Value::List(items) = &arguments[0] else { return None };
        let separator = arguments.get(1).map_or(Some(""), Value::as_str)?;
        let texts: Option<Vec<String>> = items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
        return texts.map(|texts| Value::String(Cow::Owned(texts.join(separator))));
    }
    let text = arguments[0].as_str()?;
    let owned = |text: String| Some(Value::String(Cow::Owned(text)));
    match function {
        Function::LowerAscii => owned(text.to_ascii_lowercase()),
        Function::UpperAscii => owned(text.to_ascii_uppercase()),
        Function::Trim => owned(text.trim().to_owned()),
        Function::CharAt => {
            let at = usize::try_from(number(1)?).ok()?;
            let count = text.chars().count();
            let letter = text.chars().nth(at).map(String::from);
            owned(if at == count { String::new() } else { letter? })
        }
        Function::IndexOf => {
            let part = arguments[1].as_str()?;
            let from = if arguments.len() > 2 { usize::try_from(number(2)?).ok()? } else { 0 };
            let start = byte_at(text, from)?;
            let found = text[start..].find(part).map(|found| text[..start + found].chars().count());
            found.map_or(Some(Value::Int(-1)), whole)
        }
        Function::LastIndexOf => {
            let part = arguments[1].as_str()?;
            let latest = match arguments.len() {
                2 => text.len(),
                _ => byte_at(text, usize::try_from(number(2)?).ok()?)?,
            };
            let mut places = (0..=latest).rev().filter(|at| text.is_char_boundary(*at));
            let found = places.find(|at| text[*at..].starts_with(part)).map(|at| text[..at].chars().count());
            found.map_or(Some(Value::Int(-1)), whole)
        }
        Function::Substring => {
            let start = byte_at(text, usize::try_from(number(1)?).ok()?)?;
            let end = match arguments.len() {
                2 => text.len(),
                _ => byte_at(text, usize::try_from(number(2)?).ok()?)?,
            };
            owned(text.get(start..end)?.to_owned())
        }
        Function::Split => {
            let separator = arguments[1].as_str()?;
            let most = if arguments.len() > 2 { number(2)? } else { -1 };
            let part = |part: &str| Value::String(Cow::Owned(part.to_owned()));
            Some(match usize::try_from(most) {
                Ok(0) => Value::list([]),
                Ok(most) if separator.is_empty() => Value::list(split_letters(text, most).map(part)),
                Ok(most) => Value::list(text.splitn(most, separator).map(part)),
                Err(_) if separator.is_empty() => Value::list(split_letters(text, usize::MAX).map(part)),
                Err(_) => Value::list(text.split(separator).map(part)),
            })
        }
        Function::Replace => {
            let (part, other) = (arguments[1].as_str()?, arguments[2].as_str()?);
            let most = if arguments.len() > 3 { number(3)? } else { -1 };
            owned(match usize::try_from(most) {
                Ok(most) => text.replacen(part, other, most),
                Err(_) => text.replace(part, other),
            })
        }
        _ => None,
    }
}

/// Splits a text into its characters; the last part has the rest if there are more than `most`.
fn split_letters(text: &str, most: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    let mut left = most;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        left -= 1;
        let (part, behind) = rest.split_at(if left == 0 { rest.len() } else { first.len_utf8() });
        rest = behind;
        Some(part)
    })
}

/// Returns the byte at which a character begins; the place behind the last one counts too.
fn byte_at(text: &str, character: usize) -> Option<usize> {
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(character)
}
