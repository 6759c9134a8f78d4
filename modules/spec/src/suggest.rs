//! "Did you mean": the nearest known word.

/// The candidate that the word most probably stands for, if any is near enough.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = normal(word);
    // A long word cannot be near anything we know; it also bounds the work.
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let limit = match word.len() {
        0..=2 => 1,
        3..=5 => 2,
        n => n / 3 + 1,
    };
    candidates
        .into_iter()
        .map(|c| (distance(&word, &normal(c)), c))
        .filter(|(d, c)| *d <= limit && *d < c.chars().count())
        .min_by_key(|(d, _)| *d)
        .map(|(_, c)| c)
}

/// Case and the choice between `-`, `_` and blanks are the commonest slips: they cost nothing.
fn normal(word: &str) -> Vec<char> {
    word.chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["memory", "vmid", "net", "api_token_id", "state"];
        for (word, want) in [
            ("memry", Some("memory")),
            ("Memory", Some("memory")),
            ("vmdi", Some("vmid")),
            ("api-token-id", Some("api_token_id")),
            ("colour", None),
            ("xx", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), want, "{word}");
        }
    }
}
