//! Synthetic recordings of any length for tests.

use trace_core::RegOffset;
use trace_core::recording::{Access, EventsBuilder, Recording, Space, SpaceKind};
use trace_core::registers::RegisterMap;

/// Returns a recording of a GPU with a register map.
fn recording(events: EventsBuilder) -> Recording {
    let mut r = Recording {
        events: events.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x6000_0011;
    r.metadata.spaces.push(Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: 0x4000,
    });
    r
}

fn offset(name: &str) -> u32 {
    let map = RegisterMap::for_gpu(0x6000_0011).expect("the map is embedded");
    map.find_by_name(name)
        .unwrap_or_else(|| panic!("no {name}"))
        .offset
        .get()
}

fn access(write: bool, offset: u32, value: u64) -> Access {
    Access {
        space: 0,
        write,
        offset: RegOffset::new(offset),
        width: 4,
        value,
    }
}

/// Returns `n` reads of one register with a single write of another at event `at`.
pub fn quiet(n: u64, at: u64) -> Recording {
    let (plain, rare) = (offset("L2_READY_LO"), offset("JS1_COMMAND_NEXT"));
    let mut b = EventsBuilder::new();
    for i in 0..n {
        let one = if i == at {
            access(true, rare, 0)
        } else {
            access(false, plain, 1)
        };
        b.access(i * 100, 1, one);
    }
    recording(b)
}

/// Returns `n` events of a driver that submits jobs, polls, and is sometimes idle. It submits a job about every fifteen
/// events, which no real driver does: job lists become as long as possible.
pub fn busy(n: u64) -> Recording {
    driver(n, 0)
}

/// Returns events like [`busy`], with `waits` more status reads before each job.
pub fn driver(n: u64, waits: u64) -> Recording {
    let offsets = |names: &[&str]| names.iter().map(|n| offset(n)).collect::<Vec<_>>();
    let power = offsets(&[
        "TILER_READY_LO",
        "TILER_READY_HI",
        "L2_READY_LO",
        "L2_READY_HI",
        "SHADER_READY_LO",
    ]);
    let submit = offsets(&[
        "JS1_HEAD_NEXT_LO",
        "JS1_HEAD_NEXT_HI",
        "JS1_CONFIG_NEXT",
        "JS1_COMMAND_NEXT",
    ]);
    let handler = offsets(&["JOB_IRQ_STATUS", "JOB_IRQ_CLEAR", "JOB_IRQ_RAWSTAT"]);
    let (command, status) = (offset("AS0_COMMAND"), offset("AS0_STATUS"));
    let mut b = EventsBuilder::new();
    let mut time = 0;
    let mut job = 0u64;
    let mut put = |b: &mut EventsBuilder, a: Access| {
        time += 500;
        b.access(time, 7, a);
        if b.len().is_multiple_of(4096) {
            time += 30_000_000;
        }
    };
    while (b.len() as u64) < n {
        job += 1;
        for o in &power {
            put(&mut b, access(false, *o, 1));
        }
        for left in (0..waits).rev() {
            // Every sixtieth read ends a wait, as if several flushes followed each other.
            put(&mut b, access(false, status, u64::from(!left.is_multiple_of(60))));
        }
        if job.is_multiple_of(4) {
            put(&mut b, access(true, command, 5));
            for left in (0..12).rev() {
                put(&mut b, access(false, status, u64::from(left > 0)));
            }
        }
        let values = [0xb8f5_b040 + job % 4096 * 64, 0xffff, 0x8_7b00, 1];
        for (o, v) in submit.iter().zip(values) {
            put(&mut b, access(true, *o, v));
        }
        // One job in a thousand fails.
        let reported = if job.is_multiple_of(1000) { 0x2_0000 } else { 2 };
        put(&mut b, access(false, handler[0], reported));
        put(&mut b, access(true, handler[1], reported));
        put(&mut b, access(false, handler[2], 0));
    }
    recording(b)
}
