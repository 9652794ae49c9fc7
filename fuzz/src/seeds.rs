//! Seeds of all fuzz targets: small sound inputs, generated here, that the fuzzer starts from.

mod annotations;
mod calls;
mod campaigns;
mod channel_plan;
mod cuda;
mod files;
mod hardware;
mod machine;
mod messages;
mod nvidia_channel;
mod pipeline;
mod plans;
mod ptx;
mod recorder;
mod recordings;
mod remote_calls;
mod remote_relay;
mod seed;
mod shaders;
mod text;
mod textures;
mod wasm;

pub use recordings::{gpureplay, recording};
pub use seed::Seed;

/// Returns all seeds.
#[must_use]
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let mut add = |target, file, bytes| seeds.push(Seed { target, file, bytes });
    annotations::add(&mut add);
    calls::add(&mut add);
    campaigns::add(&mut add);
    channel_plan::add(&mut add);
    cuda::add_memory_trace(&mut add);
    cuda::add_code(&mut add);
    cuda::add_load(&mut add);
    files::add(&mut add);
    text::add_filter(&mut add);
    hardware::add(&mut add);
    cuda::add_kernels(&mut add);
    machine::add(&mut add);
    text::add_maps(&mut add);
    messages::add(&mut add);
    nvidia_channel::add(&mut add);
    pipeline::add(&mut add);
    plans::add(&mut add);
    ptx::add(&mut add);
    text::add_qemu(&mut add);
    recorder::add(&mut add);
    recordings::add(&mut add);
    remote_calls::add(&mut add);
    remote_relay::add(&mut add);
    shaders::add_code(&mut add);
    shaders::add_jobs(&mut add);
    textures::add(&mut add);
    text::add_trace_log(&mut add);
    text::add_driver_logs(&mut add);
    text::add_xref(&mut add);
    wasm::add(&mut add);
    seeds
}
