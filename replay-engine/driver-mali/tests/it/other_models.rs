//! Tests of recordings that are compiled for another model of their group: results, rewrites, and what a simulator of each
//! model does.

use crate::agreement::programs;
use crate::recordings::find_recordings;
use crate::sample_table::{record_changes, write_value};
use device_mali::{Model, SoftwareMali};
use driver_mali::chains::record_folder;
use driver_mali::{ChainBuilder, Driver, DriverError, JobSpec, Recorder};
use replay_core::{Action, Actions, Device as _};
use replay_engine::compile::compile;
use replay_engine::device::{Target as _, space};
use replay_engine::plan::{CompileError, CompileOptions, Compiled, Edits, ModelError, RewriteKind};
use replay_engine::run::{Outcome, Verdict, run};
use replay_engine::verify::verify;
use std::collections::BTreeMap;
use std::path::Path;
use trace_core::families::mali_jm::WriteKind;
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, MmuFormat};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, Recording, RegOffset, container};

/// Returns all models but the recorded one that are of its architecture.
pub fn other_models(recording: &Recording) -> Vec<Model> {
    let id = recording.metadata.identity.gpu_id;
    let map = RegisterMap::for_gpu(id).unwrap();
    let is_other = |m: &Model| m.data().gpu_id >> 28 == id >> 28 && !map.is_same_product(id, m.data().gpu_id);
    Model::ALL.into_iter().filter(is_other).collect()
}

/// Compiles a recording for a model, with all buffers as outputs.
pub fn compile_for(
    recording: &Recording,
    model: Model,
    table_format: Option<MmuFormat>,
) -> Result<Compiled, CompileError> {
    let options = CompileOptions {
        outputs: recording.metadata.buffers.iter().map(|b| b.name.clone()).collect(),
        table_format,
        ..CompileOptions::default()
    };
    let info = SoftwareMali::new(model).info();
    compile(recording, &Edits::default(), &info, &options, &Progress::new())
}

/// Verifies and runs a plan on a simulator.
pub fn play(compiled: &Compiled, model: Model) -> Outcome {
    let mut device = SoftwareMali::new(model);
    verify(&compiled.plan, &compiled.pages, &device.info()).unwrap_or_else(|e| panic!("{e}"));
    run(&compiled.plan, &compiled.pages, &mut device, &Progress::new())
}

/// Returns the recorded bytes of a buffer at the end, or `None` if it is not mapped there.
fn bytes_at_end(recording: &Recording, b: &Buffer) -> Option<Vec<u8>> {
    let space = &recording.metadata.address_spaces[b.address_space as usize];
    let view = recording.memory.last();
    let byte = |at: u64| {
        let va = b.va + at;
        let pa = mmu::translate(space.format, space.root, va, &view).ok()?.target(va)?;
        Some(view.frame(pa.frame())?[pa.in_page()])
    };
    (0..b.bytes).map(byte).collect()
}

/// Checks that a plan for another model matches, and leaves the bytes of the recording in every buffer.
fn assert_same_results(name: &str, recording: &Recording, compiled: &Compiled, model: Model) {
    let o = play(compiled, model);
    let name = format!("{name} on {}", model.data().name);
    assert_eq!(
        (o.verdict, &o.failure),
        (Verdict::Match, &None),
        "{name}: {:?}",
        o.divergences
    );
    assert_eq!(o.reads.matched, o.reads.compared, "{name}");
    assert!(o.jobs().iter().all(|j| j.done && j.status == Some(1)), "{name}");
    // Counters show the clock of the model.
    for out in o.outputs.iter().filter(|b| b.name != "counters") {
        let expected = bytes_at_end(recording, recording.buffer(&out.name).unwrap());
        assert!(expected.is_none_or(|e| e == out.data), "{name}: {}", out.name);
    }
    // The outcome is a recording of the target's model, which replays there without a rewrite for another model.
    let outcome = container::from_bytes(o.recording.clone()).unwrap();
    assert_eq!(outcome.metadata.identity.gpu_id, model.data().gpu_id, "{name}");
    let again = compile_for(&outcome, model, None).unwrap();
    assert_eq!(again.plan.describe_model(), None, "{name}");
    let again = play(&again, model);
    assert_eq!(again.verdict, Verdict::Match, "{name}: {:?}", again.divergences);
    assert_eq!(again.outputs, o.outputs, "{name}");
}

/// Returns the number of rewrites by kind.
fn rewrites(compiled: &Compiled) -> BTreeMap<RewriteKind, usize> {
    let mut counts = BTreeMap::new();
    for r in &compiled.plan.rewrites {
        *counts.entry(r.kind).or_default() += 1;
    }
    counts
}

#[test]
fn every_sample_computes_the_same_on_every_other_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces");
    let mut plans = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "kine") {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let recording = container::open(&path).unwrap();
        for model in other_models(&recording) {
            let compiled = compile_for(&recording, model, None).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(compiled.plan.accesses().unwrap().gpu_id, model.data().gpu_id);
            let counts = rewrites(&compiled);
            assert_eq!(counts[&RewriteKind::Model], 1, "{name}");
            assert!(
                counts[&RewriteKind::Identity] >= 2 && counts[&RewriteKind::CoreMask] >= 2,
                "{name}"
            );
            assert_same_results(&name, &recording, &compiled, model);
            plans += 1;
        }
    }
    assert!(plans >= 16 + 3, "only {plans} plans");
}

/// Every model records, and every other model of its group replays, with both formats of page tables and both
/// directions between them.
#[test]
fn recordings_of_every_model_replay_on_every_other() {
    for recorded in Model::ALL {
        for format in MmuFormat::WRITTEN {
            let recording = write_value(&mut SoftwareMali::new(recorded), format).unwrap();
            for model in other_models(&recording) {
                for table_format in [None, Some(MmuFormat::Aarch64_4k), Some(MmuFormat::MaliLpae)] {
                    let compiled = compile_for(&recording, model, table_format).unwrap();
                    let planned = compiled.plan.spaces()[0].format;
                    assert_eq!(planned, table_format.unwrap_or(format));
                    let converted = rewrites(&compiled).contains_key(&RewriteKind::TableFormat);
                    assert_eq!(converted, planned != format);
                    let name = format!("{} {}", recorded.data().name, format.name());
                    assert_same_results(&name, &recording, &compiled, model);
                }
            }
        }
    }
}

/// The CPU changes memory and page tables between the chains.
#[test]
fn changes_of_memory_and_tables_follow_in_another_format() {
    for format in MmuFormat::WRITTEN {
        let recording = record_changes(&mut SoftwareMali::new(Model::G71), format).unwrap();
        for model in [Model::G71, Model::G72] {
            for table_format in MmuFormat::WRITTEN {
                let compiled = compile_for(&recording, model, Some(table_format)).unwrap_or_else(|e| panic!("{e}"));
                assert_same_results("changes", &recording, &compiled, model);
            }
        }
    }
}

/// Programs that Mesa's driver compiled. Those of the G52 whose fragment jobs may use its larger tile buffer do not fit
/// the smaller models.
#[test]
fn every_program_computes_the_same_on_every_other_model() {
    let Some(root) = find_recordings("panfrost") else {
        return;
    };
    let mut plans = 0;
    for p in programs(&root) {
        let mut device = device_mali::factory(p.device).unwrap();
        let done = record_folder(&p.folder, &mut *device).unwrap_or_else(|e| panic!("{}: {e}", p.name));
        for model in other_models(&done.recording) {
            let compiled = match compile_for(&done.recording, model, None) {
                Err(CompileError::OtherModel { reason, .. }) if p.name == "g52/triangle" => {
                    assert!(matches!(
                        *reason,
                        ModelError::TileBuffer { .. } | ModelError::TilerLevels { .. }
                    ));
                    assert!(matches!(model, Model::G31 | Model::G51));
                    continue;
                }
                compiled => compiled.unwrap_or_else(|e| panic!("{}: {e}", p.name)),
            };
            let o = play(&compiled, model);
            let name = format!("{} on {}", p.name, model.data().name);
            assert_eq!(
                (o.verdict, &o.failure),
                (Verdict::Match, &None),
                "{name}: {:?}",
                o.divergences
            );
            assert_eq!(o.computed, p.computes(), "{name}");
            for b in &done.recording.metadata.buffers {
                let out = o.outputs.iter().find(|out| out.name == b.name).unwrap();
                let expected = bytes_at_end(&done.recording, b).unwrap();
                // Every thread of a warp has a number of its own, so storage of threads holds other bytes.
                assert!(out.data == expected || !p.computes(), "{name}: {}", b.name);
            }
            plans += 1;
        }
    }
    assert!(plans >= 27, "only {plans} plans");
}

#[test]
fn plan_names_its_models_and_expects_the_target_s_registers() {
    let recording = write_value(&mut SoftwareMali::new(Model::G71), MmuFormat::Aarch64_4k).unwrap();
    let compiled = compile_for(&recording, Model::G72, None).unwrap();
    let message = compiled.plan.describe_model().unwrap();
    assert!(
        message.starts_with("recorded on Mali-G71, compiled for Mali-G72: ")
            && message.contains("rewrites of identity"),
        "{message}"
    );
    let map = RegisterMap::for_gpu(Model::G72.data().gpu_id).unwrap();
    let register = |offset: u64| map.at(RegOffset::new(offset as u32)).unwrap();
    let mut device = SoftwareMali::new(Model::G72);
    for action in Actions::new(&compiled.plan.accesses().unwrap().body).map(Result::unwrap) {
        match action {
            Action::Read { offset, expected, .. } if register(offset).identity && offset != 0x300 => {
                assert_eq!(device.read(space::REGISTERS, offset, 4).unwrap(), expected);
            }
            Action::Write {
                space: 0,
                offset,
                value,
                ..
            } if register(offset).name.contains("SHADER_PWR") => {
                assert!(value == 7 || register(offset).name.ends_with("HI"), "{value:#x}");
            }
            _ => {}
        }
    }
    // The device checks that a plan is for its own product.
    let info = SoftwareMali::new(Model::G71).info();
    let refused = verify(&compiled.plan, &compiled.pages, &info).unwrap_err();
    assert!(refused.to_string().contains("Mali-G72"), "{refused}");
    // For the recorded model there is nothing to say.
    let own = compile_for(&recording, Model::G71, None).unwrap();
    assert_eq!(own.plan.describe_model(), None);
}

fn read(device: &mut SoftwareMali, offset: u64) -> u64 {
    device.read(space::REGISTERS, offset, 4).unwrap()
}

#[test]
fn simulators_show_the_registers_of_their_model() {
    use trace_core::families::mali_jm::models::GpuModel;
    for model in Model::ALL {
        let mut device = SoftwareMali::new(model);
        let data = GpuModel::for_id(model.data().gpu_id).unwrap();
        let map = RegisterMap::for_gpu(data.gpu_id).unwrap();
        let identity: Vec<_> = map.registers().filter(|r| r.identity).collect();
        assert!(identity.len() > 30);
        for r in identity {
            let expected = data.identity_register(r.offset, false);
            let got = read(&mut device, u64::from(r.offset.get()));
            assert_eq!(got, u64::from(expected), "{} {}", data.name, r.name);
        }
        // A feature register that no model has.
        let before = device.anomalies().hole_reads;
        assert_eq!(read(&mut device, 0x0d00), 0);
        assert_eq!(device.anomalies().hole_reads, before + 1);
    }
}

#[test]
fn cores_that_a_model_lacks_cannot_be_powered() {
    for model in Model::ALL {
        let mut device = SoftwareMali::new(model);
        let present = model.data().shader_present;
        for mask in [!present & 0xffff_ffff, 0xffff_ffff] {
            device.write(space::REGISTERS, 0x180, 4, mask).unwrap();
            device.pause(1_000_000).unwrap();
            device.wait_interrupt(0b111, 1).unwrap();
            let expected = mask & present;
            assert_eq!(read(&mut device, 0x140), expected, "{} {mask:#x}", model.data().name);
        }
    }
}

/// A G31 has 33 bits of a GPU address.
#[test]
fn an_address_beyond_the_width_of_a_model_faults() {
    for (model, faults) in [(Model::G31, true), (Model::G51, false)] {
        let mut device = SoftwareMali::new(model);
        let mut d = Driver::boot(&mut device, Recorder::new("wide addresses")).unwrap();
        let space = d.new_space(MmuFormat::Aarch64_4k).unwrap();
        let chain = d.alloc(space, 0x1000, Rights::RW).unwrap();
        let far = GpuVa::new(1 << 33);
        d.map(space, far, 0x1000, Rights::RW).unwrap();
        let job = JobSpec::WriteValue {
            to: far,
            kind: WriteKind::Immediate { bytes: 8 },
            value: 1,
        };
        d.write(space, chain, &ChainBuilder::new().job(job).build(chain))
            .unwrap();
        match d.run_chain(space, 1, chain) {
            Err(DriverError::JobFailed { .. }) => assert!(faults),
            ended => {
                ended.unwrap();
                assert!(!faults);
            }
        }
    }
}
