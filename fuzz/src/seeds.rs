//! Seeds of all fuzz targets: small sound inputs, generated here, that the fuzzer starts from.

mod calls;
mod cuda;
mod files;
mod hardware;
mod machine;
mod messages;
mod plans;
mod recorder;
mod recordings;
mod shaders;
mod text;
mod textures;

pub use recordings::{gpureplay, recording};

/// A function that takes a seed: target, name of the file in its corpus, bytes.
type Add<'a> = &'a mut dyn FnMut(&'static str, &'static str, Vec<u8>);

/// A committed input: target, file name, bytes.
pub struct Seed {
    /// Name of the target.
    pub target: &'static str,
    /// Name of the file in the corpus.
    pub file: &'static str,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Returns all seeds.
#[must_use]
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target, file, bytes| seeds.push(Seed { target, file, bytes });
    calls::add(&mut add);
    cuda::add_memory_trace(&mut add);
    cuda::add_code(&mut add);
    files::add(&mut add);
    text::add_filter(&mut add);
    hardware::add(&mut add);
    cuda::add_kernels(&mut add);
    machine::add(&mut add);
    text::add_maps(&mut add);
    messages::add(&mut add);
    plans::add(&mut add);
    text::add_qemu(&mut add);
    recorder::add(&mut add);
    recordings::add(&mut add);
    shaders::add_code(&mut add);
    shaders::add_jobs(&mut add);
    textures::add(&mut add);
    text::add_trace_log(&mut add);
    seeds
}
