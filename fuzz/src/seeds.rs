//! Seeds of all fuzz targets: small sound inputs, generated here, that the fuzzer starts from.

mod calls;
mod cuda_code;
mod files;
mod filter;
mod hardware;
mod kernels;
mod machine;
mod maps;
mod messages;
mod plans;
mod qemu;
mod recorder;
mod recordings;
mod shader_code;
mod shader_job;
mod textures;
mod trace_log;
mod watched;

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
    watched::add(&mut add);
    cuda_code::add(&mut add);
    files::add(&mut add);
    filter::add(&mut add);
    hardware::add(&mut add);
    kernels::add(&mut add);
    machine::add(&mut add);
    maps::add(&mut add);
    messages::add(&mut add);
    plans::add(&mut add);
    qemu::add(&mut add);
    recorder::add(&mut add);
    recordings::add(&mut add);
    shader_code::add(&mut add);
    shader_job::add(&mut add);
    textures::add(&mut add);
    trace_log::add(&mut add);
    seeds
}
