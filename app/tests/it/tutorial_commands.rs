//! The command lines of the tutorials parse: verbs, options and values exist as they are written there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::path::{Path, PathBuf};

/// Returns the tutorials.
fn tutorials() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tutorials");
    let mut pages: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
        .collect();
    pages.sort();
    pages
}

/// Returns the lines of the shell blocks of a page. A line that ends in a backslash continues in the next one.
fn shell_lines(page: &str) -> Vec<String> {
    let (mut lines, mut is_shell, mut is_continued) = (Vec::<String>::new(), false, false);
    for line in page.lines().map(str::trim) {
        if line.starts_with("```") {
            is_shell = !is_shell && (line == "```sh" || line == "```console");
            is_continued = false;
            continue;
        }
        if !is_shell {
            continue;
        }
        let part = line.strip_suffix('\\').unwrap_or(line);
        match lines.last_mut() {
            Some(last) if is_continued => last.push_str(part),
            _ => lines.push(part.to_owned()),
        }
        is_continued = line.ends_with('\\');
    }
    lines
}

/// Splits a command line as a shell does, without its comment. Quotes are the only special characters that tutorials
/// use.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None if c == '#' && word.is_none() => break,
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn command_lines_of_the_tutorials_parse() {
    let mut parsed = 0;
    for page in tutorials() {
        let text = std::fs::read_to_string(&page).unwrap();
        for line in shell_lines(&text) {
            let line = line.strip_prefix("$ ").unwrap_or(&line);
            if !line.starts_with("kinescope ") {
                continue;
            }
            if let Err(e) = kinescope::cli::command().try_get_matches_from(split(line)) {
                panic!("{}: {line}: {e}", page.display());
            }
            parsed += 1;
        }
    }
    assert!(parsed > 20, "{parsed} command lines");
}

#[test]
fn lines_are_split_as_a_shell_splits_them() {
    assert_eq!(
        split("kinescope events F.kine --where 'a \"b\" or c' \"d e\"f   # a comment"),
        ["kinescope", "events", "F.kine", "--where", "a \"b\" or c", "d ef"]
    );
    assert_eq!(
        shell_lines("```sh\nkinescope a \\\n    b\n```\n```text\nkinescope c\n```\n"),
        ["kinescope a b"]
    );
}
