//! The OOM score: how early the kernel ends this process when memory runs out.

use std::fs;

use tracing::warn;

/// See proc(5).
const SCORE: &str = "/proc/self/oom_score_adj";

/// Sets the score, -1000 (never) to 1000 (first). A refusal is only logged, as by kube-proxy:
/// lowering the score takes `CAP_SYS_RESOURCE`.
pub fn adjust(score: i32) {
    let score = score.to_string();
    let is_set = fs::read_to_string(SCORE).is_ok_and(|it| it.trim() == score);
    if is_set {
        return;
    }
    if let Err(error) = fs::write(SCORE, &score) {
        warn!(
            path = SCORE,
            value = score,
            %error,
            "cannot set oomScoreAdj: under memory pressure the kernel may end the agent early"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Raising it is permitted to everybody; tests run in processes of their own.
    #[test]
    fn the_score_is_set() {
        let before: i32 = fs::read_to_string(SCORE)
            .expect("every process has one")
            .trim()
            .parse()
            .expect("a number");
        let wanted = before.saturating_add(7).min(1000);
        adjust(wanted);
        let after = fs::read_to_string(SCORE).expect("still there");
        assert_eq!(after.trim(), wanted.to_string());
    }
}
