//! What a compute program is made of: buffers, textures and the dispatches over them. Knows no GPU.

use crate::compare::Tolerance;

/// Type of the elements of a buffer; all are of four bytes, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// Unsigned 32-bit numbers.
    U32,
}

impl Element {
    /// The name that recordings use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::U32 => "u32",
        }
    }

    /// The value of four bytes; less give 0.
    #[must_use]
    pub fn value(self, bytes: &[u8]) -> f64 {
        let four = bytes.try_into().unwrap_or_default();
        match self {
            Self::F32 => f64::from(f32::from_le_bytes(four)),
            Self::U32 => f64::from(u32::from_le_bytes(four)),
        }
    }
}

/// What a buffer is for. The numbers are those that the recorder's marker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A user may change it before a replay.
    Input = 0,
    /// What the program makes.
    Output = 1,
    /// Learned or fixed numbers.
    Weights = 2,
}

impl Role {
    /// The name that recordings use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Weights => "weights",
        }
    }
}

/// Where a buffer is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shader storage buffer.
    Storage,
    /// A uniform buffer in layout std140.
    Uniform,
}

/// A buffer, what is in it before, and what has to be in it afterwards.
#[derive(Clone, Debug)]
pub struct BufferData {
    /// Its name.
    pub name: &'static str,
    /// Where it is bound.
    pub kind: Kind,
    /// Binding point of its kind, for dispatches that name none.
    pub binding: u32,
    /// What it is for; `None`: between two dispatches, of nobody's interest.
    pub role: Option<Role>,
    /// Type of its elements.
    pub element: Element,
    /// Length of each dimension, the slowest first.
    pub shape: Vec<usize>,
    /// Contents before.
    pub init: Vec<u8>,
    /// Contents afterwards, and how near; `None`: it is not changed.
    pub expected: Option<(Vec<u8>, Tolerance)>,
}

impl BufferData {
    /// A storage buffer that is read.
    #[must_use]
    pub fn input(name: &'static str, binding: u32, element: Element, shape: &[usize], init: Vec<u8>) -> Self {
        Self {
            name,
            kind: Kind::Storage,
            binding,
            role: Some(Role::Input),
            element,
            shape: shape.to_vec(),
            init,
            expected: None,
        }
    }

    /// A storage buffer that is written. Before, it holds a pattern that no result looks like.
    #[must_use]
    pub fn output(
        name: &'static str,
        binding: u32,
        element: Element,
        shape: &[usize],
        expected: Vec<u8>,
        tolerance: Tolerance,
    ) -> Self {
        Self {
            role: Some(Role::Output),
            init: poison(name, expected.len()),
            expected: Some((expected, tolerance)),
            ..Self::input(name, binding, element, shape, Vec::new())
        }
    }

    /// The shape as recordings write it: `8x8`.
    #[must_use]
    pub fn shape_text(&self) -> String {
        let sides: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        sides.join("x")
    }
}

/// A 2D texture of one unsigned 32-bit number a pixel.
#[derive(Clone, Debug)]
pub struct Texture {
    /// Pixels in a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Its pixels, row by row.
    pub pixels: Vec<u32>,
}

/// How a dispatch sees a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through a sampler.
    Sampled,
    /// As an image that is only read.
    Read,
    /// As an image that is only written.
    Write,
}

/// The value of a uniform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Uniform {
    /// `float`.
    F32(f32),
    /// `uint`.
    U32(u32),
    /// `uvec2`.
    U32x2([u32; 2]),
    /// `ivec2`.
    I32x2([i32; 2]),
}

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Name of the shader, for messages and files.
    pub name: &'static str,
    /// GLSL.
    pub source: &'static str,
    /// Its uniforms.
    pub uniforms: Vec<(&'static str, Uniform)>,
    /// Textures: the unit, which of the work's, and how it is seen.
    pub textures: Vec<(u32, usize, Access)>,
    /// The buffers that it sees, by name, and their bindings; empty: all, where each says.
    pub bound: Vec<(u32, &'static str)>,
    /// Workgroups along each axis.
    pub groups: [u32; 3],
}

impl Dispatch {
    /// A dispatch of a shader over the work's buffers.
    #[must_use]
    pub fn new(name: &'static str, source: &'static str, groups: [u32; 3]) -> Self {
        Self {
            name,
            source,
            uniforms: Vec::new(),
            textures: Vec::new(),
            bound: Vec::new(),
            groups,
        }
    }
}

/// A whole program.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Its buffers.
    pub buffers: Vec<BufferData>,
    /// Its textures.
    pub textures: Vec<Texture>,
    /// Its dispatches, in order; each sees what those before it wrote.
    pub steps: Vec<Dispatch>,
}

/// Little-endian bytes of 32-bit floats.
#[must_use]
pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Little-endian bytes of unsigned 32-bit numbers.
#[must_use]
pub fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A pattern that differs from buffer to buffer and from word to word.
fn poison(name: &str, bytes: usize) -> Vec<u8> {
    let tag = name
        .bytes()
        .fold(0xc0de_0000u32, |t, b| t.rotate_left(5) ^ u32::from(b));
    (0..bytes as u32 / 4)
        .flat_map(|i| tag.wrapping_add(i.wrapping_mul(0x0100_0193)).to_le_bytes())
        .collect()
}

/// Numbers that are the same on every machine and in every run.
#[derive(Clone, Debug)]
pub struct RandomNumbers(u32);

impl RandomNumbers {
    /// Begins a series; 0 begins the same as 1.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(seed.max(1))
    }

    /// The next number (xorshift32).
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    /// `count` numbers.
    pub fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.word()).collect()
    }

    /// `count` multiples of `unit` within `max` of it either way: sums and products of a few are exact in floats.
    pub fn multiples(&mut self, count: usize, max: u32, unit: f32) -> Vec<f32> {
        (0..count)
            .map(|_| (f64::from(self.word() % (2 * max + 1)) - f64::from(max)) as f32 * unit)
            .collect()
    }
}
