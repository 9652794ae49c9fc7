//! The XML files of an import: a file and its imports, limited in number, size and depth, with positions.

use super::error::{FilePosition, ImportError};
use super::options::Format;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a file, bytes.
pub(crate) const MAX_FILE: u64 = 64 << 20;
/// Maximum number of files of an import, and maximum size of all together in bytes.
const MAX_FILES: usize = 256;
const MAX_BYTES: u64 = 128 << 20;
/// Maximum number of elements and texts of a file.
const MAX_NODES: u32 = 4_000_000;
/// Maximum nesting depth of elements. Known files stay below 20.
const MAX_DEPTH: usize = 64;

/// Maximum number of tags of a file and its imports, closing tags included, and maximum number of attributes. The
/// largest known SVD has some 800 000 of them.
const MAX_TAGS: usize = 4_000_000;
const MAX_ATTRIBUTES: usize = 4_000_000;
/// Maximum number of attributes of an element: the parser compares each with all others.
const MAX_OF_ELEMENT: usize = 256;
/// Maximum number of namespace declarations: every element with one has a list of all that enclose it.
const MAX_NAMESPACES: usize = 256;

/// A source of imported files.
pub trait Sources {
    /// Returns the text of an imported file by name, or `None` if there is none.
    fn text(&mut self, name: &str) -> Option<String>;

    /// Returns the identity of a file, whatever name it is imported by: a file is read once. By default the name
    /// without redundant parts.
    fn identity(&mut self, name: &str) -> String {
        plain(name)
    }

    /// Returns the identity of the importing file, in the form of [`Sources::identity`].
    fn own(&self) -> Option<String> {
        None
    }
}

/// Returns a path without `.` and doubled slashes.
fn plain(name: &str) -> String {
    Path::new(name).components().collect::<PathBuf>().display().to_string()
}

/// No files.
#[derive(Debug, Default)]
pub struct NoSources;

impl Sources for NoSources {
    fn text(&mut self, _name: &str) -> Option<String> {
        None
    }
}

/// The files around another one. Names are searched in its folder and, since databases name files from their root, in
/// the two folders above it. Names that lead out of these are not followed.
#[derive(Debug)]
pub struct Folder {
    folders: Vec<PathBuf>,
    own: Option<PathBuf>,
}

impl Folder {
    /// Creates the source for this file.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        let full = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        Self {
            folders: full.ancestors().skip(1).take(3).map(Path::to_owned).collect(),
            own: full.canonicalize().ok(),
        }
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        let plain = |c: std::path::Component<'_>| matches!(c, std::path::Component::Normal(_));
        if name.is_empty() || !Path::new(name).components().all(plain) {
            return None;
        }
        let mut paths = self.folders.iter().map(|folder| folder.join(name));
        // Checked before the file is opened: opening a pipe would block until somebody writes into it.
        paths.find(|path| std::fs::metadata(path).is_ok_and(|m| m.is_file()))
    }
}

impl Sources for Folder {
    fn text(&mut self, name: &str) -> Option<String> {
        let file = std::fs::File::open(self.find(name)?).ok()?;
        let mut text = String::new();
        // One byte more than the limit, so that the excess is detected and the file is not cut silently.
        file.take(MAX_FILE + 1).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn identity(&mut self, name: &str) -> String {
        let real = self.find(name).and_then(|p| p.canonicalize().ok());
        real.map_or_else(|| plain(name), |p| p.display().to_string())
    }

    fn own(&self) -> Option<String> {
        self.own.as_ref().map(|p| p.display().to_string())
    }
}

/// Maximum size of a name, bytes.
pub(crate) const MAX_NAME: usize = 256;

/// The texts of an import: the main file first.
pub(crate) struct LoadedFiles {
    files: Vec<(Arc<str>, String)>,
    /// Imports that were not found.
    pub missing: Vec<(String, FilePosition)>,
}

impl LoadedFiles {
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
        let mut seen: HashSet<String> = sources.own().into_iter().collect();
        let mut next = 0;
        let mut sum = InputTotals::default();
        if let Some((name, text)) = loaded.files.first() {
            sum.add(name, text)?;
        }
        while let Some((name, text)) = loaded.files.get(next) {
            let tree = Tree::parse(name, text)?;
            let kind = format.or_else(|| Format::from_root_tag(tree.root().tag_name().name()));
            let attribute = match kind {
                Some(Format::Rnn) => "file",
                Some(Format::Genxml) => "name",
                _ => break,
            };
            let imports = tree
                .root()
                .descendants()
                .filter(|n| n.has_tag_name("import") || n.tag_name().name() == "import");
            let mut found: Vec<(Arc<str>, String)> = Vec::new();
            for node in imports {
                let Some(name) = node.attribute(attribute) else {
                    continue;
                };
                if !seen.insert(sources.identity(name)) {
                    continue;
                }
                let many = || ImportError::TooMuch {
                    place: tree.place(node),
                    what: "the file and its imports are too many files".to_owned(),
                    max: MAX_FILES as u64,
                };
                if loaded.files.len() + found.len() >= MAX_FILES {
                    return Err(many());
                }
                match sources.text(name) {
                    Some(text) => {
                        let name: Arc<str> = name.into();
                        sum.add(&name, &text)?;
                        found.push((name, text));
                    }
                    None if seen.len() > 4 * MAX_FILES => return Err(many()),
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

/// Totals of an import's files, checked before parsing: the parser needs many times the size of a file that is all
/// tags, attributes or namespaces.
#[derive(Default)]
struct InputTotals {
    bytes: u64,
    tags: usize,
    attributes: usize,
    namespaces: usize,
}

impl InputTotals {
    fn add(&mut self, file: &Arc<str>, text: &str) -> Result<(), ImportError> {
        let too = |what: &str, max: u64, at: usize| {
            let before = text.get(..at).unwrap_or_default();
            let start = before.rfind('\n').map_or(0, |n| n + 1);
            let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
            Err(ImportError::TooMuch {
                place: FilePosition {
                    file: Arc::clone(file),
                    line: u32::try_from(line).unwrap_or(u32::MAX),
                    column: u32::try_from(at - start + 1).unwrap_or(u32::MAX),
                },
                what: what.to_owned(),
                max,
            })
        };
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        if text.len() as u64 > MAX_FILE {
            return too("the file has too many bytes", MAX_FILE, 0);
        }
        if self.bytes > MAX_BYTES {
            return too("the file and its imports have too many bytes", MAX_BYTES, 0);
        }
        // An attribute is an equals sign before a quote. The same characters in a text count too, which does no harm.
        let (mut of_element, mut equals) = (0usize, false);
        for (at, byte) in text.bytes().enumerate() {
            match byte {
                b'<' => {
                    self.tags += 1;
                    of_element = 0;
                    if self.tags > MAX_TAGS {
                        return too("the file and its imports have too many tags", MAX_TAGS as u64, at);
                    }
                }
                b'"' | b'\'' if equals => {
                    self.attributes += 1;
                    of_element += 1;
                    if of_element > MAX_OF_ELEMENT {
                        return too("an element has too many attributes", MAX_OF_ELEMENT as u64, at);
                    }
                    if self.attributes > MAX_ATTRIBUTES {
                        let what = "the file and its imports have too many attributes";
                        return too(what, MAX_ATTRIBUTES as u64, at);
                    }
                }
                _ => {}
            }
            equals = byte == b'=' || equals && byte.is_ascii_whitespace();
        }
        for (at, _) in text.match_indices("xmlns") {
            self.namespaces += 1;
            if self.namespaces > MAX_NAMESPACES {
                return too("the file declares too many namespaces", MAX_NAMESPACES as u64, at);
            }
        }
        Ok(())
    }
}

/// A parsed file.
pub(crate) struct Tree<'a> {
    name: Arc<str>,
    document: Document<'a>,
    /// Offset of each line.
    lines: Vec<usize>,
}

impl<'a> Tree<'a> {
    fn parse(name: &Arc<str>, text: &'a str) -> Result<Self, ImportError> {
        let at = |line, column| FilePosition {
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
                // Our own message gives the position.
                reason: e.to_string().replacen(&format!(" at {pos}"), "", 1),
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
        // Walks down and up again: no recursion here or later exceeds the stack.
        let (mut depth, mut node) = (0usize, tree.document.root_element());
        'walk: loop {
            if depth > MAX_DEPTH {
                return Err(ImportError::TooMuch {
                    place: tree.place(node),
                    what: "elements are nested too deep".to_owned(),
                    max: MAX_DEPTH as u64,
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

    /// Checks that names are short: they are repeated for every array member and every level.
    fn short_names(&self, node: Node<'_, '_>) -> Result<(), ImportError> {
        let of_element = node.text().filter(|_| node.has_tag_name("name"));
        let longest = node.attribute("name").into_iter().chain(of_element).map(str::len).max();
        if longest.unwrap_or(0) > MAX_NAME {
            return Err(ImportError::TooMuch {
                place: self.place(node),
                what: "a name has too many bytes".to_owned(),
                max: MAX_NAME as u64,
            });
        }
        Ok(())
    }

    /// Returns the position of an element.
    pub fn place(&self, node: Node<'_, '_>) -> FilePosition {
        let byte = node.range().start;
        let line = self.lines.partition_point(|start| *start <= byte).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        FilePosition {
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

    /// Returns an attribute that is a number in C notation.
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

/// Parses `31` or `0x1f`.
pub(crate) fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns the text of an element in one line, cut to the maximum length of a description.
pub(crate) fn one_line(text: &str) -> String {
    const MAX_DESCRIPTION: usize = 1000;
    let mut out = String::new();
    for word in text.split_whitespace() {
        if out.len() + word.len() > MAX_DESCRIPTION {
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

/// Returns a text with line breaks and control characters replaced by spaces.
pub(crate) fn one_name(text: &str) -> String {
    let plain = |c: char| {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            ' '
        } else {
            c
        }
    };
    text.chars().map(plain).collect()
}
