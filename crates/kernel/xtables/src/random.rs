//! Probabilities of `-m statistic --mode random`.
//!
//! The text is a decimal number; the kernel has units of 2^-31 (`xt_statistic.h`), to which `iptables` rounds
//! (`libxt_statistic.c`). So the value of 1/n is that of its text.

/// Units of probability 1.
const ONE: f64 = 2_147_483_648.0;

/// One in `n` in units of 2^-31, rounded as its text with ten decimals is; certain for 0 and 1.
pub fn one_in(n: u32) -> u32 {
    parse(&part(n)).unwrap_or(u32::MAX)
}

/// Ten decimals: those of 1/n if the value is one, as kube-proxy writes them.
pub(crate) fn to_text(units: u32) -> String {
    if units > 0 {
        // At most 2^31, so it fits.
        let n = (ONE / f64::from(units)).round() as u32;
        if one_in(n) == units {
            return part(n);
        }
    }
    format!("{:.10}", f64::from(units) / ONE)
}

/// Reads decimals between 0 and 1.
pub(crate) fn parse(text: &str) -> Option<u32> {
    let probability: f64 = text.parse().ok()?;
    // The range does not contain NaN.
    (0.0..=1.0)
        .contains(&probability)
        .then(|| (probability * ONE).round() as u32)
}

fn part(n: u32) -> String {
    format!("{:.10}", 1.0 / f64::from(n.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_written_as_kube_proxy_does() {
        for (n, text) in [
            (1, "1.0000000000"),
            (2, "0.5000000000"),
            (3, "0.3333333333"),
            (7, "0.1428571429"),
            (10_000, "0.0001000000"),
        ] {
            assert_eq!(to_text(one_in(n)), text);
        }
        assert_eq!(one_in(3), 715_827_883);
        assert_eq!(one_in(1), 1 << 31);
        assert_eq!(one_in(0), 1 << 31);
    }

    #[test]
    fn the_value_survives_our_text_and_the_kernels() {
        let parts = (1..20_000).map(one_in);
        let others = (0..=1_u32 << 31).step_by(98_765);
        for units in parts.chain(others) {
            assert_eq!(parse(&to_text(units)), Some(units));
            let kernels = format!("{:.11}", f64::from(units) / ONE);
            assert_eq!(parse(&kernels), Some(units));
        }
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for text in ["", "x", "-0.1", "1.1", "NaN", "inf"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
