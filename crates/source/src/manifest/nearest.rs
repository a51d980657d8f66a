//! The known word nearest to a misspelt word.

/// The known word that is nearest to a misspelt one: equal but for upper and lower case, or with one
/// letter in four wrong, missing, too many, or in the place of its neighbour.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer words are hardly misspelt known words, and the search takes time.
    const LONGEST: usize = 64;
    if word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    let distance = |it: &str| strsim::osa_distance(&lower, &it.to_lowercase());
    let known = known.into_iter().map(|it| (distance(it), it));
    let near = known.filter(|(distance, it)| *distance <= it.len() / 4);
    near.min().map(|(_, it)| it)
}
