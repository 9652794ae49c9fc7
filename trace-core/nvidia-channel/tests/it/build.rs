//! Builds again what CUDA's driver and a small client sent to an H100, and compares the bytes.

use crate::launches::{Sample, hex, launches, numbers_after, samples};
use crate::log::{self, Record};
use nvidia_channel::constant_bank::ConstantBank0;
use nvidia_channel::launch::Launch;
use nvidia_channel::qmd::{
    CacheInvalidation, ConstantBank, MAX_QMD_BYTES, Prefetch, Qmd, QmdBuildError, QmdBuilder, QmdKind, QmdLayout,
    QmdVersion, Release, ReleaseFence, SharedConfiguration,
};
use nvidia_channel::writer::{
    COPY_SUBCHANNEL, ContextSetup, HostRelease, LaunchAction, LocalMemory, LocalMemorySize, MemoryWindows,
    SemaphorePayload, ShaderCaches,
};
use nvidia_channel::{Bindings, GpuVa, PushBufferWriter};
use std::collections::{BTreeMap, BTreeSet};

/// Fields by which CUDA's driver orders launches. A launch alone does not need them.
const ORDERING_FIELDS: [&str; 6] = [
    "ARRIVE_AT_LATCH_VALID",
    "ARRIVE_AT_LATCH_ID",
    "DEPENDENT_QMD_ENABLE",
    "DEPENDENT_QMD_ACTION",
    "DEPENDENT_QMD_PREFETCH",
    "DEPENDENT_QMD0_POINTER",
];

/// Returns a builder with the values of a recorded launch.
fn rebuild(launch: &Launch) -> QmdBuilder {
    let qmd = Qmd::parse(&launch.descriptor, Some(launch.class)).unwrap();
    let field = |name: &str| qmd.field(name).unwrap();
    let threads = launch.block.iter().map(|n| u64::from(*n)).product();
    let computed = SharedConfiguration::for_grid(launch.shared_bytes, threads).unwrap();
    // The target of CUDA's driver is larger than the minimum by a rule that is not known.
    let configuration = SharedConfiguration {
        target: field("TARGET_SM_CONFIG_SHARED_MEM_SIZE") as u32,
        ..computed
    };
    let mut builder = QmdBuilder::new(launch.class)
        .unwrap()
        .with_kind(launch.kind)
        .with_grid(launch.grid)
        .with_block(launch.block)
        .with_shared_memory(launch.shared_bytes, configuration)
        .with_local_memory(launch.local_bytes)
        .with_registers(launch.registers)
        .with_barriers(launch.barriers)
        .with_sass_version(0x90)
        .with_program(launch.program_address)
        .with_program_prefetch(launch.program_address, field("PROGRAM_PREFETCH_SIZE") * 256)
        .with_cache_invalidation(CacheInvalidation {
            textures: true,
            data: true,
            instruction: false,
            constant: true,
        })
        .with_field("ENABLE_PROGRAM_PRE_EXIT", 0, 1)
        .with_release(launch.releases[0], ReleaseFence::None);
    for bank in &launch.constant_banks {
        let prefetch = if bank.index == 5 {
            Prefetch::Before
        } else {
            Prefetch::None
        };
        builder = builder.with_constant_bank(*bank, prefetch);
    }
    builder
}

/// Returns the names of fields whose values differ.
fn differing_fields(one: &[u8], other: &[u8]) -> BTreeSet<&'static str> {
    let [one, other] = [one, other].map(|bytes| Qmd::parse(bytes, Some(0xcbc0)).unwrap());
    let pairs = one.fields().zip(other.fields());
    pairs.filter(|(a, b)| a.value != b.value).map(|(a, _)| a.name).collect()
}

#[test]
fn descriptors_of_cuda_are_built_again() {
    for sample in samples() {
        let launch = &launches(&sample)[1];
        let built = rebuild(launch).build().unwrap();
        assert_eq!(built.len(), MAX_QMD_BYTES);
        assert_eq!(
            differing_fields(&built, &sample.descriptor),
            BTreeSet::from_iter(ORDERING_FIELDS),
            "{}",
            sample.name
        );
        let bytes: BTreeSet<usize> = (0..built.len())
            .filter(|n| built[*n] != sample.descriptor[*n])
            .collect();
        // Byte 3 has the valid bit of the latch, byte 46 the flags of dependents.
        assert!(bytes.is_subset(&BTreeSet::from_iter([3, 46].into_iter().chain(56..60).chain(184..188))));

        let qmd = Qmd::parse(&sample.descriptor, Some(0xcbc0)).unwrap();
        let complete = ORDERING_FIELDS.iter().fold(rebuild(launch), |builder, name| {
            builder.with_field(name, 0, qmd.field(name).unwrap())
        });
        assert_eq!(complete.build().unwrap(), sample.descriptor, "{}", sample.name);
    }
}

#[test]
fn null_grids_of_cuda_are_built_again() {
    for sample in samples() {
        let launch = &launches(&sample)[0];
        let qmd = Qmd::parse(&launch.descriptor, Some(0xcbc0)).unwrap();
        let built = qmd.fields().fold(QmdBuilder::new(0xcbc0).unwrap(), |builder, f| {
            builder.with_field(f.name, f.element.unwrap_or(0), f.value)
        });
        let built = built.with_kind(QmdKind::NullGrid).build().unwrap();
        assert_eq!(built, launch.descriptor, "{}", sample.name);
    }
}

/// Offsets in constant bank 0 whose meaning is unknown. A kernel that reads them is refused.
const UNKNOWN_OFFSETS: [u64; 12] = [
    0x40, 0x58, 0x68, 0xc8, 0xcc, 0xd0, 0xd4, 0xd8, 0xdc, 0x1a8, 0x1ac, 0x200,
];

fn rebuild_bank(sample: &Sample, launch: &Launch) -> Vec<u8> {
    let recorded = |at: usize| launch.bank_0.u64(at).unwrap();
    let mark = sample.expected["mark"].as_str().unwrap();
    let dynamic = mark.split("dynamic shared ").nth(1).map_or(0, |n| n.parse().unwrap());
    // The descriptor has the rounded size; only dynsum's differs.
    let shared = if dynamic == 0 {
        launch.shared_bytes as u32
    } else {
        0x400 + dynamic
    };
    let bank = ConstantBank0 {
        address: launch.constant_banks[0].address,
        block: numbers_after(mark, "block"),
        grid: numbers_after(mark, "grid"),
        cluster: [1; 3],
        shared_window: GpuVa(recorded(0x18)),
        local_window: GpuVa(recorded(0x20)),
        dynamic_shared_bytes: dynamic,
        shared_bytes: shared,
        reserved_shared_bytes: 0x400,
        launch_number: recorded(0x30) as u32,
        descriptor: launch.descriptor_address,
        sm_count: 132,
        program: launch.program_address,
        parameters: launch.parameters.as_ref().unwrap(),
    };
    bank.to_bytes().unwrap()
}

#[test]
fn constant_bank_0_of_cuda_is_built_again() {
    for sample in samples() {
        let launch = &launches(&sample)[1];
        let built = rebuild_bank(&sample, launch);
        assert_eq!(built.len() as u64, launch.constant_banks[0].bytes, "{}", sample.name);
        let words = |bytes: &[u8]| -> BTreeMap<u64, u32> {
            let words = bytes.chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap()));
            (0..).step_by(4).zip(words).filter(|(_, w)| *w != 0).collect()
        };
        let expected: BTreeMap<u64, u32> = sample.expected["cbuf0"]["nonzero"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(at, value)| (hex(&at.as_str().into()), hex(value) as u32))
            .filter(|(at, _)| !UNKNOWN_OFFSETS.contains(at) && *at != 0x204)
            .collect();
        assert_eq!(words(&built[..0x210]), expected, "{}", sample.name);
        let parameters = launch.parameters.as_ref().unwrap();
        assert_eq!(&built[0x210..0x210 + parameters.len()], &parameters[..]);
    }
}

#[test]
fn submissions_of_the_small_client_are_built_again() {
    let records = log::read(&crate::launches::data().join("h100-rm-client.klog.gz"));
    let words: Vec<Vec<u8>> = records
        .iter()
        .filter_map(|r| match r {
            Record::Words(words) => Some(words.clone()),
            _ => None,
        })
        .collect();
    let entries: Vec<u64> = records
        .iter()
        .filter_map(|r| match r {
            Record::Entry { entry, .. } => Some(*entry),
            _ => None,
        })
        .collect();
    let release = |writer: &mut PushBufferWriter, payload| {
        writer.release_semaphore(HostRelease {
            address: GpuVa(0x10_0080_0000),
            payload: SemaphorePayload::Word(payload),
            wait_for_idle: true,
            timestamp: true,
        })
    };
    let mut writer = PushBufferWriter::new(Bindings::new(0xc86f));
    release(&mut writer, 0x1001).unwrap();
    assert_eq!(writer.to_bytes(), words[0]);
    assert_eq!(writer.entry(GpuVa(0x10_0040_0000)), Ok(entries[0]));

    // The client sets up in two submissions, with a semaphore after each.
    let size = LocalMemorySize::compute(0x400, 64, 2, 72).unwrap();
    assert_eq!((size.bytes_per_tpc, size.bytes), (0x40_0000, 0x1200_0000));
    writer.take_words();
    let setup = ContextSetup {
        compute_class: 0xcbc0,
        copy_class: None,
        windows: MemoryWindows {
            shared: GpuVa(0x7294_0000_0000),
            local: GpuVa(0x7293_0000_0000),
        },
        local_memory: Some(LocalMemory {
            address: GpuVa(0x10_01e0_0000),
            bytes_per_tpc: size.bytes_per_tpc,
            max_sm_count: 0xff,
        }),
        shader_version: None,
        descriptor_version: None,
        shader_exceptions: None,
    };
    writer.set_up_context(&setup).unwrap();
    let expected = [&words[1][..8], &words[2][..words[2].len() - 24]].concat();
    assert_eq!(writer.to_bytes(), expected);

    // Two launches of descriptors in memory, and one of an inline descriptor.
    for (words, descriptor) in [(&words[3], 0x10_01a0_1000), (&words[4], 0x10_01a0_3000)] {
        writer.take_words();
        writer.invalidate_shader_caches(ShaderCaches::ALL, false).unwrap();
        writer
            .launch_descriptor(GpuVa(descriptor), LaunchAction::PrefetchSchedule)
            .unwrap();
        assert_eq!(&writer.to_bytes(), words);
    }
    let descriptor = &words[5][words[5].len() - MAX_QMD_BYTES..];
    writer.take_words();
    writer.invalidate_shader_caches(ShaderCaches::ALL, false).unwrap();
    writer
        .launch_inline_descriptor(GpuVa(0x10_01a0_5000), descriptor)
        .unwrap();
    assert_eq!(writer.to_bytes(), words[5]);

    let mut copy = PushBufferWriter::new(Bindings::new(0xc86f));
    copy.bind_class(COPY_SUBCHANNEL, 0xc8b5).unwrap();
    copy.copy(GpuVa(0x10_0150_0000), GpuVa(0x10_0160_0000), 1 << 20)
        .unwrap();
    copy.release_copy_semaphore(GpuVa(0x10_0080_0200), 0x1007, false)
        .unwrap();
    assert_eq!(copy.to_bytes(), words[6]);
}

#[test]
fn set_up_of_cuda_has_its_versions() {
    let mut writer = PushBufferWriter::new(Bindings::new(0xc86f));
    let setup = ContextSetup {
        compute_class: 0xcbc0,
        copy_class: Some(0xc8b5),
        windows: MemoryWindows {
            shared: GpuVa(0x7f2c_0000_0000),
            local: GpuVa(0x7f2b_dd00_0000),
        },
        local_memory: None,
        shader_version: Some([9, 0]),
        descriptor_version: Some((QmdVersion { major: 4, minor: 0 }, 1)),
        shader_exceptions: Some(true),
    };
    writer.set_up_context(&setup).unwrap();
    let words = writer.words();
    for pair in [[0x2001_20c4, 0x900], [0x2001_20a2, 0x1_0040], [0x2001_254a, 1]] {
        assert!(words.windows(2).any(|w| w == pair), "{pair:x?} in {words:x?}");
    }
    assert_eq!(writer.bindings().class_of(4), Some(0xc8b5));
}

#[test]
fn every_version_is_written_as_it_is_read() {
    let bank = ConstantBank {
        index: 3,
        address: GpuVa(0x12_3456_7840),
        bytes: 0x120,
        invalidate: true,
    };
    let release = Release {
        index: 0,
        address: GpuVa(0x98_7654_3210),
        payload: 0x1234_5678,
        words: 1,
        reduction: Some("RED_ADD"),
    };
    // Version 5.1 has a grid for each of its sub-tasks.
    for layout in QmdLayout::all().filter(|l| l.version() != QmdVersion { major: 5, minor: 1 }) {
        let (version, class) = (layout.version(), layout.class());
        let builder = QmdBuilder::for_version(version, class).unwrap();
        let configuration = SharedConfiguration::for_grid(0x500, 64).unwrap();
        let bytes = builder
            .with_kind(QmdKind::Grid)
            .with_grid([70_000, 3, 2])
            .with_block([32, 4, 2])
            .with_shared_memory(0x4f0, configuration)
            .with_local_memory(0x640)
            .with_registers(168)
            .with_barriers(3)
            .with_sass_version(0x86)
            .with_program(GpuVa(0x12_3456_7880))
            .with_constant_bank(bank, Prefetch::None)
            .with_release(release, ReleaseFence::None)
            .build()
            .unwrap_or_else(|e| panic!("{version} {class:x}: {e}"));
        let qmd = Qmd::parse(&bytes, Some(class)).unwrap();
        assert_eq!((qmd.version(), qmd.kind()), (version, QmdKind::Grid), "{class:x}");
        assert_eq!(
            (qmd.grid(), qmd.block()),
            (Some([70_000, 3, 2]), Some([32, 4, 2])),
            "{version}"
        );
        assert_eq!(
            (qmd.shared_bytes(), qmd.local_bytes()),
            (Some(0x500), Some([0, 0x640])),
            "{version}"
        );
        assert_eq!((qmd.registers(), qmd.barriers()), (Some(168), Some(3)), "{version}");
        assert_eq!(qmd.program_address(), Some(GpuVa(0x12_3456_7880)), "{version}");
        assert_eq!(qmd.constant_banks().collect::<Vec<_>>(), [bank], "{version}");
        assert_eq!(qmd.releases().collect::<Vec<_>>(), [release], "{version}");
    }
}

#[test]
fn grids_of_clusters_count_clusters() {
    let new = || QmdBuilder::new(0xcbc0).unwrap().with_kind(QmdKind::ClusterGrid);
    // The descriptor of an 8x8x1 grid that CUDA's driver made for a matrix multiplication with clusters of 8x1x1.
    let bytes = new().with_grid_of_clusters([8, 8, 1], [8, 1, 1]).build().unwrap();
    let qmd = Qmd::parse(&bytes, Some(0xcbc0)).unwrap();
    let stored = ["GRID_WIDTH", "GRID_HEIGHT", "GRID_DEPTH"].map(|name| qmd.field(name));
    assert_eq!(stored, [Some(1), Some(8), Some(1)]);
    assert_eq!((qmd.grid(), qmd.cluster()), (Some([8, 8, 1]), Some([8, 1, 1])));
    for cluster in [[3, 1, 1], [0, 1, 1]] {
        let error = QmdBuildError::Clusters {
            grid: [8, 8, 1],
            cluster,
        };
        assert_eq!(new().with_grid_of_clusters([8, 8, 1], cluster).build(), Err(error));
    }
    // More blocks than a number of 32 bits holds.
    let fields = [
        ("GRID_WIDTH", u32::MAX),
        ("GPC_CGA_WIDTH", 2),
        ("GPC_CGA_HEIGHT", 1),
        ("GPC_CGA_DEPTH", 1),
    ];
    let huge = fields.into_iter().fold(new().with_grid([1; 3]), |b, (name, value)| {
        b.with_field(name, 0, value.into())
    });
    let bytes = huge.build().unwrap();
    assert_eq!(Qmd::parse(&bytes, Some(0xcbc0)).unwrap().grid(), None);
}

#[test]
fn unproven_classes_and_values_that_do_not_fit_are_refused() {
    for class in [0xc3c0, 0xc6c0, 0xc9c0, 0xcdc0, 0xcec0] {
        let error = QmdBuilder::new(class).map(|_| ());
        assert_eq!(error, Err(QmdBuildError::UnprovenClass { class }));
    }
    let new = || QmdBuilder::new(0xcbc0).unwrap();
    let is_value = |builder: QmdBuilder| matches!(builder.build(), Err(QmdBuildError::Value { .. }));
    assert!(is_value(new().with_grid([1 << 31, 1, 1]).with_grid([1, 1 << 16, 1])));
    assert!(is_value(new().with_registers(512)));
    assert!(is_value(
        new().with_shared_memory(u64::MAX, SharedConfiguration::for_grid(0, 1).unwrap())
    ));
    assert!(is_value(new().with_program(GpuVa(1 << 57))));
    let bank = |index, address| ConstantBank {
        index,
        address: GpuVa(address),
        bytes: 16,
        invalidate: false,
    };
    assert!(is_value(new().with_constant_bank(bank(8, 0), Prefetch::None)));
    assert!(is_value(new().with_constant_bank(bank(0, 0x20), Prefetch::None)));
    let missing = new().with_field("NO_SUCH_FIELD", 0, 0).build();
    assert!(matches!(missing, Err(QmdBuildError::MissingField { .. })));
}
