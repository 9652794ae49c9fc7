//! The work of a recording, done again by a program of its own: objects at the same GPU addresses, the same bytes in
//! them, the same chains.

use crate::calls::{Node, Object, name};
use crate::ensure;
use panfrost_node::uapi::flag;
use std::path::Path;
use trace_core::progress::Progress;
use trace_core::recording::BufferRole;
use trace_core::registers::RegisterMap;
use trace_core::{mmu, timeline};

const PAGE: u64 = 4096;
/// Granularity and alignment of large objects.
const LARGE: u64 = 2 << 20;
/// First address that the node gives out.
const START: u64 = 32 << 20;

/// `compute RECORDING FOLDER`: writes what its outputs hold afterwards into the folder.
pub fn compute(arguments: &[String]) -> Result<(), String> {
    let [file, folder] = arguments else {
        return Err("expected a recording and a folder".into());
    };
    let recording = trace_core::import::open(Path::new(file), &Progress::new()).map_err(|e| e.to_string())?;
    let map = RegisterMap::for_gpu(recording.facts.identity.gpu_id).ok_or("a GPU without registers")?;
    let jobs = timeline::derive(&recording, map, &Progress::new())
        .map_err(|e| format!("{e:?}"))?
        .jobs;
    let space = recording.facts.address_spaces.first().ok_or("no address space")?;
    let view = recording.memory.at(0);
    let all = mmu::mappings(space.format, space.root, &view).map_err(|e| e.to_string())?;

    let node = Node::open()?;
    let mut objects: Vec<Object> = Vec::new();
    let mut next = START;
    // Runs that touch and have the same rights are one object.
    let mut runs: Vec<(u64, u64, bool)> = Vec::new();
    for m in &all {
        match runs.last_mut() {
            Some((_, end, execute)) if *end == m.va.0 && *execute == m.rights.execute => *end = m.end().0,
            _ => runs.push((m.va.0, m.end().0, m.rights.execute)),
        }
    }
    for (from, to, execute) in runs {
        next = fill(node, next, from)?;
        let flags = if execute { 0 } else { flag::BO_NOEXEC };
        let object = node.object((to - from) as usize, flags)?;
        ensure!(object.va == from, "an object at {:#x} and not at {from:#x}", object.va);
        for page in 0..(to - from) / PAGE {
            let at = mmu::translate(space.format, space.root, trace_core::GpuVa(from + page * PAGE), &view);
            let frame = at
                .ok()
                .and_then(|leaf| leaf.target(trace_core::GpuVa(from + page * PAGE)));
            if let Some(bytes) = frame.and_then(|f| view.frame(f.frame())) {
                object.write((page * PAGE) as usize, bytes);
            }
        }
        next = next.max(to);
        objects.push(object);
    }
    for job in &jobs {
        let fragment = u32::from(job.slot == 0) * flag::FRAGMENT;
        node.submit(job.head_va.0, &[], fragment, 0)
            .map_err(|e| format!("submit: error {e}"))?;
    }
    for buffer in &recording.facts.buffers {
        let found = objects
            .iter()
            .find(|o| (o.va..o.va + o.bytes as u64).contains(&buffer.va.0));
        let object = found.ok_or_else(|| format!("{}: nowhere", buffer.name))?;
        let at = (buffer.va.0 - object.va) as usize;
        let role = match buffer.role {
            BufferRole::Input => 0,
            BufferRole::Output => 1,
            _ => continue,
        };
        name(
            object.at.wrapping_add(at),
            buffer.bytes as usize,
            &buffer.name,
            role,
            buffer.element.name(),
            "",
        );
        if role == 1 {
            let path = Path::new(folder).join(format!("{}.bin", buffer.name));
            std::fs::write(&path, object.read(at, buffer.bytes as usize))
                .map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

/// Takes addresses up to `to` with objects that hold nothing: a heap takes no memory, the last bit is pages.
fn fill(node: Node, from: u64, to: u64) -> Result<u64, String> {
    let large = (to.saturating_sub(from)) / LARGE * LARGE;
    let told = |e| format!("a filler: error {e}");
    let mut at = from;
    if large > 0 {
        at = node
            .create(large as u32, flag::BO_HEAP | flag::BO_NOEXEC)
            .map_err(told)?
            .offset
            + large;
    }
    while at < to {
        let bytes = (to - at).min(LARGE - PAGE);
        at = node.create(bytes as u32, flag::BO_NOEXEC).map_err(told)?.offset + bytes;
    }
    Ok(at)
}
