//! Quantities such as `100m` and `1Gi` (`apimachinery/pkg/api/resource`).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A number with a unit. Shown in its one form: `1000m` is `1`, `1024Mi` is `1Gi`.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    /// In units of 1e-9, rounded up as Kubernetes does.
    nanos: i128,
    unit: Unit,
}

/// How the unit is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// `k`, `M`.
    Decimal,
    /// `Ki`, `Mi`.
    Binary,
    /// `e3`.
    Exponent,
}

const NANO: i128 = 1_000_000_000;
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    /// Why a text is none, in the words of the API (`ErrFormatWrong`).
    pub const FORMAT: &str = "quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    /// One, in the units of [`nanos`](Self::nanos).
    pub const ONE: i128 = NANO;
    const NUMBER: &str = "unable to parse numeric part of quantity";
    const SUFFIX: &str = "unable to parse quantity's suffix";

    /// Whether it is below zero.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// The number in units of 1e-9.
    #[must_use]
    pub fn nanos(&self) -> i128 {
        self.nanos
    }

    /// How often `unit` fits into it, rounded up; `None` unless the unit is positive.
    #[must_use]
    pub fn in_units_of(&self, unit: &Self) -> Option<i128> {
        let (size, unit) = (self.nanos, unit.nanos);
        let rounded = || size.div_euclid(unit) + i128::from(size.rem_euclid(unit) != 0);
        (unit > 0).then(rounded)
    }

    /// Whether it is a whole number.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.nanos.partial_cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_number = |it: char| it.is_ascii_digit() || it == '.';
        let end = unsigned.find(|it| !is_number(it));
        let (number, suffix) = unsigned.split_at(end.unwrap_or(unsigned.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let letters = suffix.trim_start_matches(|it| "eEinumkKMGTP".contains(it));
        let digits = letters.strip_prefix(['-', '+']).unwrap_or(letters);
        if number.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
            return Err(Self::FORMAT);
        }
        if fraction.contains('.') || whole.len() + fraction.len() == 0 {
            return Err(Self::NUMBER);
        }
        let (base, exponent, unit) = scale(suffix).ok_or(Self::SUFFIX)?;
        let shift = exponent * i32::from(unit != Unit::Binary) + 9;
        let factor = if unit == Unit::Binary { base } else { 1 };
        let digits: i128 = format!("{whole}{fraction}")
            .parse()
            .map_err(|_| Self::NUMBER)?;
        let shift = shift - i32::try_from(fraction.len()).map_err(|_| Self::NUMBER)?;
        let power = 10_i128
            .checked_pow(shift.unsigned_abs())
            .ok_or(Self::NUMBER)?;
        let scaled = digits.checked_mul(factor).ok_or(Self::NUMBER)?;
        let nanos = if shift < 0 {
            scaled / power + i128::from(scaled % power != 0)
        } else {
            scaled.checked_mul(power).ok_or(Self::NUMBER)?
        };
        let is_small = unit == Unit::Binary && (1..NANO).contains(&nanos);
        Ok(Self {
            nanos: if text.starts_with('-') { -nanos } else { nanos },
            unit: if is_small { Unit::Decimal } else { unit },
        })
    }
}

/// The factor of a binary suffix, or the exponent of a decimal one.
fn scale(suffix: &str) -> Option<(i128, i32, Unit)> {
    let place = |all: &[&str]| all.iter().position(|it| *it == suffix);
    if let Some(at) = place(&DECIMAL) {
        return Some((10, i32::try_from(at).ok()? * 3 - 9, Unit::Decimal));
    }
    if let Some(at) = place(&BINARY) {
        return Some((1024_i128.pow(u32::try_from(at).ok()?), 0, Unit::Binary));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    ((-30..=30).contains(&exponent)).then_some((10, exponent, Unit::Exponent))
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small = self.nanos > -1024 * NANO && self.nanos < 1024 * NANO;
        if self.nanos == 0 {
            return f.write_str("0");
        }
        if self.unit == Unit::Binary && !is_small {
            // Rounded away from zero.
            let (sign, size) = (self.nanos.signum(), self.nanos.abs());
            let mut number = size / NANO + i128::from(size % NANO != 0);
            let mut suffixes = BINARY.iter().peekable();
            let mut suffix = suffixes.next().copied().unwrap_or_default();
            while number % 1024 == 0
                && let Some(next) = suffixes.next()
            {
                (number, suffix) = (number / 1024, next);
            }
            return write!(f, "{}{suffix}", number * sign);
        }
        let (mut number, mut at) = (self.nanos, 0);
        while number % 1000 == 0 && at + 1 < DECIMAL.len() {
            (number, at) = (number / 1000, at + 1);
        }
        match (self.unit, at) {
            (Unit::Exponent, 3) => write!(f, "{number}"),
            (Unit::Exponent, at) => write!(f, "{number}e{}", at as i32 * 3 - 9),
            (_, at) => write!(f, "{number}{}", DECIMAL[at]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantity_has_one_form() {
        for (given, expect) in [
            ("1000m", "1"),
            ("1", "1"),
            ("0.1", "100m"),
            ("1.5", "1500m"),
            ("1024Mi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Mi", "512Ki"),
            ("100Ki", "100Ki"),
            ("512", "512"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1000e3", "1e6"),
            ("1E", "1E"),
            ("0.5Ki", "512"),
            ("-1000m", "-1"),
            ("+5", "5"),
            ("0", "0"),
            ("000", "0"),
            ("0.1n", "1n"),
            ("1.", "1"),
            (".5", "500m"),
            ("2000k", "2M"),
        ] {
            let read: Quantity = given.parse().unwrap();
            assert_eq!(read.to_string(), expect, "{given}");
            let again: Quantity = expect.parse().unwrap();
            assert_eq!(again.to_string(), expect);
            assert_eq!(again, read);
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_in_the_words_of_the_api() {
        for (given, expect) in [
            ("", Quantity::FORMAT),
            ("2cores", Quantity::FORMAT),
            ("x", Quantity::FORMAT),
            ("1.2.3", Quantity::NUMBER),
            ("1Kk", Quantity::SUFFIX),
            ("1ki", Quantity::SUFFIX),
        ] {
            assert_eq!(given.parse::<Quantity>().unwrap_err(), expect, "{given}");
        }
    }
}
