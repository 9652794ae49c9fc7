//! The XML files of an import: a file and what it imports, bounded in number, size and depth; places in them.

use super::Format;
use super::error::{ImportError, Place};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most bytes of a file.
pub(crate) const MAX_FILE: u64 = 64 << 20;
/// Most files of an import, and most bytes of all together.
const MAX_FILES: usize = 256;
const MAX_BYTES: u64 = 128 << 20;
/// Most elements and texts of a file.
const MAX_NODES: u32 = 4_000_000;
/// How deep elements may lie in each other. Known files stay below 20.
const MAX_DEPTH: usize = 64;

/// Where imported files come from.
pub trait Sources {
    /// The text of a file that is imported by this name; `None` where there is none.
    fn text(&mut self, name: &str) -> Option<String>;
}

/// No files.
#[derive(Debug, Default)]
pub struct Nothing;

impl Sources for Nothing {
    fn text(&mut self, _name: &str) -> Option<String> {
        None
    }
}

/// The files around another one: names are looked up in its folder and, since databases name files from their root, in
/// the two folders above it. Names that lead out of these are not followed.
#[derive(Debug)]
pub struct Folder(Vec<PathBuf>);

impl Folder {
    /// Around this file.
    #[must_use]
    pub fn around(file: &Path) -> Self {
        let full = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Self(full.ancestors().skip(1).take(3).map(Path::to_owned).collect())
    }
}

impl Sources for Folder {
    fn text(&mut self, name: &str) -> Option<String> {
        let plain = |c: std::path::Component<'_>| matches!(c, std::path::Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(plain) {
            return None;
        }
        self.0.iter().find_map(|folder| {
            let path = folder.join(name);
            // Before it is opened: a pipe would wait for somebody who writes into it.
            if !std::fs::metadata(&path).ok()?.is_file() {
                return None;
            }
            let file = std::fs::File::open(&path).ok()?;
            let mut text = String::new();
            file.take(MAX_FILE).read_to_string(&mut text).ok()?;
            Some(text)
        })
    }
}

/// Most bytes of a name.
pub(crate) const MAX_NAME: usize = 256;

/// The texts of an import: the file itself first.
pub(crate) struct Loaded {
    files: Vec<(Arc<str>, String)>,
    /// Imports that were not found.
    pub missing: Vec<(String, Place)>,
}

impl Loaded {
    pub fn read(
        file: &str,
        text: &str,
        format: Option<Format>,
        sources: &mut dyn Sources,
    ) -> Result<Self, ImportError> {
        let mut loaded = Self {
            files: vec![(file.into(), text.trim_start_matches('\u{feff}').to_owned())],
            missing: Vec::new(),
        };
        // Each file once, so that files that import each other end.
        let mut seen: HashSet<String> = HashSet::new();
        let mut next = 0;
        let mut bytes = 0u64;
        while let Some((name, text)) = loaded.files.get(next) {
            let tree = Tree::parse(name, text)?;
            bytes = bytes.saturating_add(text.len() as u64);
            let limit = |what: &str, most: u64| ImportError::TooMuch {
                place: tree.place(tree.root()),
                what: format!("the file and what it imports are too {what}"),
                most,
            };
            if text.len() as u64 > MAX_FILE || bytes > MAX_BYTES {
                return Err(limit("large", MAX_BYTES));
            }
            let kind = format.or_else(|| Format::of_root(tree.root().tag_name().name()));
            let attribute = match kind {
                Some(Format::Rnn) => "file",
                Some(Format::Genxml) => "name",
                _ => break,
            };
            let imports = tree
                .root()
                .descendants()
                .filter(|n| n.has_tag_name("import") || n.tag_name().name() == "import");
            let mut found = Vec::new();
            for node in imports {
                let Some(name) = node.attribute(attribute) else {
                    continue;
                };
                if !seen.insert(name.to_owned()) {
                    continue;
                }
                if loaded.files.len() + found.len() >= MAX_FILES {
                    return Err(limit("many", MAX_FILES as u64));
                }
                match sources.text(name) {
                    Some(text) => found.push((name.into(), text)),
                    None if seen.len() > 4 * MAX_FILES => return Err(limit("many", MAX_FILES as u64)),
                    None => loaded.missing.push((name.to_owned(), tree.place(node))),
                }
            }
            loaded.files.extend(found);
            next += 1;
        }
        Ok(loaded)
    }

    pub fn parse(&self) -> Result<Vec<Tree<'_>>, ImportError> {
        self.files.iter().map(|(name, text)| Tree::parse(name, text)).collect()
    }
}

/// A parsed file.
pub(crate) struct Tree<'a> {
    name: Arc<str>,
    document: Document<'a>,
    /// Where each line begins.
    lines: Vec<usize>,
}

impl<'a> Tree<'a> {
    fn parse(name: &Arc<str>, text: &'a str) -> Result<Self, ImportError> {
        let at = |line, column| Place {
            file: Arc::clone(name),
            line,
            column,
        };
        let options = ParsingOptions {
            nodes_limit: MAX_NODES,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(text, options).map_err(|e| {
            let pos = e.pos();
            ImportError::Xml {
                place: at(pos.row, pos.col),
                reason: e.to_string(),
            }
        })?;
        let starts = text
            .bytes()
            .enumerate()
            .filter(|(_, b)| *b == b'\n')
            .map(|(i, _)| i + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        let tree = Self {
            name: Arc::clone(name),
            document,
            lines,
        };
        // Down and up again, so that nothing here or later recurses further than a stack holds.
        let (mut depth, mut node) = (0usize, tree.document.root_element());
        'walk: loop {
            if depth > MAX_DEPTH {
                return Err(ImportError::TooMuch {
                    place: tree.place(node),
                    what: "elements lie too deep in each other".to_owned(),
                    most: MAX_DEPTH as u64,
                });
            }
            tree.short_names(node)?;
            if let Some(child) = node.first_element_child() {
                (depth, node) = (depth + 1, child);
                continue;
            }
            loop {
                if depth == 0 {
                    break 'walk;
                }
                if let Some(next) = node.next_sibling_element() {
                    node = next;
                    break;
                }
                let Some(parent) = node.parent_element() else {
                    break 'walk;
                };
                (depth, node) = (depth - 1, parent);
            }
        }
        Ok(tree)
    }

    pub fn root(&self) -> Node<'_, 'a> {
        self.document.root_element()
    }

    /// Names are repeated for every member of an array and every level: they are short.
    fn short_names(&self, node: Node<'_, '_>) -> Result<(), ImportError> {
        let of_element = node.text().filter(|_| node.has_tag_name("name"));
        let longest = node.attribute("name").into_iter().chain(of_element).map(str::len).max();
        if longest.unwrap_or(0) > MAX_NAME {
            return Err(ImportError::TooMuch {
                place: self.place(node),
                what: "a name has too many bytes".to_owned(),
                most: MAX_NAME as u64,
            });
        }
        Ok(())
    }

    /// Where an element begins.
    pub fn place(&self, node: Node<'_, '_>) -> Place {
        let byte = node.range().start;
        let line = self.lines.partition_point(|start| *start <= byte).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        Place {
            file: Arc::clone(&self.name),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(byte - start + 1).unwrap_or(u32::MAX),
        }
    }

    pub fn wrong(&self, node: Node<'_, '_>, reason: impl Into<String>) -> ImportError {
        ImportError::Wrong {
            place: self.place(node),
            reason: reason.into(),
        }
    }

    /// An attribute that is a number in C's notation.
    pub fn number(&self, node: Node<'_, '_>, attribute: &str) -> Result<Option<u64>, ImportError> {
        let Some(text) = node.attribute(attribute) else {
            return Ok(None);
        };
        let value = number(text).ok_or_else(|| {
            let text: String = text.chars().take(40).collect();
            self.wrong(node, format!("{attribute} is '{text}' (expected a number, 31 or 0x1f)"))
        })?;
        Ok(Some(value))
    }
}

/// `31`, `0x1f`.
pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The text of an element in one line, cut to what a description may be long.
pub(crate) fn one_line(text: &str) -> String {
    const MOST: usize = 1000;
    let mut out = String::new();
    for word in text.split_whitespace() {
        if out.len() + word.len() > MOST {
            out.push_str(" …");
            break;
        }
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
