//! A seed, and how one is added.

/// A function that takes a seed: target, name of the file in its corpus, bytes.
pub(super) type Add<'a> = &'a mut dyn FnMut(&'static str, &'static str, Vec<u8>);

/// A committed input: target, file name, bytes.
pub struct Seed {
    /// Name of the target.
    pub target: &'static str,
    /// Name of the file in the corpus.
    pub file: &'static str,
    /// Content of the file.
    pub bytes: Vec<u8>,
}
