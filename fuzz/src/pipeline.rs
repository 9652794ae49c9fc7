//! Fuzz targets for pipelines: the file with its checks, and the modules of stages.

use kinescope_pipeline::{
    ModuleDefect, ModuleLimits, ModuleProgram, Pipeline, Resources, StageRecording, TensorType, parse,
};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use trace_core::progress::Progress;
use trace_core::recording::{AddressSpace, Buffer, BufferRole, ElementType, MmuFormat};
use trace_core::{GpuVa, PhysAddr, Recording};

/// A module with the interface of one input and one output.
const MODULE: &[u8] = include_bytes!("seeds/pipeline/copy.wat");
/// Size of the input and of the output of a fuzzed module, bytes.
const TENSOR_BYTES: u64 = 16;

/// A recording with three buffers, and one module; neither needs a file.
struct FixedResources;

impl Resources for FixedResources {
    fn open_recording(&self, _: &Path) -> Result<StageRecording, String> {
        let mut recording = Recording::default();
        let buffer = |name: &str, role, page: u64| Buffer {
            name: name.to_owned(),
            role,
            address_space: 0,
            va: GpuVa::new(page * 4096),
            bytes: 256,
            element: ElementType::F32,
        };
        recording.metadata.buffers = vec![
            buffer("a", BufferRole::Input, 1),
            buffer("b", BufferRole::Weights, 2),
            buffer("c", BufferRole::Output, 3),
        ];
        recording.metadata.address_spaces = vec![AddressSpace {
            number: 0,
            format: MmuFormat::Aarch64_4k,
            root: PhysAddr::new(0),
            memattr: 0,
            transcfg: 0,
        }];
        Ok(StageRecording::new(recording))
    }

    fn read_module(&self, _: &Path) -> Result<Vec<u8>, ModuleDefect> {
        Ok(MODULE.to_vec())
    }
}

/// Fuzzes a pipeline file: the reader, names, circles and types.
pub fn pipeline(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let parsed = parse(text);
    let checked = Pipeline::check(text, &FixedResources);
    match checked {
        Err(defects) => {
            assert!(defects.has_error(), "a pipeline with warnings alone can run");
            let lines = text.matches('\n').count() + 1;
            let line = |d: &kinescope_pipeline::Defect| usize::try_from(d.line).unwrap_or(usize::MAX);
            assert!(
                defects.all().iter().all(|d| (1..=lines).contains(&line(d))),
                "{defects}"
            );
            false
        }
        Ok(pipeline) => {
            assert_eq!(parsed.as_ref(), Ok(&pipeline.document));
            check_graph(&pipeline);
            true
        }
    }
}

/// Asserts that each stage has its place in the order, after what it waits for, and that each value has a type.
fn check_graph(pipeline: &Pipeline) {
    let graph = &pipeline.graph;
    let mut order = graph.order.clone();
    order.sort_unstable();
    assert!(order.iter().copied().eq(0..pipeline.stages.len()), "{order:?}");
    let place = |stage: usize| graph.order.iter().position(|s| *s == stage);
    for (number, node) in graph.stages.iter().enumerate() {
        for before in &node.after_stages {
            assert!(place(*before) < place(number), "{before} before {number}");
        }
        for source in &node.inputs {
            assert!(pipeline.type_of(*source).is_some(), "{}", pipeline.name_of(*source));
        }
    }
    for source in &graph.outputs {
        assert!(pipeline.type_of(*source).is_some(), "{}", pipeline.name_of(*source));
    }
}

/// Fuzzes the module of a stage, binary or text: the check of its interface, and its run within limits.
pub fn pipeline_module(data: &[u8]) -> bool {
    let Some(output) = TensorType::new(ElementType::U8, vec![TENSOR_BYTES]) else {
        return false;
    };
    let limits = ModuleLimits {
        fuel: 100_000,
        memory: 1 << 20,
        time: Duration::from_secs(5),
    };
    let Ok(program) = ModuleProgram::new(data, "run", 1, vec![output], limits) else {
        return false;
    };
    let run = || program.run(&[Arc::new((0..16).collect())], &Progress::new());
    let first = run();
    assert_eq!(first, run(), "a run repeats bit for bit");
    if let Ok(run) = first {
        assert!(run.fuel <= limits.fuel);
        assert!(run.outputs.iter().all(|o| o.len() as u64 == TENSOR_BYTES));
    }
    true
}
