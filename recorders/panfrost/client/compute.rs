//! The work of a recording, repeated by a separate program: the same chains, and objects at the same GPU addresses with
//! the same content.

use crate::calls::{Node, Object, name_buffer};
use crate::ensure;
use panfrost_node::uapi::flag;
use std::path::Path;
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, Recording, mmu, timeline};

const PAGE: u64 = 4096;
/// Granularity and alignment of large objects.
const LARGE: u64 = 2 << 20;
/// First address that the node assigns.
const START: GpuVa = GpuVa::new(32 << 20);

/// The objects and chains of a recording's program, created again.
struct ReplayedProgram {
    recording: Recording,
    node: Node,
    objects: Vec<Object>,
    /// Address of the first job and requirements of each chain.
    chains: Vec<(GpuVa, u32)>,
}

impl ReplayedProgram {
    /// Creates the objects with their content before the first chain.
    fn lay_out(file: &str) -> Result<Self, String> {
        let recording = trace_core::container::open(Path::new(file)).map_err(|e| e.to_string())?;
        let map = RegisterMap::for_gpu(recording.metadata.identity.gpu_id).ok_or("a GPU without registers")?;
        let jobs = timeline::derive(&recording, map, &Progress::new())
            .map_err(|e| format!("{e:?}"))?
            .jobs;
        let space = recording.metadata.address_spaces.first().ok_or("no address space")?;
        let view = recording.memory.at(0);
        let all = mmu::mappings(space.format, space.root, &view).map_err(|e| e.to_string())?;

        let node = Node::open()?;
        let mut objects: Vec<Object> = Vec::new();
        let mut next = START;
        // Adjacent runs with the same access rights are one object.
        let mut runs: Vec<(GpuVa, GpuVa, bool)> = Vec::new();
        for m in &all {
            match runs.last_mut() {
                Some((_, end, execute)) if *end == m.va && *execute == m.rights.execute => *end = m.end(),
                _ => runs.push((m.va, m.end(), m.rights.execute)),
            }
        }
        for (from, to, execute) in runs {
            next = fill(node, next, from)?;
            let flags = if execute { 0 } else { flag::BO_NOEXEC };
            let object = node.create_mapped((to - from) as usize, flags)?;
            ensure!(object.va == from, "an object is at {}, not at {from}", object.va);
            for page in 0..(to - from) / PAGE {
                let va = from + page * PAGE;
                let at = mmu::translate(space.format, space.root, va, &view);
                let frame = at.ok().and_then(|leaf| leaf.target(va));
                if let Some(bytes) = frame.and_then(|f| view.frame(f.frame())) {
                    object.write((page * PAGE) as usize, bytes);
                }
            }
            next = next.max(to);
            objects.push(object);
        }
        let chain = |job: &timeline::JobSpan| (job.head_va, u32::from(job.slot == 0) * flag::FRAGMENT);
        let chains = jobs.iter().map(chain).collect();
        Ok(Self {
            recording,
            node,
            objects,
            chains,
        })
    }

    fn run(&self) -> Result<(), String> {
        self.chains.iter().try_for_each(|(head, fragment)| {
            let done = self.node.submit(*head, &[], *fragment, 0);
            done.map_err(|e| format!("submit: error {e}"))
        })
    }

    /// Returns a buffer of the recording, its object, and its offset in the object.
    fn find(&self, name: &str) -> Result<(&Buffer, &Object, usize), String> {
        let buffer = self.recording.buffer(name).ok_or_else(|| format!("no buffer {name}"))?;
        let mut objects = self.objects.iter();
        let object = objects.find(|o| (o.va..o.va + o.bytes as u64).contains(&buffer.va));
        let object = object.ok_or_else(|| format!("{name}: no object contains the buffer"))?;
        Ok((buffer, object, (buffer.va - object.va) as usize))
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        let (buffer, object, at) = self.find(name)?;
        Ok(object.read(at, buffer.bytes as usize))
    }

    fn floats(&self, name: &str) -> Result<Vec<f32>, String> {
        let bytes = self.bytes(name)?;
        let (words, _) = bytes.as_chunks::<4>();
        Ok(words.iter().map(|w| f32::from_le_bytes(*w)).collect())
    }

    /// Returns whether `c` contains the sums of `a` and `b`. IEEE arithmetic rounds each sum correctly.
    fn has_correct_sums(&self) -> Result<bool, String> {
        let (a, b, c) = (self.floats("a")?, self.floats("b")?, self.floats("c")?);
        ensure!(
            a.len() == c.len() && b.len() == c.len() && !c.is_empty(),
            "{} and {} numbers have {} sums",
            a.len(),
            b.len(),
            c.len()
        );
        let sums = a.iter().zip(&b).map(|(a, b)| a + b);
        Ok(sums.zip(&c).all(|(sum, c)| sum.to_bits() == c.to_bits()))
    }
}

/// `compute RECORDING FOLDER`: runs the job that computes `c = a + b`, checks the sums, and writes the outputs to the
/// folder.
pub fn compute(arguments: &[String]) -> Result<(), String> {
    let [file, folder] = arguments else {
        return Err("expected a recording and a folder".into());
    };
    let work = ReplayedProgram::lay_out(file)?;
    ensure!(!work.has_correct_sums()?, "the sums are correct before any chain ran");
    work.run()?;
    ensure!(work.has_correct_sums()?, "c is not a + b");
    for recorded in &work.recording.metadata.buffers {
        let role = match recorded.role {
            BufferRole::Input => 0,
            BufferRole::Output => 1,
            _ => continue,
        };
        let (buffer, object, at) = work.find(&recorded.name)?;
        let bytes = buffer.bytes as usize;
        let start = object.at.wrapping_add(at);
        name_buffer(start, bytes, &buffer.name, role, buffer.element.name(), "");
        if role == 1 {
            let path = Path::new(folder).join(format!("{}.bin", buffer.name));
            std::fs::write(&path, object.read(at, bytes)).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

/// A clause of Bifrost that jumps to itself.
const ENDLESS: [u8; 32] = [
    0x0b, 0x40, 0x00, 0x00, 0x44, 0x18, 0xcb, 0x80, 0xd3, 0xfd, 0x03, 0x80, 0x00, 0x08, 0x00, 0x38, //
    0x70, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];

/// `endless RECORDING`: runs the same work with an endless shader, then unchanged.
pub fn endless(arguments: &[String]) -> Result<(), String> {
    let [file] = arguments else {
        return Err("expected a recording".into());
    };
    let work = ReplayedProgram::lay_out(file)?;
    let (_, object, at) = work.find("shader0")?;
    let shader = object.read(at, ENDLESS.len());
    let before = work.bytes("c")?;
    object.write(at, &ENDLESS);
    work.run()?;
    ensure!(work.bytes("c")? == before, "the endless shader changed c");
    object.write(at, &shader);
    work.run()?;
    ensure!(work.has_correct_sums()?, "c is not a + b after the endless shader");
    Ok(())
}

/// Fills addresses up to `to` with empty objects: first a heap, which needs no memory, then objects with pages.
fn fill(node: Node, from: GpuVa, to: GpuVa) -> Result<GpuVa, String> {
    let large = to.offset_from(from).unwrap_or(0) / LARGE * LARGE;
    let describe = |e| format!("a filler: error {e}");
    let mut at = from;
    if large > 0 {
        let heap = node.create_bo(large as u32, flag::BO_HEAP | flag::BO_NOEXEC);
        at = GpuVa::new(heap.map_err(describe)?.offset) + large;
    }
    while at < to {
        let bytes = (to - at).min(LARGE - PAGE);
        let filler = node.create_bo(bytes as u32, flag::BO_NOEXEC);
        at = GpuVa::new(filler.map_err(describe)?.offset) + bytes;
    }
    Ok(at)
}
