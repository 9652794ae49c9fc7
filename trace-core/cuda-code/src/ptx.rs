//! The declarations of a PTX module, read without its instructions.
//!
//! The reader is tolerant: it knows module-level declarations and skips everything else, above all function bodies. The
//! rules for sizes, alignments and directives are those of NVIDIA's PTX reference.

mod bounds;
mod declare;
mod token;

pub use bounds::{Change, LaunchBounds, with_launch_bounds};

use token::{Cursor, Token};

use crate::{Arch, Error};

/// The state space of a variable of a module.
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
    /// Its name without the leading point: `u64`, `b8`, `f16x2`.
    pub name: &'a str,
    /// Elements of a vector: 1, 2 (`.v2`), 4 or 8.
    pub vector: u64,
    /// Size of the whole vector, bytes. `None` for types without a size, such as `texref`.
    pub bytes: Option<u64>,
}

/// A parameter of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Type of one element.
    pub element: Type<'a>,
    /// Number of array elements, or `None` if it is no array.
    pub elements: Option<u64>,
    /// Alignment in bytes.
    pub alignment: u64,
    /// Offset in bytes from the first parameter, alignment gaps included.
    pub offset: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// Properties of a pointer's target (`.ptr`).
    pub pointer: Option<Pointer<'a>>,
}

/// The target of a pointer parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pointer<'a> {
    /// The state space, such as `global`; `None` for any.
    pub space: Option<&'a str>,
    /// Alignment in bytes; 4 if the text gives none.
    pub alignment: u64,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its state space.
    pub space: Space,
    /// Type of one element.
    pub element: Type<'a>,
    /// Number of array elements of all dimensions together, or `None` if it is no array.
    pub elements: Option<u64>,
    /// Alignment in bytes.
    pub alignment: u64,
    /// Size in bytes; `None` for types without a size, and for arrays whose length only another module knows.
    pub bytes: Option<u64>,
    /// Whether it has an initialiser.
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
    /// Maximum number of threads of a block, x, y and z (`.maxntid`); missing ones are 1.
    pub max_threads: Option<[u32; 3]>,
    /// Required number of threads of a block (`.reqntid`).
    pub required_threads: Option<[u32; 3]>,
    /// Minimum number of blocks that must fit a multiprocessor (`.minnctapersm`).
    pub min_blocks: Option<u32>,
    /// Maximum number of registers of a thread (`.maxnreg`).
    pub max_registers: Option<u32>,
    /// Blocks of a cluster (`.reqnctapercluster`).
    pub cluster: Option<[u32; 3]>,
    /// Maximum number of blocks of a cluster (`.maxclusterrank`).
    pub max_cluster: Option<u32>,
    /// Launch-bound directives with their byte ranges in the text.
    directives: Vec<(bounds::Bound, std::ops::Range<usize>)>,
    /// Offset of the body, and end of the declaration before it.
    body: usize,
    head_end: usize,
}

impl Entry<'_> {
    /// Returns the size of all parameters without trailing padding, bytes.
    pub fn parameter_bytes(&self) -> u64 {
        self.parameters.last().map_or(0, |p| p.offset.saturating_add(p.bytes))
    }
}

/// A module of PTX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx<'a> {
    /// Version of the language, major and minor.
    pub version: (u32, u32),
    /// The target: an architecture and options, such as `sm_90a` and `debug`.
    pub target: Vec<&'a str>,
    /// The architecture of the target.
    pub arch: Arch,
    /// Bits of an address: 32 or 64; 32 if the text gives none.
    pub address_bits: u32,
    /// Kernels with a body, in order.
    pub entries: Vec<Entry<'a>>,
    /// Variables of the module, in order.
    pub variables: Vec<Variable<'a>>,
}

/// Whether bytes look like PTX: the first word after comments is `.version`.
pub fn is_ptx(bytes: &[u8]) -> bool {
    Cursor::new(bytes).next().is_some_and(|token| token.text == b".version")
}

impl<'a> Ptx<'a> {
    /// Parses a module. The text ends at its first zero byte, or at the end of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Error::Text`] for an invalid declaration, a missing `.version` or `.target`, or a parameter type of unknown
    /// size; [`Error::Field`] for sizes beyond 64 bits.
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
                // Function bodies, debug sections and the like.
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

    /// Parses `.target` and its comma-separated values.
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

    /// Returns the kernel of exactly this name.
    pub fn entry(&self, name: &str) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}
