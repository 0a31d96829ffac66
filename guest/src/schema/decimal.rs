//! Compares numbers by their digits, exactly and at any length.

use std::borrow::Cow;
use std::cmp::Ordering;

use crate::json::{Object, Value};

/// Compares two JSON numbers.
pub(super) fn compare(left: &str, right: &str) -> Ordering {
    let (left, right) = (Decimal::read(left), Decimal::read(right));
    left.sign.cmp(&right.sign).then_with(|| {
        let size = left.magnitude.cmp(&right.magnitude).then_with(|| left.digits.cmp(&right.digits));
        if left.sign < 0 { size.reverse() } else { size }
    })
}

/// Returns a JSON number as it is usually written, with all its digits: `5` for `5.0` and `0.5e1`. One that is written in
/// very many digits stays as it is.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.len() > MAX_PLAIN {
        return Cow::Borrowed(text);
    }
    let Decimal { sign, magnitude, digits } = Decimal::read(text);
    let digits: String = digits.into_iter().map(char::from).collect();
    let size = match usize::try_from(magnitude.unsigned_abs()) {
        Ok(size) if size <= MAX_PLAIN => size,
        _ => return Cow::Owned(format!("{}0.{digits}e{magnitude}", if sign < 0 { "-" } else { "" })),
    };
    let unsigned = if sign == 0 {
        "0".to_owned()
    } else if magnitude <= 0 {
        format!("0.{}{digits}", "0".repeat(size))
    } else if digits.len() <= size {
        format!("{digits}{}", "0".repeat(size - digits.len()))
    } else {
        format!("{}.{}", &digits[..size], &digits[size..])
    };
    Cow::Owned(if sign < 0 { format!("-{unsigned}") } else { unsigned })
}

/// The number of signs up to which a number is written without an exponent.
const MAX_PLAIN: usize = 64;

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
    fn a_number_is_written_in_one_way_with_all_its_digits() {
        let long = format!("1.{}1", "0".repeat(64));
        for (text, expected) in [
            ("5", "5"),
            ("-5.00", "-5"),
            ("0.5e1", "5"),
            ("50E-1", "5"),
            ("-0.0", "0"),
            ("0e99999999999999999999", "0"),
            ("12.50", "12.5"),
            ("9300000000000000999", "9300000000000000999"),
            ("9.300000000000000999e18", "9300000000000000999"),
            ("1.2345678e7", "12345678"),
            ("1e-3", "0.001"),
            ("-1e400", "-0.1e401"),
            ("0.1000000000000000055", "0.1000000000000000055"),
            (&long, &long),
        ] {
            assert_eq!(plain(text), expected, "{text}");
        }
    }

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
