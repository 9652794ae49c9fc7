//! Program generated from a recording: its memory contents, actions and results.

use super::contents::Contents;
use super::input_layout::{ImagePiece, InputLayout, Piece, find_accesses, nonzero_runs};
use super::{ProgramError, names};
use replay_core::Actions;
use replay_engine::compile::compile;
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{Body, Budgets, CompileOptions, Compiled, Edits, Effect, PlanMemory, ReadClasses};
use replay_engine::verify::{Verified, verify};
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole, ElementType, Page};
use trace_core::{PAGE_SIZE, PhysAddr, Recording};

/// Maximum size of all inputs together, bytes.
const MAX_INPUT: u64 = 1 << 28;

/// Options of the conversion of a recording into a program.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the program, an identifier of Rust and C.
    pub name: String,
    /// Buffers that are inputs at run time; if empty, all buffers whose role is input.
    pub inputs: Vec<String>,
    /// Options for compiling the plan, including its outputs.
    pub compile: CompileOptions,
}

/// Input or output buffer of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramBuffer {
    /// Name of the buffer in the recording.
    pub name: String,
    /// Identifier of the buffer in the sources.
    pub id: String,
    /// Size, bytes.
    pub bytes: u64,
    /// Type of the elements.
    pub element: ElementType,
}

/// Stand-alone replay program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name of the program.
    pub name: String,
    /// Origin of the recording.
    pub title: String,
    /// Description of the GPU or device that the program is for.
    pub device: String,
    /// Physical address at which the device sees the program's memory.
    pub base: PhysAddr,
    /// Size of that memory, bytes.
    pub bytes: u64,
    /// Inputs. An input that is not given at run time has its recorded contents.
    pub inputs: Vec<ProgramBuffer>,
    /// Outputs, read at the end.
    pub outputs: Vec<ProgramBuffer>,
    /// Contents that are written over zeroed memory, by ascending offset.
    pub memory: Vec<(u64, Vec<u8>)>,
    /// Locations of inputs in the memory.
    pub input_pieces: Vec<Piece>,
    /// Page images from which memory changes take bytes.
    pub images: Vec<Box<Page>>,
    /// Locations of inputs in the images, sorted by image.
    pub image_pieces: Vec<ImagePiece>,
    /// For each image, the input whose absence makes the program skip copies from it.
    pub owners: Vec<Option<u32>>,
    /// Locations of outputs.
    pub output_pieces: Vec<Piece>,
    /// The actions.
    pub body: Body,
    /// Number of actions.
    pub actions: u64,
    /// Classes of the recorded reads.
    pub reads: ReadClasses,
    /// Number of interrupts that are waited for.
    pub interrupts: u64,
    /// Limits of a run.
    pub budgets: Budgets,
    /// MMIO regions of the device in addition to its registers: number in the actions, name, size in bytes.
    pub mmio_regions: Vec<(u8, String, u64)>,
    /// What verification could not prove, one sentence each.
    pub unproved: Vec<String>,
    /// Expectations of the plan that the program does not check, one sentence each.
    pub unchecked: Vec<String>,
}

impl Program {
    /// Converts a recording into a program for `target`, whose memory becomes the program's memory.
    ///
    /// # Errors
    /// When the recording cannot be replayed on the target, the plan breaks a rule, or its actions depend on the
    /// contents of its inputs.
    pub fn from_recording(
        recording: &Recording,
        options: &Options,
        target: &DeviceInfo,
        progress: &Progress,
    ) -> Result<Self, ProgramError> {
        let name = names::check_program_name(&options.name)?;
        let plain = compile(recording, &Edits::default(), target, &options.compile, progress)?;
        if plain.plan.mmio().is_some_and(|m| m.masters) {
            return Err(ProgramError::MastersBus);
        }
        let inputs = select_inputs(recording, &options.inputs)?;
        let submits: Vec<u64> = plain.plan.jobs().iter().map(|j| j.submit_event).collect();
        let contents = Contents::from_recording(recording, &inputs, &submits);
        let with = |inputs| {
            let edits = Edits {
                inputs,
                ..Edits::default()
            };
            compile(recording, &edits, target, &options.compile, progress)
        };
        let compiled = match inputs.is_empty() {
            true => vec![plain.clone()],
            false => (0..=contents.digits())
                .map(|n| with(contents.pattern(n)))
                .collect::<Result<Vec<_>, _>>()?,
        };
        let located = InputLayout::find(&plain, &compiled, &contents, progress)?;
        if !inputs.is_empty() {
            let given = contents.random_values();
            let bytes: Vec<&[u8]> = inputs
                .iter()
                .map(|b| given.get(&b.name).map(Vec::as_slice).unwrap_or_default())
                .collect();
            located.check(&bytes, &with(given.clone())?)?;
        }
        let Some(first) = compiled.first() else {
            return Err(ProgramError::TooMany {
                what: "plans",
                count: 0,
            });
        };
        let verified = verify(&first.plan, &first.pages, target)?;
        Self::build(name, &inputs, located, first, target, verified)
    }

    fn build(
        name: String,
        inputs: &[&Buffer],
        located: InputLayout,
        compiled: &Compiled,
        target: &DeviceInfo,
        verified: Verified,
    ) -> Result<Self, ProgramError> {
        let plan = &compiled.plan;
        let accesses = find_accesses(compiled)?;
        let ids = names::to_identifiers(inputs.iter().map(|b| b.name.as_str()));
        let inputs = inputs.iter().zip(ids).map(|(b, id)| ProgramBuffer {
            name: b.name.clone(),
            id,
            bytes: b.bytes,
            element: b.element,
        });
        let ids = names::to_identifiers(plan.outputs.iter().map(|b| b.name.as_str()));
        let outputs = plan.outputs.iter().zip(ids).map(|(b, id)| ProgramBuffer {
            name: b.name.clone(),
            id,
            bytes: b.bytes,
            element: b.element,
        });
        Ok(Self {
            name,
            title: plan.title.clone(),
            device: match &target.hardware {
                Some(h) => h.id(),
                None => target.gpu_name.clone(),
            },
            base: target.arena.base,
            bytes: accesses.used_pages.saturating_mul(PAGE_SIZE as u64),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            output_pieces: find_output_pieces(compiled)?,
            memory: nonzero_runs(&located.pages),
            input_pieces: located.pieces,
            images: located.images,
            image_pieces: located.image_pieces,
            owners: located.owners,
            body: located.body,
            actions: located.actions,
            reads: accesses.reads,
            interrupts: accesses.interrupts,
            budgets: plan.budgets,
            mmio_regions: plan
                .mmio()
                .map_or(&[][..], |m| &m.windows)
                .iter()
                .map(|w| (w.number, w.name.clone(), w.bytes))
                .collect(),
            unproved: verified.into_report().unproved,
            unchecked: accesses
                .expectations
                .iter()
                .filter(|e| !matches!(e.effect, Effect::Interrupts { .. }))
                .map(|e| format!("{}, from {}", e.effect.name(), e.source))
                .collect(),
        })
    }
}

/// Selects the buffers that are inputs at run time.
fn select_inputs<'r>(recording: &'r Recording, wanted: &[String]) -> Result<Vec<&'r Buffer>, ProgramError> {
    let all = &recording.metadata.buffers;
    let mut chosen: Vec<&Buffer> = Vec::new();
    if wanted.is_empty() {
        chosen.extend(all.iter().filter(|b| b.role == BufferRole::Input));
    }
    for name in wanted {
        let bad = |reason: String| ProgramError::Input {
            name: name.clone(),
            reason,
        };
        let Some(b) = recording.buffer(name) else {
            let known: Vec<&str> = all.iter().map(|b| b.name.as_str()).collect();
            return Err(bad(format!("there is no such buffer; there are: {}", known.join(", "))));
        };
        if !chosen.iter().any(|c| c.name == b.name) {
            chosen.push(b);
        }
    }
    let total = chosen.iter().fold(0u64, |n, b| n.saturating_add(b.bytes));
    if total > MAX_INPUT {
        return Err(ProgramError::TooMany {
            what: "bytes of inputs",
            count: total,
        });
    }
    // Two buffers that share memory cannot both be inputs.
    for (i, a) in chosen.iter().enumerate() {
        let end = |b: &Buffer| b.va.get().saturating_add(b.bytes);
        let shares = |b: &&&Buffer| a.address_space == b.address_space && a.va.get() < end(b) && b.va.get() < end(a);
        if let Some(b) = chosen.iter().skip(i + 1).find(shares) {
            return Err(ProgramError::Input {
                name: b.name.clone(),
                reason: format!("it shares memory with `{}`", a.name),
            });
        }
    }
    Ok(chosen)
}

/// Finds the locations of the outputs at the end of the run.
fn find_output_pieces(compiled: &Compiled) -> Result<Vec<Piece>, ProgramError> {
    let plan = &compiled.plan;
    let accesses = find_accesses(compiled)?;
    let missing = |place: String| ProgramError::MissingPage { place };
    let mut memory =
        PlanMemory::from_plan(accesses, &compiled.pages).map_err(|m| missing(format!("frame {:#x}", m.frame)))?;
    let images = plan
        .change_images(&compiled.pages)
        .map_err(|(n, _)| missing(format!("image {n}")))?;
    for action in Actions::new(&accesses.body) {
        memory.apply(&action?, &images);
    }
    let mut pieces: Vec<Piece> = Vec::new();
    for (n, o) in plan.outputs.iter().enumerate() {
        let mut at = 0;
        while at < o.bytes {
            let not = || ProgramError::Output {
                name: o.name.clone(),
                at,
            };
            let va = o.va.checked_add(at).ok_or_else(not)?;
            let space = plan.spaces().get(o.space as usize).ok_or_else(not)?;
            let pa = memory.gpu(space).physical(va).ok_or_else(not)?;
            let bytes = (o.bytes - at).min((PAGE_SIZE - va.in_page()) as u64);
            let offset = pa.offset_from(accesses.arena.base).ok_or_else(not)?;
            match pieces.last_mut() {
                Some(l) if l.buffer == n as u32 && l.at + l.bytes == at && l.offset + l.bytes == offset => {
                    l.bytes += bytes;
                }
                _ => pieces.push(Piece {
                    buffer: n as u32,
                    at,
                    bytes,
                    offset,
                }),
            }
            at += bytes;
        }
    }
    Ok(pieces)
}
