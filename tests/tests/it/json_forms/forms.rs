//! The table of JSON forms: the keys that verbs print, their types, and the types of the program that hold them.

/// A JSON object that a verb prints.
pub struct Form {
    /// File of its type, from the root of the project.
    pub file: &'static str,
    /// Name of its type. The comments on its fields are the descriptions of the keys.
    pub name: &'static str,
    /// Its keys in the order of the type, as `name:type`.
    ///
    /// Types: `n` integer of 0 or more, `f` number, `b` true or false, `a` array, `o` object. String types: `h`
    /// lower-case `0x…`, `d` 64 hex digits, `s` any string. A `?` after the type also accepts null; a `~` marks a key
    /// that may be absent.
    pub keys: &'static str,
}

const fn form(file: &'static str, name: &'static str, keys: &'static str) -> Form {
    Form { file, name, keys }
}

pub const INFO: Form = form(
    "app/src/cli/verbs/info.rs",
    "Info",
    "driver:s board:s events:n reads:n writes:n undecoded:n~ interrupts:n polls:n jobs:n pages:n zero_pages:n \
     distinct_pages:n mapped_pages:n address_spaces:n buffers:a span_ns:n? span_ticks:n~ lost_events:n gpu:o \
     family:s queues:a~ source:s capture:o~ applied_edits:a~ recorded:o? processes:o~ calls:o~ ranges:a~ run:o~ \
     driver_trace:o~",
);
pub const RANGE_COUNT: Form = form(
    "app/src/cli/verbs/info/program_ranges.rs",
    "RangeCount",
    "name:s times:n first_event:n last_event:n total_ns:n?",
);
pub const RUN_COUNTS: Form = form(
    "app/src/cli/verbs/info/run_counts.rs",
    "RunCounts",
    "program:s program_bytes:n digest:d function:s target:s copies_at_once:n compile_ns:n run_ns:n translation:o? \
     inputs:n system_calls:n lost_calls:n succeeded:n failed:n trapped:n unfinished:n running:n traps:a limits:o \
     launches:n",
);
pub const RUN_TRANSLATION: Form = form(
    "app/src/cli/verbs/info/run_counts.rs",
    "TranslationRow",
    "cell:n? strict:b profile:b sort:b",
);
pub const RUN_TRAP_COUNT: Form = form("app/src/cli/verbs/info/run_counts.rs", "TrapCount", "kind:s copies:n");
pub const RUN_LIMITS: Form = form(
    "app/src/cli/verbs/info/run_counts.rs",
    "LimitRow",
    "memory_bytes:n call_depth:n time_ns:n? fuel:n? output_bytes:n logged_calls:n",
);
pub const INFO_GPU: Form = form("app/src/cli/gpu.rs", "Gpu", "id:h name:s");
pub const INFO_BUFFER: Form = form(
    "app/src/cli/verbs/info.rs",
    "Buffer",
    "name:s role:s va:h bytes:n type:s shape:a?",
);
pub const JOB_RESULTS: Form = form(
    "app/src/cli/verbs/info.rs",
    "JobResults",
    "computed:n not_computed:n failed:n reasons:a",
);
pub const CALL_COUNTS: Form = form(
    "app/src/cli/verbs/info.rs",
    "CallCounts",
    "api:s launches:n kernels:n streams:n device_buffers:n copies:n fills:n",
);
pub const DRIVER_COUNTS: Form = form(
    "app/src/cli/verbs/info/driver_trace.rs",
    "DriverCounts",
    "driver_version:s requests:n clients:n objects:n video_buffers:o host_buffers:o other_buffers:o \
     max_mapped_bytes:n? channels:n doorbells:n submissions:o launches:n copies:o fills:o uploads:o missing:a assumed:a",
);
pub const ITEM_COUNT: Form = form("app/src/cli/verbs/info/driver_trace.rs", "ItemCount", "count:n bytes:n");
pub const APPLIED_EDIT: Form = form(
    "trace-core/src/recording/origin.rs",
    "AppliedEdit",
    "buffer:s bytes:n source:s",
);
pub const CAPTURE: Form = form(
    "trace-core/src/recording/capture.rs",
    "Capture",
    "method:s kernel:s architecture:s driver:s command:a exit_code:n~ cut:s~ lost:n unobserved:a",
);
pub const PROCESS_INDEX: Form = form(
    "trace-core/src/recording/processes.rs",
    "ProcessIndex",
    "kinescope_processes:n processes:a",
);
pub const PROCESS: Form = form(
    "trace-core/src/recording/processes.rs",
    "ProcessEntry",
    "file:s process:n parent:n command:a device:s events:n launches:n complete:b",
);
pub const EVENT: Form = form(
    "app/src/cli/verbs/events.rs",
    "Event",
    "event:n kind:s time_ns:n? time_ticks:n~ thread:n space:s~ offset:h~ register:s~ width:n~ value:h~ means:s~",
);
pub const SUBMIT: Form = form(
    "app/src/cli/verbs/jobs.rs",
    "Submit",
    "index:n submit_event:n done_event:n? queue:s~ head_va:h type:s? decoded:b dispatch:o? shader_va:h? \
     duration_ns:n? duration_ticks:n~ recorded:o? chain:a chain_end:s",
);
pub const CHAIN_JOB: Form = form(
    "app/src/cli/verbs/jobs.rs",
    "Job",
    "va:h type:s? decoded:b dispatch:o? shader_va:h?",
);
pub const DISPATCH: Form = form("trace-core/src/families/chain.rs", "Dispatch", "workgroups:a size:a");
pub const RECORDED_RESULT: Form = form(
    "app/src/cli/verbs/jobs.rs",
    "RecordedResult",
    "status:h computed:b? reason:s?",
);
pub const LAUNCH: Form = form(
    "app/src/cli/verbs/launches.rs",
    "Row",
    "launch:n event:n kernel:s function:n grid:a block:a cluster:a? shared:n stream:n stream_name:s cooperative:b \
     of_graph:b took_ns:n device_ns:n? result:n arguments:a changed:a?",
);
pub const ARGUMENT: Form = form(
    "app/src/cli/verbs/launches.rs",
    "ArgumentRow",
    "offset:n bytes:n name:s type:s value:s pointers:a",
);
pub const POINTER: Form = form(
    "app/src/cli/verbs/launches.rs",
    "PointerRow",
    "at:n va:h buffer:s buffer_offset:n location:s",
);
pub const CHANGED_BUFFER: Form = form(
    "app/src/cli/verbs/launches.rs",
    "ChangedRow",
    "buffer:s? location:s va:h end_va:h bytes:n",
);
pub const KERNEL: Form = form(
    "app/src/cli/verbs/kernels.rs",
    "Row",
    "function:n kernel:s name:s module:n? module_bytes:n code:s arch:s ptx:b launches:n first_event:n? registers:n? \
     shared:n? local:n? constant:n? max_threads:n? parameters:a held:a problem:s?",
);
pub const PARAMETER: Form = form(
    "trace-core/src/api_trace/types.rs",
    "Parameter",
    "offset:n bytes:n type:s",
);
pub const CODE_IMAGE: Form = form(
    "trace-core/src/api_trace/kernel.rs",
    "CodeImage",
    "code:s arch:s bytes:n compressed:b taken:b",
);
pub const KERNEL_PTX: Form = form(
    "app/src/cli/verbs/kernels.rs",
    "PtxReport",
    "entry_line:n? kernel:s problem:s? ptx:s?",
);
pub const DRIVER_OBJECT: Form = form(
    "app/src/cli/verbs/objects.rs",
    "Row",
    "kind:s handle:h? class:h? bytes:n? address:h? alloc_event:n? free_event:n? caller:s? push_buffer:o?~ \
     indirect_buffer:o?~",
);
pub const PUSH_BUFFER: Form = form("app/src/cli/verbs/objects.rs", "PushBuffer", "address:h? bytes:n?");
pub const INDIRECT_BUFFER: Form = form("app/src/cli/verbs/objects.rs", "IndirectBuffer", "address:h");
pub const CHANNEL: Form = form(
    "app/src/cli/verbs/channels.rs",
    "Row",
    "handle:h? class:h? engine:s? submits:n doorbells:n",
);
pub const SUBMISSION: Form = form(
    "app/src/cli/verbs/pushbuffer.rs",
    "SubmissionRow",
    "submit:n event:n channel:h? address:h bytes:n doorbell_event:n? launches:n call:o?",
);
pub const SUBMISSION_CALL: Form = form("app/src/cli/verbs/pushbuffer.rs", "CallRow", "event:n name:s");
pub const METHOD: Form = form(
    "app/src/cli/verbs/pushbuffer.rs",
    "MethodRow",
    "subchannel:n class:h? method:h name:s? value:h fields:o",
);
pub const SUBMITTED_LAUNCH: Form = form(
    "app/src/cli/verbs/pushbuffer.rs",
    "LaunchRow",
    "grid:a block:a shared:n registers:n parameters:a kernel:s? call:o?",
);
pub const SUBMITTED_PARAMETER: Form = form(
    "app/src/cli/verbs/pushbuffer.rs",
    "ParameterRow",
    "offset:n bytes:n value:h buffer:s?",
);
pub const SHADERS: Form = form(
    "app/src/cli/verbs/shader.rs",
    "Report",
    "operations:n unknown_operations:n unknown:a shaders:a",
);
pub const UNKNOWN_OPERATION: Form = form(
    "app/src/cli/verbs/shader.rs",
    "UnknownRow",
    "unit:s bits:h count:n shaders:n",
);
pub const SHADER: Form = form(
    "app/src/cli/verbs/shader.rs",
    "ShaderRow",
    "shader_va:h address_space:n stage:s bytes:n operations:n unknown_operations:n whole:b end:s jobs:a clauses:a",
);
pub const SHADER_JOB: Form = form("app/src/cli/verbs/shader.rs", "JobRow", "job:n position:n va:h type:s?");
pub const CLAUSE: Form = form(
    "app/src/cli/verbs/shader.rs",
    "ClauseRow",
    "va:h label:s header:s bytes:n reached:b targets:a indirect:b tuples:a",
);
pub const TUPLE: Form = form("app/src/cli/verbs/shader.rs", "TupleRow", "fma:o add:o");
pub const OPERATION: Form = form("app/src/cli/verbs/shader.rs", "OperationRow", "text:s bits:h known:b");
pub const THREAD: Form = form(
    "app/src/cli/verbs/shader/thread.rs",
    "Report",
    "job:n position:n job_va:h shader_va:h workgroup:a thread:a workgroups:a size:a uniforms:a executed:n whole:b \
     end:s stopped:s? registers_before:a registers_after:a steps:a",
);
pub const THREAD_STEP: Form = form(
    "app/src/cli/verbs/shader/thread.rs",
    "StepRow",
    "step:n clause_va:h label:s threads_together:n registers:a reads:a writes:a",
);
pub const REGISTER_CHANGE: Form = form(
    "app/src/cli/verbs/shader/thread.rs",
    "ChangeRow",
    "register:s before:h after:h",
);
pub const ACCESS: Form = form(
    "app/src/cli/memory_access.rs",
    "AccessRow",
    "va:h bytes:n value:h instruction:s",
);
pub const DEVICE_LAST_WRITER: Form = form(
    "app/src/cli/verbs/last_writer/device.rs",
    "LastWriterReport",
    "va:h at_event:n buffer:s? buffer_offset:n? location:s? byte:h? known:b state:s writer:o? changed:o? \
     changed_unrecorded:b launches:a left_as_it_was:n readers:n other_launches:n taken_event:n?",
);
pub const CERTAIN_WRITER: Form = form(
    "app/src/cli/verbs/last_writer/device.rs",
    "WriterRow",
    "event:n kind:s from_va:h?",
);
pub const BYTE_CHANGE: Form = form(
    "app/src/cli/verbs/last_writer/device.rs",
    "ByteChange",
    "launch:n event:n kernel:s from:h to:h",
);
pub const LAUNCH_WRITER: Form = form(
    "app/src/cli/verbs/last_writer/device.rs",
    "LaunchWriterRow",
    "launch:n event:n kernel:s certain:b how:s",
);
pub const LAST_WRITER: Form = form(
    "app/src/cli/verbs/last_writer.rs",
    "Report",
    "va:h address_space:n byte:h writer:s event:n? job:n? position:n? job_va:h? shader:o?",
);
pub const SHADER_WRITER: Form = form(
    "app/src/cli/verbs/last_writer.rs",
    "ShaderRow",
    "shader_va:h workgroup:a thread:a clause_va:h label:s tuple:n instruction:s step:n write:o? reads:a \
     reads_before:n",
);
pub const SHADER_READ: Form = form("app/src/cli/verbs/last_writer.rs", "ReadRow", "step:n clause_va:h");
pub const REFERENCES: Form = form(
    "app/src/cli/verbs/references.rs",
    "Report",
    "target:o references:a complete:b",
);
pub const REFERENCE_TARGET: Form = form(
    "app/src/cli/verbs/references.rs",
    "TargetRow",
    "kind:s event:n~ address_space:n~ va:h~ physical:h~ space:s~ offset:h~ bytes:n~ level:n~ register:s~ bits:a~",
);
pub const REFERENCE: Form = form(
    "app/src/cli/verbs/references.rs",
    "Row",
    "kind:s access:s event:n? job:n? launch:n? page_only:b description:s register:s~ value:h~ buffer:s~ offset:h~ \
     address_space:n~ va:h~ level:n~ part:s~ position:n~ word_va:h~ through_va:h~ arguments:a~ submit:n~ word:n~ \
     parameter_offset:n~ bank:n~ method:s~ bytes:n~ other_va:h~",
);
pub const MAPPING: Form = form(
    "app/src/cli/verbs/pagetables.rs",
    "Mapping",
    "address_space:n format:s root:h va:h end:h pages:n rights:s attribute:n pa:h? memory:s? \
     executable_and_writable:b mapped_twice_pages:n mapped_twice:a pages_without_content:n",
);
pub const ALIAS: Form = form("trace-core/src/mmu/tally.rs", "Alias", "va:h pages:n also:h pa:h");
pub const WALK: Form = form(
    "app/src/cli/verbs/pagetables.rs",
    "Walk",
    "address_space:n va:h steps:a pa:h? rights:s? memory:s? fault:s?",
);
pub const WALK_STEP: Form = form(
    "trace-core/src/mmu/walk.rs",
    "WalkStep",
    "level:n table:s index:n entry_at:h raw:h kind:s memory:s~",
);
pub const MAP_IMPORT: Form = form(
    "app/src/cli/verbs/regmaps.rs",
    "ImportReport",
    "name:s format:s written:s? window_at:h? registers:n fields:n layouts:n layout_fields:n enumerations:n arrays:n \
     not_carried_over:a more_not_carried_over:n map:s?",
);
pub const MAP_LOSS: Form = form(
    "app/src/cli/verbs/regmaps.rs",
    "LossRow",
    "file:s line:n column:n kind:s what:s",
);
pub const MAP_ROW: Form = form(
    "app/src/cli/verbs/regmaps.rs",
    "MapRow",
    "name:s registers:n? layouts:n? from:s path:s? error:s? names_this_recording:b",
);
pub const MEMORY: Form = form(
    "app/src/cli/verbs/memory.rs",
    "MemoryReport",
    "va:h bytes:n type:s hex:s~ elements:a~ holes:a",
);
pub const HOLE: Form = form("app/src/cli/verbs/memory.rs", "Hole", "va:h bytes:n state:s");
pub const DEVICE_HOLE: Form = form(
    "app/src/cli/verbs/memory/device.rs",
    "Hole",
    "va:h bytes:n state:s event:n?",
);
pub const DEVICE_BUFFER: Form = form(
    "app/src/cli/verbs/memory/device.rs",
    "BufferRow",
    "name:s also:s? va:h bytes:n kind:s from_event:n to_event:n? live:b known_bytes:n",
);
pub const SCREEN: Form = form(
    "app/src/cli/verbs/screen.rs",
    "Report",
    "event:n space:s stores:n format:o since_event:n? known_pixels:n never_stored_pixels:n lost_pixels:n \
     engine_runs:n cursor:b palette:b pixel:o~ comparison:o~",
);
pub const SCREEN_FORMAT: Form = form(
    "app/src/cli/verbs/screen.rs",
    "Form",
    "width:n height:n pitch:n base:h pixel_form:s big_endian:b by_hand:b",
);
pub const SCREEN_PIXEL: Form = form(
    "app/src/cli/verbs/screen.rs",
    "Pixel",
    "x:n y:n offset:h color:s? known:s stores:a more:b",
);
pub const PIXEL_STORE: Form = form(
    "app/src/cli/verbs/screen.rs",
    "StoreRow",
    "event:n time_ns:n offset:h width:n value:h? color:s?",
);
pub const SCREEN_COMPARISON: Form = form(
    "app/src/cli/verbs/screen/comparison.rs",
    "ScreenDiffReport",
    "compared:n differing:n worst:n bounds:o? other_event:n~ first:o?",
);
pub const SCREEN_BOUNDS: Form = form(
    "trace-core/src/screen/compare.rs",
    "PixelBounds",
    "left:n top:n right:n bottom:n",
);
pub const FIRST_PIXEL: Form = form(
    "app/src/cli/verbs/screen/comparison.rs",
    "FirstPixel",
    "x:n y:n own:o other:o",
);
pub const PIXEL_STATE: Form = form(
    "app/src/cli/verbs/screen/comparison.rs",
    "PixelState",
    "color:s event:n? time_ns:n? value:h?",
);
pub const FINDING: Form = form(
    "app/src/cli/findings.rs",
    "FindingRow",
    "kind:s severity:s place:s message:s",
);
pub const USAGE: Form = form(
    "app/src/cli/verbs/stats.rs",
    "Row",
    "name:s? space:s~ offset:h~ accesses:n reads:n writes:n first_event:n last_event:n values:n rate_per_s:f? \
     gap_ns:o? gap_ticks:o~ histogram:a~",
);
pub const GAPS: Form = form(
    "trace-core/query/src/statistics.rs",
    "Gaps",
    "min:f median:f mean:f max:f",
);
pub const BIN: Form = form("trace-core/query/src/statistics.rs", "Bin", "from:h to:h count:n");
pub const REGISTER_USE: Form = form(
    "app/src/cli/verbs/stats/guess.rs",
    "Row",
    "name:s? space:s offset:h width:n reads:n writes:n partial:n looks_like:a different_values:n beyond:n values:a \
     bits_changed:h bits_always_1:h bits_always_0:h read_back:n read_other:n cleared:n kept:n rises:n falls:n polls:n \
     polled_reads:n awaited_bits:h pollers:a followers:a",
);
pub const REGISTER_VALUE: Form = form(
    "app/src/cli/verbs/stats/guess.rs",
    "ValueRow",
    "value:h count:n means:s?",
);
pub const POLLER: Form = form("trace-core/src/registers/guess.rs", "Poller", "thread:n reads:n");
pub const FOLLOWER: Form = form(
    "app/src/cli/verbs/stats/guess.rs",
    "FollowerRow",
    "name:s? offset:h write:b count:n median_accesses:n median_ns:f? median_ticks:f~",
);
pub const INTERVALS: Form = form(
    "trace-core/query/src/intervals.rs",
    "IntervalStatistics",
    "count:n repeated:n strays:n open_event:n? ns:o? ticks:o~",
);
pub const INTERVAL_TIMES: Form = form(
    "trace-core/query/src/intervals.rs",
    "Times",
    "min:f median:f mean:f p99:f max:f shortest:o longest:o",
);
pub const EVENT_PAIR: Form = form(
    "trace-core/query/src/intervals.rs",
    "EventPair",
    "from_event:n to_event:n",
);
pub const DIFF: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Report",
    "same:b summary:s not_compared:s not_computed:o first_difference:o? jobs:o events:o registers:a calls:o? \
     host_writes:o descriptors:o mappings:o memory:o causes:a rules:a",
);
pub const SIDES: Form = form("app/src/cli/verbs/diff/sides.rs", "Sides", "a:n b:n");
pub const FIRST_DIFFERENCE: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "First",
    "a_event:n? b_event:n? what:s",
);
pub const REGISTER_DIFFERENCE: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Register",
    "register:s offset:h count:n a_event:n? b_event:n? field:s a:s? b:s?",
);
pub const HOST_WRITES: Form = form(
    "trace-core/src/diff/host_writes.rs",
    "HostWriteDiff",
    "same:n already:n changed:n only_a:n only_b:n uncompared:n unmapped:n by:s list:a",
);
pub const HOST_WRITE: Form = form(
    "trace-core/src/diff/host_writes.rs",
    "HostWriteDifference",
    "job:o a:n? b:n? address_space:n va:h bytes:n bytes_a:s bytes_b:s",
);
pub const MAPPING_CHANGES: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Mappings",
    "same:n changed:n only_a:n only_b:n moved:n list:a",
);
pub const MAPPING_CHANGE: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Mapping",
    "address_space:n va:h pages:n rights_a:s? rights_b:s? attribute_a:n? attribute_b:n? entry_a:h? entry_b:h? \
     moved_to:h?",
);
pub const EVENT_DIFF: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Events",
    "equal:n changed:n inserted:n deleted:n moved:n relocated:n uncompared:n folded:o cut_short:a one_sided:a \
     foreign:o not_played:o list:a",
);
pub const EVENT_DIFFERENCE: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Event",
    "job:o what:s a_event:n? b_event:n? events:n kind:s space:s? offset:h register:s? call:s? a:s? b:s?",
);
pub const CALL_DIFF: Form = form(
    "app/src/cli/verbs/diff/calls.rs",
    "CallComparison",
    "compared:n copies:n snapshots:n fills:n launches:n within:n unknown:n code:a list:a",
);
pub const CALL_DIFFERENCE: Form = form(
    "app/src/cli/verbs/diff/calls.rs",
    "Call",
    "kind:s differs:b a_event:n b_event:n a_name:s b_name:s way:s? a_address:h? b_address:h? fields:a content:o?",
);
pub const CONTENT_DIFF: Form = form(
    "app/src/cli/verbs/diff/calls.rs",
    "Content",
    "bytes:n bytes_differ:n first_byte:n bytes_a:s bytes_b:s element:s element_from:s compared:n equal:n within:n \
     differ:n first:o? errors:o? tolerance:o?",
);
pub const CODE_DIFFERENCE: Form = form(
    "app/src/cli/verbs/diff/calls.rs",
    "Code",
    "function:s differs:b a_event:n b_event:n launches:n a_digest:s b_digest:s a_bytes:n b_bytes:n own_differs:b?",
);
pub const DESCRIPTOR_DIFF: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Descriptors",
    "same:n changed:n only_a:n only_b:n relocated:n unknown:n status:n status_fields:a list:a",
);
pub const DESCRIPTOR_DIFFERENCE: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Descriptor",
    "job:o a_event:n b_event:n in_chain:n layout:s a_address_space:n b_address_space:n a_va:h? b_va:h? bytes:n \
     fields:a",
);
pub const FIELD_PAIR: Form = form("app/src/cli/verbs/diff/sides.rs", "FieldPair", "field:s a:s? b:s?");
pub const MEMORY_DIFF: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Memory",
    "by:s pages_same:n pages_differ:n pages_only_a:n pages_only_b:n pages_ignored:n not_held:o bytes_differ:n pages:a \
     buffers:a",
);
pub const PAGE_DIFFERENCE: Form = form(
    "trace-core/src/diff/pages.rs",
    "PageDifference",
    "address_space:n va:h in_a:b in_b:b first_byte:h?",
);
pub const BUFFER_DIFF: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Buffer",
    "name:s differs:b a_va:h? b_va:h? a_bytes:n? b_bytes:n? element:s? compared:n equal:n within:n differ:n \
     unknown_bytes:n bytes_differ:n first:o? errors:o? tolerance:o?",
);
pub const ELEMENT_PAIR: Form = form("app/src/cli/verbs/diff/sides.rs", "Element", "index:n a:s b:s");
pub const ERRORS: Form = form(
    "trace-core/src/diff/elements.rs",
    "Errors",
    "pairs:n not_finite:n max_absolute:f max_absolute_at:n mean_absolute:f max_relative:f max_relative_at:n \
     mean_relative:f max_ulp:n zeros:n histogram:a",
);
pub const DECADE: Form = form("trace-core/src/diff/elements.rs", "Decade", "exponent:f pairs:n");
pub const TOLERANCE: Form = form(
    "trace-core/src/diff/elements.rs",
    "Tolerance",
    "absolute:f~ relative:f~ ulp:n~",
);
pub const CAUSE: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "Cause",
    "a_event:n? b_event:n? address_space:n? va:h? buffer:s? what:s steps:a",
);
pub const CAUSE_STEP: Form = form(
    "app/src/cli/verbs/diff/report.rs",
    "CauseStep",
    "link:s sure:b a_event:n? b_event:n? buffer:s? what:s",
);
pub const RAW_DIFF: Form = form(
    "app/src/cli/verbs/diff/raw.rs",
    "Report",
    "same:b a_bytes:n b_bytes:n pages_differ:n bytes_differ:n ranges_in_all:n ranges:a element:s compared:n equal:n \
     within:n differ:n first:o? errors:o? tolerance:o? rules:a",
);
pub const RAW_RANGE: Form = form("app/src/cli/verbs/diff/raw.rs", "Range", "address:h bytes:n");
pub const VERIFY: Form = form(
    "app/src/cli/verbs/verify.rs",
    "Report",
    "sound:b commits:n sections:n bytes:n bytes_behind:n problem_count:n problems:a",
);
pub const VERIFY_PROBLEM: Form = form(
    "trace-core/src/container/verify.rs",
    "VerifyFinding",
    "byte:h message:s",
);
pub const IMPORT: Form = form(
    "app/src/cli/verbs/import.rs",
    "Report",
    "path:s bytes:n events:n pages:n distinct_pages:n findings:a",
);
pub const IMPORT_CHAINS: Form = form(
    "app/src/cli/verbs/import.rs",
    "Chains",
    "board:s jobs:n failed:n computed:b",
);
pub const EXPORT: Form = form(
    "app/src/cli/verbs/export.rs",
    "Report",
    "path:s table:s rows:n problems:a",
);
pub const EXPORT_WAVES: Form = form(
    "app/src/cli/verbs/export.rs",
    "WavesReport",
    "path:s events:n signals:n left_out:n held_back:n jobs_left_out:n threads_joined:n",
);
pub const EXPORT_PROGRAM: Form = form(
    "app/src/cli/verbs/export/program.rs",
    "Report",
    "path:s name:s files:a data_bytes:n memory_bytes:n arena:h actions:n reads_compared:n interrupts:n inputs:a \
     outputs:a unproved:a unchecked:a",
);
pub const PROGRAM_BUFFER: Form = form(
    "app/src/cli/verbs/export/program.rs",
    "Buffer",
    "name:s field:s bytes:n element:s",
);
pub const EXPORT_CHANNEL: Form = form(
    "app/src/cli/verbs/export/channel.rs",
    "Report",
    "path:s bytes:n steps:n channel:o outputs:a unproved:a",
);
pub const CHANNEL_OUTPUT: Form = form(
    "app/src/cli/verbs/export/channel.rs",
    "OutputRow",
    "name:s offset:n bytes:n",
);
pub const LINK: Form = form("app/src/cli/verbs/link.rs", "Report", "link:s");
pub const LINK_REGISTRATION: Form = form(
    "app/src/cli/verbs/link.rs",
    "RegistrationReport",
    "registered:s program:s",
);
pub const NOTEBOOK: Form = form(
    "app/src/cli/verbs/notebook.rs",
    "Report",
    "notes:a path:s? pictures:n without_pictures:s?",
);
pub const NOTE: Form = form(
    "app/src/cli/verbs/notebook.rs",
    "NoteReport",
    "event:n ns:n job:n? what:s text:s selected:s? panels:a link:s",
);
pub const TRIM: Form = form(
    "app/src/cli/verbs/trim.rs",
    "Report",
    "path:s bytes:n bytes_before:n? jobs:n jobs_kept:a added:a unknown:s? events:n events_before:n job_events_out:n \
     host_writes_out:n supplied:n pages:n pages_before:n extras_out:a",
);
pub const ADDED_JOB: Form = form(
    "app/src/cli/verbs/trim.rs",
    "AddedJob",
    "job:n why:s needed_by:n? bytes:n?",
);
pub const APPLY: Form = form("app/src/cli/verbs/apply.rs", "Report", "path:s bytes:n edits:a");
pub const BISECT: Form = form(
    "app/src/cli/verbs/bisect.rs",
    "Report",
    "path:s? jobs:n jobs_kept:a events:n events_before:n tried:n shown:n not_shown:n cannot_tell:n ended:s? \
     duration_ns:n steps:a",
);
pub const BISECT_STEP: Form = form(
    "app/src/cli/verbs/bisect.rs",
    "Step",
    "jobs_kept:a events:n shows:s why:s?",
);
pub const RECORD: Form = form(
    "app/src/cli/verbs/record.rs",
    "Report",
    "path:s bytes:n events:n jobs:n not_computed:n lost:a buffers:a gpu:h exit_code:n also:a",
);
pub const RECORD_CUDA: Form = form(
    "app/src/cli/verbs/record/cuda.rs",
    "CallsReport",
    "path:s bytes:n events:n launches:n copies:n functions:n modules:n lost:a not_recorded:a obstacle:s? index:s? \
     gpu:s exit_code:n also:a processes:a",
);
pub const RECORD_NVIDIA: Form = form(
    "app/src/cli/verbs/record/nvidia.rs",
    "DriverReport",
    "path:s bytes:n events:n channels:n submissions:n launches:n command_bytes:n saved_bytes:n lost:a not_recorded:a \
     driver_version:s gpu:s exit_code:n also:a",
);
pub const PROCESS_GAPS: Form = form(
    "app/src/cli/verbs/record/cuda.rs",
    "ProcessGaps",
    "path:s not_recorded:a obstacle:s?",
);
pub const RUN: Form = form(
    "app/src/cli/verbs/run.rs",
    "Report",
    "target:s exit_code:n processes:a recording:s?",
);
pub const RUN_PROCESS: Form = form(
    "app/src/cli/verbs/run.rs",
    "ProcessReport",
    "program:s process:n calls:n waits:n bytes_sent:n bytes_received:n wire_bytes_sent:n? wire_bytes_received:n? functions:a",
);
pub const RUN_FUNCTION: Form = form("app/src/cli/verbs/run.rs", "FunctionReport", "name:s calls:n waits:n");
pub const TARGET: Form = form(
    "app/src/cli/verbs/targets.rs",
    "TargetRow",
    "board:s description:s state:s reason:s? gpu:o? virtual_time:b? computes:b? containment:s? live:o?",
);
pub const TARGET_LIVE: Form = form(
    "app/src/cli/verbs/targets.rs",
    "LiveRow",
    "host_bytes:n? device_bytes:n? seconds:n?",
);
pub const TARGET_GPU: Form = form("app/src/cli/gpu.rs", "Gpu", "id:h name:s");
pub const AGENT: Form = form(
    "app/src/cli/verbs/agents.rs",
    "Agent",
    "name:s address:s fingerprint:s paired_at:n",
);
pub const OWN_KEY: Form = form("app/src/cli/verbs/agents.rs", "OwnKey", "fingerprint:s key:d");
pub const PAIRED_AGENT: Form = form(
    "app/src/cli/paired_agents.rs",
    "AgentRow",
    "name:s address:s fingerprint:s?",
);
pub const DOCTOR: Form = form(
    "app/src/cli/verbs/doctor/report.rs",
    "Report",
    "basis:b areas_ready:n areas:a",
);
pub const DOCTOR_AREA: Form = form(
    "app/src/cli/verbs/doctor/report.rs",
    "Area",
    "area:s purpose:s ready:b checks:a",
);
pub const DOCTOR_CHECK: Form = form(
    "app/src/cli/verbs/doctor/report.rs",
    "Check",
    "check:s state:s found:s mend:s?",
);
pub const PLAN: Form = form(
    "app/src/cli/verbs/plan.rs",
    "Report",
    "title:s board:s actions:n body_bytes:n pages:n used_pages:n arena:o reads:o interrupts:n jobs:n rewrites:o \
     rewrite_list:a outputs:a budgets:o verified:o allowed:a masters_bus:b expectations:n channel:o~",
);
pub const CHANNEL_FOOTPRINT: Form = form(
    "replay-engine/src/channel/footprint.rs",
    "ChannelFootprint",
    "compute_class:n ranges:n video_bytes:n system_bytes:n compute_submissions:n copy_submissions:n command_bytes:n \
     launches:n uploads:n upload_bytes:n outputs:n output_bytes:n",
);
pub const ARENA: Form = form("app/src/cli/verbs/plan.rs", "Arena", "base:h end:h");
pub const READ_CLASSES: Form = form(
    "replay-engine/src/plan.rs",
    "ReadClasses",
    "equal:n masked:n until:n feeds:n any:n",
);
pub const REWRITE: Form = form("replay-engine/src/plan.rs", "Rewrite", "kind:s event:n? detail:s");
pub const BUDGETS: Form = form(
    "replay-engine/src/plan.rs",
    "Budgets",
    "actions:n pages:n time_ns:n interrupt_ns:n poll_ns:n",
);
pub const VERIFIED: Form = form(
    "replay-engine/src/rules/reason.rs",
    "VerificationReport",
    "leaves:n tables:n jobs:n unproved:a",
);
pub const REPLAY: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "Report",
    "outcome:s verdict:s computed:b actions:n reads:o reads_compared:n reads_matched:n jobs:n interrupts:n rewrites:o \
     divergences:a divergence_count:n findings:a outputs:a effects:a unchecked:a screen:o? timing:o pushed_bytes:n \
     board:s failure:s? faults:a job_outcomes:a device_ns:n fingerprint:d allowed:a mastered_bus:b calls:o~ \
     preempted:o~ preemptions:n~",
);
pub const PREEMPTED_LEASE: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "PreemptedLease",
    "holder:s waited_ns:n",
);
pub const DIVERGENCE: Form = form(
    "replay-engine/src/run/outcome.rs",
    "Divergence",
    "event:n register:s expected:h got:h class:s job:n?",
);
pub const REPLAY_OUTPUT: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "Output",
    "name:s bytes:n blake3:d",
);
pub const EFFECT: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "Effect",
    "kind:s matched:b? expected:s got:s source:s event:n?",
);
pub const REPLAY_SCREEN: Form = form(
    "app/src/cli/replayed_screen.rs",
    "ScreenReport",
    "width:n? height:n? checked:b differing_pixels:n?",
);
pub const FAULT: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "Fault",
    "job:n? event:n summary:s exception:s address:h? registers:a walk:a nearest_buffer:s? nearest_distance:n?",
);
pub const FAULT_REGISTER: Form = form(
    "replay-engine/src/families/replay_family.rs",
    "FaultRegister",
    "name:s value:h means:s",
);
pub const JOB_OUTCOME: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "Job",
    "index:n submit_event:n head_va:h done:b status:h? computed:b? why_not:s? duration_ns:n",
);
pub const TIMING: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "Times",
    "plan_ns:n push_ns:n run_ns:n runs:o~",
);
pub const RUN_TIMES: Form = form(
    "replay-engine/src/run/outcome.rs",
    "RunTimes",
    "count:n min_ns:n p50_ns:n p90_ns:n p99_ns:n max_ns:n",
);
/// The keys that are part of [`CALLS_OUTCOME`].
pub const API_OUTCOME: Form = form(
    "replay-engine/src/run/api_outcome.rs",
    "ApiOutcome",
    "launches:n ready_ns:n parts:o mapped:n graph:b restored:a left_out:a launch_ns:a guard:o? outputs:a stopped:o?",
);
pub const CALLS_OUTCOME: Form = form(
    "app/src/cli/verbs/replay/report.rs",
    "ApiResults",
    "launches:n ready_ns:n parts:o mapped:n graph:b restored:a left_out:a launch_ns:a guard:o? outputs:a stopped:o? \
     tuned:o? watched:o?",
);
pub const PREPARE_TIMES: Form = form(
    "replay-engine/src/run/api_outcome.rs",
    "PrepareTimes",
    "read_ns:n driver_ns:n memory_ns:n code_ns:n first_ns:n prepared_ns:n",
);
pub const OUTPUT_RESULT: Form = form(
    "replay-engine/src/run/api_outcome.rs",
    "OutputResult",
    "event:n name:s bytes:n held:b expected:b differs_at:n? differing:n largest:f?",
);
pub const STOP_LOCATION: Form = form(
    "replay-engine/src/run/api_outcome.rs",
    "StopLocation",
    "event:n? sure:b function:s? why:s",
);
pub const GUARDED: Form = form(
    "app/session/src/replay/guard.rs",
    "GuardedSummary",
    "board:s replays:n guarded:n pointed_at:a differs:b past:o? failure:s?",
);
pub const OUT_OF_BOUNDS: Form = form(
    "app/session/src/replay/guard.rs",
    "OutOfBounds",
    "event:n sure:b kernel:s? why:s buffer:o?",
);
pub const OUT_OF_BOUNDS_BUFFER: Form = form(
    "app/session/src/replay/guard.rs",
    "OutOfBoundsBuffer",
    "name:s va:h bytes:n",
);
pub const CAMPAIGN_CHECK: Form = form(
    "app/src/cli/verbs/campaign/check.rs",
    "MatrixReport",
    "campaign:s recordings:n kinds:a targets:a runs:n duplicates:n",
);
pub const CAMPAIGN_KIND: Form = form(
    "app/src/cli/verbs/campaign/check.rs",
    "KindReport",
    "kind:s items:n runs:n",
);
pub const CAMPAIGN_RUN: Form = form(
    "app/src/cli/verbs/campaign/run.rs",
    "CampaignReport",
    "campaign:s folder:s results:s runs:n done:n queued:n matched:n diverged:n failed:n refused:n repeated:n superseded:n \
     unequal:n unequal_targets:n added:n stopped:b given_up:a duration_ns:n",
);
pub const UNUSED_TARGET: Form = form("app/src/cli/verbs/campaign/run.rs", "UnusedTarget", "target:s reason:s");
pub const CAMPAIGN_STATUS: Form = form(
    "app/src/cli/verbs/campaign/status.rs",
    "StatusReport",
    "campaign:s running:b queued:n leased:n done:n targets:a work:a",
);
pub const CAMPAIGN_TARGET: Form = form(
    "app/src/cli/verbs/campaign/status.rs",
    "TargetRow",
    "target:s queued:n leased:n done:n",
);
pub const CAMPAIGN_WORK: Form = form(
    "app/src/cli/verbs/campaign/status.rs",
    "WorkRow",
    "target:s kind:s queued:n leased:n done:n matched:n diverged:n failed:n refused:n",
);
pub const CAMPAIGN_PAGE: Form = form(
    "app/src/cli/verbs/campaign/report.rs",
    "PageReport",
    "path:s cells:n runs:n waiting:n worse:n?",
);
pub const CAMPAIGN_DIFF: Form = form(
    "app/src/cli/verbs/campaign/diff.rs",
    "DifferenceReport",
    "cells:a same:n waiting_before:n waiting:n",
);
pub const CAMPAIGN_CELL: Form = form(
    "campaign/src/comparison.rs",
    "CellDifference",
    "change:s kind:s recording:s options:s target:s verdict_before:s? verdict:s? waiting_before:n waiting:n \
     run_ns_before:n? run_ns:n? event:n? text:s? recording_changed:b",
);
pub const TUNE: Form = form(
    "app/src/cli/verbs/tune/report.rs",
    "Report",
    "board:s device:s event:n kernel:s reference:s baseline:o baseline_again_ns:n? drift:f? best:n? speed_up:f? \
     within_spread:b space:n left_out:n launches:n processes:n memory_bytes:n restored_pages:n before:o after:o \
     load:o phases:o ended:s why:s? points:a",
);
pub const TUNE_POINT: Form = form(
    "app/src/cli/verbs/tune/report.rs",
    "PointReport",
    "verdict:s code:s? grid:a block:a shared:n cache:s? max_registers:n? launch_bounds:a? times_ns:a median_ns:n? \
     stdev_ns:f? mad_ns:n? speed_up:f? resources:o? why:s? wrong:o?",
);
pub const RESOURCE_USE: Form = form(
    "replay-engine/src/tune/measurement.rs",
    "Resources",
    "registers:n shared:n local:n blocks:n occupancy:f",
);
pub const MISMATCH: Form = form(
    "app/src/cli/verbs/tune/report.rs",
    "MismatchReport",
    "at:h count:n at_least:b wanted:s got:s largest:f?",
);
pub const DEVICE_STATE: Form = form(
    "replay-engine/src/tune/report.rs",
    "Health",
    "celsius:n? clock_mhz:n? memory_mhz:n? watts:n? held_back:a unknown:s?",
);
pub const LOAD: Form = form(
    "replay-engine/src/tune/report.rs",
    "Load",
    "samples:n celsius:a? clock_mhz:a? memory_mhz:a? watts:a? held_back:a",
);
pub const PHASES: Form = form(
    "replay-engine/src/tune/report.rs",
    "Phases",
    "ready_ns:n before_ns:n code_ns:n restore_ns:n launch_ns:n compare_ns:n total_ns:n",
);
pub const COMPLETIONS: Form = form("app/src/cli/verbs/completions.rs", "Report", "shell:s script:s");
pub const MAN: Form = form("app/src/cli/verbs/man.rs", "Report", "pages:a");
pub const MAN_PAGE: Form = form("app/src/cli/verbs/man.rs", "PageRow", "name:s path:s? text:s?");
pub const WASM_REPORT: Form = form(
    "wasm/run/src/report.rs",
    "Report",
    "copies:n seconds:f wall_seconds:f compile_seconds:f call_depth:n phases:o? profile:a? runs:a",
);
pub const WASM_PHASES: Form = form(
    "wasm/run/src/phases.rs",
    "Phases",
    "open:f inputs:f translate:f compile:f stack:f allocate:f fill:f submit:f wait:f collect:f",
);
pub const WASM_RUN: Form = form("wasm/run/src/report.rs", "RunReport", "input:s exit:n? trap:o?");
pub const WASM_BLOCK: Form = form(
    "wasm/run/src/report.rs",
    "BlockReport",
    "function:s? offset:h executions:n active_share:f?",
);
pub const WASM_TRAP: Form = form("wasm/run/src/report.rs", "TrapReport", "kind:s function:s? offset:h?");
pub const PIPELINE_CHECK: Form = form(
    "app/src/cli/verbs/pipeline/check.rs",
    "CheckReport",
    "pipeline:s title:s sound:b defects:a inputs:a stages:a loops:a outputs:a",
);
pub const PIPELINE_DEFECT: Form = form(
    "app/src/cli/verbs/pipeline/check.rs",
    "DefectRow",
    "line:n severity:s message:s",
);
pub const PIPELINE_INPUT: Form = form(
    "app/src/cli/verbs/pipeline/check.rs",
    "InputRow",
    "name:s type:s shape:a source:s",
);
pub const PIPELINE_STAGE: Form = form(
    "app/src/cli/verbs/pipeline/check.rs",
    "StageRow",
    "stage:s kind:s file:s target:s? loop:s? depth:n takes:a gives:a",
);
pub const PIPELINE_TENSOR: Form = form(
    "app/src/cli/verbs/pipeline/check.rs",
    "TensorRow",
    "name:s from:s? type:s shape:a",
);
pub const PIPELINE_LOOP: Form = form(
    "app/src/cli/verbs/pipeline/check.rs",
    "LoopRow",
    "loop:s stages:a rounds:n until:s at_bound:s",
);
pub const PIPELINE_OUTPUT: Form = form(
    "app/src/cli/verbs/pipeline/check.rs",
    "OutputRow",
    "name:s from:s file:s",
);
pub const PIPELINE_RUN: Form = form(
    "app/pipeline/src/run/report.rs",
    "RunReport",
    "pipeline:s title:s verdict:s failure:s? stages:a loops:a outputs:a uploaded_bytes:n saved_bytes:n resets:n \
     wall_ns:n warnings:a",
);
pub const PIPELINE_STAGE_RUN: Form = form(
    "app/pipeline/src/run/report.rs",
    "StageReport",
    "stage:s kind:s round:n? target:s? verdict:s message:s computed:b? start_ns:n wall_ns:n device_ns:n? \
     uploaded_bytes:n saved_bytes:n reset:b? reset_reason:s? fuel:n? outcome:s?",
);
pub const PIPELINE_LOOP_RUN: Form = form(
    "app/pipeline/src/run/report.rs",
    "LoopReport",
    "loop:s rounds:n ended_by:s value:f?",
);
pub const PIPELINE_OUTPUT_FILE: Form = form(
    "app/pipeline/src/run/report.rs",
    "OutputReport",
    "name:s file:s type:s shape:a bytes:n blake3:d",
);
pub const WASM_CHECK: Form = form(
    "app/src/cli/verbs/wasm/check.rs",
    "CheckReport",
    "inputs:n call_depth:n differences:a",
);
pub const WASM_DIFFERENCE: Form = form(
    "app/src/cli/verbs/wasm/check.rs",
    "InputDifference",
    "input:s difference:s",
);
pub const WASM_COMPARISON: Form = form(
    "app/src/cli/wasm_differences.rs",
    "RunComparison",
    "same:b summary:s program_differs:b options:a only_a:a only_b:a changed_inputs:a compared:n a_calls:n b_calls:n \
     copies:a",
);
pub const WASM_OPTION: Form = form(
    "app/src/cli/wasm_differences.rs",
    "OptionDifference",
    "option:s a:s b:s",
);
pub const WASM_COPY: Form = form(
    "app/src/cli/wasm_differences.rs",
    "CopyReport",
    "input:s a_copy:n b_copy:n input_differs:b call:o? a_lost_calls:n? b_lost_calls:n? stdout_offset:n? \
     stderr_offset:n? a_end:s? b_end:s?",
);
pub const WASM_CALL: Form = form(
    "app/src/cli/wasm_differences.rs",
    "CallReport",
    "number:n a_event:n? b_event:n? a:s? b:s? a_time:n? b_time:n?",
);
pub const WASM_REPLAY: Form = form(
    "app/src/cli/verbs/replay/wasm.rs",
    "RunReplayReport",
    "outcome:s verdict:s board:s copies:n copies_matched:n calls:n replaced_inputs:a divergences:a divergence_count:n \
     compile_ns:n run_ns:n launches:n",
);
pub const WASM_TRANSLATION: Form = form(
    "app/src/cli/verbs/wasm/translate.rs",
    "TranslationReport",
    "text_bytes:n constant_bytes:n cell:n area_bytes:n memories:a functions:n resumable_functions:n \
     uncounted_frames:n recursive:b",
);
pub const WASM_MEMORY: Form = form(
    "app/src/cli/verbs/wasm/translate.rs",
    "MemoryReport",
    "placement:s offset:n pages:n max_pages:n",
);
pub const WASM_MEASUREMENT: Form = form(
    "app/src/cli/verbs/wasm/bench.rs",
    "Measurement",
    "target:s cell:n? copies:n inputs:n failed:n cold_compile_seconds:f? warm_compile_seconds:f? seconds:f \
     wall_seconds:f inputs_per_second:f call_depth:n registers:n? launches:n? device_seconds:f? stack_bytes:n? \
     phases:o? active_share:f?",
);
