//! Tests of endless shaders. The budget stops them, and the driver, the slot and a replay see a hanging job.
//!
//! The tests assemble the shaders from the table of the instruction set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bifrost::pack::{Slots, clause, operation};
use bifrost::{Constant, Header, Modifier, Op, PcRelative, Port2, Port3, Registers, Source, Unit, Value};
use device_mali::{Budget, Model, SoftwareMali};
use driver_mali::{Driver, DriverError, JobEnd, Recorder, SpaceId, Submission};
use replay_core::{Device, WaitResult};
use replay_engine::compile::compile;
use replay_engine::device::{RegisterTarget, Target, space};
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::run::{FaultRegister, Outcome, Verdict, run};
use trace_core::families::Dispatch;
use trace_core::finding::FindingKind;
use trace_core::mmu::Rights;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType, MmuFormat};
use trace_core::{GpuVa, Recording};

const LOW: Source = Source::Uniform { high: false };
const HIGH: Source = Source::Uniform { high: true };

/// Flow bits of a clause: the end, or the next clause.
const END: u64 = 0;
const NEXT: u64 = 3 << 11;

/// Returns the encoding of an operation with these sources and modifiers. All other modifiers have their default.
fn bits(unit: Unit, op: Op, sources: &[Source], set: &[(Modifier, Value)]) -> u32 {
    operation(unit, op, sources, set).unwrap_or_else(|| panic!("no encoding of {op:?} has these sources and modifiers"))
}

fn nop(unit: Unit) -> u32 {
    bits(unit, Op::Nop, &[], &[])
}

/// Returns a clause of one tuple.
fn one(flow: u64, registers: Registers, fma: u32, add: u32, constants: &[Constant]) -> Vec<u8> {
    clause(Header { bits: flow }, &[Slots { registers, fma, add }], constants)
        .unwrap()
        .concat()
}

/// Returns a constant whose high word is a branch distance in bytes. Its low word is 1 with [`by`].
fn branch_distance(bytes: i32) -> Constant {
    Constant {
        bits: u64::from(bytes as u32 & 0x0fff_ffff) << 32,
        relative: PcRelative::High,
    }
}

/// Returns a block that uses the first constant, with 1 in its lowest bits.
fn by() -> Registers {
    Registers {
        uniform: 0x41,
        ..Registers::idle()
    }
}

fn end() -> Vec<u8> {
    one(END, Registers::idle(), nop(Unit::Fma), nop(Unit::Add), &[])
}

/// Returns a clause that jumps to itself.
fn jump_to_self() -> Vec<u8> {
    one(
        NEXT,
        by(),
        nop(Unit::Fma),
        bits(Unit::Add, Op::Jump, &[HIGH], &[]),
        &[branch_distance(0)],
    )
}

/// Returns code that loads the word at the first pushed uniform, and repeats while it is not 0.
fn wait_for_zero() -> Vec<u8> {
    let load = bits(Unit::Add, Op::LoadI32, &[LOW, HIGH], &[(Modifier::Seg, Value::None)]);
    let registers = Registers {
        uniform: 0x80,
        ..Registers::idle()
    };
    // The first register is the staging register.
    let mut code = one(NEXT, registers, nop(Unit::Fma), load, &[]);
    let back = -(code.len() as i32);
    let branch = bits(
        Unit::Add,
        Op::BranchzI32,
        &[Source::Port(0), HIGH],
        &[(Modifier::Cmpf, Value::Ne)],
    );
    let registers = Registers { port0: Some(0), ..by() };
    code.extend(one(NEXT, registers, nop(Unit::Fma), branch, &[branch_distance(back)]));
    code.extend(end());
    code
}

/// Returns code in which odd threads branch to the last clause. The others reach a barrier before it.
fn diverge_at_barrier(last: Vec<u8>) -> Vec<u8> {
    let odd = bits(Unit::Fma, Op::LshiftAndI32, &[Source::Port(0), LOW, Source::Stage], &[]);
    let branch = bits(
        Unit::Add,
        Op::BranchzI32,
        &[Source::Stage, HIGH],
        &[(Modifier::Cmpf, Value::Ne)],
    );
    let barrier = one(
        NEXT,
        Registers::idle(),
        nop(Unit::Fma),
        bits(Unit::Add, Op::Barrier, &[], &[]),
        &[],
    );
    let registers = Registers {
        port0: Some(55),
        ..by()
    };
    let parts = |to: usize| one(NEXT, registers, odd, branch, &[branch_distance(to as i32)]);
    let past = parts(0).len() + barrier.len() + end().len();
    [parts(past), barrier, end(), last].concat()
}

#[test]
fn test_shaders_disassemble_as_described() {
    let text = |code: &[u8]| {
        let mut out = String::new();
        let mut at = 0;
        while at < code.len() {
            let c = bifrost::Clause::from_code(code, at).unwrap();
            assert!(c.is_sound());
            assert_eq!(
                (c.tuples[0].registers.port2, c.tuples[0].registers.port3),
                (Port2::Idle, Port3::Idle)
            );
            out += &bifrost::clause_text(&c, at as u64);
            at += c.bytes() as usize;
        }
        out
    };
    let waits = text(&wait_for_zero());
    assert!(
        waits.contains("LOAD.i32") && waits.contains("BRANCHZ.i32.ne"),
        "{waits}"
    );
    assert!(text(&jump_to_self()).contains("JUMP"));
    let parts = text(&diverge_at_barrier(end()));
    assert!(parts.contains("BARRIER") && parts.contains("LSHIFT_AND.i32"), "{parts}");
}

/// A chain of one compute job with 64 threads per workgroup. Its first uniform points to a page of data.
struct Job {
    head: GpuVa,
    data: GpuVa,
}

fn job(d: &mut Driver<'_>, space: SpaceId, code: &[u8], workgroups: u32) -> Job {
    let page = |d: &mut Driver<'_>, rights| d.alloc(space, 0x1000, rights).unwrap();
    let (head, shader, data) = (page(d, Rights::RW), page(d, Rights::RX), page(d, Rights::RW));
    let mut descriptors = vec![0u8; 0x400];
    let mut put = |at: usize, words: &[u32]| {
        for (to, word) in descriptors[at..].chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    };
    let pointer = |va: u64| [va as u32, (va >> 32) as u32];
    let (state, push) = (head.get() + 0x200, head.get() + 0x300);
    // The header is a compute job with 64-bit pointers, the first of its chain.
    put(16, &[1 | 4 << 1 | 1 << 16]);
    let (sizes, shifts) = Dispatch {
        workgroups: [workgroups, 1, 1],
        size: [64, 1, 1],
    }
    .pack(6)
    .unwrap();
    put(32, &[sizes, shifts]);
    put(64 + 12 * 4, &pointer(push));
    put(64 + 14 * 4, &pointer(state));
    put(0x200, &pointer(shader.get()));
    // The state allows a barrier, preloads the thread position to register 55 and pushes one uniform.
    put(0x200 + 4 * 4, &[1 << 11]);
    put(0x200 + 12 * 4, &[1 << 7 | 1 << 15]);
    put(0x300, &pointer(data.get()));
    d.write(space, head, &descriptors).unwrap();
    d.write(space, shader, code).unwrap();
    Job { head, data }
}

fn device() -> SoftwareMali {
    SoftwareMali::new(Model::G71).with_budget(Budget {
        wave: 5_000,
        job: 100_000,
        read: 1_000,
    })
}

fn submit(d: &mut Driver<'_>, space: SpaceId, head: GpuVa) -> Submission {
    d.submit_chain(space, 1, head).unwrap()
}

fn assert_hangs(end: Result<JobEnd, DriverError>) {
    assert!(
        matches!(end, Err(DriverError::NoInterrupt { what: "a job", .. })),
        "{end:?}"
    );
}

const REASON: &str = "the shader did not end within 5000 clauses of a wave of 32 threads, or 100000 clauses of all";

#[test]
fn endless_shader_hangs_its_slot_until_a_hard_stop() {
    for (code, groups) in [(jump_to_self(), 1), (jump_to_self(), 40), (wait_for_zero(), 3)] {
        let mut device = device();
        let mut d = Driver::boot(&mut device, Recorder::new("a shader that never ends")).unwrap();
        let space = d.new_space(MmuFormat::MaliLpae).unwrap();
        let endless = job(&mut d, space, &code, groups);
        d.write(space, endless.data, &[7; 8]).unwrap();
        let after = job(&mut d, space, &end(), groups);
        let chain = submit(&mut d, space, endless.head);
        assert_hangs(d.wait(chain));
        // A second wait does not help.
        assert_hangs(d.wait(chain));
        let ended = d.stop(chain).unwrap();
        assert_eq!(
            (ended.status, ended.fault_address),
            (4, None),
            "the job must be terminated"
        );
        // The slot is free again, and the GPU runs as before.
        d.run_chain(space, 1, after.head).unwrap();
        d.finish().unwrap();
        let entries: Vec<_> = device
            .take_job_reports()
            .into_iter()
            .map(|r| (r.status, r.computed, r.reason))
            .collect();
        assert_eq!(entries[0].0, 8, "a hanging job is reported as active");
        // The job did not end, so it counts neither as computed nor as not computed.
        assert_eq!(entries[0].1, None);
        assert_eq!(entries[0].2.as_deref(), Some(REASON));
        assert_eq!(entries.last(), Some(&(1, Some(true), None)));
        // The executed work does not depend on how the budget was spent.
        assert!(device.work().clauses <= 100_000 + 200, "{:?}", device.work());
    }
}

/// Register offset of job slot 1.
const JS1: u64 = 0x1880;

fn read(device: &mut SoftwareMali, offset: u64) -> u64 {
    device.read(space::REGISTERS, offset, 4).unwrap()
}

fn write(device: &mut SoftwareMali, offset: u64, value: u64) {
    device.write(space::REGISTERS, offset, 4, value).unwrap();
}

/// Returns a device whose slot 1 hangs in a shader.
fn hanging_device() -> SoftwareMali {
    let mut device = device();
    let mut d = Driver::boot(&mut device, Recorder::new("a shader that never ends")).unwrap();
    let space = d.new_space(MmuFormat::MaliLpae).unwrap();
    let endless = job(&mut d, space, &jump_to_self(), 1);
    let chain = submit(&mut d, space, endless.head);
    assert_hangs(d.wait(chain));
    drop(d);
    device
}

#[test]
fn registers_report_an_endless_shader_as_active() {
    let mut device = hanging_device();
    assert_eq!(read(&mut device, JS1 + 0x24), 8, "the slot is active");
    assert_eq!(
        (read(&mut device, 0x1000), device.raised_lines()),
        (0, 0),
        "no interrupt came"
    );
    // A soft stop ends the shader, and the slot reports it as stopped.
    write(&mut device, JS1 + 0x20, 2);
    assert_eq!(device.wait_interrupt(1, 1_000_000), Ok(WaitResult::Raised { lines: 1 }));
    assert_eq!((read(&mut device, 0x1000), read(&mut device, JS1 + 0x24)), (1 << 17, 3));
}

#[test]
fn a_reset_ends_a_shader_that_never_ends() {
    for command in [1, 2] {
        let mut device = hanging_device();
        write(&mut device, 0x30, command);
        write(&mut device, 0x28, 0x100);
        assert_eq!(device.wait_interrupt(4, 1_000_000), Ok(WaitResult::Raised { lines: 4 }));
        assert_eq!((read(&mut device, JS1 + 0x24), read(&mut device, 0x1000)), (0, 0));
        // The driver boots and runs jobs again.
        let mut d = Driver::boot(&mut device, Recorder::new("after the reset")).unwrap();
        let space = d.new_space(MmuFormat::MaliLpae).unwrap();
        let short = job(&mut d, space, &end(), 2);
        d.run_chain(space, 1, short.head).unwrap();
        d.finish().unwrap();
    }
}

#[test]
fn threads_that_diverge_before_a_barrier_do_not_hang() {
    let mut device = device();
    let mut d = Driver::boot(&mut device, Recorder::new("a barrier")).unwrap();
    let space = d.new_space(MmuFormat::MaliLpae).unwrap();
    // Half of the threads end before the barrier. The others continue, because no thread is left to wait for.
    let diverging = job(&mut d, space, &diverge_at_barrier(end()), 3);
    d.run_chain(space, 1, diverging.head).unwrap();
    // Half of the threads never end. The others would wait forever, so the budget ends the job.
    let endless = job(&mut d, space, &diverge_at_barrier(jump_to_self()), 3);
    let chain = submit(&mut d, space, endless.head);
    assert_hangs(d.wait(chain));
    assert_eq!(d.stop(chain).unwrap().status, 4);
    d.finish().unwrap();
    let entries: Vec<_> = device
        .take_job_reports()
        .into_iter()
        .map(|r| (r.computed, r.reason))
        .collect();
    assert_eq!(entries[0], (Some(true), None));
    assert_eq!(entries[1], (None, Some(REASON.into())));
}

/// Records a shader that waits for a word to be 0, and the word is 0.
fn record_waiting_shader() -> Recording {
    let mut device = device();
    let mut d = Driver::boot(&mut device, Recorder::new("a shader that waits")).unwrap();
    let space = d.new_space(MmuFormat::MaliLpae).unwrap();
    let waits = job(&mut d, space, &wait_for_zero(), 2);
    d.name_buffer("flag", BufferRole::Input, space, waits.data, 4, ElementType::U32);
    d.run_chain(space, 1, waits.head).unwrap();
    d.finish().unwrap()
}

fn replay(r: &Recording, edits: &Edits) -> Outcome {
    let mut device = device();
    let c = compile(r, edits, &device.info(), &CompileOptions::default(), &Progress::new()).unwrap();
    run(&c.plan, &c.pages, &mut device, &Progress::new())
}

#[test]
fn edited_input_with_an_endless_shader_is_reported_as_a_hang() {
    let r = record_waiting_shader();
    let unedited = replay(&r, &Edits::default());
    assert_eq!((unedited.verdict, &unedited.failure), (Verdict::Match, &None));
    assert_eq!(unedited.jobs()[0].computed, Some(true));
    let edits = Edits {
        inputs: [("flag".to_owned(), vec![1, 0, 0, 0])].into(),
        ..Edits::default()
    };
    let o = replay(&r, &edits);
    assert_ne!(o.verdict, Verdict::Match);
    let why = o.failure.clone().unwrap();
    assert!(why.contains("no interrupt came"), "{why}");
    let job = &o.jobs()[0];
    assert_eq!((job.done, job.status, job.computed), (false, None, None));
    // The fault report reads the slot as active.
    assert_eq!(o.faults.len(), 1);
    let status = FaultRegister {
        name: "JS1_STATUS".to_owned(),
        value: 8,
        means: "ACTIVE".to_owned(),
    };
    assert!(o.faults[0].registers.contains(&status), "{:?}", o.faults[0]);
    assert!(!o.computed);
    // A finding with the job contains the reason.
    let finding = o
        .findings()
        .iter()
        .find(|f| f.kind == FindingKind::ShaderNotRun)
        .unwrap();
    assert!(finding.message.contains(REASON), "{finding:?}");
}
