//! One fuzz target per byte reader: each accepts any bytes and must return without a panic and in bounded memory.
//!
//! The programs under `fuzz_targets/` pass inputs from libFuzzer to them; `tests/corpus.rs` replays the committed
//! inputs as an ordinary test. To add a target, add a function in the file of its kind and its line in [`TARGETS`]. Add
//! also a file in `fuzz_targets/` with its `[[bin]]`, and seeds in `src/seeds.rs`.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a broken promise of a reader must stop the fuzzer")]

pub mod annotations;
mod bus;
pub mod calls;
pub mod campaigns;
pub mod chains;
pub mod channel_plan;
pub mod cubin_load;
pub mod cuda_code;
pub mod files;
pub mod filter;
mod folder;
pub mod hardware;
mod input;
pub mod kernels;
pub mod machine;
pub mod maps;
pub mod messages;
pub mod nvidia_channel;
pub mod parts;
pub mod pipeline;
mod plan_changes;
pub mod plans;
pub mod ptx_interpreter;
pub mod qemu;
pub mod recorder;
pub mod recordings;
pub mod remote_calls;
pub mod remote_relay;
pub mod seeds;
pub mod shader_code;
pub mod shader_job;
pub mod textures;
pub mod trace_log;
pub mod wasm_run;
pub mod wasm_to_ptx;
pub mod watched;
pub mod xref;

/// A fuzz target. Returns whether its reader accepted the input.
pub type Target = fn(&[u8]) -> bool;

/// All targets by name. The name is also that of the corpus folder and of the file in `fuzz_targets/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("actions", plans::actions),
    ("amdgpu_dump", recordings::amdgpu_dump),
    ("annotations", annotations::annotations),
    ("buffer_file", files::buffer_file),
    ("calls", calls::calls),
    ("campaign_description", campaigns::campaign_description),
    ("campaign_entry", campaigns::campaign_entry),
    ("chains", chains::chains),
    ("channel_plan", channel_plan::channel_plan),
    ("checkpoint", messages::checkpoint),
    ("container", recordings::container),
    ("container_resealed", recordings::container_resealed),
    ("cubin_load", cubin_load::cubin_load),
    ("cuda_code", cuda_code::cuda_code),
    ("derived", recordings::derived),
    ("device_mali", machine::device_mali),
    ("diff_rules", files::diff_rules),
    ("etnaviv_dump", recordings::etnaviv_dump),
    ("filter", filter::filter),
    ("gdev", recordings::gdev),
    ("gpureplay_integrated", recordings::gpureplay_integrated),
    ("gpureplay_io", recordings::gpureplay_io),
    ("gpureplay_memory", recordings::gpureplay_memory),
    ("gpureplay_pgt", recordings::gpureplay_pgt),
    ("gpureplay_sync", recordings::gpureplay_sync),
    ("gvisor", recordings::gvisor),
    ("hardware", hardware::hardware),
    ("hrr", recordings::hrr),
    ("i915_state", recordings::i915_state),
    ("iree_replay", recordings::iree_replay),
    ("job_chain", machine::job_chain),
    ("journal", files::journal),
    ("key_store", messages::key_store),
    ("keys", files::keys),
    ("link", files::link),
    ("llvm_offload", kernels::llvm_offload),
    ("map_csbgen", maps::map_csbgen),
    ("map_genxml", maps::map_genxml),
    ("map_rnn", maps::map_rnn),
    ("map_svd", maps::map_svd),
    ("memory_dump", recordings::memory_dump),
    ("metadata", recordings::metadata),
    ("metrics_request", campaigns::metrics_request),
    ("mmt", recordings::mmt),
    ("mmt_text", recordings::mmt_text),
    ("mneme", kernels::mneme),
    ("msm_dump", recordings::msm_dump),
    ("nouveau", recordings::nouveau),
    ("nouveau_pushbuf", recordings::nouveau_pushbuf),
    ("npy", files::npy_file),
    ("nvidia_ioctl", nvidia_channel::ioctl),
    ("nvidia_log", recordings::nvidia_log),
    ("nvidia_push_buffer", nvidia_channel::push_buffer),
    ("nvidia_qmd", nvidia_channel::qmd),
    ("outcome", messages::outcome),
    ("page_table_format", machine::page_table_format),
    ("page_tables", machine::page_tables),
    ("panfrostdump", recordings::panfrostdump),
    ("panthor_dump", recordings::panthor_dump),
    ("pipeline", pipeline::pipeline),
    ("pipeline_module", pipeline::pipeline_module),
    ("plan_bytes", plans::plan_bytes),
    ("plan_text", plans::plan_text),
    ("plan_verified", plans::plan_verified),
    ("ppm", files::ppm),
    ("ptx_interpreter", ptx_interpreter::ptx_interpreter),
    ("qemu", qemu::qemu),
    ("raw_memory", recordings::raw_memory),
    ("rd", recordings::rd),
    ("record_changes", recorder::record_changes),
    ("record_machine", recorder::record_machine),
    ("record_replay", kernels::record_replay),
    ("register_map", machine::register_map),
    ("regs_history", recordings::regs_history),
    ("remote_calls", remote_calls::remote_calls),
    ("remote_relay", remote_relay::remote_relay),
    ("shader_code", shader_code::shader_code),
    ("shader_job", shader_job::shader_job),
    ("strace", recordings::strace),
    ("textures", textures::textures),
    ("trace_log", trace_log::trace_log),
    ("unpack", recordings::unpack),
    ("v3d", recordings::v3d),
    ("wasm_run", wasm_run::wasm_run),
    ("wasm_to_ptx", wasm_to_ptx::wasm_to_ptx),
    ("watched", watched::watched),
    ("wire", messages::wire),
    ("worker_entry", campaigns::worker_entry),
    ("workspace", files::workspace),
    ("xe_dump", recordings::xe_dump),
    ("xref", xref::xref),
];
