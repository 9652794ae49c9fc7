//! Integration tests of this crate as one program, so that they link once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

mod agent;
mod any_recording;
mod applied;
mod bad_input;
mod board_circle;
mod board_dma;
mod board_hung;
mod board_in_the_box;
mod board_iommu;
mod campaign;
mod campaign_kinds;
mod chains;
mod checkpoints;
mod comparing;
mod comparing_calls;
mod core_dumps;
mod cuda_annotations;
mod cuda_asked;
mod cuda_besides;
mod cuda_board;
mod cuda_code;
mod cuda_graphs;
mod cuda_kernels;
mod cuda_mapped;
mod cuda_processes;
mod cuda_record;
mod cuda_replay;
mod cuda_tune;
mod cuda_watched;
mod cutting;
mod damaged;
mod digits;
mod documents;
mod emulated;
mod hardware;
mod joined_calls;
mod json_forms;
mod kernels;
mod learned;
mod live_recorder;
mod looking;
mod module_circles;
mod names_and_words;
mod notebook;
mod nvidia_record;
mod nvidia_replay;
mod outcomes;
mod page_tables_of_dumps;
mod pairing;
mod pipelines;
mod record_live;
mod recordings;
mod register_maps;
mod remote_agent;
mod remote_cuda;
mod remote_functions;
mod remote_hostile;
mod remote_libraries;
mod samples;
mod screens;
mod shaders;
mod wasm_agent;
mod wasm_gpu;
mod wasm_recordings;
mod wasm_run;
mod written_plans;
