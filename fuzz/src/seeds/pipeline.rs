//! Seeds of pipelines: files with replays, modules and loops, and modules of stages.

use super::seed::Add;

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    add("pipeline", "layers", include_bytes!("pipeline/layers.kpipe").to_vec());
    add("pipeline", "loop", include_bytes!("pipeline/loop.kpipe").to_vec());
    add("pipeline_module", "copy", include_bytes!("pipeline/copy.wat").to_vec());
    add(
        "pipeline_module",
        "endless",
        include_bytes!("pipeline/endless.wat").to_vec(),
    );
}
