//! Which files of a crate use which others, read from the sources, and the circles among them.
//!
//! A re-export (`pub use`) is no use: whoever takes an item through it uses the file that defines the item. Tests within
//! files do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A module path: its names below the crate.
type ModulePath = Vec<String>;

/// Maximum number of re-exports that one name is followed through.
const MAX_REEXPORTS: usize = 16;

/// A token: a word, a number, `::` or one character.
type Token = String;

/// Splits source text into tokens, without comments, strings and lifetimes.
fn tokens(text: &str) -> Vec<Token> {
    let c: Vec<char> = text.chars().collect();
    let (mut out, mut i) = (Vec::new(), 0);
    let is = |i: usize, what: &str| what.chars().enumerate().all(|(n, w)| c.get(i + n) == Some(&w));
    while i < c.len() {
        if is(i, "//") {
            while i < c.len() && c[i] != '\n' {
                i += 1;
            }
        } else if is(i, "/*") {
            let mut depth = 0;
            loop {
                match () {
                    () if is(i, "/*") => (depth, i) = (depth + 1, i + 2),
                    () if is(i, "*/") => (depth, i) = (depth - 1, i + 2),
                    () => i += 1,
                }
                if depth == 0 || i >= c.len() {
                    break;
                }
            }
        } else if c[i] == '"' {
            i += 1;
            while i < c.len() && c[i] != '"' {
                i += if c[i] == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if c[i] == 'r' && (is(i, "r\"") || is(i, "r#\"") || is(i, "r##\"")) {
            let hashes = c[i + 1..].iter().take_while(|h| **h == '#').count();
            let end = format!("\"{}", "#".repeat(hashes));
            i += 2 + hashes;
            while i < c.len() && !is(i, &end) {
                i += 1;
            }
            i += end.len();
        } else if c[i] == '\'' {
            // A character, or a lifetime.
            let quoted = c.get(i + 1) == Some(&'\\') || c.get(i + 2) == Some(&'\'');
            i += 1;
            if quoted {
                while i < c.len() && c[i] != '\'' {
                    i += if c[i] == '\\' { 2 } else { 1 };
                }
                i += 1;
            }
        } else if c[i].is_alphanumeric() || c[i] == '_' {
            let from = i;
            while i < c.len() && (c[i].is_alphanumeric() || c[i] == '_') {
                i += 1;
            }
            out.push(c[from..i].iter().collect());
        } else if is(i, "::") {
            out.push("::".to_owned());
            i += 2;
        } else {
            if !c[i].is_whitespace() {
                out.push(c[i].to_string());
            }
            i += 1;
        }
    }
    out
}

/// A path in the source, absolute in the crate.
#[derive(Debug)]
struct Import {
    path: ModulePath,
    /// The name that it gets; `None` for `*`.
    name: Option<String>,
    reexport: bool,
}

/// What a file says.
#[derive(Debug, Default)]
struct Source {
    imports: Vec<(ModulePath, Import)>,
    paths: Vec<ModulePath>,
    items: BTreeSet<(ModulePath, String)>,
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Makes a path absolute; `None` if it leads out of the crate.
fn absolute(module: &ModulePath, path: &[String], children: &BTreeSet<String>) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module[..module.len().checked_sub(1)?].to_vec(),
        child if children.contains(child) => [module.as_slice(), std::slice::from_ref(first)].concat(),
        _ => return None,
    };
    for name in rest {
        if name == "super" {
            base.pop()?;
        } else if name != "self" {
            base.push(name.clone());
        }
    }
    Some(base)
}

/// Reads one `use` tree from `at` on; adds each leaf and returns the index after it.
fn use_tree(t: &[Token], mut at: usize, prefix: &[String], out: &mut Vec<(Vec<String>, Option<String>)>) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match t.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while let Some(token) = t.get(at)
                    && token != "}"
                {
                    at = if token == "," {
                        at + 1
                    } else {
                        use_tree(t, at, &path, out)
                    };
                }
                return at + 1;
            }
            Some("*") => {
                out.push((path, None));
                return at + 1;
            }
            Some("::") => at += 1,
            Some(word) if is_word(word) => {
                path.push(word.to_owned());
                at += 1;
                if t.get(at).is_some_and(|n| n == "::") {
                    continue;
                }
                let mut name = path.iter().rev().find(|n| *n != "self").cloned();
                if t.get(at).is_some_and(|n| n == "as") {
                    name = t.get(at + 1).cloned();
                    at += 2;
                }
                out.push((path, name));
                return at;
            }
            _ => return at + 1,
        }
    }
}

fn end_of_block(t: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in t.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i;
        }
    }
    t.len()
}

/// Reads a file whose module is `module`.
fn read(text: &str, module: &ModulePath) -> Source {
    let t = tokens(text);
    let mut out = Source::default();
    let at = |i: usize| t.get(i).map_or("", String::as_str);
    // The module that the current token is in, and where each inline module ends.
    let (mut here, mut ends) = (module.clone(), Vec::<usize>::new());
    let mut children = BTreeMap::<ModulePath, BTreeSet<String>>::new();
    let mut i = 0;
    while i < t.len() {
        while ends.last() == Some(&i) {
            ends.pop();
            here.pop();
        }
        let of_tests = at(i) == "#"
            && at(i + 1) == "["
            && at(i + 2) == "cfg"
            && at(i + 4) == "test"
            && at(i + 5) == ")"
            && at(i + 6) == "]";
        if of_tests {
            // Skips the item.
            let mut j = i + 7;
            while j < t.len() && at(j) != "{" && at(j) != ";" {
                j += 1;
            }
            i = if at(j) == "{" { end_of_block(&t, j) + 1 } else { j + 1 };
            continue;
        }
        match at(i) {
            "mod" if is_word(at(i + 1)) && at(i + 2) == ";" => {
                children.entry(here.clone()).or_default().insert(at(i + 1).to_owned());
                i += 3;
                continue;
            }
            "mod" if is_word(at(i + 1)) && at(i + 2) == "{" => {
                children.entry(here.clone()).or_default().insert(at(i + 1).to_owned());
                here.push(at(i + 1).to_owned());
                ends.push(end_of_block(&t, i + 2));
                i += 3;
                continue;
            }
            "use" if i == 0 || matches!(at(i - 1), ";" | "}" | "]" | ")" | "{" | "pub") => {
                let reexport = at(i - 1.min(i)) == "pub" || at(i - 1.min(i)) == ")";
                let mut leaves = Vec::new();
                i = use_tree(&t, i + 1, &[], &mut leaves);
                let none = BTreeSet::new();
                let own = children.get(&here).unwrap_or(&none);
                for (path, name) in leaves {
                    if let Some(path) = absolute(&here, &path, own) {
                        out.imports.push((here.clone(), Import { path, name, reexport }));
                    }
                }
                continue;
            }
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" if is_word(at(i + 1)) => {
                out.items.insert((here.clone(), at(i + 1).to_owned()));
            }
            // `pub(in PATH)` names who may see the item, and uses nothing.
            "in" if i >= 2 && at(i - 1) == "(" && at(i - 2) == "pub" => {
                while i < t.len() && at(i) != ")" {
                    i += 1;
                }
            }
            word if is_word(word) && at(i + 1) == "::" && (i == 0 || at(i - 1) != "::") => {
                let mut path = vec![word.to_owned()];
                let mut j = i + 1;
                while at(j) == "::" && is_word(at(j + 1)) {
                    path.push(at(j + 1).to_owned());
                    j += 2;
                }
                let none = BTreeSet::new();
                if let Some(path) = absolute(&here, &path, children.get(&here).unwrap_or(&none)) {
                    out.paths.push(path);
                }
            }
            _ => {}
        }
        i += 1;
    }
    out
}

/// The files of a crate and the uses between them.
#[derive(Debug, Default)]
pub struct ModuleGraph {
    /// The files that each file uses.
    pub uses: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
}

struct Sources {
    files: BTreeMap<ModulePath, PathBuf>,
    sources: BTreeMap<ModulePath, Source>,
}

impl Sources {
    /// The longest prefix of a path that is a file.
    fn file_module(&self, path: &ModulePath) -> ModulePath {
        let n = (0..=path.len()).rev().find(|n| self.files.contains_key(&path[..*n]));
        path[..n.unwrap_or(0)].to_vec()
    }

    /// The module whose file defines what a path names.
    fn definer(&self, path: &ModulePath, left: usize) -> ModulePath {
        let module = self.file_module(path);
        let (Some(source), Some(next)) = (self.sources.get(&module), path.get(module.len())) else {
            return module;
        };
        if left == 0 || source.items.iter().any(|(m, item)| *m == module && item == next) {
            return module;
        }
        let rest = &path[module.len() + 1..];
        for (at, import) in &source.imports {
            if *at == module && import.name.as_ref() == Some(next) {
                return self.definer(&[import.path.as_slice(), rest].concat(), left - 1);
            }
        }
        for (at, import) in &source.imports {
            if *at == module && import.name.is_none() && import.path != module {
                let through = [import.path.as_slice(), &path[module.len()..]].concat();
                let found = self.definer(&through, left - 1);
                let defines = |s: &Source| s.items.iter().any(|(_, item)| item == next);
                if found != module && self.sources.get(&found).is_some_and(defines) {
                    return found;
                }
            }
        }
        module
    }
}

impl ModuleGraph {
    /// Reads the crate whose sources are in a folder, from `lib.rs` or `main.rs` on.
    ///
    /// # Errors
    /// If a folder or a file cannot be read.
    pub fn read(src: &Path) -> std::io::Result<Self> {
        let mut all = Sources {
            files: BTreeMap::new(),
            sources: BTreeMap::new(),
        };
        let mut folders = vec![src.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    let inside = path.strip_prefix(src).unwrap_or(&path).with_extension("");
                    let mut module: ModulePath = inside.iter().map(|n| n.to_string_lossy().into_owned()).collect();
                    if module.first().is_some_and(|n| n == "bin")
                        || module.iter().any(|n| n == "tests" || n.starts_with("test_"))
                    {
                        continue;
                    }
                    if module.len() == 1 && (module[0] == "lib" || module[0] == "main") {
                        if module[0] == "main" && src.join("lib.rs").exists() {
                            continue;
                        }
                        module.clear();
                    }
                    let text = std::fs::read_to_string(&path)?;
                    all.sources.insert(module.clone(), read(&text, &module));
                    all.files.insert(module, path);
                }
            }
        }
        let mut uses = BTreeMap::<PathBuf, BTreeSet<PathBuf>>::new();
        for (module, source) in &all.sources {
            let Some(file) = all.files.get(module) else { continue };
            let own = uses.entry(file.clone()).or_default();
            let imported = source.imports.iter().filter(|(_, i)| !i.reexport).map(|(_, i)| &i.path);
            for path in imported.chain(&source.paths) {
                let to = all.definer(path, MAX_REEXPORTS);
                if to != *module
                    && let Some(to) = all.files.get(&to)
                {
                    own.insert(to.clone());
                }
            }
        }
        Ok(Self { uses })
    }

    /// Returns the groups of files of which each uses every other one, directly or through others of the group; largest
    /// first, without single files.
    #[must_use]
    pub fn circles(&self) -> Vec<Vec<PathBuf>> {
        let reached = |from: &PathBuf| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(file) = open.pop() {
                for next in self.uses.get(file).into_iter().flatten() {
                    if seen.insert(next) {
                        open.push(next);
                    }
                }
            }
            seen
        };
        let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = self.uses.keys().map(|f| (f, reached(f))).collect();
        let (mut circles, mut done) = (Vec::new(), BTreeSet::new());
        for file in self.uses.keys() {
            let circle: Vec<PathBuf> = (self.uses.keys())
                .filter(|other| reach[file].contains(other) && reach[other].contains(file))
                .cloned()
                .collect();
            if circle.len() > 1 && done.insert(circle.clone()) {
                circles.push(circle);
            }
        }
        circles.sort_by_key(|c| std::cmp::Reverse(c.len()));
        circles
    }

    /// Returns the pairs of top-level modules that use each other.
    #[must_use]
    pub fn mutual_pairs(&self, src: &Path) -> Vec<(String, String)> {
        let top = |file: &PathBuf| {
            let inside = file.strip_prefix(src).ok()?.with_extension("");
            let first = inside.iter().next()?.to_string_lossy().into_owned();
            (first != "lib" && first != "main").then_some(first)
        };
        let mut between = BTreeSet::new();
        for (from, uses) in &self.uses {
            for to in uses {
                if let (Some(a), Some(b)) = (top(from), top(to))
                    && a != b
                {
                    between.insert((a, b));
                }
            }
        }
        let mutual = between
            .iter()
            .filter(|(a, b)| a < b && between.contains(&(b.clone(), a.clone())));
        mutual.cloned().collect()
    }
}
