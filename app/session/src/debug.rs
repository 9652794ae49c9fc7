//! Job debugging on the GPU simulator: clause-by-clause thread traces, and the last writer of a byte.

use crate::lookup::{find_register_map, memory_at};
use bifrost::Unit;
use device_mali::Model;
use device_mali::debug::{
    self, DebugError, JobLocation, MAX_STEPS, MemoryAccess, ShaderLocation, Thread, ThreadQuery, ThreadTrace,
    WriteTrace, Writer,
};
use replay_engine::plan::{Compiled, Edits};
use trace_core::GpuVa;
use trace_core::families;
use trace_core::progress::Progress;
use trace_core::recording::{EventKind, Recording};
use trace_core::shader_code::{Code, MAX_CODE};

/// Maximum number of reads of a thread that a write report lists; the latest are kept.
pub const MAX_READS: usize = 256;

/// Why the last writer cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// No simulator model behaves like the recorded GPU.
    #[error("no simulator models the GPU of the recording ({0:#x}), so its jobs cannot run here")]
    NoModel(u32),
    /// The device debugger failed.
    #[error(transparent)]
    Debug(#[from] DebugError),
}

/// A recording compiled for the device debugger: plan and model.
#[derive(Clone)]
pub struct DebugSession {
    model: Model,
    compiled: std::sync::Arc<Compiled>,
}

impl DebugSession {
    /// Compiles a recording with the user's edits.
    ///
    /// # Errors
    /// Returns an error if no model fits or the recording cannot be compiled.
    pub fn new(recording: &Recording, edits: &Edits, progress: &Progress) -> Result<Self, WriterError> {
        let gpu = recording.metadata.identity.gpu_id;
        let model = debug::model_for_recording(recording).ok_or(WriterError::NoModel(gpu))?;
        let compiled = std::sync::Arc::new(debug::compile_plan(recording, edits, model, progress)?);
        Ok(Self { model, compiled })
    }

    /// Traces a thread.
    ///
    /// # Errors
    /// The same as [`debug::follow`].
    pub fn follow(&self, query: ThreadQuery, progress: &Progress) -> Result<ThreadTrace, WriterError> {
        Ok(debug::follow(&self.compiled, self.model, query, progress)?)
    }

    /// Returns the submit event of a chain.
    fn submit(&self, chain: u32) -> Option<u64> {
        self.compiled.plan.jobs().get(chain as usize).map(|j| j.submit_event)
    }

    /// Replays and records every write.
    ///
    /// # Errors
    /// Returns an error if the operation was cancelled.
    pub fn trace(&self, progress: &Progress) -> Result<WriteTrace, WriterError> {
        Ok(debug::trace(&self.compiled, self.model, progress)?)
    }

    /// Replays and records the writes to one page: the page of an address in a run of the same plan.
    ///
    /// # Errors
    /// Returns an error if the address is not mapped there, or the operation was cancelled.
    pub fn trace_page_of(
        &self,
        run: &WriteTrace,
        space: u32,
        va: GpuVa,
        progress: &Progress,
    ) -> Result<WriteTrace, WriterError> {
        let page = run.physical_address(space, va)?;
        Ok(debug::trace_page(&self.compiled, self.model, page, progress)?)
    }

    /// Replays, records every write, and finds the last writer of the byte at `va`.
    ///
    /// # Errors
    /// Returns an error if the address is not mapped, or there is no such address space.
    pub fn find_last_writer(
        &self,
        recording: &Recording,
        space: u32,
        va: GpuVa,
        progress: &Progress,
    ) -> Result<WriterReport, WriterError> {
        let traced = self.trace(progress)?;
        let report = match self.find_traced_writer(&traced, recording, space, va) {
            Err(WriterError::Debug(DebugError::TooManyWrites(_))) => {
                let page = self.trace_page_of(&traced, space, va, progress)?;
                drop(traced);
                self.find_traced_writer(&page, recording, space, va)?
            }
            result => result?,
        };
        self.with_shader_reads(recording, space, report, progress)
    }

    /// Finds the last writer of a byte in an existing write trace, without the reads of the writing thread.
    ///
    /// # Errors
    /// Returns an error if the address is not mapped, there is no such address space, or there were too many writes to
    /// record.
    pub fn find_traced_writer(
        &self,
        traced: &WriteTrace,
        recording: &Recording,
        space: u32,
        va: GpuVa,
    ) -> Result<WriterReport, WriterError> {
        let written = traced.last_writer(space, va)?;
        Ok(WriterReport {
            va,
            byte: written.byte,
            writer: written.writer,
            submit: match written.writer {
                Writer::Recording => None,
                Writer::Cpu { after } => self.host_write(recording, after),
                Writer::Shader(place, _) | Writer::WriteValue(place) | Writer::Status(place) => {
                    self.submit(place.chain)
                }
            },
            location: None,
        })
    }

    /// Adds the reads of the thread if a shader wrote the byte. Replays once more up to that thread and traces it.
    ///
    /// # Errors
    /// The same as [`debug::follow`].
    pub fn with_shader_reads(
        &self,
        recording: &Recording,
        space: u32,
        mut writer_report: WriterReport,
        progress: &Progress,
    ) -> Result<WriterReport, WriterError> {
        if let Writer::Shader(place, shown) = writer_report.writer {
            writer_report.location = Some(self.inside(recording, space, writer_report.va, place, shown, progress)?);
        }
        Ok(writer_report)
    }

    /// Returns the last host write before the chain after these, as an event of the recording.
    fn host_write(&self, recording: &Recording, after: u32) -> Option<u64> {
        let before = self.submit(after).unwrap_or(recording.events.len() as u64);
        let from = after.checked_sub(1).and_then(|n| self.submit(n)).unwrap_or(0);
        let events = usize::try_from(from).ok()?..usize::try_from(before).ok()?;
        let host = |e: &usize| recording.events.kind(*e) == Some(EventKind::HostWrite);
        events.rev().find(host).map(|e| e as u64)
    }

    fn inside(
        &self,
        recording: &Recording,
        space: u32,
        va: GpuVa,
        place: JobLocation,
        shown: ShaderLocation,
        progress: &Progress,
    ) -> Result<WriteLocation, WriterError> {
        let mut query = ThreadQuery {
            chain: place.chain,
            position: place.position,
            workgroup: shown.workgroup,
            thread: Thread::Number(shown.thread),
            from: 0,
            max_steps: MAX_STEPS,
            mark: Some(va),
        };
        let mut followed = self.follow(query, progress)?;
        let marked = followed.marked_step.unwrap_or(0);
        if marked >= followed.steps.len() as u64 {
            // For a long thread, trace again so that the write is in the last kept clause.
            query.from = (marked + 1).saturating_sub(query.max_steps as u64);
            followed = self.follow(query, progress)?;
        }
        let step = usize::try_from(marked.saturating_sub(followed.from)).unwrap_or(usize::MAX);
        let covers = |a: &&MemoryAccess| a.write && a.va <= va && va - a.va < u64::from(a.bytes);
        let write = followed.accesses(step).iter().rev().find(covers).copied();
        let reads = (0..=step.min(followed.steps.len()))
            .flat_map(|s| {
                let clause = followed.steps.get(s).map_or(0, |x| x.clause.get());
                followed.accesses(s).iter().map(move |a| (s, clause, *a))
            })
            .filter(|(_, _, a)| !a.write);
        let all: Vec<_> = reads.collect();
        let dropped = all.len().saturating_sub(MAX_READS);
        let from = followed.from;
        let reads = all.into_iter().skip(dropped).map(|(s, clause, access)| ShaderRead {
            step: from + s as u64,
            clause: GpuVa::new(clause),
            access,
        });
        let code = self
            .submit(place.chain)
            .and_then(|event| code_at(recording, space, event, followed.shader));
        let instruction = code.as_ref().map(|c| format_instruction(c, shown.clause, shown.tuple));
        Ok(WriteLocation {
            thread: Thread::Number(shown.thread).coordinates(followed.size),
            label: format_clause_label(followed.shader, shown.clause),
            shader: followed.shader,
            instruction: instruction.unwrap_or_default(),
            step: marked,
            write,
            reads: reads.collect(),
            reads_before: dropped as u64,
        })
    }
}

/// Decodes the code of a shader as memory held it at an event.
#[must_use]
pub fn code_at(recording: &Recording, space: u32, event: u64, shader: GpuVa) -> Option<Code> {
    let memory = memory_at(recording, space, event)?;
    families::find_family(recording).decode_code(&memory, shader, MAX_CODE)
}

/// Returns the index of the address space of a job.
#[must_use]
pub fn find_job_space(recording: &Recording, submit: u64) -> Option<u32> {
    let map = find_register_map(recording)?;
    families::address_spaces(recording, map, &[submit])
        .first()
        .copied()
        .flatten()
}

/// Returns the label of a clause in the text of a shader.
#[must_use]
pub fn format_clause_label(shader: GpuVa, clause: GpuVa) -> String {
    format!(
        "clause_{}",
        clause.wrapping_sub(shader.get()).get() / bifrost::WORD_BYTES as u64
    )
}

/// Returns the operation of a clause that sent the message of a tuple.
#[must_use]
pub fn format_instruction(code: &Code, clause: GpuVa, tuple: u8) -> String {
    let found = code.at(clause).and_then(|n| code.clauses.get(n));
    found.map_or_else(String::new, |c| {
        c.clause
            .instruction_text(usize::from(tuple), Unit::Add, code.entry.get())
    })
}

/// A read by the thread that wrote a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderRead {
    /// Index of the clause in the thread, from its start.
    pub step: u64,
    /// Address of the clause.
    pub clause: GpuVa,
    /// The read access.
    pub access: MemoryAccess,
}

/// The location in a shader at which a byte was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteLocation {
    /// Position of the thread in its workgroup.
    pub thread: [u32; 3],
    /// Label of the clause in the shader text.
    pub label: String,
    /// Entry address of the shader.
    pub shader: GpuVa,
    /// The operation.
    pub instruction: String,
    /// Index of the clause in the thread, from its start.
    pub step: u64,
    /// The write.
    pub write: Option<MemoryAccess>,
    /// Reads of the thread before the write: the latest ones, in order.
    pub reads: Vec<ShaderRead>,
    /// Number of earlier reads.
    pub reads_before: u64,
}

/// The last writer of a byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterReport {
    /// Address of the byte.
    pub va: GpuVa,
    /// Final value of the byte.
    pub byte: u8,
    /// The writer.
    pub writer: Writer,
    /// Event of the writing job's submit, or of the host write if the recording has it.
    pub submit: Option<u64>,
    /// Location in a shader.
    pub location: Option<WriteLocation>,
}

impl WriterReport {
    /// Whether a shader wrote the byte, so that [`DebugSession::with_shader_reads`] can add details.
    #[must_use]
    pub fn is_from_shader(&self) -> bool {
        matches!(self.writer, Writer::Shader(..))
    }

    /// Returns the job that wrote the byte.
    #[must_use]
    pub fn job(&self) -> Option<JobLocation> {
        match self.writer {
            Writer::Shader(place, _) | Writer::WriteValue(place) | Writer::Status(place) => Some(place),
            Writer::Recording | Writer::Cpu { .. } => None,
        }
    }

    /// Describes the writer in a few words.
    #[must_use]
    pub fn summarize(&self) -> String {
        let three = |[x, y, z]: [u32; 3]| format!("{x},{y},{z}");
        match (&self.writer, &self.location) {
            (Writer::Recording, _) => "not written in a replay".into(),
            (Writer::Cpu { .. }, _) => "written by the CPU".into(),
            (Writer::WriteValue(p), _) => format!("written by job {}, a write-value job", p.chain),
            (Writer::Status(p), _) => format!("written by the hardware as job {} ended", p.chain),
            (Writer::Shader(p, shown), Some(w)) => format!(
                "written by job {}, workgroup {}, thread {}, {}",
                p.chain,
                three(shown.workgroup),
                three(w.thread),
                w.label
            ),
            (Writer::Shader(p, shown), None) => format!(
                "written by job {}, workgroup {}, the clause at {:#x}",
                p.chain,
                three(shown.workgroup),
                shown.clause
            ),
        }
    }

    /// Describes the details: the operation, its write, and the reads of the thread.
    #[must_use]
    pub fn describe(&self) -> String {
        let Some(w) = &self.location else {
            return self.summarize();
        };
        let mut lines = vec![self.summarize(), w.instruction.clone()];
        lines.extend(w.write.map(|a| format!("wrote {} at {:#x}", value(&a), a.va)));
        let reads = w.reads.iter().rev().take(8).rev();
        lines.extend(reads.map(|r| format!("read {} at {:#x}", value(&r.access), r.access.va)));
        lines.join("\n")
    }
}

/// Formats the bytes of an access: hex, and also a float for a 32-bit word.
#[must_use]
pub fn value(a: &MemoryAccess) -> String {
    let width = 2 + 2 * (a.bytes.min(16) as usize);
    let cut = if a.bytes > 16 { "…" } else { "" };
    format!("{:#0width$x}{cut}", a.value)
}
