//! Parts of a compute program: buffers, textures and dispatches. This module does not use a GPU.

/// Type of the elements of a buffer; all are of four bytes, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// Unsigned 32-bit numbers.
    U32,
}

impl Element {
    /// Returns the name that recordings use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::U32 => "u32",
        }
    }

    /// Returns the value of four bytes, or 0 for another number of bytes.
    #[must_use]
    pub fn value(self, bytes: &[u8]) -> f64 {
        let four = bytes.try_into().unwrap_or_default();
        match self {
            Self::F32 => f64::from(f32::from_le_bytes(four)),
            Self::U32 => f64::from(u32::from_le_bytes(four)),
        }
    }
}

/// How near a result has to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// The same bytes.
    Exact,
    /// Each element within this part of the expected one's size.
    Relative(f64),
    /// Each element within this distance.
    Absolute(f64),
}

impl std::fmt::Display for Tolerance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact => write!(f, "exact"),
            Self::Relative(t) => write!(f, "rel {t:e}"),
            Self::Absolute(t) => write!(f, "abs {t:e}"),
        }
    }
}

/// What a buffer is for. The numbers are those that the recorder's marker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An input, which a user can change before a replay.
    Input = 0,
    /// A result of the program.
    Output = 1,
    /// Learned or fixed numbers.
    Weights = 2,
}

impl Role {
    /// Returns the name that recordings use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Output => "output",
            Self::Weights => "weights",
        }
    }
}

/// Kind of the binding of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shader storage buffer.
    Storage,
    /// A uniform buffer in layout std140.
    Uniform,
}

/// A buffer, its contents before a run, and its expected contents after the run.
#[derive(Clone, Debug)]
pub struct BufferData {
    /// Name of the buffer.
    pub name: &'static str,
    /// Kind of its binding.
    pub kind: Kind,
    /// Binding point of this kind, for dispatches that name no bindings.
    pub binding: u32,
    /// Purpose of the buffer, or `None` for intermediate data between two dispatches.
    pub role: Option<Role>,
    /// Type of its elements.
    pub element: Element,
    /// Length of each dimension, the slowest-varying first.
    pub shape: Vec<usize>,
    /// Contents before a run.
    pub init: Vec<u8>,
    /// Expected contents after a run, with the tolerance. `None` if a run must not change the buffer.
    pub expected: Option<(Vec<u8>, Tolerance)>,
}

impl BufferData {
    /// Returns a storage buffer that the program reads.
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

    /// Returns a storage buffer that the program writes. Its initial contents are a pattern that differs from results.
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

    /// Returns the shape in the notation of recordings: `8x8`.
    #[must_use]
    pub fn shape_text(&self) -> String {
        let sides: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        sides.join("x")
    }
}

/// A 2D texture with one unsigned 32-bit number per pixel.
#[derive(Clone, Debug)]
pub struct Texture {
    /// Number of pixels in a row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Pixels, row by row.
    pub pixels: Vec<u32>,
}

/// Access of a dispatch to a texture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through a sampler.
    Sampled,
    /// As an image, only for reads.
    Read,
    /// As an image, only for writes.
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
    /// GLSL source.
    pub source: &'static str,
    /// Uniforms by name.
    pub uniforms: Vec<(&'static str, Uniform)>,
    /// Textures: the unit, the index in the program's textures, and the access.
    pub textures: Vec<(u32, usize, Access)>,
    /// Bindings and names of the bound buffers. If empty, all buffers are bound at their own bindings.
    pub bound: Vec<(u32, &'static str)>,
    /// Number of workgroups along each axis.
    pub groups: [u32; 3],
}

impl Dispatch {
    /// Returns a dispatch of a shader over the program's buffers.
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

/// A complete program.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// All buffers.
    pub buffers: Vec<BufferData>,
    /// All textures.
    pub textures: Vec<Texture>,
    /// Dispatches in order. Each sees the writes of earlier dispatches.
    pub steps: Vec<Dispatch>,
}

/// Returns the little-endian bytes of 32-bit floats.
#[must_use]
pub fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Returns the little-endian bytes of unsigned 32-bit numbers.
#[must_use]
pub fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Returns a pattern that is different for each buffer and each word.
fn poison(name: &str, bytes: usize) -> Vec<u8> {
    let tag = name
        .bytes()
        .fold(0xc0de_0000u32, |t, b| t.rotate_left(5) ^ u32::from(b));
    (0..bytes as u32 / 4)
        .flat_map(|i| tag.wrapping_add(i.wrapping_mul(0x0100_0193)).to_le_bytes())
        .collect()
}

/// Pseudo-random numbers that are the same on every machine and in every run.
#[derive(Clone, Debug)]
pub struct RandomNumbers(u32);

impl RandomNumbers {
    /// Returns a generator for a seed. Seed 0 gives the same series as seed 1.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        Self(seed.max(1))
    }

    /// Returns the next number (xorshift32).
    pub fn word(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    /// Returns the next `count` numbers.
    pub fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.word()).collect()
    }

    /// Returns `count` multiples of `unit`, with factors from `-max` to `max`. Sums and products of a few are exact in
    /// floats.
    pub fn multiples(&mut self, count: usize, max: u32, unit: f32) -> Vec<f32> {
        (0..count)
            .map(|_| (f64::from(self.word() % (2 * max + 1)) - f64::from(max)) as f32 * unit)
            .collect()
    }
}
