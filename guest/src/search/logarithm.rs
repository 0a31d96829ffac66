//! A logarithm that is the same on all machines: that of the standard library may differ in the last bit, and scores
//! are compared byte for byte.

/// Returns the logarithm to base 2 of a number that is at least 1, with an error below one in a million.
pub(super) fn log2(number: f64) -> f64 {
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    // The number is `mantissa` times two to the `exponent`.
    let mantissa = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 1023 << 52);
    // ln m = 2 (s + s³/3 + s⁵/5 + …) for s = (m - 1) / (m + 1), which is at most a third.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for odd in [13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / odd;
    }
    exponent as f64 + 2.0 * s * sum / std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_standard_library() {
        for number in [1.0, 1.000_001, 1.5, 1.999_999, 2.0, 3.0, 10.0, 1024.0, 12_345.678, 1e9] {
            assert!((log2(number) - number.log2()).abs() < 1e-6, "{number}");
        }
        assert_eq!(log2(1.0), 0.0);
        assert_eq!(log2(1024.0), 10.0);
    }
}
