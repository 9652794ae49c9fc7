//! Compiler from an API trace and its edits to a plan: each launch is built anew from its cubin, grid and arguments.

mod area;
mod code;

use crate::draft::Draft;
use crate::options::{ChannelOptions, refuse};
use area::Area;
use code::Code;
use nvidia_channel::PushBufferWriter;
use nvidia_channel::launch::{Delivery, LaunchRequest};
use nvidia_channel::writer::{ContextSetup, CopyRectangle, FillPattern, LocalMemory, LocalMemorySize, MemoryWindows};
use nvidia_client::Place;
use nvidia_client::steps::EngineKind;
use replay_cuda::{Script, Step, Transfer, find_edited_inputs};
use replay_engine::channel::{MAX_MAPPED_BYTES, MemoryRanges, copy_class, initial_bindings};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{CompileError, Compiled, Edits, PlanBuffer, PlannedLaunch};
use std::collections::BTreeSet;
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::{CopyRow, ElementType, FillRow, LaunchRow, NO_CONTENT, Recording};

/// The compute class whose launches can be built.
const COMPUTE_CLASS: u16 = 0xcbc0;
/// Bytes for the push buffer of a launch: descriptor, constant bank 0, headers.
const PUSH_BUFFER_BYTES: u64 = 128 << 10;
/// Bytes for constant bank 0 of a launch.
const BANK_BYTES: u64 = 64 << 10;
/// Bytes for a launch descriptor.
const DESCRIPTOR_BYTES: u64 = 0x400;
/// Local memory of a thread that every launch gets, bytes.
const MIN_LOCAL_BYTES: u32 = 0x400;
/// Counts of a GH100 with all its parts, which bound those of every product: warps of a multiprocessor, multiprocessors
/// of a texture cluster, texture clusters.
const WARPS_PER_SM: u32 = 64;
const SMS_PER_TPC: u32 = 2;
const TPCS: u32 = 72;
/// Value of the number of multiprocessors that covers all of the local memory.
const ALL_SMS: u32 = 0xff;

/// Compiles an API trace into a plan for `target`.
///
/// # Errors
/// If a kernel needs what only CUDA's driver provides, memory is shared with the host, or an edit does not fit.
pub(crate) fn compile(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    options: &ChannelOptions,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    let refuse = |why: String| refuse(target, why);
    let script = Script::read(recording, progress).map_err(|e| CompileError::Calls(Box::new(e)))?;
    if let Some(obstacle) = script.obstacle() {
        return Err(refuse(format!("event {}: {}", obstacle.event, obstacle.why)));
    }
    if let Some((va, bytes)) = script.shared.first() {
        return Err(refuse(format!(
            "{bytes} bytes at {va} are memory of the host that kernels access"
        )));
    }
    if let Some(alias) = script.same.first() {
        return Err(refuse(format!(
            "the memory at {} is mapped a second time at {}",
            alias.of, alias.at
        )));
    }
    let edited = find_edited_inputs(&script, edits)?;
    let mut ranges = MemoryRanges::default();
    for (va, bytes) in &script.ranges {
        ranges.add_large_pages(*va, *bytes, Place::Video);
    }
    let no_area = || refuse("no addresses are free for code and push buffers".to_owned());
    let mut area = Area::find(&ranges).ok_or_else(no_area)?;
    let functions: BTreeSet<u32> = script.list_launched_functions().collect();
    let code = Code::load(recording, &script.metadata, functions.iter().copied(), &mut area).map_err(&refuse)?;
    let memory = PrivateMemory::allocate(&mut area, &code, &script, &functions).ok_or_else(no_area)?;
    // Outputs of several rows are gathered before they are read.
    let mut gathered = script.outputs.iter().filter(|t| t.row.rows > 1);
    let scratch_bytes = gathered.try_fold(0u64, |sum, t| sum.checked_add(t.row.total().unwrap_or(0)));
    let scratch = scratch_bytes.and_then(|bytes| area.allocate(bytes, 0x1000));
    let scratch = scratch.ok_or_else(no_area)?;
    let (first, bytes) = area.used();
    ranges.add_large_pages(first, bytes, Place::Video);

    if ranges.bytes() > MAX_MAPPED_BYTES {
        return Err(refuse(format!(
            "it maps {} bytes, at most {MAX_MAPPED_BYTES} are possible",
            ranges.bytes()
        )));
    }

    let windows = MemoryWindows {
        shared: nvidia_channel::GpuVa(area.window(0).0),
        local: nvidia_channel::GpuVa(area.window(1).0),
    };
    let control = ranges.find_control(&[area.window(0), area.window(1)]);
    let control = control.ok_or_else(|| refuse("no addresses are free for the player's memory".to_owned()))?;
    let mut compiler = Compiler {
        recording,
        script: &script,
        code: &code,
        memory,
        windows,
        writer: PushBufferWriter::new(initial_bindings(COMPUTE_CLASS)),
        draft: Draft::new(COMPUTE_CLASS, ranges, &options.outputs),
        scratch: scratch.get(),
        launches: 0,
    };
    for (va, bytes) in code.segments() {
        compiler.draft.body.write(va, bytes);
    }
    compiler.set_up().map_err(&refuse)?;
    let wants_memory = !script.has_own_outputs();
    for (event, step) in &script.steps {
        progress.check()?;
        let done = match step {
            Step::Input(n) => {
                let transfer = script.inputs.get(*n);
                transfer.map_or(Ok(()), |t| {
                    compiler.input(t, edited.get(event).map(|(_, bytes)| *bytes))
                })
            }
            Step::Output(n) => {
                let transfer = script.outputs.get(*n).filter(|t| !t.snapshot || wants_memory);
                transfer.map_or(Ok(()), |t| compiler.output(t))
            }
            Step::Copy(row) => compiler.copy(*event, row),
            Step::Fill(row) => compiler.fill(*event, row),
            Step::Launch(row, arguments) => compiler.launch(*event, row, arguments),
            // Each submission is complete before the next begins.
            Step::Order(_) => Ok(()),
        };
        done.map_err(|why| refuse(format!("event {event}: {why}")))?;
    }
    for words in &script.left_out {
        compiler.draft.note_left_out(None, words.clone());
    }
    let buffers = script.buffers.iter().map(|b| PlanBuffer {
        name: format!("the buffer of event {}", b.from),
        va: b.at,
        bytes: b.bytes,
        element: ElementType::U8,
        space: 0,
    });
    compiler.draft.buffers = buffers.collect();
    compiler.draft.finish(recording, options.budgets, control)
}

/// Memory of the plan besides that of the program and its code.
struct PrivateMemory {
    push_buffer: GpuVa,
    bank: GpuVa,
    descriptor: GpuVa,
    local: LocalMemory,
    local_bytes: u32,
}

impl PrivateMemory {
    fn allocate(area: &mut Area, code: &Code, script: &Script, functions: &BTreeSet<u32>) -> Option<Self> {
        let stack = code.max_stack_bytes(&script.metadata, functions.iter().copied());
        let needed = match stack {
            0 => 0,
            bytes => bytes.checked_add(nvidia_channel::constant_bank::RESERVED_STACK_BYTES)?,
        };
        let local_bytes = u32::try_from(needed)
            .ok()?
            .max(MIN_LOCAL_BYTES)
            .checked_next_multiple_of(16)?;
        let size = LocalMemorySize::compute(local_bytes, WARPS_PER_SM, SMS_PER_TPC, TPCS)?;
        let push_buffer = area.allocate(PUSH_BUFFER_BYTES, 0x1000)?;
        let bank = area.allocate(BANK_BYTES, 0x1000)?;
        let descriptor = area.allocate(DESCRIPTOR_BYTES, 0x1000)?;
        let address = area.allocate(size.bytes, 0x20_0000)?;
        Some(Self {
            push_buffer,
            bank,
            descriptor,
            local: LocalMemory {
                address: nvidia_channel::GpuVa(address.get()),
                bytes_per_tpc: size.bytes_per_tpc,
                max_sm_count: ALL_SMS,
            },
            local_bytes,
        })
    }
}

struct Compiler<'a> {
    recording: &'a Recording,
    script: &'a Script,
    code: &'a Code,
    memory: PrivateMemory,
    windows: MemoryWindows,
    writer: PushBufferWriter,
    draft: Draft,
    /// Next free address for gathered outputs.
    scratch: u64,
    launches: u32,
}

fn address(va: GpuVa) -> nvidia_channel::GpuVa {
    nvidia_channel::GpuVa(va.get())
}

impl Compiler<'_> {
    /// Submits the words of the writer.
    fn submit(&mut self, event: u64) -> Result<(), String> {
        let words = self.writer.take_words();
        self.submit_words(event, &words)
    }

    fn submit_words(&mut self, event: u64, words: &[u32]) -> Result<(), String> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        if bytes.len() as u64 > PUSH_BUFFER_BYTES {
            return Err(format!(
                "its push buffer has {} bytes, more than {PUSH_BUFFER_BYTES}",
                bytes.len()
            ));
        }
        let count = u32::try_from(words.len()).map_err(|e| e.to_string())?;
        self.draft.body.write(self.memory.push_buffer, &bytes);
        let va = self.memory.push_buffer;
        self.draft.body.submit(event, EngineKind::Compute, va, count);
        Ok(())
    }

    fn set_up(&mut self) -> Result<(), String> {
        let setup = ContextSetup {
            compute_class: COMPUTE_CLASS,
            copy_class: copy_class(COMPUTE_CLASS),
            windows: self.windows,
            local_memory: Some(self.memory.local),
            shader_version: None,
            descriptor_version: None,
            shader_exceptions: None,
        };
        self.writer.set_up_context(&setup).map_err(|e| e.to_string())?;
        self.submit(0)
    }

    fn input(&mut self, transfer: &Transfer, edited: Option<&[u8]>) -> Result<(), String> {
        let row = &transfer.row;
        let to = self.code.moved(row.to);
        if let Some(bytes) = edited {
            self.draft.note_input(transfer.event, &transfer.name, bytes.len());
            return self.write_rows(row, to, bytes);
        }
        if row.pages_at == NO_CONTENT {
            return Err(format!("the content of {} is not in the recording", transfer.name));
        }
        let missing = || format!("the content of {} is incomplete in the recording", transfer.name);
        if row.rows == 1 && to.get() == row.to {
            let stored = row.stored().ok_or_else(missing)?;
            return match self.draft.body.write_stored(self.recording, &stored) {
                true => Ok(()),
                false => Err(missing()),
            };
        }
        let bytes = self.recording.copy_content(row).ok_or_else(missing)?;
        self.write_rows(row, to, &bytes)
    }

    fn write_rows(&mut self, row: &CopyRow, to: GpuVa, bytes: &[u8]) -> Result<(), String> {
        let length = usize::try_from(row.bytes).map_err(|e| e.to_string())?;
        for (n, line) in (0u64..).zip(bytes.chunks(length.max(1))) {
            let at = n.checked_mul(row.to_pitch).and_then(|offset| to.checked_add(offset));
            let at = at.ok_or("a row of the copy is beyond the address space")?;
            self.require(at, line.len() as u64)?;
            self.draft.body.write(at, line);
        }
        Ok(())
    }

    fn require(&self, va: GpuVa, bytes: u64) -> Result<(), String> {
        match self.draft.ranges.contain(va, bytes) {
            true => Ok(()),
            false => Err(format!("{bytes} bytes at {va} are not memory of the recording")),
        }
    }

    fn output(&mut self, transfer: &Transfer) -> Result<(), String> {
        let row = &transfer.row;
        let bytes = row.total().ok_or("the copy has no size")?;
        let from = self.code.moved(row.from);
        if bytes == 0 {
            return Ok(());
        }
        if row.rows <= 1 {
            self.require(from, bytes)?;
            self.draft.read(transfer.name.clone(), from, bytes);
            return Ok(());
        }
        let gathered = GpuVa::new(self.scratch);
        self.scratch += bytes;
        let lines = CopyRow {
            to: gathered.get(),
            from: from.get(),
            to_pitch: row.bytes,
            ..*row
        };
        self.copy(transfer.event, &lines)?;
        self.draft.read(transfer.name.clone(), gathered, bytes);
        Ok(())
    }

    fn copy(&mut self, event: u64, row: &CopyRow) -> Result<(), String> {
        let (from, to) = (address(self.code.moved(row.from)), address(self.code.moved(row.to)));
        if row.rows <= 1 {
            self.writer.copy(from, to, row.bytes).map_err(|e| e.to_string())?;
        } else {
            let narrow = |n: u64| u32::try_from(n).map_err(|_| "a copy has too large rows".to_owned());
            let copy = CopyRectangle {
                source: from,
                source_pitch: narrow(row.from_pitch)?,
                destination: to,
                destination_pitch: narrow(row.to_pitch)?,
                line_bytes: narrow(row.bytes)?,
                lines: narrow(row.rows)?,
            };
            self.writer.copy_rectangle(copy).map_err(|e| e.to_string())?;
        }
        match self.writer.words().is_empty() {
            true => Ok(()),
            false => self.submit(event),
        }
    }

    fn fill(&mut self, event: u64, row: &FillRow) -> Result<(), String> {
        let pattern = match row.element {
            1 => FillPattern::Byte(row.value as u8),
            2 => FillPattern::Half(row.value as u16),
            4 => FillPattern::Word(row.value),
            other => return Err(format!("a fill has elements of {other} bytes")),
        };
        let to = self.code.moved(row.to.get());
        let bytes = row.row_bytes().ok_or("a row of the fill is beyond the address space")?;
        if bytes == 0 {
            return Ok(());
        }
        // Rows on each other would be work without end for a few bytes of a file.
        if row.rows > 1 && row.pitch < bytes {
            return Err(format!(
                "the rows of a fill have {bytes} bytes and a distance of {}",
                row.pitch
            ));
        }
        let extent = row
            .rows
            .saturating_sub(1)
            .checked_mul(row.pitch)
            .and_then(|n| n.checked_add(bytes));
        self.require(to, extent.unwrap_or(u64::MAX))?;
        for n in 0..row.rows.max(1) {
            let at = n.checked_mul(row.pitch).and_then(|offset| to.checked_add(offset));
            let at = at.ok_or("a row of the fill is beyond the address space")?;
            self.writer
                .fill(address(at), pattern, row.elements)
                .map_err(|e| e.to_string())?;
            if self.writer.words().len() as u64 * 4 > PUSH_BUFFER_BYTES / 2 {
                self.submit(event)?;
            }
        }
        match self.writer.words().is_empty() {
            true => Ok(()),
            false => self.submit(event),
        }
    }

    fn launch(&mut self, event: u64, row: &LaunchRow, arguments: &[u8]) -> Result<(), String> {
        let kernel = self.code.kernel(&self.script.metadata, row.function)?;
        // A driver's buffer ends with the last parameter; the kernel may count padding behind it.
        let mut parameters = arguments.to_vec();
        let expected = usize::try_from(kernel.description.parameter_bytes).map_err(|e| e.to_string())?;
        parameters.resize(expected, 0);
        let request = LaunchRequest {
            kernel: &kernel.description,
            grid: row.grid,
            block: row.block,
            cluster: (row.cluster != [0; 3]).then_some(row.cluster),
            dynamic_shared_bytes: row.shared,
            parameters: &parameters,
            constant_bank_0: address(self.memory.bank),
            descriptor: address(self.memory.descriptor),
            windows: self.windows,
            local_bytes: self.memory.local_bytes,
            sm_count: 0,
            launch_number: self.launches,
            release: None,
            delivery: Delivery::Upload,
        };
        let built = request.build(&self.writer).map_err(|e| e.to_string())?;
        self.launches = self.launches.wrapping_add(1);
        self.submit_words(event, &built.words)?;
        let name = self.script.metadata.functions.get(row.function as usize);
        self.draft.launches.push(PlannedLaunch {
            event,
            name: name.map_or_else(String::new, |f| f.display_name().to_owned()),
        });
        Ok(())
    }
}
