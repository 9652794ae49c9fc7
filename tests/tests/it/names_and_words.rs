//! Names of items and files, and the English of documents, as `CONTRIBUTING.md` requires.

use std::path::{Path, PathBuf};
use whole_program_tests::root;

/// Words that do not describe a value. A name of a type or file needs a noun in addition.
const EMPTY_NAMES: [&str; 21] = [
    "Told", "Found", "Made", "Kept", "Held", "Known", "Wanted", "Left", "Looked", "There", "Which", "What", "Of",
    "Own", "Whole", "Apart", "Beside", "Named", "Meant", "Asked", "Shown",
];

/// Maximum average number of words in a sentence of a document.
const MAX_AVERAGE_WORDS: f64 = 20.0;

/// Returns the files of the source tree with an extension, without build outputs and hidden folders.
fn source_files(extension: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Returns the code of a line, without its comment. A string with two slashes is cut too. No check here depends on it.
fn code(line: &str) -> &str {
    line.find("//").and_then(|at| line.get(..at)).unwrap_or(line)
}

/// Returns the words of a line of code that can be names.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|w| !w.is_empty())
}

#[test]
fn limits_are_named_max_and_min() {
    let mut bad = Vec::new();
    for path in source_files("rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        for (n, line) in text.lines().enumerate() {
            let is_bad = |w: &str| {
                ["MOST", "LEAST"]
                    .iter()
                    .any(|b| w == *b || w.starts_with(&format!("{b}_")))
            };
            // Names of environment variables and driver attributes do not change.
            let is_constant = code(line).contains("const ") || code(line).contains("static ");
            if is_constant
                && words(code(line)).any(is_bad)
                && !line.contains("EMPTY_NAMES")
                && !path.ends_with("names_and_words.rs")
            {
                bad.push(format!("{}:{}: {}", path.display(), n + 1, line.trim()));
            }
        }
    }
    assert!(bad.is_empty(), "limits must be named MAX_ or MIN_:\n{}", bad.join("\n"));
}

#[test]
fn types_and_files_have_nouns_for_names() {
    let mut bad = Vec::new();
    for path in source_files("rs") {
        let text = std::fs::read_to_string(&path).unwrap();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if EMPTY_NAMES.iter().any(|name| stem == name.to_lowercase()) {
            bad.push(format!("{}: name of the file", path.display()));
        }
        for (n, line) in text.lines().enumerate() {
            let mut rest = words(code(line)).skip_while(|w| !["struct", "enum", "trait", "type"].contains(w));
            let defines = rest.next().is_some() && line.trim_start().starts_with("pub");
            if defines && rest.next().is_some_and(|name| EMPTY_NAMES.contains(&name)) {
                bad.push(format!("{}:{}: {}", path.display(), n + 1, line.trim()));
            }
        }
    }
    assert!(
        bad.is_empty(),
        "the name of a type or file needs a noun:\n{}",
        bad.join("\n")
    );
}

/// Returns the average number of words in the sentences of a Markdown page. Code, tables, headings and link targets do
/// not count.
fn average_words(page: &Path) -> f64 {
    let text = std::fs::read_to_string(page).unwrap();
    let (mut prose, mut is_code) = (String::new(), false);
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with('|') && !line.starts_with('#') {
            let item = line.trim_start_matches(|c: char| c.is_ascii_digit() || "-*. ".contains(c));
            prose.push_str(item);
            // A list item ends a sentence, with or without a period.
            prose.push_str(if item.len() < line.len() && !line.ends_with(['.', ',', ':']) {
                ". "
            } else {
                " "
            });
        }
    }
    let mut plain = String::new();
    let mut depth = 0;
    let mut previous = ' ';
    for c in prose.chars() {
        match c {
            '(' if previous == ']' => depth = 1,
            ')' if depth > 0 => depth = 0,
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
        previous = c;
    }
    let sentences: Vec<usize> = plain
        .split_inclusive(". ")
        .flat_map(|s| s.split(['?', '!', ':']))
        .map(|s| s.split_whitespace().count())
        .filter(|n| *n > 1)
        .collect();
    sentences.iter().sum::<usize>() as f64 / sentences.len().max(1) as f64
}

#[test]
fn documents_have_short_sentences() {
    let mut pages = vec!["README.md".into(), "ARCHITECTURE.md".into(), "CONTRIBUTING.md".into()];
    let tutorials = root().join("docs/tutorials");
    pages.extend(
        std::fs::read_dir(tutorials)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "md")),
    );
    for page in pages {
        let average = average_words(&root().join(&page));
        assert!(
            average <= MAX_AVERAGE_WORDS,
            "{}: {average:.1} words per sentence",
            page.display()
        );
        assert!(average > 4.0, "{}: {average:.1} words per sentence", page.display());
    }
}

/// Names of values, registers and items of Mali's job manager, which stand in the folders of its family alone.
const FAMILY_WORDS: [&str; 17] = [
    "COMMAND_START",
    "JOB_START",
    "CONFIG_AS",
    "RESETS",
    "AS_UPDATE",
    "MODE_UNMAPPED",
    "MODE_LEGACY",
    "MODE_AARCH64_4K",
    "SLOT_FAILED",
    "SLOT_ENDED",
    "JOB_CONTROL",
    "TRANSCFG",
    "AS_STATUS",
    "mali_jm",
    "MaliJm",
    "MaliLpae",
    "MALI_LPAE",
];

/// Roles of registers whose values only a family interprets.
const FAMILY_ROLES: [&str; 7] = [
    "TransCfg",
    "AsStatus",
    "MemAttr",
    "JobStop",
    "LatestFlush",
    "PowerOn",
    "PowerOff",
];

/// Folders and files that are about Mali's job manager alone: instructions, simulator, drivers and importers. The last
/// three define the stored number of a page-table format, its bits, and their form in the other format.
const FAMILY_SOURCES: [&str; 9] = [
    "trace-core/bifrost",
    "replay-engine/device-mali",
    "replay-engine/driver-mali",
    "recorders/panfrost",
    "trace-core/import/src/gpureplay.rs",
    "trace-core/import/src/panfrostdump.rs",
    "trace-core/src/recording/identity.rs",
    "trace-core/src/mmu/mali.rs",
    "trace-core/src/mmu/convert.rs",
];

/// Names of folders and files that may name a family: the families, the register maps, which define the roles, and
/// tests.
const EXEMPT_NAMES: [&str; 8] = [
    "families",
    "families.rs",
    "registers",
    "tests",
    "tests.rs",
    "benches",
    "examples",
    "fuzz",
];

#[test]
fn families_are_named_in_their_folders_alone() {
    let mut bad = Vec::new();
    for path in source_files("rs") {
        let inside = path.strip_prefix(root()).unwrap();
        let is_exempt = FAMILY_SOURCES.iter().any(|f| inside.starts_with(f))
            || inside
                .components()
                .any(|c| EXEMPT_NAMES.iter().any(|n| c.as_os_str() == *n));
        if is_exempt {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let program = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for (n, line) in program.lines().enumerate() {
            let has_role = FAMILY_ROLES.iter().any(|r| code(line).contains(&format!("Role::{r}")));
            if has_role || words(line).any(|w| FAMILY_WORDS.contains(&w)) {
                bad.push(format!("{}:{}: {}", path.display(), n + 1, line.trim()));
            }
        }
    }
    assert!(bad.is_empty(), "these lines belong to a family:\n{}", bad.join("\n"));
}
