//! Compares numbers by their digits, exactly and at any length.

use crate::json::{Object, Value};
use std::cmp::Ordering;

/// Compares two JSON numbers.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let (left, right) = (Decimal::read(left), Decimal::read(right));
    left.sign.cmp(&right.sign).then_with(|| {
        let size = left.magnitude.cmp(&right.magnitude).then_with(|| left.digits.cmp(&right.digits));
        if left.sign < 0 { size.reverse() } else { size }
    })
}

/// Reports whether two values are equal in JSON Schema: `1` equals `1.0`, and the order of members does not matter.
pub(super) fn same(left: &Value<'_>, right: &Value<'_>) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => sorted_members(left)
            .into_iter()
            .zip(sorted_members(right))
            .all(|(left, right)| left.0 == right.0 && same(left.1, right.1)),
        _ => left == right,
    }
}

fn sorted_members<'v, 'a>(object: &'v Object<'a>) -> Vec<(&'v str, &'v Value<'a>)> {
    let mut members: Vec<_> = object.iter().collect();
    members.sort_by_key(|member| member.0);
    members
}

/// The number `sign * 0.digits * 10^magnitude`, without zeros at either end of the digits.
struct Decimal {
    sign: i8,
    magnitude: i64,
    digits: Vec<u8>,
}

impl Decimal {
    fn read(text: &str) -> Decimal {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        digits.drain(..zeros);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Decimal { sign: 0, magnitude: 0, digits };
        }
        // An exponent beyond 64 bits counts as the largest: no text is long enough to make a difference.
        let far = if exponent.starts_with('-') { -FAR } else { FAR };
        let exponent = exponent.parse::<i64>().unwrap_or(far).clamp(-FAR, FAR);
        let magnitude = exponent + whole.len() as i64 - zeros as i64;
        Decimal { sign: if negative { -1 } else { 1 }, magnitude, digits }
    }
}

const FAR: i64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse;

    #[test]
    fn numbers_are_ordered_exactly() {
        let rising = [
            "-1e99999999999999999999",
            "-12345678901234567891",
            "-12345678901234567890",
            "-2",
            "-1.5",
            "-1e-400",
            "0",
            "1e-99999999999999999999",
            "0.1",
            "0.10000000000000000001",
            "2",
            "10",
            "9007199254740992",
            "9007199254740993",
            "1e400",
        ];
        for (n, left) in rising.iter().enumerate() {
            for (m, right) in rising.iter().enumerate() {
                assert_eq!(compare(left, right), n.cmp(&m), "{left} {right}");
            }
        }
    }

    #[test]
    fn one_number_has_many_spellings() {
        for (left, right) in
            [("1", "1.0"), ("10", "1e1"), ("0", "-0"), ("0.00", "0e5"), ("1200", "1.2E+3"), ("0.012", "12e-3")]
        {
            assert!(compare(left, right).is_eq(), "{left} {right}");
        }
    }

    #[test]
    fn equality_ignores_spelling_and_order() {
        for (left, right, equal) in [
            (r#"{"a":1,"b":[2]}"#, r#"{"b":[2.0],"a":1e0}"#, true),
            (r#"{"a":1}"#, r#"{"b":1}"#, false),
            ("[1]", "[1,2]", false),
            (r#""1""#, "1", false),
            ("null", "null", true),
        ] {
            assert_eq!(same(&parse(left).unwrap(), &parse(right).unwrap()), equal, "{left} {right}");
        }
    }
}
