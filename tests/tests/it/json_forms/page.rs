//! The generated part of `docs/json.md`: a table for each form, with the comments at the program's types.

use super::forms::{self, Form};
use std::fmt::Write as _;
use std::path::Path;

/// Lines around the generated part of the page.
const BEGIN: &str = "<!-- generated from the types of the program: begin -->\n";
const END: &str = "<!-- generated from the types of the program: end -->\n";

/// A heading of the page, with the forms of one verb.
struct Section {
    /// Level of the heading, 2 to 4.
    level: usize,
    heading: &'static str,
    /// Text before the tables.
    text: &'static str,
    /// Which object has the keys, empty for the verb's own, and its form.
    forms: &'static [(&'static str, &'static Form)],
    /// Text after the tables.
    after: &'static str,
}

/// Values of `link` in steps of causes.
const LINKS: &str = "\
| `link` | meaning |
|---|---|
| `set` | the write set the register |
| `stored` | the CPU stored the byte |
| `told` | the register configured the job |
| `ran` | a job ran before |
| `may-feed` | the job may read what the CPU stored |
| `held` | the job may read bytes that differ from the start |
| `may-decide` | the driver read it before |
| `since` | the difference exists since this job began |";

/// The page in its order.
const PAGE: &[Section] = &[
    Section {
        level: 2,
        heading: "Inspection",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`info`",
        text: "",
        forms: &[
            ("", &forms::INFO),
            ("`gpu`", &forms::INFO_GPU),
            ("`buffers[]`", &forms::INFO_BUFFER),
            ("`recorded`", &forms::JOB_RESULTS),
            ("`calls`", &forms::CALL_COUNTS),
            ("`ranges[]`", &forms::RANGE_COUNT),
            ("`run`", &forms::RUN_COUNTS),
            ("`run.translation`", &forms::RUN_TRANSLATION),
            ("`run.traps[]`", &forms::RUN_TRAP_COUNT),
            ("`run.limits`", &forms::RUN_LIMITS),
            ("`driver_trace`", &forms::DRIVER_COUNTS),
            (
                "`driver_trace.video_buffers` and other counts with sizes",
                &forms::ITEM_COUNT,
            ),
            ("`applied_edits[]`", &forms::APPLIED_EDIT),
            ("`capture`", &forms::CAPTURE),
            ("`processes`", &forms::PROCESS_INDEX),
            ("`processes.processes[]`", &forms::PROCESS),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`events`",
        text: "An array of events.\n\
     With `--where` it holds only the events that pass the filter ([query.md](query.md)), written as they are found.",
        forms: &[("", &forms::EVENT)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`jobs`",
        text: "An array with one element for each submit.",
        forms: &[
            ("", &forms::SUBMIT),
            ("`chain[]`", &forms::CHAIN_JOB),
            ("`dispatch`", &forms::DISPATCH),
            ("`recorded`", &forms::RECORDED_RESULT),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`launches`",
        text: "For an API trace: an array of launches.\n\
     With `--kernel` it holds only launches whose kernel name contains the text.",
        forms: &[
            ("", &forms::LAUNCH),
            ("`arguments[]`", &forms::ARGUMENT),
            ("`pointers[]`", &forms::POINTER),
            ("`changed[]`", &forms::CHANGED_BUFFER),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`kernels`",
        text: "For an API trace: an array of kernels.",
        forms: &[
            ("", &forms::KERNEL),
            ("`parameters[]`", &forms::PARAMETER),
            ("`held[]`", &forms::CODE_IMAGE),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "`kernels --ptx NAME`",
        text: "The exit code is 1 if there is no PTX.",
        forms: &[("", &forms::KERNEL_PTX)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`objects`",
        text: "For a driver trace: an array of objects of the kernel driver, in the order of their creation.",
        forms: &[
            ("", &forms::DRIVER_OBJECT),
            ("`push_buffer`", &forms::PUSH_BUFFER),
            ("`indirect_buffer`", &forms::INDIRECT_BUFFER),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`channels`",
        text: "For a driver trace: an array of channels, in the order of their creation.",
        forms: &[("", &forms::CHANNEL)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`pushbuffer`",
        text: "For a driver trace: an array of submissions, in event order.",
        forms: &[("", &forms::SUBMISSION), ("`call`", &forms::SUBMISSION_CALL)],
        after: "",
    },
    Section {
        level: 4,
        heading: "`pushbuffer --submit N`",
        text: "An array of the methods of a submission.\n\
     A launch follows the method that starts it.",
        forms: &[
            ("", &forms::METHOD),
            ("a launch", &forms::SUBMITTED_LAUNCH),
            ("`parameters[]`", &forms::SUBMITTED_PARAMETER),
            ("`call`", &forms::SUBMISSION_CALL),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`shader`",
        text: "[Shaders](shaders.md) explains the text of the code.",
        forms: &[
            ("", &forms::SHADERS),
            ("`unknown[]`", &forms::UNKNOWN_OPERATION),
            ("`shaders[]`", &forms::SHADER),
            ("`shaders[].jobs[]`", &forms::SHADER_JOB),
            ("`shaders[].clauses[]`", &forms::CLAUSE),
            ("`tuples[]`", &forms::TUPLE),
            ("`fma` and `add`", &forms::OPERATION),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "`shader --thread`",
        text: "",
        forms: &[
            ("", &forms::THREAD),
            ("`steps[]`", &forms::THREAD_STEP),
            ("`registers[]`", &forms::REGISTER_CHANGE),
            ("`reads[]` and `writes[]`", &forms::ACCESS),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`last-writer` of API traces",
        text: "",
        forms: &[
            ("", &forms::DEVICE_LAST_WRITER),
            ("`writer`", &forms::CERTAIN_WRITER),
            ("`changed`", &forms::BYTE_CHANGE),
            ("`launches[]`", &forms::LAUNCH_WRITER),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`last-writer` of register traces",
        text: "[Shaders](shaders.md) explains how the writer is found.",
        forms: &[
            ("", &forms::LAST_WRITER),
            ("`shader`", &forms::SHADER_WRITER),
            (
                "`shader.reads[]`, with those of `reads[]` of `shader --thread`",
                &forms::SHADER_READ,
            ),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`references`",
        text: "",
        forms: &[
            ("", &forms::REFERENCES),
            ("`target`", &forms::REFERENCE_TARGET),
            ("`references[]`", &forms::REFERENCE),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`pagetables`",
        text: "An array with one element for each run of pages.",
        forms: &[("", &forms::MAPPING), ("`mapped_twice[]`", &forms::ALIAS)],
        after: "",
    },
    Section {
        level: 4,
        heading: "`pagetables --walk`",
        text: "An array with one element for each address space.",
        forms: &[("", &forms::WALK), ("`steps[]`", &forms::WALK_STEP)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`regmaps`",
        text: "`regmaps import` prints one object.",
        forms: &[("", &forms::MAP_IMPORT), ("`not_carried_over[]`", &forms::MAP_LOSS)],
        after: "",
    },
    Section {
        level: 4,
        heading: "`regmaps list`",
        text: "An array of maps.",
        forms: &[("", &forms::MAP_ROW)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`memory`",
        text: "`memory --search` prints an array of addresses.\n\
     For an API trace without an address, `memory` prints an array of the buffers.",
        forms: &[
            ("", &forms::MEMORY),
            ("`holes[]`", &forms::HOLE),
            ("`holes[]` of an API trace", &forms::DEVICE_HOLE),
            ("the buffers of an API trace", &forms::DEVICE_BUFFER),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`screen`",
        text: "",
        forms: &[
            ("", &forms::SCREEN),
            ("`format`", &forms::SCREEN_FORMAT),
            ("`pixel`", &forms::SCREEN_PIXEL),
            ("`pixel.stores[]`", &forms::PIXEL_STORE),
            ("`comparison`", &forms::SCREEN_COMPARISON),
            ("`bounds`", &forms::SCREEN_BOUNDS),
            ("`first`", &forms::FIRST_PIXEL),
            ("`own` and `other`", &forms::PIXEL_STATE),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`check`",
        text: "An array of findings.\n\
     Findings of other verbs have the same form.",
        forms: &[("", &forms::FINDING)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`stats`",
        text: "An array with one element for each group.\n\
     With `--where` only accesses that pass the filter are counted.",
        forms: &[
            ("", &forms::USAGE),
            ("`gap_ns`", &forms::GAPS),
            ("`histogram[]`", &forms::BIN),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "`stats --register`",
        text: "One object.",
        forms: &[
            ("", &forms::REGISTER_USE),
            ("`values[]`", &forms::REGISTER_VALUE),
            ("`pollers[]`", &forms::POLLER),
            ("`followers[]`", &forms::FOLLOWER),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "`stats --between`",
        text: "One object.",
        forms: &[
            ("", &forms::INTERVALS),
            ("`ns`", &forms::INTERVAL_TIMES),
            ("`shortest` and `longest`", &forms::EVENT_PAIR),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`diff`",
        text: "[Comparison](reference/comparison.md) explains what counts as a difference.\n\
     In all tables, `a` is the first recording and `b` the second.",
        forms: &[
            ("", &forms::DIFF),
            ("`not_computed`, `jobs`, and other values of both sides", &forms::SIDES),
            ("`first_difference`", &forms::FIRST_DIFFERENCE),
            ("`registers[]`", &forms::REGISTER_DIFFERENCE),
            ("`host_writes`", &forms::HOST_WRITES),
            ("`host_writes.list[]`", &forms::HOST_WRITE),
            ("`mappings`", &forms::MAPPING_CHANGES),
            ("`mappings.list[]`", &forms::MAPPING_CHANGE),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "Events of `diff`",
        text: "",
        forms: &[
            ("`events`", &forms::EVENT_DIFF),
            ("`events.list[]`", &forms::EVENT_DIFFERENCE),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "Calls of `diff`",
        text: "",
        forms: &[
            ("`calls`", &forms::CALL_DIFF),
            ("`calls.list[]`", &forms::CALL_DIFFERENCE),
            ("`calls.list[].content`", &forms::CONTENT_DIFF),
            ("`calls.code[]`", &forms::CODE_DIFFERENCE),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "Descriptors of `diff`",
        text: "Each descriptor is compared as its submit found it.",
        forms: &[
            ("`descriptors`", &forms::DESCRIPTOR_DIFF),
            ("`descriptors.list[]`", &forms::DESCRIPTOR_DIFFERENCE),
            ("`fields[]`", &forms::FIELD_PAIR),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "Memory of `diff`",
        text: "",
        forms: &[
            ("`memory`", &forms::MEMORY_DIFF),
            ("`memory.pages[]`", &forms::PAGE_DIFFERENCE),
            ("`memory.buffers[]`", &forms::BUFFER_DIFF),
            ("`first`", &forms::ELEMENT_PAIR),
            ("`errors`, over the elements whose bits differ", &forms::ERRORS),
            ("`histogram[]`", &forms::DECADE),
            ("`tolerance`", &forms::TOLERANCE),
        ],
        after: "",
    },
    Section {
        level: 4,
        heading: "Causes of `diff`",
        text: "`causes[]` explains the first difference, differences of some registers, the first difference of the mappings, and differences of some buffers.",
        forms: &[
            ("`causes[]`", &forms::CAUSE),
            ("`causes[].steps[]`", &forms::CAUSE_STEP),
        ],
        after: LINKS,
    },
    Section {
        level: 4,
        heading: "`diff --raw`",
        text: "",
        forms: &[("", &forms::RAW_DIFF), ("`ranges[]`", &forms::RAW_RANGE)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`verify`",
        text: "",
        forms: &[("", &forms::VERIFY), ("`problems[]`", &forms::VERIFY_PROBLEM)],
        after: "",
    },
    Section {
        level: 2,
        heading: "Files",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`import`",
        text: "For a folder of job chains there are more keys.",
        forms: &[("", &forms::IMPORT), ("a folder of job chains", &forms::IMPORT_CHAINS)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`export`",
        text: "",
        forms: &[
            ("", &forms::EXPORT),
            ("`export --to vcd`, `fst` or `perfetto`", &forms::EXPORT_WAVES),
            ("`export --to program`", &forms::EXPORT_PROGRAM),
            ("`inputs[]` and `outputs[]` of a program", &forms::PROGRAM_BUFFER),
            ("`export --to channel`", &forms::EXPORT_CHANNEL),
            ("`outputs[]` of a channel file", &forms::CHANNEL_OUTPUT),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`link`",
        text: "",
        forms: &[("", &forms::LINK), ("`link --register`", &forms::LINK_REGISTRATION)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`notebook`",
        text: "",
        forms: &[("", &forms::NOTEBOOK), ("`notes[]`", &forms::NOTE)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`trim`",
        text: "",
        forms: &[("", &forms::TRIM), ("`added[]`", &forms::ADDED_JOB)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`apply`",
        text: "`edits[]` has the keys of `applied_edits[]` of [`info`](#info).",
        forms: &[("", &forms::APPLY)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`bisect`",
        text: "",
        forms: &[("", &forms::BISECT), ("`steps[]`", &forms::BISECT_STEP)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`record`",
        text: "`record` prints its value after the output of the program.",
        forms: &[("", &forms::RECORD)],
        after: "",
    },
    Section {
        level: 4,
        heading: "`record --with cuda`",
        text: "",
        forms: &[("", &forms::RECORD_CUDA), ("`processes[]`", &forms::PROCESS_GAPS)],
        after: "",
    },
    Section {
        level: 4,
        heading: "`record --with nvidia`",
        text: "",
        forms: &[("", &forms::RECORD_NVIDIA)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`run`",
        text: "`run` prints its value after the output of the program.",
        forms: &[
            ("", &forms::RUN),
            ("`processes[]`", &forms::RUN_PROCESS),
            ("`functions[]`", &forms::RUN_FUNCTION),
        ],
        after: "",
    },
    Section {
        level: 2,
        heading: "Targets and agents",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`targets`",
        text: "An array of targets.",
        forms: &[
            ("", &forms::TARGET),
            ("`gpu`", &forms::TARGET_GPU),
            ("`live`", &forms::TARGET_LIVE),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`agents`",
        text: "An array of agents.",
        forms: &[("", &forms::AGENT), ("`agents --own-key`", &forms::OWN_KEY)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`pair`",
        text: "`agents --forget` and `targets --forget` print the same keys.",
        forms: &[("", &forms::PAIRED_AGENT)],
        after: "",
    },
    Section {
        level: 2,
        heading: "Machine",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`doctor`",
        text: "[The command line](reference/command-line.md#checks-of-doctor) lists the areas.",
        forms: &[
            ("", &forms::DOCTOR),
            ("`areas[]`", &forms::DOCTOR_AREA),
            ("`checks[]`", &forms::DOCTOR_CHECK),
        ],
        after: "",
    },
    Section {
        level: 2,
        heading: "Replay of recordings",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`plan`",
        text: "",
        forms: &[
            ("", &forms::PLAN),
            ("`arena`", &forms::ARENA),
            ("`reads`", &forms::READ_CLASSES),
            ("`rewrite_list[]`", &forms::REWRITE),
            ("`budgets`", &forms::BUDGETS),
            ("`verified`", &forms::VERIFIED),
            ("`channel`, also of `export --to channel`", &forms::CHANNEL_FOOTPRINT),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`replay`",
        text: "",
        forms: &[
            ("", &forms::REPLAY),
            ("`reads`", &forms::READ_CLASSES),
            ("`divergences[]`", &forms::DIVERGENCE),
            ("`outputs[]`", &forms::REPLAY_OUTPUT),
            ("`effects[]`", &forms::EFFECT),
            ("`screen`", &forms::REPLAY_SCREEN),
            ("`faults[]`", &forms::FAULT),
            ("`faults[].registers[]`", &forms::FAULT_REGISTER),
            ("`job_outcomes[]`", &forms::JOB_OUTCOME),
            ("`timing`", &forms::TIMING),
            ("`preempted`", &forms::PREEMPTED_LEASE),
            ("`runs`", &forms::RUN_TIMES),
            ("`calls`", &forms::CALLS_OUTCOME),
            ("`calls.parts`", &forms::PREPARE_TIMES),
            ("`calls.outputs[]`", &forms::OUTPUT_RESULT),
            ("`calls.stopped`", &forms::STOP_LOCATION),
        ],
        after: "`calls.guard` is only for `--guard`, `calls.launch_ns[]` only for `launches --on`, and `calls.tuned` and \
                `calls.watched` only for `tune` and memory traces.\nAn output is `expected` to match unless `--input` is given and no `--tolerance` for the output.",
    },
    Section {
        level: 4,
        heading: "`replay --guard`",
        text: "",
        forms: &[
            ("", &forms::GUARDED),
            ("`past`", &forms::OUT_OF_BOUNDS),
            ("`past.buffer`", &forms::OUT_OF_BOUNDS_BUFFER),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`tune`",
        text: "",
        forms: &[
            ("", &forms::TUNE),
            ("a point", &forms::TUNE_POINT),
            ("`resources`", &forms::RESOURCE_USE),
            ("`wrong`", &forms::MISMATCH),
            ("`before` and `after`", &forms::DEVICE_STATE),
            ("`load`", &forms::LOAD),
            ("`phases`", &forms::PHASES),
        ],
        after: "Each figure of `load` is the minimum and the maximum, two numbers.",
    },
    Section {
        level: 2,
        heading: "Pipelines",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`pipeline check`",
        text: "",
        forms: &[
            ("", &forms::PIPELINE_CHECK),
            ("`defects[]`", &forms::PIPELINE_DEFECT),
            ("`inputs[]`", &forms::PIPELINE_INPUT),
            ("`stages[]`", &forms::PIPELINE_STAGE),
            ("`takes[]` and `gives[]`", &forms::PIPELINE_TENSOR),
            ("`loops[]`", &forms::PIPELINE_LOOP),
            ("`outputs[]`", &forms::PIPELINE_OUTPUT),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`pipeline run`",
        text: "`report.json` in the folder of outputs has the same form.",
        forms: &[
            ("", &forms::PIPELINE_RUN),
            ("`stages[]`", &forms::PIPELINE_STAGE_RUN),
            ("`loops[]`", &forms::PIPELINE_LOOP_RUN),
            ("`outputs[]`", &forms::PIPELINE_OUTPUT_FILE),
        ],
        after: "",
    },
    Section {
        level: 2,
        heading: "Campaigns",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`campaign check`",
        text: "",
        forms: &[("", &forms::CAMPAIGN_CHECK), ("`kinds[]`", &forms::CAMPAIGN_KIND)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`campaign run`",
        text: "",
        forms: &[("", &forms::CAMPAIGN_RUN), ("`given_up[]`", &forms::UNUSED_TARGET)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`campaign status`",
        text: "",
        forms: &[
            ("", &forms::CAMPAIGN_STATUS),
            ("`targets[]`", &forms::CAMPAIGN_TARGET),
            ("`work[]`", &forms::CAMPAIGN_WORK),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`campaign report`",
        text: "",
        forms: &[("", &forms::CAMPAIGN_PAGE)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`campaign diff`",
        text: "",
        forms: &[("", &forms::CAMPAIGN_DIFF), ("`cells[]`", &forms::CAMPAIGN_CELL)],
        after: "",
    },
    Section {
        level: 2,
        heading: "WebAssembly programs",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`wasm run`",
        text: "`report.json` in the folder of outputs has the same form.",
        forms: &[
            ("", &forms::WASM_REPORT),
            ("`phases`", &forms::WASM_PHASES),
            ("`profile[]`", &forms::WASM_BLOCK),
            ("`runs[]`", &forms::WASM_RUN),
            ("`trap`", &forms::WASM_TRAP),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`diff` of WebAssembly runs",
        text: "`a` is the first run, `b` the second.",
        forms: &[
            ("", &forms::WASM_COMPARISON),
            ("`options[]`", &forms::WASM_OPTION),
            ("`copies[]`", &forms::WASM_COPY),
            ("`copies[].call`", &forms::WASM_CALL),
        ],
        after: "",
    },
    Section {
        level: 3,
        heading: "`replay` of WebAssembly runs",
        text: "`divergences[]` has the form of `copies[]` [above](#diff-of-webassembly-runs).",
        forms: &[("", &forms::WASM_REPLAY)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`wasm check`",
        text: "",
        forms: &[("", &forms::WASM_CHECK), ("`differences[]`", &forms::WASM_DIFFERENCE)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`wasm translate`",
        text: "",
        forms: &[("", &forms::WASM_TRANSLATION), ("`memories[]`", &forms::WASM_MEMORY)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`wasm bench`",
        text: "An array: the CPU, then a measurement for each cell size of the GPU.",
        forms: &[("", &forms::WASM_MEASUREMENT), ("`phases`", &forms::WASM_PHASES)],
        after: "",
    },
    Section {
        level: 2,
        heading: "Shell and manual",
        text: "",
        forms: &[],
        after: "",
    },
    Section {
        level: 3,
        heading: "`completions`",
        text: "",
        forms: &[("", &forms::COMPLETIONS)],
        after: "",
    },
    Section {
        level: 3,
        heading: "`man`",
        text: "",
        forms: &[("", &forms::MAN), ("`pages[]`", &forms::MAN_PAGE)],
        after: "",
    },
];

/// A field of a type: its key, and its comment, which is empty for a key that shares the row before.
struct Field {
    key: String,
    comment: String,
}

/// Returns whether the page has a table of this form.
pub fn lists(form: &Form) -> bool {
    let mut all = PAGE.iter().flat_map(|s| s.forms);
    all.any(|(_, f)| (f.file, f.name) == (form.file, form.name))
}

/// Types whose keys stand within the object of another type (`#[serde(flatten)]`), and are listed there.
const FLATTENED: [Form; 1] = [forms::API_OUTCOME];

/// Returns the serialized fields of a type in its source, in their order. Leaves out fields that are no keys.
fn read_fields(root: &Path, form: &Form) -> Vec<Field> {
    let text = std::fs::read_to_string(root.join(form.file)).unwrap_or_else(|e| panic!("{}: {e}", form.file));
    let head = format!("struct {}", form.name);
    let mut lines = text.lines().skip_while(|l| {
        let at = l.find(&head).map(|at| &l[at + head.len()..]);
        !at.is_some_and(|rest| rest.starts_with([' ', '<']))
    });
    assert!(lines.next().is_some(), "{} has no struct {}", form.file, form.name);
    let (mut fields, mut comment, mut attributes) = (Vec::new(), String::new(), String::new());
    for line in lines.map(str::trim).take_while(|l| *l != "}") {
        if let Some(words) = line.strip_prefix("///") {
            comment.push_str(words);
        } else if line.starts_with("#[") {
            attributes.push_str(line);
        } else {
            let declared = line.trim_start_matches("pub(super) ").trim_start_matches("pub ");
            let name = declared.split(':').next().unwrap_or_default();
            let renamed = attributes
                .split_once("rename = \"")
                .and_then(|(_, r)| r.split('"').next());
            if attributes.contains("flatten") {
                let of = FLATTENED.iter().find(|f| declared.ends_with(&format!("{},", f.name)));
                fields.extend(of.into_iter().flat_map(|of| read_fields(root, of)));
            } else if !attributes.contains("(skip)") {
                fields.push(Field {
                    key: renamed.unwrap_or(name).to_owned(),
                    comment: comment.trim().to_owned(),
                });
            }
            comment.clear();
            attributes.clear();
        }
    }
    fields
}

/// Returns the words for a type of a key, as [`Form::keys`] has it.
fn describe_type(kind: &str) -> String {
    let word = match kind.trim_end_matches(['?', '~']) {
        "n" | "f" => "number",
        "h" => "`0x…`",
        "d" => "digest",
        "s" => "text",
        "b" => "boolean",
        "a" => "array",
        "o" => "object",
        other => panic!("no type {other}"),
    };
    let more = match kind.chars().last() {
        Some('?') => " or `null`",
        Some('~') => " or absent",
        _ => "",
    };
    format!("{word}{more}")
}

/// Returns a comment as text of the page. Comments link items of the program, and name their missing values.
fn to_page_text(comment: &str) -> String {
    let mut text = String::new();
    let mut rest = comment;
    while let Some((before, item, after)) = rest.split_once("[`").and_then(|(before, from)| {
        let (item, after) = from.split_once("`]")?;
        Some((before, item, after))
    }) {
        let is_link = after.starts_with('(');
        let (open, close) = if is_link { ("[`", "`]") } else { ("`", "`") };
        text.extend([before, open, item, close]);
        rest = after;
    }
    text.push_str(rest);
    text.replace("`None`", "`null`")
}

/// Writes the table of a form. Keys without a comment share the row of the key before.
fn write_table(root: &Path, of: &str, form: &Form, page: &mut String) {
    let space = if of.is_empty() {
        String::new()
    } else {
        format!(" of {of}")
    };
    write!(page, "\n| key{space} | type | value |\n|---|---|---|\n").unwrap();
    let fields = read_fields(root, form);
    let mut keys = form.keys.split_whitespace().map(|k| k.split_once(':').unwrap());
    let mut rest = fields.as_slice();
    while let Some((first, others)) = rest.split_first() {
        let shared = others.iter().take_while(|f| f.comment.is_empty()).count();
        let (mut names, mut types) = (Vec::new(), Vec::new());
        for (name, kind) in keys.by_ref().take(1 + shared) {
            names.push(format!("`{name}{}`", if kind.starts_with('a') { "[]" } else { "" }));
            let kind = describe_type(kind);
            if !types.contains(&kind) {
                types.push(kind);
            }
        }
        let words = to_page_text(&first.comment);
        writeln!(page, "| {} | {} | {words} |", names.join(", "), types.join("; ")).unwrap();
        rest = &others[shared..];
    }
}

/// Returns the address of a heading on its page.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the generated part of the page.
pub fn render(root: &Path) -> String {
    let mut page = String::new();
    for part in PAGE.iter().filter(|s| s.level == 2) {
        let verbs = PAGE.iter().skip_while(|s| s.heading != part.heading).skip(1);
        let verbs = verbs.take_while(|s| s.level > 2).filter(|s| s.level == 3);
        let link = |s: &Section| format!("[{}](#{})", s.heading, anchor(s.heading));
        let all: Vec<String> = verbs.map(link).collect();
        writeln!(page, "- {}: {}", link(part), all.join(", ")).unwrap();
    }
    for section in PAGE {
        write!(page, "\n{} {}\n", "#".repeat(section.level), section.heading).unwrap();
        if !section.text.is_empty() {
            write!(page, "\n{}\n", section.text).unwrap();
        }
        for (of, form) in section.forms {
            write_table(root, of, form, &mut page);
        }
        if !section.after.is_empty() {
            write!(page, "\n{}\n", section.after).unwrap();
        }
    }
    page
}

#[test]
fn forms_have_the_keys_of_their_types() {
    let root = whole_program_tests::root();
    for (_, form) in PAGE.iter().flat_map(|s| s.forms) {
        let fields = read_fields(&root, form);
        let keys: Vec<&str> = fields.iter().map(|f| f.key.as_str()).collect();
        let listed: Vec<&str> = form
            .keys
            .split_whitespace()
            .filter_map(|k| k.split(':').next())
            .collect();
        assert_eq!(listed, keys, "{} of {}", form.name, form.file);
        let first = fields.first().map_or("", |f| f.comment.as_str());
        assert!(
            !first.is_empty(),
            "{} of {}: its first field has no comment",
            form.name,
            form.file
        );
    }
}

#[test]
fn page_matches_the_types() {
    let root = whole_program_tests::root();
    let page = root.join("docs/json.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("the page has a line that begins the generated part");
    let (generated, after) = rest
        .split_once(END)
        .expect("the page has a line that ends the generated part");
    let expected = format!("\n{}\n", render(&root));
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&page, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    let line = generated.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        generated == expected,
        "{} differs from the types (first lines that differ: {line:?}); \
         `UPDATE_SNAPSHOTS=1 cargo test -p whole-program-tests --test it json_forms` renews it",
        page.display()
    );
}
