//! Tests of recordings that do not fit another model: each reason, before anything is sent.

use crate::other_models::compile_for;
use crate::recordings::find_recordings;
use crate::sample_table::{record_changes, write_value};
use bifrost::pack::{Slots, clause, operation};
use bifrost::{Header, Modifier, Op, Registers, Source, Unit, Value};
use device_mali::{Model, SoftwareMali};
use driver_mali::{Driver, Recorder, SpaceId};
use replay_engine::compile::compile;
use replay_engine::device::{DeviceInfo, Target as _};
use replay_engine::plan::{CompileError, CompileOptions, Edits, ModelError};
use std::path::Path;
use trace_core::families::Dispatch;
use trace_core::mmu::Rights;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventKind, EventsBuilder, MmuFormat};
use trace_core::{GpuVa, PhysAddr, Recording, RegOffset, container};

// Register offsets.
const TEXTURE_FEATURES_3: u32 = 0xbc;
const SHADER_PWRON: u32 = 0x180;
const SLOTS: u32 = 0x1800;
const SLOT_1: u32 = 0x1880;
const AFFINITY_NEXT: u32 = 0x1880 + 0x50;
const CONFIG_NEXT: u32 = 0x1880 + 0x58;
const SPACES: u32 = 0x2400;

/// Returns a recording of jobs without shaders on a model.
fn plain(model: Model) -> Recording {
    write_value(&mut SoftwareMali::new(model), MmuFormat::Aarch64_4k).unwrap()
}

/// Returns a recording with its accesses replaced.
fn with_accesses(mut r: Recording, change: impl Fn(Access) -> Vec<Access>) -> Recording {
    let mut b = EventsBuilder::new();
    for at in 0..r.events.len() {
        let time = r.events.time.get(at).unwrap();
        match r.events.kind(at).unwrap() {
            EventKind::Read | EventKind::Write => {
                for a in change(r.events.access(at).unwrap()) {
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

/// Returns a recording with other values written to or read from a register.
fn with_value(r: Recording, offset: u32, values: &[u64]) -> Recording {
    with_accesses(r, |a| {
        let here = a.offset == RegOffset::new(offset);
        let other = |value: &u64| Access { value: *value, ..a };
        if here {
            values.iter().map(other).collect()
        } else {
            vec![a]
        }
    })
}

/// Returns why a recording does not fit a model.
fn refusal(r: &Recording, model: Model) -> ModelError {
    match compile_for(r, model, None) {
        Err(CompileError::OtherModel { reason, .. }) => *reason,
        other => panic!("{:?}", other.map(|c| c.plan.rewrites)),
    }
}

/// A chain of one job, in memory of its own.
struct JobParts {
    kind: u32,
    slot: u8,
    /// Clauses of the shader; empty for a job without a shader.
    code: Vec<u8>,
    /// Words of the storage descriptor; all 0 for none.
    storage: [u32; 6],
    /// Address of the renderer state, if it is another one.
    state: Option<u64>,
    /// Number of textures.
    textures: u32,
}

impl Default for JobParts {
    fn default() -> Self {
        Self {
            kind: 4,
            slot: 1,
            code: end(),
            storage: [0; 6],
            state: None,
            textures: 0,
        }
    }
}

/// Bytes of the memory that storage descriptors of the tests name.
const STORAGE_BYTES: u64 = 0x3000;

/// Records a job on a model. `place` gets the address of the memory for storage.
fn record_job(model: Model, place: impl Fn(GpuVa) -> JobParts) -> Recording {
    let mut device = SoftwareMali::new(model);
    let mut d = Driver::boot(&mut device, Recorder::new("one job")).unwrap();
    let space = d.new_space(MmuFormat::MaliLpae).unwrap();
    let storage = d.alloc(space, STORAGE_BYTES, Rights::RW).unwrap();
    let parts = place(storage);
    let head = write_job(&mut d, space, &parts);
    let chain = d.submit_chain(space, parts.slot, head).unwrap();
    // A job that the recorded model cannot run either ends with a fault.
    d.wait(chain).unwrap();
    d.finish().unwrap()
}

fn write_job(d: &mut Driver<'_>, space: SpaceId, parts: &JobParts) -> GpuVa {
    let head = d.alloc(space, 0x1000, Rights::RW).unwrap();
    let shader = d.alloc(space, 0x1000, Rights::RX).unwrap();
    let mut bytes = vec![0u8; 0x500];
    let mut put = |at: usize, words: &[u32]| {
        for (to, word) in bytes[at..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    };
    let pointer = |va: u64| [va as u32, (va >> 32) as u32];
    put(16, &[1 | parts.kind << 1 | 1 << 16]);
    let (sizes, shifts) = Dispatch {
        workgroups: [1, 1, 1],
        size: [4, 1, 1],
    }
    .pack(6)
    .unwrap();
    put(32, &[sizes, shifts]);
    // Compute and vertex jobs have their draw descriptor here; those of tilers are twice as far.
    let draw = if parts.kind == 7 { 128 } else { 64 };
    if parts.kind == 9 {
        put(32, &[0, 0]);
        put(40, &pointer(head.get() + 0x400));
    } else {
        let state = if parts.code.is_empty() { 0 } else { head.get() + 0x200 };
        put(draw + 14 * 4, &pointer(parts.state.unwrap_or(state)));
        put(draw + 28 * 4, &pointer(head.get() + 0x400));
    }
    put(0x200, &pointer(shader.get()));
    put(0x208, &[parts.textures << 16]);
    put(0x400, &parts.storage);
    d.write(space, head, &bytes).unwrap();
    d.write(space, shader, &parts.code).unwrap();
    head
}

fn nop(unit: Unit) -> u32 {
    operation(unit, Op::Nop, &[], &[]).unwrap()
}

/// Returns a clause of one tuple that ends the thread.
fn last_clause(fma: u32, add: u32) -> Vec<u8> {
    let registers = Registers::idle();
    clause(Header { bits: 0 }, &[Slots { registers, fma, add }], &[])
        .unwrap()
        .concat()
}

fn end() -> Vec<u8> {
    last_clause(nop(Unit::Fma), nop(Unit::Add))
}

/// Returns an encoding of an operation; its sources do not matter.
fn encode(unit: Unit, op: Op) -> u32 {
    // An operation takes those of them that it has.
    let modifiers = [
        (Modifier::Subgroup, Value::Subgroup4),
        (Modifier::InactiveResult, Value::Zero),
        (Modifier::Sign0, Value::Zext),
        (Modifier::Sign1, Value::Zext),
    ];
    let sources = [Source::Port(0), Source::Port(1), Source::Stage];
    (0..=4)
        .flat_map(|count| sources.map(|s| vec![s; count]))
        .find_map(|s| operation(unit, op, &s, &modifiers))
        .unwrap_or_else(|| panic!("{op:?}"))
}

#[test]
fn models_of_other_generations_are_refused() {
    let reason = refusal(&plain(Model::G71), Model::G52);
    assert!(matches!(reason, ModelError::Mismatch(_)), "{reason}");
    assert!(reason.to_string().contains("architecture 6"), "{reason}");
    let error = compile_for(&plain(Model::G31), Model::G72, None)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("the recording of a Mali-G31 does not fit a Mali-G72: the first runs shaders"),
        "{error}"
    );
    // A Midgard GPU, and a Valhall GPU.
    for (id, generation) in [(0x0860_0000, "Midgard"), (0x9091_0000, "Valhall")] {
        let mut r = plain(Model::G71);
        r.metadata.identity.gpu_id = id;
        let reason = refusal(&r, Model::G71).to_string();
        assert!(reason.contains(generation), "{reason}");
    }
}

fn info_of(model: Model) -> DeviceInfo {
    SoftwareMali::new(model).info()
}

fn compile_with(r: &Recording, info: &DeviceInfo) -> ModelError {
    let options = CompileOptions::default();
    match compile(r, &Edits::default(), info, &options, &Progress::new()) {
        Err(CompileError::OtherModel { reason, .. }) => *reason,
        other => panic!("{:?}", other.map(|c| c.plan.rewrites)),
    }
}

#[test]
fn hardware_whose_registers_are_unknown_is_refused() {
    let mut info = info_of(Model::G72);
    info.virtual_time = false;
    let reason = compile_with(&plain(Model::G71), &info);
    assert!(matches!(reason, ModelError::NotReported { .. }), "{reason}");
}

#[test]
fn memory_beyond_the_physical_width_is_refused() {
    let mut info = info_of(Model::G31);
    info.arena.base = PhysAddr::new(1 << 40);
    let reason = compile_with(&plain(Model::G52), &info);
    assert!(matches!(reason, ModelError::PhysicalWidth { bits: 40 }), "{reason}");
}

#[test]
fn mapped_addresses_beyond_the_width_are_refused() {
    let r = record_changes(&mut SoftwareMali::new(Model::G52), MmuFormat::Aarch64_4k).unwrap();
    let error = compile_for(&r, Model::G31, None).unwrap_err();
    assert!(matches!(error, CompileError::AddressWidth { bits: 33, .. }), "{error}");
    compile_for(&r, Model::G76, None).unwrap();
}

#[test]
fn chains_for_missing_cores_are_refused() {
    let r = with_value(plain(Model::G71), AFFINITY_NEXT, &[0xf0]);
    let reason = refusal(&r, Model::G72).to_string();
    assert!(
        reason.ends_with("JS1_AFFINITY_NEXT_LO names the cores 0xf0, and the target has the cores 0x7"),
        "{reason}"
    );
    // Cores that exist stay.
    compile_for(&with_value(plain(Model::G71), AFFINITY_NEXT, &[0x6]), Model::G72, None).unwrap();
}

#[test]
fn power_steps_without_a_change_are_refused() {
    let r = with_value(plain(Model::G71), SHADER_PWRON, &[0x0f, 0xff]);
    let reason = refusal(&r, Model::G72);
    assert!(
        matches!(
            reason,
            ModelError::PowerStep {
                recorded: 0xff,
                present: 7,
                ..
            }
        ),
        "{reason}"
    );
}

/// Returns a recording in which the chains of slot 1 are for another slot.
fn on_slot(r: Recording, slot: u32) -> Recording {
    with_accesses(r, |mut a| {
        let offset = a.offset.get();
        if (SLOT_1..SLOT_1 + 0x80).contains(&offset) {
            a.offset = RegOffset::new(SLOTS + 0x80 * slot + offset - SLOT_1);
        }
        vec![a]
    })
}

#[test]
fn chains_for_missing_slots_are_refused() {
    let reason = refusal(&on_slot(plain(Model::G71), 5), Model::G72);
    assert!(matches!(reason, ModelError::Slot { slot: 5, .. }), "{reason}");
}

#[test]
fn jobs_that_a_slot_does_not_run_are_refused() {
    let reason = refusal(&on_slot(record_job(Model::G52, |_| JobParts::default()), 0), Model::G76);
    assert!(
        reason
            .to_string()
            .contains("is a compute job, which slot 0 of the target does not run"),
        "{reason}"
    );
}

#[test]
fn chains_for_missing_address_spaces_are_refused() {
    let mut r = with_accesses(plain(Model::G71), |mut a| {
        let offset = a.offset.get();
        if (SPACES..SPACES + 0x40).contains(&offset) {
            a.offset = RegOffset::new(offset + 9 * 0x40);
        }
        if [CONFIG_NEXT, CONFIG_NEXT - 0x80].contains(&offset) {
            a.value |= 9;
        }
        vec![a]
    });
    r.metadata.address_spaces[0].number = 9;
    let reason = refusal(&r, Model::G72);
    assert!(matches!(reason, ModelError::Space { number: 9, .. }), "{reason}");
}

#[test]
fn jobs_without_readable_descriptors_are_refused() {
    // A geometry job is not decoded; the state of a compute job lies in unmapped memory.
    let geometry = record_job(Model::G71, |_| JobParts {
        kind: 6,
        ..JobParts::default()
    });
    let reason = refusal(&geometry, Model::G72);
    assert!(
        reason.to_string().contains("the form of its descriptor is not decoded"),
        "{reason}"
    );
    let lost = record_job(Model::G71, |_| JobParts {
        state: Some(0x7000_0000),
        ..JobParts::default()
    });
    let reason = refusal(&lost, Model::G72).to_string();
    assert!(
        reason.contains("its renderer state at 0x70000000 has no content"),
        "{reason}"
    );
}

#[test]
fn storage_that_is_too_small_for_more_cores_is_refused() {
    // Two cores of 768 threads with 16 bytes each need 24 KiB; 12 KiB are there. The recorded driver did not mind.
    let threads = record_job(Model::G52, |at| JobParts {
        storage: [0, 31, at.get() as u32, (at.get() >> 32) as u32, 0, 0],
        ..JobParts::default()
    });
    let reason = refusal(&threads, Model::G76).to_string();
    assert!(
        reason.contains("has 12288 bytes of thread storage at 0x100000000; the target needs 196608: 16 bytes for each of 768 threads on 16 cores"),
        "{reason}"
    );
    // Fewer cores and threads need no more than what was recorded.
    compile_for(&threads, Model::G31, None).unwrap();
    // Two workgroups of 256 bytes: 8 KiB for sixteen cores, and twice that with four.
    let workgroups = |instances: u32| {
        record_job(Model::G52, |at| JobParts {
            storage: [0, instances | 9 << 8, 0, 0, at.get() as u32, (at.get() >> 32) as u32],
            ..JobParts::default()
        })
    };
    compile_for(&workgroups(1), Model::G76, None).unwrap();
    let reason = refusal(&workgroups(2), Model::G76);
    assert!(
        matches!(
            reason,
            ModelError::Storage {
                storage: "workgroup",
                found: 12288,
                needed: 16384,
                ..
            }
        ),
        "{reason}"
    );
    compile_for(&workgroups(2), Model::G51, None).unwrap();
}

#[test]
fn tile_buffers_that_are_too_small_are_refused() {
    let fragment = record_job(Model::G52, |_| JobParts {
        kind: 9,
        slot: 0,
        code: Vec::new(),
        ..JobParts::default()
    });
    let reason = refusal(&fragment, Model::G51);
    assert!(
        matches!(
            reason,
            ModelError::TileBuffer {
                recorded: 16384,
                target: 8192,
                ..
            }
        ),
        "{reason}"
    );
    compile_for(&fragment, Model::G76, None).unwrap();
}

#[test]
fn tilers_with_fewer_levels_are_refused() {
    let tiler = record_job(Model::G51, |_| JobParts {
        kind: 7,
        code: Vec::new(),
        ..JobParts::default()
    });
    let reason = refusal(&tiler, Model::G31);
    assert!(
        matches!(
            reason,
            ModelError::TilerLevels {
                recorded: 8,
                target: 2,
                ..
            }
        ),
        "{reason}"
    );
    compile_for(&tiler, Model::G52, None).unwrap();
}

#[test]
fn missing_texture_formats_are_refused() {
    let job = |textures| {
        let r = record_job(Model::G71, |_| JobParts {
            textures,
            ..JobParts::default()
        });
        // The driver of the recording also reads the formats of its model.
        with_accesses(r, |a| {
            let formats = Access {
                offset: RegOffset::new(TEXTURE_FEATURES_3),
                value: 0x10,
                ..a
            };
            if a.offset == RegOffset::ZERO {
                vec![a, formats]
            } else {
                vec![a]
            }
        })
    };
    let reason = refusal(&job(1), Model::G72);
    assert!(
        matches!(
            reason,
            ModelError::TextureFormats {
                missing: 0x10,
                word: 3,
                ..
            }
        ),
        "{reason}"
    );
    compile_for(&job(0), Model::G72, None).unwrap();
}

/// Returns a recording of a shader.
fn shader(model: Model, code: &[u8]) -> Recording {
    record_job(model, |_| JobParts {
        code: code.to_vec(),
        ..JobParts::default()
    })
}

#[test]
fn instructions_that_a_model_lacks_are_refused() {
    for (recorded, target, unit, op, fits) in [
        (Model::G72, Model::G71, Unit::Add, Op::FrcpF32, None),
        (Model::G72, Model::G71, Unit::Add, Op::FrsqF32, None),
        (Model::G52, Model::G31, Unit::Add, Op::ClperI32, Some(Model::G76)),
        (Model::G76, Model::G51, Unit::Add, Op::ClperI32, Some(Model::G52)),
        (Model::G76, Model::G52, Unit::Fma, Op::IdpV4i8, None),
        (Model::G31, Model::G52, Unit::Add, Op::ClperOldI32, Some(Model::G51)),
    ] {
        let bits = encode(unit, op);
        let code = match unit {
            Unit::Fma => last_clause(bits, nop(Unit::Add)),
            Unit::Add => last_clause(nop(Unit::Fma), bits),
        };
        let r = shader(recorded, &code);
        match refusal(&r, target) {
            ModelError::Instruction {
                shader,
                clause,
                instruction,
                ..
            } => assert_eq!((instruction, clause), (op.name(), shader)),
            other => panic!("{op:?}: {other}"),
        }
        if let Some(fits) = fits {
            compile_for(&r, fits, None).unwrap_or_else(|e| panic!("{op:?}: {e}"));
        }
    }
}

#[test]
fn unknown_instructions_are_refused() {
    let bits = (0..1 << 20)
        .rev()
        .find(|bits| {
            bifrost::Clause::from_code(&last_clause(nop(Unit::Fma), *bits), 0)
                .unwrap()
                .tuples[0]
                .add
                .is_none()
        })
        .unwrap();
    let r = shader(Model::G71, &last_clause(nop(Unit::Fma), bits));
    let reason = refusal(&r, Model::G72);
    assert!(
        matches!(reason, ModelError::UnknownInstruction { unit: "ADD", bits: b, .. } if b == bits),
        "{reason}"
    );
}

#[test]
fn shaders_that_cannot_be_followed_are_refused() {
    let mut broken = end();
    // A word of a format that no clause begins with.
    broken[0] = 0x02;
    let reason = refusal(&shader(Model::G71, &broken), Model::G72);
    assert!(matches!(reason, ModelError::Code { .. }), "{reason}");
}

#[test]
fn set_up_registers_lose_the_bits_of_the_recorded_model() {
    use replay_core::{Action, Actions};
    // SHADER_CONFIG, JM_CONFIG, L2_MMU_CONFIG, COHERENCY_ENABLE: value on a G76, and on a G51.
    for (offset, value, expected) in [
        (0xf04u32, 1 << 17 | 1 << 29, 1u64 << 29),
        (0xf00, 0xf << 16 | 1, 1),
        (0xf0c, 5 << 24 | 1 << 23, 1 << 23),
        (0x304, 1, 31),
    ] {
        let mut first = true;
        let r = plain(Model::G76);
        let mut events = EventsBuilder::new();
        for at in 0..r.events.len() {
            let (time, access) = (r.events.time.get(at).unwrap(), r.events.access(at));
            let Some(a) = access else {
                if let Some(i) = r.events.interrupt(at) {
                    events.interrupt(time, i);
                }
                continue;
            };
            // The driver sets units up after its reset, before it powers them on.
            if a.write && a.offset.get() == 0x190 && std::mem::take(&mut first) {
                let set = Access {
                    offset: RegOffset::new(offset),
                    value,
                    ..a
                };
                events.access(time, 0, set);
                events.access(time, 0, Access { write: false, ..set });
            }
            events.access(time, 0, a);
        }
        let r = Recording {
            events: events.finish(),
            ..r
        };
        let compiled = compile_for(&r, Model::G51, None).unwrap();
        let accesses: Vec<u64> = Actions::new(&compiled.plan.accesses().unwrap().body)
            .filter_map(|a| match a.unwrap() {
                Action::Write {
                    space: 0,
                    offset: o,
                    value,
                    ..
                } if o == u64::from(offset) => Some(value),
                Action::Read {
                    offset: o, expected, ..
                } if o == u64::from(offset) => Some(expected),
                _ => None,
            })
            .collect();
        assert_eq!(accesses[accesses.len() - 2..], [expected; 2], "{offset:#x}");
        let o = crate::other_models::play(&compiled, Model::G51);
        assert_eq!(o.divergence_count, 0, "{offset:#x}: {:?}", o.divergences);
    }
}

#[test]
fn published_recordings_are_refused_for_their_unknown_instructions() {
    let Some(folder) = find_recordings("gpureplay/mnist") else {
        return;
    };
    let opened = trace_import::open(&folder, &trace_import::OpenOptions::default(), &Progress::new()).unwrap();
    let reason = refusal(&opened.into_recording().unwrap(), Model::G72);
    assert!(matches!(reason, ModelError::UnknownInstruction { .. }), "{reason}");
}

/// A sample of a GPU that no model describes is refused like one of another generation.
#[test]
fn unknown_products_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces/vecadd.kine");
    let mut r = container::open(&path).unwrap();
    r.metadata.identity.gpu_id = 0x600f_0000;
    let reason = refusal(&r, Model::G72);
    assert!(reason.to_string().contains("0x600f0000 are not known"), "{reason}");
}
