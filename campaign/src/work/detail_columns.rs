//! What each kind of work gives for the table of results and for pages: its columns, and a line.

/// Columns of the table of results that only some kinds of work have.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DetailColumns {
    /// Number of parts: stages, points, copies, seeds, candidates.
    pub items: Option<u64>,
    /// Number of parts that failed.
    pub failed_items: Option<u64>,
    /// Names of parts that failed: a stage, inputs, seeds.
    pub failed: Option<String>,
    /// The fastest valid point of a tuning.
    pub best_point: Option<String>,
    /// Time of the recorded launch and of the fastest valid point, ns.
    pub launch_ns: Option<(u64, u64)>,
    /// Jobs of the shortest part of a bisection.
    pub jobs: Option<String>,
}

/// What every result of a kind gives.
pub(crate) trait Details {
    /// Returns its columns.
    fn columns(&self) -> DetailColumns;

    /// Returns the result in a line for a cell of a page; empty if there is nothing to say.
    fn describe(&self) -> String;
}

/// Lists at most `max` of some names: `a, b and 3 more`.
pub(crate) fn list_names<T: ToString>(names: impl ExactSizeIterator<Item = T>, max: usize) -> String {
    let count = names.len();
    let shown: Vec<String> = names.take(max).map(|n| n.to_string()).collect();
    match count.saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns a name for a list whose names have spaces between them: in quotation marks if it would be read as several.
pub(crate) fn quote_name(name: &str) -> String {
    let is_plain = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
    if is_plain { name.to_owned() } else { format!("{name:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_several_words_are_quoted() {
        assert_eq!(
            ["a.txt", "a b", "n\nl", ""].map(quote_name),
            ["a.txt", "\"a b\"", "\"n\\nl\"", "\"\""]
        );
    }
}
