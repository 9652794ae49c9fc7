//! Compiler from an API trace and its edits to a plan for a CUDA device.

use super::edits::{find_edited_inputs, to_compile_error};
use super::error::CudaReplayError;
use super::script::{MAPPED_TWICE, Script, Transfer};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::api_body::{CallWithData, push, without_content};
use replay_engine::plan::{
    ApiTracePlan, Budgets, CompileError, Compiled, Edits, PageImages, Plan, PlanBody, PlanBuffer, Rewrite, RewriteKind,
    plan_title,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trace_core::progress::Progress;
use trace_core::recording::{
    CALL_CAPTURED, CallEvent, CallModule, Digest, ElementType, NO_CONTENT, NOTE_CALL, PageId, Recording, ZERO_PAGE,
    is_annotation, zero_digest,
};
use trace_core::{GpuVa, PAGE_SIZE};

/// Maximum number of pages that an API-trace plan may map in total: 256 GiB.
const MAX_PAGES: u64 = 1 << 26;
/// Maximum number of pages of a module, as in [`Recording::module_code`]: 1 GiB.
const MAX_CODE_PAGES: u64 = 1 << 18;

/// The options of the compiler.
#[derive(Clone, Debug, Default)]
pub struct ApiOptions {
    /// Names of the buffers to copy out. If empty, all output buffers.
    pub outputs: Vec<String>,
    /// Limits that the plan must keep.
    pub budgets: Budgets,
    /// Make the range one graph.
    pub graph: bool,
    /// Do not restore memory between repeated runs.
    pub no_restore: bool,
    /// Wait for the device after each launch.
    pub step: bool,
    /// Also copy the memory of snapshots back. This is always done if the program itself copied nothing back.
    pub memory: bool,
    /// On the channels of a GPU: build launches anew, even if the recording holds what its driver submitted.
    pub rebuild: bool,
    /// Put the recorded outputs into the plan. A tuning compares the results of a launch with them on the device. A
    /// replay does not need them.
    pub held: bool,
}

/// Compiles an API trace and its edits into a plan for `target`.
///
/// The plan leaves out failed calls, calls that were captured into graphs, and information for people only. Data that
/// copies brought back is not in the plan, so that no device can echo it.
///
/// # Errors
/// If the recording is not a CUDA API trace, the target takes no calls, or an edit does not fit.
pub fn compile(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    options: &ApiOptions,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    if !target.takes_api_traces() {
        return Err(CompileError::TakesNoCalls {
            device: target.name.clone(),
        });
    }
    if let Some(block) = recording.find_damage(progress)? {
        return Err(CompileError::Damaged { block: Box::new(block) });
    }
    let script = Script::new(recording).map_err(to_compile_error)?;
    let edited = find_edited_inputs(&script, edits)?;
    let mut making = CallCompiler {
        recording,
        images: Images::default(),
        pages: PageImages::new(),
        body: Vec::new(),
        actions: 0,
    };
    progress.set_total(recording.events.len() as u64 + 1);
    let outputs: BTreeSet<u64> = script.outputs.iter().map(|t| t.event).collect();
    // The name of a requested piece of memory depends on all pieces.
    let asked = |t: &Transfer| t.snapshot && options.outputs.contains(&t.name);
    let wants_memory = options.memory || !script.has_own_outputs() || script.outputs.iter().any(asked);
    let left: BTreeMap<u64, &Transfer> = script
        .outputs
        .iter()
        .filter(|t| t.snapshot && !wants_memory)
        .map(|t| (t.event, t))
        .collect();
    let mut rewrites = Vec::new();
    for event in 0..recording.events.len() {
        progress.advance(1)?;
        let Some(call) = recording.events.call(event).filter(|c| is_replayed(&script, c)) else {
            continue;
        };
        let at = event as u64;
        if left.contains_key(&at) {
            continue;
        }
        let content = match edited.get(&at) {
            Some((t, bytes)) => {
                rewrites.push(Rewrite {
                    kind: RewriteKind::Input,
                    event: Some(at),
                    detail: format!(
                        "{}: {} bytes at {:#x} are replaced by the user",
                        t.name,
                        bytes.len(),
                        t.row.to
                    ),
                });
                Content::Given(bytes)
            }
            None if outputs.contains(&at) && !options.held => Content::None,
            None => Content::Recorded,
        };
        making.call(at, call, content)?;
    }
    if !left.is_empty() {
        let bytes: u64 = left.values().filter_map(|t| t.row.total()).sum();
        rewrites.push(Rewrite {
            kind: RewriteKind::LeftOut,
            event: None,
            detail: format!(
                "memory contents after the range ({} pieces, {bytes} bytes) are not read back",
                left.len()
            ),
        });
    }
    for words in &script.left_out {
        rewrites.push(Rewrite {
            kind: RewriteKind::LeftOut,
            event: None,
            detail: words.clone(),
        });
    }
    let mut metadata = script.metadata.clone();
    for module in &mut metadata.modules {
        making.module(module)?;
    }
    let mapped = script.mapped_bytes().unwrap_or(u64::MAX) / PAGE_SIZE as u64;
    let outputs = plan_outputs(&script, options, &left)?;
    rewrites.extend(outputs.iter().map(|o| Rewrite {
        kind: RewriteKind::Output,
        event: None,
        detail: format!("{}: {} bytes at {} are read back", o.name, o.bytes, o.va),
    }));
    rewrites.sort_by_key(|r| (r.event.is_some(), r.event, r.kind));
    let plan = Plan {
        title: plan_title(&recording.metadata.identity),
        outputs,
        rewrites,
        actions: making.actions,
        budgets: Budgets {
            pages: mapped.max(1),
            ..options.budgets
        },
        images: making.images.digests,
        ..Plan::new(PlanBody::Api(ApiTracePlan {
            metadata,
            body: making.body.into(),
            graph: options.graph,
            no_restore: options.no_restore,
            step: options.step,
            times: false,
            guard: None,
        }))
    };
    if mapped > MAX_PAGES {
        return Err(CompileError::ArenaTooSmall { pages: MAX_PAGES });
    }
    Ok(Compiled {
        plan,
        pages: making.pages,
    })
}

/// Returns whether a call is replayed, or describes memory.
fn is_replayed(script: &Script, call: &CallEvent) -> bool {
    if call.result() != 0 {
        return false;
    }
    let flags = match call {
        CallEvent::Launch(r) => r.flags,
        CallEvent::Copy(r) => r.flags,
        CallEvent::Fill(r) => r.flags,
        CallEvent::Order(r) => r.flags,
        CallEvent::Allocation(_) => return true,
        // Of other calls only those are kept that mark a snapshot, map memory a second time, or annotate.
        CallEvent::Call(r) if r.is_request() => return false,
        CallEvent::Call(r) => {
            let name = script.metadata.names.get(r.name as usize);
            let is_kept =
                |n: &String| n.starts_with("snapshot") || n == MAPPED_TWICE || is_annotation(n) && n != NOTE_CALL;
            return name.is_some_and(is_kept);
        }
    };
    flags & CALL_CAPTURED == 0
}

/// Returns the outputs in the order of their copies: the program's own, all of which are compared; and the final
/// memory, all of it or the requested pieces.
fn plan_outputs(
    script: &Script,
    options: &ApiOptions,
    left: &BTreeMap<u64, &Transfer>,
) -> Result<Vec<PlanBuffer>, CompileError> {
    if let Some(name) = options
        .outputs
        .iter()
        .find(|n| script.outputs.iter().all(|t| t.name != **n))
    {
        let known: Vec<&str> = script.outputs.iter().map(|t| t.name.as_str()).collect();
        return Err(CompileError::NoOutput {
            name: name.clone(),
            known: known.join(", "),
        });
    }
    let all = options.memory || !script.has_own_outputs();
    let asked =
        |t: &&Transfer| !left.contains_key(&t.event) && (!t.snapshot || all || options.outputs.contains(&t.name));
    let buffer = |t: &Transfer| PlanBuffer {
        name: t.name.clone(),
        va: GpuVa::new(t.row.from),
        bytes: t.row.total().unwrap_or(0),
        element: script.shape_of(t).map_or(ElementType::U8, |s| s.element),
        space: 0,
    };
    Ok(script.outputs.iter().filter(asked).map(buffer).collect())
}

/// The source of a copy's contents.
enum Content<'a> {
    /// The recording.
    Recorded,
    /// The user.
    Given(&'a [u8]),
    /// No contents: the copy is an output.
    None,
}

/// Numbers for page images: each distinct content once, starting at 1. The page of zeros is 0.
#[derive(Debug, Default)]
struct Images {
    digests: Vec<Digest>,
    numbers: HashMap<Digest, u32>,
}

impl Images {
    fn number(&mut self, digest: Digest) -> u32 {
        if digest == zero_digest() {
            return 0;
        }
        let next = u32::try_from(self.digests.len() + 1).unwrap_or(u32::MAX);
        let digests = &mut self.digests;
        *self.numbers.entry(digest).or_insert_with(|| {
            digests.push(digest);
            next
        })
    }
}

struct CallCompiler<'a> {
    recording: &'a Recording,
    images: Images,
    pages: PageImages,
    body: Vec<u8>,
    actions: u64,
}

impl CallCompiler<'_> {
    fn call(&mut self, event: u64, call: CallEvent, content: Content<'_>) -> Result<(), CompileError> {
        let damaged = |what: &str| CudaReplayError::Damaged {
            event,
            what: what.to_owned(),
        };
        let named = |at, bytes| {
            let found = self.recording.events.call_arguments(at, bytes);
            found.ok_or_else(|| to_compile_error(damaged("arguments that are not in the file")))
        };
        let arguments = match &call {
            CallEvent::Launch(r) => named(r.arguments_at, r.arguments)?,
            CallEvent::Call(r) => named(r.arguments_at, r.arguments)?,
            _ => Vec::new(),
        };
        let pages = match &call {
            CallEvent::Copy(r) => match content {
                Content::None => None,
                Content::Given(bytes) => {
                    let phase = (r.device().get() % PAGE_SIZE as u64) as usize;
                    Some(self.laid(phase, bytes))
                }
                Content::Recorded if r.pages_at == NO_CONTENT => None,
                Content::Recorded => {
                    let count = r.pages().and_then(|n| usize::try_from(n).ok());
                    let first = usize::try_from(r.pages_at).ok();
                    let all = &self.recording.events.call_pages;
                    let range = first.zip(count).and_then(|(f, n)| Some(f..f.checked_add(n)?));
                    let range = range.filter(|r| r.end <= all.len());
                    let range =
                        range.ok_or_else(|| to_compile_error(damaged("the content of a copy is not in the file")))?;
                    let ids: Vec<u32> = all.iter_range(range).collect();
                    Some(
                        self.numbered(&ids)
                            .ok_or_else(|| to_compile_error(damaged("a page that is not in the file")))?,
                    )
                }
            },
            _ => None,
        };
        let thread = self.recording.events.thread.get(event as usize).unwrap_or(0);
        let carried = CallWithData {
            event,
            thread,
            call: without_content(call),
            arguments,
            pages,
        };
        push(&mut self.body, &carried);
        self.actions += 1;
        Ok(())
    }

    /// Returns the numbers of pages of the recording, or `None` if one is missing.
    fn numbered(&mut self, ids: &[u32]) -> Option<Vec<u32>> {
        let store = &self.recording.memory.pages;
        let mut numbers = Vec::with_capacity(ids.len());
        for id in ids {
            let digest = store.digest(PageId(*id))?;
            let number = self.images.number(digest);
            if number != 0 && !self.pages.contains_key(&digest) {
                self.pages.insert(digest, store.shared_page(PageId(*id))?);
            }
            numbers.push(number);
        }
        Some(numbers)
    }

    /// Stores bytes in pages, after `phase` zero bytes.
    fn laid(&mut self, phase: usize, bytes: &[u8]) -> Vec<u32> {
        let mut numbers = Vec::new();
        let mut rest = bytes;
        let mut skip = phase;
        while !rest.is_empty() {
            let mut page = ZERO_PAGE;
            let (now, behind) = rest.split_at(rest.len().min(PAGE_SIZE - skip));
            for (to, from) in page.iter_mut().skip(skip).zip(now) {
                *to = *from;
            }
            let digest = *blake3::hash(&page).as_bytes();
            let number = self.images.number(digest);
            if number != 0 {
                self.pages.entry(digest).or_insert_with(|| page.into());
            }
            numbers.push(number);
            rest = behind;
            skip = 0;
        }
        numbers
    }

    /// Turns the pages of a module into images. A module without code stays unchanged.
    fn module(&mut self, module: &mut CallModule) -> Result<(), CompileError> {
        let known = self.recording.memory.pages.len() as u64;
        let count: u64 = module.pages.iter().map(|[_, n]| u64::from(*n)).sum();
        // A page that a module uses more than once is stored once. A module that refers to missing pages is incomplete.
        let is_there = |[first, n]: &[u32; 2]| u64::from(*first) + u64::from(*n) <= known + 1;
        if count > MAX_CODE_PAGES || !module.pages.iter().all(is_there) {
            module.pages.clear();
            return Ok(());
        }
        let ids: Vec<u32> = module
            .pages
            .iter()
            .flat_map(|[first, n]| *first..first.saturating_add(*n))
            .collect();
        let numbers = self.numbered(&ids).unwrap_or_default();
        module.pages.clear();
        for number in numbers {
            match module.pages.last_mut() {
                Some([first, n]) if first.checked_add(*n) == Some(number) => *n += 1,
                _ => module.pages.push([number, 1]),
            }
        }
        Ok(())
    }
}
