//! Numbers and percentages.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a fraction is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
}

/// A number, or a percentage of `total`; 0 for an invalid text (`k8s.io/apimachinery/pkg/util/intstr`).
pub(super) fn scaled(value: &IntOrString, total: i32, rounding: Rounding) -> i32 {
    match value {
        IntOrString::Int(it) => *it,
        IntOrString::String(text) => {
            let percentage = percentage(text).unwrap_or_default();
            let product = i64::from(percentage) * i64::from(total);
            let quotient = match rounding {
                Rounding::Up => (product + 99) / 100,
                Rounding::Down => product / 100,
            };
            i32::try_from(quotient).unwrap_or(i32::MAX)
        }
    }
}

/// The number before the `%`.
pub(super) fn percentage(text: &str) -> Option<i32> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// A number that the API leaves out when it is 0.
pub(super) fn non_zero(count: i32) -> Option<i32> {
    (count != 0).then_some(count)
}

/// The number of items, in the API's type.
pub(super) fn count<T>(items: impl IntoIterator<Item = T>) -> i32 {
    i32::try_from(items.into_iter().count()).unwrap_or(i32::MAX)
}
