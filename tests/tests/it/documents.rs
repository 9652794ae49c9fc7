//! Documents name files, items and headings that exist, and list what the tables of the code hold.

use std::path::{Path, PathBuf};
use whole_program_tests::root;

/// Endings of file names that need no folder to be recognised as paths.
const SOURCE_ENDINGS: [&str; 4] = [".rs", ".sh", ".py", ".toml"];
/// Paths that only exist after a build, or after the steps of "Your first importer".
const ABSENT_PATHS: [&str; 5] = [
    "target/",
    "reglog.rs",
    "trace-core/import/src/reglog.rs",
    "fuzz/fuzz_targets/reglog.rs",
    "fuzz/corpus/reglog/",
];

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Returns the files below a folder of the workspace, without build outputs and hidden folders.
fn files_below(folder: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name == "target" || name.starts_with('.') {
                continue;
            }
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

/// Returns the pages that describe where code is: the two of the root, those of the crates, and the decisions.
fn pages_about_code() -> Vec<PathBuf> {
    let mut pages = vec![root().join("ARCHITECTURE.md"), root().join("CONTRIBUTING.md")];
    pages.extend(files_below("docs/decisions"));
    let is_readme = |p: &PathBuf| p.ends_with("README.md") && p.with_file_name("Cargo.toml").exists();
    pages.extend(files_below(".").into_iter().filter(is_readme));
    assert!(pages.len() > 80, "{pages:?}");
    pages
}

/// Calls `check` with each line of a page outside code blocks, as pieces: text at even indices, code spans at odd ones.
fn for_each_line(page: &Path, mut check: impl FnMut(usize, &[&str])) {
    let text = read(page);
    let mut is_code = false;
    for (n, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            check(n, &line.split('`').collect::<Vec<_>>());
        }
    }
}

/// Returns whether a code span has the form of a path in the workspace.
fn is_path(span: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    span.chars().all(is_part)
        && span.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
        && !ABSENT_PATHS
            .iter()
            .any(|a| span == *a || (*a == "target/" && span.starts_with(a)))
        && (span.contains('/') || SOURCE_ENDINGS.iter().any(|e| span.ends_with(e) && span.len() > e.len()))
}

/// Returns the existing path that a span means: relative to the workspace, to the page, or to an earlier path of the
/// same line.
fn resolve(span: &str, page: &Path, earlier: &[PathBuf]) -> Option<PathBuf> {
    let folder = page.parent().unwrap();
    let mut bases = vec![root(), folder.to_owned(), folder.join("src"), folder.join("tests")];
    for path in earlier {
        bases.extend([path.clone(), path.with_extension(""), path.parent().unwrap().to_owned()]);
    }
    bases.into_iter().map(|b| b.join(span)).find(|p| p.exists())
}

#[test]
fn paths_in_documents_exist() {
    let (mut missing, mut count) = (Vec::new(), 0);
    for page in pages_about_code() {
        for_each_line(&page, |n, pieces| {
            let mut earlier = Vec::new();
            for span in pieces.iter().skip(1).step_by(2).filter(|s| is_path(s)) {
                count += 1;
                match resolve(span, &page, &earlier) {
                    Some(path) => earlier.push(path),
                    None => missing.push(format!("{}:{n}: `{span}`", page.display())),
                }
            }
        });
    }
    assert!(count > 300, "only {count} paths are found");
    assert!(missing.is_empty(), "these paths do not exist:\n{}", missing.join("\n"));
}

/// Returns the anchors of a page, one for each heading.
fn anchors(page: &Path) -> Vec<String> {
    let (mut anchors, mut is_code) = (Vec::new(), false);
    for line in read(page).lines() {
        is_code ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() {
            continue;
        }
        let is_kept = |c: &char| c.is_alphanumeric() || "_- ".contains(*c);
        let title = title.trim().to_lowercase();
        anchors.push(title.chars().filter(is_kept).collect::<String>().replace(' ', "-"));
    }
    anchors
}

#[test]
fn links_in_documents_lead_to_files_and_headings() {
    let (mut broken, mut count) = (Vec::new(), 0);
    for page in files_below(".")
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
    {
        for_each_line(page, |n, pieces| {
            // A link whose text is code has its target in the text after the code.
            let text: Vec<&str> = pieces.iter().step_by(2).copied().collect();
            for rest in text.concat().split("](").skip(1) {
                let link = rest.split(')').next().unwrap_or_default();
                if link.contains(':') || link.contains(' ') {
                    continue;
                }
                count += 1;
                let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => page.clone(),
                    file => page.parent().unwrap().join(file),
                };
                let is_page = target.extension().is_some_and(|e| e == "md");
                let has_anchor = || anchor.is_empty() || !is_page || anchors(&target).iter().any(|a| a == anchor);
                if !target.exists() || !has_anchor() {
                    broken.push(format!("{}:{n}: {link}", page.display()));
                }
            }
        });
    }
    assert!(count > 500, "only {count} links are found");
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

/// Returns the last name of an item: `ALL` of `Model::ALL`, `hooks` of `hooks!`.
fn item_name(span: &str) -> Option<&str> {
    let name = span.rsplit("::").next()?.trim_end_matches('!');
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(name)
}

#[test]
fn items_that_documents_place_in_files_are_there() {
    let (mut missing, mut count) = (Vec::new(), 0);
    for page in pages_about_code() {
        for_each_line(&page, |n, pieces| {
            let mut earlier = Vec::new();
            for at in (1..pieces.len()).step_by(2).filter(|at| is_path(pieces[*at])) {
                let Some(path) = resolve(pieces[at], &page, &earlier) else {
                    continue;
                };
                earlier.push(path.clone());
                // "`A`, `B` and `C` in `path`": each of the items before the path.
                let (mut item, mut joint) = (at, " in ");
                while item > 2
                    && path.is_file()
                    && (pieces[item - 1] == joint || [", ", " and "].contains(&pieces[item - 1]))
                {
                    if joint == " in " && pieces[item - 1] != joint {
                        break;
                    }
                    (item, joint) = (item - 2, ", ");
                    let Some(name) = item_name(pieces[item]) else {
                        break;
                    };
                    count += 1;
                    let text = read(&path);
                    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    if !words.any(|w| w == name) {
                        missing.push(format!("{}:{n}: `{name}` in {}", page.display(), path.display()));
                    }
                }
            }
        });
    }
    assert!(count > 30, "only {count} items are found");
    assert!(missing.is_empty(), "these items are not there:\n{}", missing.join("\n"));
}

#[test]
fn documents_list_every_crate() {
    let (manifest, page) = (read("Cargo.toml"), read("ARCHITECTURE.md"));
    let (_, members) = manifest.split_once("\nmembers = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    assert!(members.len() > 25, "{members:?}");
    for folder in members {
        assert!(
            page.contains(&format!("`{folder}/`")),
            "ARCHITECTURE.md does not list {folder}"
        );
    }
}

#[test]
fn documents_list_every_embedded_register_map() {
    let (table, page) = (
        read("trace-core/src/registers/embedded.rs"),
        read("docs/register-map.md"),
    );
    let folder = root().join("assets/registers");
    let mut maps = 0;
    for path in files_below("assets/registers") {
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let name = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        assert!(
            table.contains(&format!("\"{name}\"")),
            "embedded.rs does not embed {name}"
        );
        if let Some(map) = name.strip_suffix("/map.toml") {
            maps += 1;
            assert!(
                page.contains(&format!("\n| `{map}` |")),
                "docs/register-map.md does not list {map}"
            );
        }
    }
    assert!(maps > 10, "{maps} maps");
}

/// Returns the names of the kinds of findings in the order of the code, as JSON writes them.
fn finding_kinds() -> Vec<String> {
    let text = read("trace-core/src/finding.rs");
    let (_, rest) = text.split_once("pub enum FindingKind {").unwrap();
    let (body, _) = rest.split_once("\n}").unwrap();
    let variants = body
        .lines()
        .map(str::trim)
        .filter(|l| !l.starts_with("//") && !l.is_empty());
    let to_kebab = |variant: &str| {
        let mut name = String::new();
        for c in variant.trim_end_matches(',').chars() {
            if c.is_ascii_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.push(c.to_ascii_lowercase());
        }
        name
    };
    variants.map(to_kebab).collect()
}

#[test]
fn documents_list_every_kind_of_finding_in_the_stored_order() {
    let kinds = finding_kinds();
    assert!(kinds.len() > 20, "{kinds:?}");
    let page = read("docs/reference/findings.md");
    for kind in &kinds {
        assert!(
            page.contains(&format!("`{kind}`")),
            "docs/reference/findings.md does not list {kind}"
        );
    }
    // A file stores the position of a kind, so that both lists are ordered.
    let format = read("docs/format.md");
    let (_, list) = format.split_once("*Finding*: kind choice of ").unwrap();
    let (list, _) = list.split_once("; severity").unwrap();
    let listed: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, kinds, "docs/format.md");
    let reader = read("tests/format_reader.py");
    let (_, list) = reader.split_once("\nFINDING = structure(").unwrap();
    let (list, _) = list.split_once("(\"severity\"").unwrap();
    let (_, list) = list.split_once("choice(").unwrap();
    let names = list.split('"').skip(1).step_by(2);
    let listed: Vec<&str> = names.flat_map(str::split_whitespace).collect();
    assert_eq!(listed, kinds, "tests/format_reader.py");
}

#[test]
fn documents_list_every_panel() {
    let (table, page) = (read("app/src/panels/table.rs"), read("docs/reference/window.md"));
    let titles = table
        .lines()
        .filter_map(|l| l.trim().strip_prefix("title: \"")?.strip_suffix("\","));
    let titles: Vec<&str> = titles.collect();
    assert!(titles.len() > 10, "{titles:?}");
    for title in titles {
        assert!(
            page.contains(&format!("\n| {title} |")),
            "docs/reference/window.md does not list {title}"
        );
    }
}

#[test]
fn documents_list_every_file_with_unsafe_code() {
    let page = root().join("docs/decisions/0051-unsafe.md");
    let mut listed = Vec::new();
    for_each_line(&page, |_, pieces| {
        let mut row = Vec::new();
        for span in pieces.iter().skip(1).step_by(2).filter(|s| is_path(s)) {
            row.extend(resolve(span, &page, &row));
        }
        // Of a folder with names of files, only the files are listed.
        let whole = |p: &&PathBuf| !row.iter().any(|other| other != *p && other.starts_with(p));
        listed.extend(row.iter().filter(whole).cloned());
    });
    assert!(listed.len() > 15, "{listed:?}");
    let forms = [
        "unsafe {",
        "unsafe fn",
        "unsafe impl",
        "unsafe extern",
        "unsafe(",
        "unsafe trait",
    ];
    let mut unlisted = Vec::new();
    for path in files_below(".") {
        if path.extension().is_none_or(|e| e != "rs") || path.ends_with("documents.rs") {
            continue;
        }
        let text = read(&path);
        let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
        let is_unsafe = text.lines().any(|l| forms.iter().any(|f| code(l).contains(f)));
        if is_unsafe && !listed.iter().any(|l| path.starts_with(l)) {
            unlisted.push(path.display().to_string());
        }
    }
    assert!(
        unlisted.is_empty(),
        "docs/decisions/0051-unsafe.md does not list:\n{}",
        unlisted.join("\n")
    );
}
