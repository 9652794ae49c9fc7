//! The XML files of an import: a file and its imports, limited in number, size and depth, with positions.

use super::decode::{MAX_FILE, decode};
use super::error::{FilePosition, ImportError};
use super::mend::{MendedText, mend};
use super::options::Format;
use super::sources::Sources;
use super::text::{MAX_NAME, number};
use roxmltree::{Document, Node, NodeId, ParsingOptions};
use std::collections::HashSet;
use std::sync::Arc;

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
/// Maximum number of namespace declarations of a file: every element with one has a list of all that enclose it.
const MAX_NAMESPACES: usize = 256;
/// Maximum number of prefixes without a declaration that are declared.
const MAX_PREFIXES: usize = 8;

/// A file of an import, decoded and mended.
struct LoadedFile {
    name: Arc<str>,
    mended: MendedText,
    /// Offset of each line in the file.
    lines: Vec<usize>,
    /// The place where the encoding of the file is in doubt, and how it was read.
    doubt: Option<(FilePosition, String)>,
}

impl LoadedFile {
    fn new(name: Arc<str>, bytes: &[u8]) -> Result<Self, ImportError> {
        let too_large = |max| ImportError::TooMuch {
            place: FilePosition {
                file: Arc::clone(&name),
                line: 1,
                column: 1,
            },
            what: "the file has too many bytes".to_owned(),
            max,
        };
        if bytes.len() as u64 > MAX_FILE {
            return Err(too_large(MAX_FILE));
        }
        let decoded = decode(bytes).map_err(too_large)?;
        let doubt = decoded.doubt.map(|(at, what)| {
            let before = bytes.get(..at).unwrap_or(bytes);
            let start = before.iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
            let place = FilePosition {
                file: Arc::clone(&name),
                line: number_of(before.iter().filter(|b| **b == b'\n').count() + 1),
                column: number_of(at - start + 1),
            };
            (place, what)
        });
        let starts = decoded.text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        let lines = std::iter::once(0).chain(starts.map(|(i, _)| i + 1)).collect();
        Ok(Self {
            mended: mend(&decoded.text),
            name,
            lines,
            doubt,
        })
    }

    /// Returns the position of a byte of the mended text.
    fn place(&self, at: usize) -> FilePosition {
        self.file_place(self.mended.origin(at))
    }

    /// Returns the position of a byte of the file.
    fn file_place(&self, at: usize) -> FilePosition {
        let line = self.lines.partition_point(|start| *start <= at).max(1);
        let start = self.lines.get(line - 1).copied().unwrap_or(0);
        FilePosition {
            file: Arc::clone(&self.name),
            line: number_of(line),
            column: number_of(at.saturating_sub(start) + 1),
        }
    }
}

fn number_of(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The files of an import: the main file first.
pub(crate) struct LoadedFiles {
    files: Vec<LoadedFile>,
    /// Imports that were not found.
    pub missing: Vec<(String, FilePosition)>,
}

impl LoadedFiles {
    pub fn read(
        file: &str,
        bytes: &[u8],
        format: Option<Format>,
        sources: &mut dyn Sources,
    ) -> Result<Self, ImportError> {
        let mut loaded = Self {
            files: vec![LoadedFile::new(file.into(), bytes)?],
            missing: Vec::new(),
        };
        // Each file once, so that files that import each other end.
        let mut seen: HashSet<String> = sources.own().into_iter().collect();
        let mut next = 0;
        let mut sum = InputTotals::default();
        if let Some(first) = loaded.files.first() {
            sum.add(first)?;
        }
        while let Some(file) = loaded.files.get_mut(next) {
            let tree = Tree::parse(file)?;
            let kind = format.or_else(|| Format::from_root_tag(tree.root().tag_name().name()));
            let attribute = match kind {
                Some(Format::Rnn) => "file",
                Some(Format::Genxml) => "name",
                _ => break,
            };
            let imports = tree.root().descendants().filter(|n| n.tag_name().name() == "import");
            let imports: Vec<(String, FilePosition)> = imports
                .filter_map(|n| Some((n.attribute(attribute)?.to_owned(), tree.place(n))))
                .collect();
            drop(tree);
            for (name, place) in imports {
                if !seen.insert(sources.identity(&name)) {
                    continue;
                }
                let many = || ImportError::TooMuch {
                    place: place.clone(),
                    what: "the file and its imports are too many files".to_owned(),
                    max: MAX_FILES as u64,
                };
                if loaded.files.len() >= MAX_FILES {
                    return Err(many());
                }
                match sources.bytes(&name) {
                    Some(bytes) => {
                        sum.add_bytes(&place, bytes.len() as u64)?;
                        let file = LoadedFile::new(name.into(), &bytes)?;
                        sum.add(&file)?;
                        loaded.files.push(file);
                    }
                    None if seen.len() > 4 * MAX_FILES => return Err(many()),
                    None => loaded.missing.push((name, place)),
                }
            }
            next += 1;
        }
        Ok(loaded)
    }

    /// Parses all files.
    pub fn parse(&mut self) -> Result<Vec<Tree<'_>>, ImportError> {
        self.files.iter_mut().map(Tree::parse).collect()
    }
}

/// Totals of an import's files, checked before parsing: the parser needs many times the size of a file that is all
/// tags, attributes or namespaces.
#[derive(Default)]
struct InputTotals {
    bytes: u64,
    tags: usize,
    attributes: usize,
}

impl InputTotals {
    /// Counts the bytes of an imported file before it is decoded.
    fn add_bytes(&mut self, place: &FilePosition, bytes: u64) -> Result<(), ImportError> {
        if self.bytes.saturating_add(bytes) > MAX_BYTES {
            return Err(ImportError::TooMuch {
                place: place.clone(),
                what: "the file and its imports have too many bytes".to_owned(),
                max: MAX_BYTES,
            });
        }
        Ok(())
    }

    fn add(&mut self, file: &LoadedFile) -> Result<(), ImportError> {
        let text = &file.mended.text;
        let too = |what: &str, max: u64, at: usize| {
            Err(ImportError::TooMuch {
                place: file.place(at),
                what: what.to_owned(),
                max,
            })
        };
        self.bytes = self.bytes.saturating_add(text.len() as u64);
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
        for (n, (at, _)) in text.match_indices("xmlns").enumerate() {
            if n >= MAX_NAMESPACES {
                return too("the file declares too many namespaces", MAX_NAMESPACES as u64, at);
            }
        }
        Ok(())
    }
}

/// A parsed file.
pub(crate) struct Tree<'a> {
    file: &'a LoadedFile,
    document: Document<'a>,
    /// Elements that are left out because their names are too long, and their positions.
    left_out: HashSet<NodeId>,
    long_names: Vec<FilePosition>,
}

/// Declares prefixes of namespaces that a file uses without a declaration.
fn declare_prefixes(file: &mut LoadedFile) {
    for _ in 0..MAX_PREFIXES {
        let Err(roxmltree::Error::UnknownNamespace(prefix, pos)) = parse_document(&file.mended.text) else {
            return;
        };
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let root = file.mended.text.match_indices('<').map(|(at, _)| at + 1);
        let mut root = root.filter(|at| file.mended.text.get(*at..).is_some_and(|t| t.starts_with(is_name)));
        let Some(at) = root
            .next()
            .filter(|_| prefix.chars().all(is_name) && !prefix.is_empty())
        else {
            return;
        };
        let line = pos.row;
        let name = file.mended.text.get(at..).unwrap_or_default();
        let end = at + name.find(|c: char| !is_name(c) && c != ':').unwrap_or(name.len());
        file.mended.declare(end, &prefix, line);
    }
}

fn parse_document(text: &str) -> Result<Document<'_>, roxmltree::Error> {
    let options = ParsingOptions {
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options)
}

impl<'a> Tree<'a> {
    fn parse(file: &'a mut LoadedFile) -> Result<Self, ImportError> {
        declare_prefixes(file);
        let file = &*file;
        let document = parse_document(&file.mended.text).map_err(|e| {
            let pos = e.pos();
            let lines = file
                .mended
                .text
                .split_inclusive('\n')
                .take((pos.row as usize).saturating_sub(1));
            let start: usize = lines.map(str::len).sum();
            let line = file.mended.text.get(start..).unwrap_or_default();
            let before = line.chars().take((pos.col as usize).saturating_sub(1));
            ImportError::Xml {
                place: file.place(start + before.map(char::len_utf8).sum::<usize>()),
                // Our own message gives the position.
                reason: e.to_string().replacen(&format!(" at {pos}"), "", 1),
            }
        })?;
        let mut tree = Self {
            file,
            document,
            left_out: HashSet::new(),
            long_names: Vec::new(),
        };
        tree.check_elements()?;
        Ok(tree)
    }

    /// Checks the depth of the elements, and finds those whose names are too long.
    fn check_elements(&mut self) -> Result<(), ImportError> {
        let (mut left_out, mut long_names) = (HashSet::new(), Vec::new());
        let tree = &*self;
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
            if let Some(id) = long_name(node) {
                left_out.insert(id);
                if long_names.len() < MAX_LONG_NAMES {
                    long_names.push(tree.place(node));
                }
            }
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
        (self.left_out, self.long_names) = (left_out, long_names);
        Ok(())
    }

    pub fn root(&self) -> Node<'_, 'a> {
        self.document.root_element()
    }

    /// Returns the child elements, without those that are left out.
    pub fn elements<'n>(&'n self, node: Node<'n, 'a>) -> impl Iterator<Item = Node<'n, 'a>> + use<'n, 'a> {
        node.children().filter(|n| n.is_element() && !self.is_left_out(*n))
    }

    /// Whether an element is left out.
    pub fn is_left_out(&self, node: Node<'_, '_>) -> bool {
        self.left_out.contains(&node.id())
    }

    /// Returns the places of what was assumed and mended to read the file, and of elements that are left out, with
    /// texts.
    pub fn mistakes(&self) -> impl Iterator<Item = (FilePosition, String)> + use<'_, 'a> {
        let mended = &self.file.mended.mistakes;
        let mended = mended
            .iter()
            .map(|(at, what)| (self.file.file_place(*at), what.clone()));
        let long = |place: &FilePosition| {
            let what = format!("its name has more than {MAX_NAME} bytes; it is left out");
            (place.clone(), what)
        };
        let doubt = self.file.doubt.iter().cloned();
        doubt.chain(mended).chain(self.long_names.iter().map(long))
    }

    /// Returns the number of mended mistakes that are not listed.
    pub fn more_mistakes(&self) -> usize {
        self.file.mended.more_mistakes
    }

    /// Returns the position of an element.
    pub fn place(&self, node: Node<'_, '_>) -> FilePosition {
        self.file.place(node.range().start)
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

/// Maximum number of elements with too long names that are listed.
const MAX_LONG_NAMES: usize = 100;

/// Returns the element that has to be left out because its name is too long: names are repeated for every level.
fn long_name(node: Node<'_, '_>) -> Option<NodeId> {
    if node.attribute("name").is_some_and(|n| n.len() > MAX_NAME) {
        return Some(node.id());
    }
    let is_long = node.has_tag_name("name") && node.text().is_some_and(|t| t.len() > MAX_NAME);
    node.parent().filter(|_| is_long).map(|p| p.id())
}
