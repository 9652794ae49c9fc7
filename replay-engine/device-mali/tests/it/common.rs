//! Helpers for the replay tests: recordings, a target and changed plans.
#![allow(dead_code)]

use device_mali::{Model, SoftwareMali};
use replay_core::{Action, Actions};
use replay_engine::compile::compile;
use replay_engine::device::{DeviceInfo, Target};
use replay_engine::plan::{BodyBuilder, CompileOptions, Compiled, Edits};
use replay_engine::run::{Outcome, run};
use std::path::{Path, PathBuf};
use trace_core::mmu::{WalkStep, walk};
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventKind, EventsBuilder, Page};
use trace_core::{GpuVa, PhysAddr, Recording};
use trace_import::{OpenOptions, Opened};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a published recording, or `None` if its files are missing.
pub fn published(name: &str) -> Option<Recording> {
    let recordings =
        std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(|| root().join("../shared/recordings"), PathBuf::from);
    let path = recordings.join("gpureplay").join(name);
    if !path.is_dir() {
        println!("skipped: no recording at {}", path.display());
        return None;
    }
    let opened = trace_import::open(&path, &OpenOptions::default(), &Progress::new());
    Some(opened.and_then(Opened::into_recording).unwrap())
}

/// Returns one of the project's own recordings.
pub fn sample(name: &str) -> Recording {
    trace_core::container::open(&root().join("sample-traces").join(name)).unwrap()
}

pub fn target() -> DeviceInfo {
    SoftwareMali::new(Model::G71).info()
}

pub fn compiled(recording: &Recording) -> Compiled {
    edited(recording, &Edits::default())
}

pub fn edited(recording: &Recording, edits: &Edits) -> Compiled {
    compile(
        recording,
        edits,
        &target(),
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap()
}

pub fn play(c: &Compiled) -> Outcome {
    run(&c.plan, &c.pages, &mut SoftwareMali::new(Model::G71), &Progress::new())
}

/// Changes the plan's actions and updates its action counts.
pub fn with_actions(mut c: Compiled, change: impl FnOnce(&mut Vec<Action>)) -> Compiled {
    let mut actions: Vec<Action> = Actions::new(&c.plan.accesses().unwrap().body)
        .map(Result::unwrap)
        .collect();
    change(&mut actions);
    let mut body = BodyBuilder::new();
    for a in &actions {
        body.push(a).unwrap();
    }
    (c.plan.accesses_mut().unwrap().body, c.plan.actions) = body.finish();
    c
}

/// Changes one page of the plan and stores it under its new digest.
pub fn with_page(mut c: Compiled, frame: u64, change: impl FnOnce(&mut Page)) -> Compiled {
    let entry = c
        .plan
        .accesses_mut()
        .unwrap()
        .pages
        .iter_mut()
        .find(|p| p.frame == frame)
        .unwrap();
    let mut page = *c.pages[&entry.digest];
    change(&mut page);
    entry.digest = *blake3::hash(&page).as_bytes();
    c.pages.insert(entry.digest, page.into());
    c
}

/// Returns the entries of the plan's tables that translate `va`.
pub fn steps(c: &Compiled, va: GpuVa) -> Vec<WalkStep> {
    let memory = replay_engine::plan::PlanMemory::from_plan(c.plan.accesses().unwrap(), &c.pages).unwrap();
    let space = &c.plan.spaces()[0];
    walk(space.format, space.root, va, &memory).steps
}

/// Changes one entry of the plan's page tables.
pub fn with_entry(c: Compiled, at: PhysAddr, change: impl FnOnce(u64) -> u64) -> Compiled {
    with_page(c, at.frame(), |page| {
        let bytes = &mut page[at.in_page()..at.in_page() + 8];
        let raw = u64::from_le_bytes(bytes.try_into().unwrap());
        bytes.copy_from_slice(&change(raw).to_le_bytes());
    })
}

/// Changes the recording's accesses. `change` returns `None` to remove an access.
pub fn with_accesses(mut r: Recording, mut change: impl FnMut(u64, Access) -> Option<Access>) -> Recording {
    let mut b = EventsBuilder::new();
    for at in 0..r.events.len() {
        let time = r.events.time.get(at).unwrap();
        match r.events.kind(at).unwrap() {
            EventKind::Read | EventKind::Write => {
                if let Some(a) = change(at as u64, r.events.access(at).unwrap()) {
                    b.access(time, 0, a);
                }
            }
            EventKind::Interrupt => b.interrupt(time, r.events.interrupt(at).unwrap()),
            EventKind::HostWrite => b.host_write(time, 0, r.events.host_write(at).unwrap()),
            _ => {}
        }
    }
    r.events = b.finish();
    r
}
