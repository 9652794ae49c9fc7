//! Arguments that a link also has: its file, an event and a panel.

use super::Failure;
use crate::panels;
use crate::window::Goal;
use kinescope_files::link::{self, Link};
use std::path::{Path, PathBuf};

/// Parses the number of an event: `1200`, `1,200` or `1_200`.
pub fn event(text: &str) -> Result<u64, String> {
    let plain: String = text.chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    let sound = !plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit());
    let value = if sound { plain.parse().ok() } else { None };
    value.ok_or_else(|| format!("'{text}' is not the number of an event (expected 0 and up)"))
}

/// Parses the id of a panel.
pub fn panel(text: &str) -> Result<String, String> {
    if panels::is_known(text) {
        return Ok(text.to_owned());
    }
    let all: Vec<&str> = panels::PANELS.iter().map(|p| p.id).collect();
    Err(format!(
        "there is no panel '{text}' (expected one of {})",
        all.join(", ")
    ))
}

/// Resolves the argument FILE: a file, the URL of a file, or a link, which gives its file and its goal.
pub fn resolve_file(file: &Path) -> Result<(PathBuf, Option<Goal>), Failure> {
    let Some(text) = file.to_str().filter(|_| !file.exists()) else {
        return Ok((file.to_owned(), None));
    };
    if let Some(path) = link::file_url_path(text) {
        return Ok((path, None));
    }
    if !link::is_link(text) {
        return Ok((file.to_owned(), None));
    }
    let link = Link::parse(text).map_err(|e| Failure::usage(format!("{text}: {e}")))?;
    let goal = Goal::from_link(&link);
    Ok((link.file, goal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_events_may_have_separators() {
        assert_eq!(event("1,200_000"), Ok(1_200_000));
        assert!(event("").is_err() && event("-1").is_err() && event("0x10").is_err() && event("1.5").is_err());
    }
}
