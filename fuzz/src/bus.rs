//! Fuzz target for plans of devices that master the bus: an independent model follows what verification accepts.

use crate::plan_changes::apply_changes;
use replay_core::{Action, Actions};
use replay_engine::device::{Arena, Containment, DeviceInfo, DeviceInterface, Window};
use replay_engine::plan::{self, Compiled, PlanMemory};
use replay_engine::verify::verify;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::LazyLock;
use trace_core::progress::Progress;
use trace_core::recording::{Hardware, PciFunction, SpaceKind};
use trace_core::{PAGE_SIZE, PhysAddr};

/// First byte of a `plan_verified` input that starts from a sound plan of a virtio graphics device.
pub(crate) const FIRST: u8 = 0xfe;

// Offsets of the registers that configure the device and its queues.
const STATUS: u64 = 0x14;
const FEATURE_SELECT: u64 = 0x08;
const FEATURE: u64 = 0x0c;
const SELECT: u64 = 0x16;
const SIZE: u64 = 0x18;
const ENABLE: u64 = 0x1c;
const TABLE: u64 = 0x20;
const RING: u64 = 0x28;
const NOTIFY: u64 = 0x3000;
/// Features that do not change the format of the rings: EDID, indirect descriptors, event indices, version 1.
const FEATURES: u64 = 1 << 1 | 1 << 28 | 1 << 29 | 1 << 32;

fn device() -> DeviceInfo {
    DeviceInfo {
        name: "fuzz".into(),
        description: String::new(),
        gpu_id: 0,
        gpu_name: "virtio-gpu".into(),
        register_map: "virtio-gpu".into(),
        containment: Containment::None,
        hardware: Some(Hardware::Pci(PciFunction {
            vendor: 0x1af4,
            device: 0x1050,
            ..PciFunction::default()
        })),
        windows: vec![Window {
            number: 0,
            name: "bar4".into(),
            kind: SpaceKind::Registers,
            bytes: 0x4000,
        }],
        arena: Arena {
            base: PhysAddr::new(0x8_7654_0000),
            pages: 64,
        },
        interface: DeviceInterface::Registers,
        virtual_time: false,
        computes: false,
    }
}

static SOUND: LazyLock<Option<Compiled>> = LazyLock::new(|| {
    let file = include_bytes!("../../sample-traces/qemu/virtio-gpu.kine");
    let recording = trace_core::container::from_bytes(file.to_vec()).ok()?;
    let options = plan::CompileOptions::default();
    replay_engine::compile::compile(
        &recording,
        &plan::Edits::default(),
        &device(),
        &options,
        &Progress::new(),
    )
    .ok()
});

/// Checks that a relocatable plan is also refused or proved after it is moved to other memory.
pub(crate) fn check_moved(compiled: &Compiled) {
    if let Ok(moved) = compiled.moved_to(&device()) {
        let _ = verify(&moved.plan, &moved.pages, &device());
    }
}

/// Verifies the sound plan after it applied the input's changes, 12 bytes a change.
pub(crate) fn verify_changed(data: &[u8]) -> bool {
    let sound = SOUND.as_ref().cloned();
    let mut compiled = sound.unwrap_or_else(|| panic!("the sample does not compile"));
    apply_changes(&mut compiled, data);
    if verify(&compiled.plan, &compiled.pages, &device()).is_err() {
        return false;
    }
    follow(&compiled);
    true
}

/// Value of each register that the plan has not written since a reset: the device's last user may have left any value.
const HOSTILE: u64 = 0xdead_beef;

/// Runs a verified plan on a simple model of the device, in the state that a hostile user left. Queues in use lead
/// elsewhere, and a reset does not clear all registers. At every doorbell, each pending chain names only the plan's own
/// pages.
fn follow(compiled: &Compiled) {
    let plan = &compiled.plan;
    let Some(accesses) = plan.accesses() else {
        panic!("a verified plan has no accesses")
    };
    let (Ok(mut memory), Ok(images)) = (
        PlanMemory::from_plan(accesses, &compiled.pages),
        plan.change_images(&compiled.pages),
    ) else {
        panic!("a verified plan lacks a page")
    };
    let base = accesses.arena.base.get();
    let own = base..base + accesses.used_pages * PAGE_SIZE as u64;
    // A device keeps its features until the driver sets others.
    let mut features = [HOSTILE; 2];
    let (mut registers, mut selected, mut word) = (HashMap::new(), HOSTILE, HOSTILE);
    let mut queues = BTreeMap::from([(HOSTILE, (HOSTILE, HOSTILE, 1, 0u16))]);
    for action in Actions::new(&accesses.body).map_while(Result::ok) {
        match action {
            Action::Put { .. } | Action::Copy { .. } => {
                assert!(memory.apply(&action, &images), "a verified change fails");
            }
            // Verification requires the plan to wait for the end of the reset. The device chooses its first queue and
            // word by itself.
            Action::Write {
                offset: STATUS,
                value: 0,
                ..
            } => {
                queues.clear();
                registers.clear();
                (selected, word) = (0, 0);
            }
            Action::Write {
                offset: SELECT, value, ..
            } => selected = value,
            Action::Write {
                offset: FEATURE_SELECT,
                value,
                ..
            } => word = value,
            Action::Write {
                offset: FEATURE, value, ..
            } => {
                if let Some(feature) = usize::try_from(word).ok().and_then(|w| features.get_mut(w)) {
                    *feature = value;
                }
            }
            Action::Write { offset, value, .. } => {
                registers.insert((selected, offset), value);
                let part = |r: u64| registers.get(&(selected, r)).copied().unwrap_or(HOSTILE);
                let wide = |r: u64| part(r) | part(r + 4) << 32;
                if offset == ENABLE {
                    let [low, high] = features;
                    let agreed = low | high << 32;
                    assert_eq!(agreed & !FEATURES, 0, "a queue is used with features {agreed:#x}");
                    queues.insert(selected, (wide(TABLE), wide(RING), part(SIZE), 0u16));
                }
                if !(NOTIFY..NOTIFY + 0x100).contains(&offset) {
                    continue;
                }
                for (table, ring, size, next) in queues.values_mut() {
                    chains(&memory, &own, (*table, *ring, *size), next);
                }
            }
            _ => {}
        }
    }
}

/// Follows the pending chains of a queue.
fn chains(memory: &PlanMemory<'_>, own: &Range<u64>, (table, ring, size): (u64, u64, u64), next: &mut u16) {
    let index = half(memory, ring + 2);
    while *next != index {
        let mut at = u64::from(half(memory, ring + 4 + u64::from(*next) % size * 2));
        for _ in 0..=size {
            let d = table + at * 16;
            let parts: Vec<u64> = (0..8).map(|i| u64::from(half(memory, d + i * 2))).collect();
            let [a, b, c, e, low, high, flags, following] = parts[..] else {
                return;
            };
            let (address, bytes) = (a | b << 16 | c << 32 | e << 48, low | high << 16);
            let end = address.checked_add(bytes);
            assert!(
                own.contains(&address) && end.is_some_and(|e| e <= own.end),
                "a verified plan names {bytes} bytes at {address:#x}, outside its own pages"
            );
            if flags & 1 == 0 {
                break;
            }
            at = following;
        }
        *next = next.wrapping_add(1);
    }
}

fn half(memory: &PlanMemory<'_>, at: u64) -> u16 {
    let byte = |at: u64| {
        let page = memory.page(PhysAddr::new(at).frame());
        let byte = page.and_then(|p| p.get(PhysAddr::new(at).in_page()));
        u16::from(*byte.unwrap_or_else(|| panic!("a verified plan has a queue at {at:#x}")))
    };
    byte(at) | byte(at + 1) << 8
}
