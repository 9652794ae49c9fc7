//! PTX text: what a module declares, without reading its instructions.
//!
//! A tolerant reader: it knows declarations at the level of the module and passes over everything else, bodies of
//! functions first of all. The rules of sizes, alignments and directives are those of NVIDIA's PTX reference.

mod bounds;
mod declare;
mod token;

pub use bounds::{Change, LaunchBounds, with_launch_bounds};

use token::{Cursor, Token};

use crate::{Arch, Error};

/// Where a variable of a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `.global`
    Global,
    /// `.const`
    Constant,
}

/// The type of one element of a parameter or variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type<'a> {
    /// Its name without the point: `u64`, `b8`, `f16x2`.
    pub name: &'a str,
    /// Elements of a vector: 1, 2 (`.v2`), 4 or 8.
    pub vector: u64,
    /// Bytes of the whole vector. `None` for types without a size, such as `texref`.
    pub bytes: Option<u64>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Type of one element.
    pub element: Type<'a>,
    /// Elements of an array; `None` where it is none.
    pub elements: Option<u64>,
    /// Alignment in bytes.
    pub alignment: u64,
    /// Offset in bytes from the first parameter, with the gaps that alignments make.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// What is known of what it points to (`.ptr`).
    pub pointer: Option<Pointer<'a>>,
}

/// What a parameter points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer<'a> {
    /// The space, such as `global`; `None` for any.
    pub space: Option<&'a str>,
    /// Alignment in bytes; 4 where the text does not say.
    pub alignment: u64,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it is.
    pub space: Space,
    /// Type of one element.
    pub element: Type<'a>,
    /// Elements of an array, of all dimensions together; `None` where it is none.
    pub elements: Option<u64>,
    /// Alignment in bytes.
    pub alignment: u64,
    /// Bytes; `None` for types without a size, and for arrays of which only another module knows the length.
    pub bytes: Option<u64>,
    /// Whether values are given to it.
    pub initialised: bool,
    /// Whether it is declared here and defined in another module.
    pub external: bool,
}

/// A kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Its name, mangled as in the text.
    pub name: &'a str,
    /// Its parameters, in order.
    pub parameters: Vec<Parameter<'a>>,
    /// Threads of a block at most, x, y and z (`.maxntid`); what is not said is 1.
    pub max_threads: Option<[u32; 3]>,
    /// Threads that a block must have (`.reqntid`).
    pub required_threads: Option<[u32; 3]>,
    /// Blocks that a multiprocessor has to have room for (`.minnctapersm`).
    pub min_blocks: Option<u32>,
    /// Registers of a thread at most (`.maxnreg`).
    pub max_registers: Option<u32>,
    /// Blocks of a cluster (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// Blocks of a cluster at most (`.maxclusterrank`).
    pub max_cluster: Option<u32>,
    /// Directives of launch bounds with the bytes of the text that they take.
    directives: Vec<(bounds::Bound, std::ops::Range<usize>)>,
    /// Where the body begins, and where the declaration before it ends.
    body: usize,
    head_end: usize,
}

impl Entry<'_> {
    /// Bytes of all parameters, without what follows the last.
    pub fn parameter_bytes(&self) -> u64 {
        self.parameters.last().map_or(0, |p| p.offset.saturating_add(p.bytes))
    }
}

/// A module of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx<'a> {
    /// Version of the language, major and minor.
    pub version: (u32, u32),
    /// What it is for: an architecture and options, such as `sm_90a` and `debug`.
    pub target: Vec<&'a str>,
    /// The architecture among them.
    pub arch: Arch,
    /// Bits of an address: 32 or 64; 32 where the text does not say.
    pub address_bits: u32,
    /// Kernels with a body, in order.
    pub entries: Vec<Entry<'a>>,
    /// Variables of the module, in order.
    pub variables: Vec<Variable<'a>>,
}

/// Whether bytes look like PTX: the first word, behind comments, is `.version`.
pub fn is_ptx(bytes: &[u8]) -> bool {
    Cursor::new(bytes).next().is_some_and(|token| token.text == b".version")
}

impl<'a> Ptx<'a> {
    /// Reads a module. The text ends at its first zero byte, or at the end of `bytes`.
    ///
    /// # Errors
    /// [`Error::Text`] for a declaration that is not as it has to be, a missing `.version` or `.target`, or a type of
    /// a parameter whose size is not known; [`Error::Field`] for sizes beyond 64 bits.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.next();
        if first.is_none_or(|t| t.text != b".version") {
            return Err(cursor.expected("\".version\"", first));
        }
        let version = cursor.word("a version")?;
        let number = version
            .split_once('.')
            .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let version = number.ok_or_else(|| cursor.expected("a version", cursor.taken()))?;
        let mut ptx = Ptx {
            version,
            target: Vec::new(),
            arch: Arch::plain(0),
            address_bits: 32,
            entries: Vec::new(),
            variables: Vec::new(),
        };
        let mut external = false;
        while let Some(token) = cursor.next() {
            match token.text {
                b".target" => ptx.target(&mut cursor)?,
                b".address_size" => ptx.address_bits = cursor.number("an address size")?,
                b".entry" => {
                    ptx.entries.extend(declare::entry(&mut cursor, token)?);
                    external = false;
                }
                b".global" | b".const" => {
                    let space = if token.text == b".const" {
                        Space::Constant
                    } else {
                        Space::Global
                    };
                    declare::variables(&mut cursor, space, external, &mut ptx.variables)?;
                    external = false;
                }
                b".extern" => external = true,
                b".visible" | b".weak" | b".common" => {}
                // Bodies of functions, debug sections and the like.
                b"{" => {
                    cursor.skip_braces(token)?;
                    external = false;
                }
                b";" => external = false,
                _ => {}
            }
        }
        if ptx.target.is_empty() {
            return Err(cursor.expected("\".target\"", None));
        }
        Ok(ptx)
    }

    /// `.target` and what follows, separated by commas.
    fn target(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        loop {
            let word = cursor.word("a target")?;
            if let Some(arch) = word.strip_prefix("sm_").and_then(Arch::from_name) {
                self.arch = arch;
            }
            self.target.push(word);
            if !cursor.take(b",") {
                return Ok(());
            }
        }
    }

    /// The kernel of exactly this name.
    pub fn entry(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}
