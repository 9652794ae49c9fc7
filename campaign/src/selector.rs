//! Targets that a description selects by labels: `label:gpu=mali-g71,memory>=4096`.

use std::collections::BTreeMap;

/// The labels of a target: names and values.
pub type Labels = BTreeMap<String, String>;

/// Maximum length of a selector, bytes.
const MAX_SELECTOR: usize = 512;
/// Maximum length of a label's name or value, bytes.
const MAX_LABEL: usize = 128;

/// Why a text is no selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` selects no targets: {reason} (expected `label:gpu=mali-g71` or `label:memory>=4096,driver=570`)")]
pub struct SelectorError {
    text: String,
    reason: String,
}

/// A condition on a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Equals(String, String),
    AtLeast(String, u64),
}

/// Conditions on the labels of a target. A target must meet all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSelector {
    conditions: Vec<Condition>,
}

/// Returns whether a text can be the name or the value of a label: 1 to 128 letters, digits, `-`, `_`, `.` and `/`.
fn is_label_text(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    !text.is_empty() && text.len() <= MAX_LABEL && text.chars().all(is_plain)
}

impl TargetSelector {
    /// The beginning of every selector. Names of targets never begin so.
    pub const PREFIX: &'static str = "label:";

    /// Whether a name in a description is a selector, and not a target.
    #[must_use]
    pub fn is_selector(name: &str) -> bool {
        name.starts_with(Self::PREFIX)
    }

    /// Parses a selector: `label:` and conditions `NAME=VALUE` or `NAME>=NUMBER` with commas between them.
    ///
    /// # Errors
    /// If the text is too long, or a condition has another form.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let failed = |reason: &str| SelectorError {
            text: text.chars().take(MAX_SELECTOR).collect(),
            reason: reason.to_owned(),
        };
        let list = text
            .strip_prefix(Self::PREFIX)
            .ok_or_else(|| failed("it must begin with `label:`"))?;
        if text.len() > MAX_SELECTOR {
            return Err(failed("it is too long"));
        }
        let mut conditions = Vec::new();
        for part in list.split(',') {
            let condition = match part.split_once(">=") {
                Some((name, least)) if is_label_text(name) => {
                    let least = least.parse().map_err(|_| failed("`>=` needs a number"))?;
                    Condition::AtLeast(name.to_owned(), least)
                }
                Some(_) => return Err(failed("the name of a label is missing")),
                None => {
                    let (name, value) = parse_label(part).ok_or_else(|| failed("a condition is not NAME=VALUE"))?;
                    Condition::Equals(name, value)
                }
            };
            conditions.push(condition);
        }
        Ok(Self { conditions })
    }

    /// Returns whether a target with these labels meets all conditions.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.conditions.iter().all(|condition| match condition {
            Condition::Equals(name, value) => labels.get(name) == Some(value),
            Condition::AtLeast(name, least) => labels
                .get(name)
                .and_then(|v| v.parse::<u64>().ok())
                .is_some_and(|v| v >= *least),
        })
    }
}

/// Parses a label, `NAME=VALUE`. Returns `None` for other text.
#[must_use]
pub fn parse_label(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    (is_label_text(name) && is_label_text(value)).then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_match_labels() {
        let labels: Labels = ["gpu=mali-g71", "memory=4096", "rack=3"]
            .into_iter()
            .map(|l| parse_label(l).unwrap())
            .collect();
        let matches = |text: &str| TargetSelector::parse(text).unwrap().matches(&labels);
        assert!(matches("label:gpu=mali-g71") && matches("label:gpu=mali-g71,memory>=4096"));
        assert!(!matches("label:gpu=mali-g52") && !matches("label:memory>=4097") && !matches("label:gpu>=1"));
        assert!(!matches("label:gpu=mali-g71,driver=570"));
    }

    #[test]
    fn other_texts_are_no_selectors() {
        let long = format!("label:gpu={}", "x".repeat(600));
        for text in [
            "label:",
            "gpu=x",
            "label:gpu",
            "label:gpu=x,",
            "label:memory>=x",
            "label:>=1",
            "label:a b=c",
            &long,
        ] {
            assert!(TargetSelector::parse(text).is_err(), "{text}");
        }
    }
}
