//! Tests of memory that a target maps while the plan is compiled.

use super::outputs::{SYSTEM, VIDEO, copy, device, record};
use crate::{ChannelOptions, compile};
use replay_engine::channel::VerifiedMemory;
use replay_engine::plan::{Edits, PageSource, PlannedSubmissions};
use replay_engine::target::ReplayPreparation;
use std::sync::{Arc, Mutex};
use trace_core::progress::Progress;
use trace_core::recording::Recording;

/// What a target was asked to prepare.
#[derive(Debug, Default)]
struct RecordedPreparation {
    /// Address of the player's memory, and the steps, of each request.
    mapped: Mutex<Vec<(u64, Vec<u8>)>>,
    discarded: Mutex<u32>,
}

impl ReplayPreparation for RecordedPreparation {
    fn map_memory(&self, memory: VerifiedMemory<'_>) {
        let asked = (memory.control().get(), memory.steps().to_vec());
        self.mapped.lock().unwrap().push(asked);
    }

    fn prepare(&self, _: PlannedSubmissions<'_>, _: VerifiedMemory<'_>, _: &dyn PageSource) {
        panic!("a compiler has no verified plan");
    }

    fn discard(&self) {
        *self.discarded.lock().unwrap() += 1;
    }
}

/// Compiles a recording with a preparation, and returns whether it has a plan, with its body and the player's memory.
fn compile_prepared(recording: &Recording, preparation: &Arc<RecordedPreparation>) -> Option<(Vec<u8>, u64)> {
    let options = ChannelOptions {
        preparation: Some(Arc::<RecordedPreparation>::clone(preparation)),
        ..ChannelOptions::default()
    };
    let compiled = compile(recording, &Edits::default(), &device(), &options, &Progress::new()).ok()?;
    let channel = compiled.plan.channel().unwrap();
    Some((channel.body.to_vec(), channel.control.get()))
}

#[test]
fn memory_is_mapped_before_the_submissions_are_read() {
    let preparation = Arc::new(RecordedPreparation::default());
    let (body, control) = compile_prepared(&record(&[copy(VIDEO, SYSTEM, 64)]), &preparation).unwrap();
    let mapped = preparation.mapped.lock().unwrap();
    let [(asked, steps)] = mapped.as_slice() else {
        panic!("{} requests", mapped.len());
    };
    assert_eq!(*asked, control);
    assert!(
        !steps.is_empty() && body.starts_with(steps),
        "the plan begins with the mapped memory"
    );
    assert_eq!(*preparation.discarded.lock().unwrap(), 0);
}

#[test]
fn preparations_for_a_recording_without_a_plan_are_discarded() {
    let preparation = Arc::new(RecordedPreparation::default());
    // Class 0x902d is none that a channel of the plan has.
    let bound = vec![1 << 29 | 1 << 16 | 2 << 13, 0x902d];
    assert!(compile_prepared(&record(&[bound]), &preparation).is_none());
    assert_eq!(preparation.mapped.lock().unwrap().len(), 1);
    assert_eq!(*preparation.discarded.lock().unwrap(), 1);
}
