//! Builds launches of loaded kernels, decodes them again, and compares them with launches of CUDA's driver on an H100.

use crate::load::{bytes, load};

use cuda_code::cubin::load::LoadedImage;
use nvidia_channel::command::Command;
use nvidia_channel::constant_bank::BankError;
use nvidia_channel::launch::{BuiltLaunch, Delivery, Launch, LaunchBuildError, LaunchRequest};
use nvidia_channel::memory::MemoryReader;
use nvidia_channel::push_buffer::PushBuffer;
use nvidia_channel::qmd::{Qmd, QmdBuildError, QmdKind, Release};
use nvidia_channel::writer::{EncodeError, MemoryWindows};
use nvidia_channel::{Bindings, CommandReader, GpuVa, PushBufferWriter};

/// Address of constant bank 0.
const BANK: GpuVa = GpuVa(0x7f2b_d229_0000);
/// Address of the descriptor.
const DESCRIPTOR: GpuVa = GpuVa(0x2_04e0_c800);

/// A launch of the recorded program: kernel, grid, block, dynamic shared memory, number of parameter bytes.
type Recorded = (&'static str, [u32; 3], [u32; 3], u32, usize);

const RECORDED: [Recorded; 7] = [
    ("vadd", [4, 1, 1], [256, 1, 1], 0, 28),
    ("blocksum", [4, 1, 1], [256, 1, 1], 0, 20),
    ("dynsum", [1, 1, 1], [128, 1, 1], 4000, 20),
    ("localmem", [2, 1, 1], [64, 1, 1], 0, 20),
    ("ids", [2, 3, 4], [8, 4, 2], 0, 8),
    ("consts", [1, 1, 1], [32, 1, 1], 0, 8),
    ("bigparam", [1, 1, 1], [1, 1, 1], 0, 32),
];

/// What the caller of [`LaunchRequest::build`] writes to memory.
struct Written<'a>(&'a BuiltLaunch);

impl MemoryReader for Written<'_> {
    fn read(&self, address: GpuVa, out: &mut [u8]) -> bool {
        [(BANK, &self.0.constant_bank_0), (DESCRIPTOR, &self.0.descriptor)]
            .into_iter()
            .any(|(base, bytes)| {
                let at = address.0.checked_sub(base.0).and_then(|at| usize::try_from(at).ok());
                let found = at.and_then(|at| bytes.get(at..at.checked_add(out.len())?));
                found.map(|found| out.copy_from_slice(found)).is_some()
            })
    }
}

fn writer(class: u16) -> PushBufferWriter {
    PushBufferWriter::new(Bindings::new(0xc86f).with(1, class))
}

fn request<'a>(image: &'a LoadedImage, launch: Recorded, parameters: &'a [u8]) -> LaunchRequest<'a> {
    let (name, grid, block, dynamic_shared_bytes, _) = launch;
    LaunchRequest {
        kernel: &image.find_kernel(name).unwrap().description,
        grid,
        block,
        cluster: None,
        dynamic_shared_bytes,
        parameters,
        constant_bank_0: BANK,
        descriptor: DESCRIPTOR,
        windows: MemoryWindows {
            shared: GpuVa(0x7f2c_0000_0000),
            local: GpuVa(0x7f2b_dd00_0000),
        },
        local_bytes: 0x640,
        sm_count: 132,
        launch_number: 2,
        release: Some(Release {
            index: 0,
            address: GpuVa(0x2_0463_7f30),
            payload: 6,
            words: 1,
            reduction: None,
        }),
        delivery: Delivery::Memory,
    }
}

/// Decodes the words of a launch.
fn decode(built: &BuiltLaunch, delivery: Delivery) -> Launch {
    let words: Vec<u8> = built.words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut bindings = Bindings::new(0xc86f).with(1, 0xcbc0);
    let mut reader = CommandReader::new();
    // Uploaded bytes must come from the words.
    let nothing = BuiltLaunch {
        constant_bank_0: Vec::new(),
        descriptor: Vec::new(),
        words: Vec::new(),
    };
    let memory = Written(if delivery == Delivery::Upload { &nothing } else { built });
    let methods = PushBuffer::new(&words).methods(&mut bindings).map(Result::unwrap);
    let commands: Vec<Command> = methods.filter_map(|m| reader.read(&m, &memory)).collect();
    let mut launches = commands.into_iter().filter_map(|c| match c {
        Command::Launch(launch) => Some(*launch),
        Command::UnreadableLaunch(error) => panic!("{error}"),
        _ => None,
    });
    let launch = launches.next().unwrap();
    assert_eq!(launches.count(), 0);
    launch
}

#[test]
fn words_decode_to_what_was_requested() {
    let image = load(&bytes("kernels.sm_90.cubin")).unwrap();
    for recorded in RECORDED {
        let (name, grid, block, dynamic, parameter_bytes) = recorded;
        let parameters: Vec<u8> = (0..parameter_bytes as u8).map(|n| n ^ 0x5a).collect();
        for delivery in [Delivery::Memory, Delivery::Upload, Delivery::InlineDescriptor] {
            let request = LaunchRequest {
                delivery,
                ..request(&image, recorded, &parameters)
            };
            let built = request.build(&writer(0xcbc0)).unwrap_or_else(|e| panic!("{name}: {e}"));
            let launch = decode(&built, delivery);
            assert_eq!(
                (launch.descriptor_address, &launch.descriptor),
                (DESCRIPTOR, &built.descriptor)
            );
            assert_eq!(
                (launch.kind, launch.grid, launch.block),
                (QmdKind::Grid, grid, block),
                "{name}"
            );
            assert_eq!(launch.program_address, request.kernel.program, "{name}");
            assert_eq!(launch.parameters.as_ref(), Some(&parameters), "{name}");
            assert_eq!(launch.releases, request.release.into_iter().collect::<Vec<_>>());
            let banks: Vec<(u32, GpuVa)> = launch.constant_banks.iter().map(|b| (b.index, b.address)).collect();
            let module = &request.kernel.banks;
            assert_eq!(
                banks,
                [(0, BANK), (3, module[0].address), (4, module[1].address)],
                "{name}"
            );
            assert_eq!(launch.bank_0.u64(0x38), Some(DESCRIPTOR.0));
            assert_eq!(launch.bank_0.u64(0x118), Some(request.kernel.program.0));
            assert_eq!(
                launch.bank_0.u64(0x28),
                Some(u64::from(dynamic) << 32 | 0xff_fdc0),
                "{name}"
            );
        }
    }
}

#[test]
fn fields_equal_those_of_cudas_driver() {
    let image = load(&bytes("kernels.sm_90.cubin")).unwrap();
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../nvidia-channel/tests/data");
    for recorded in RECORDED {
        let (name, .., parameter_bytes) = recorded;
        let parameters = vec![0; parameter_bytes];
        let built = request(&image, recorded, &parameters).build(&writer(0xcbc0)).unwrap();
        let theirs = std::fs::read(data.join(format!("h100-launch-{name}.qmd"))).unwrap();
        let [ours, theirs] = [&built.descriptor, &theirs].map(|q| Qmd::parse(q, Some(0xcbc0)).unwrap());
        for field in [
            "QMD_GROUP_ID",
            "QMD_TYPE",
            "QMD_MAJOR_VERSION",
            "QMD_MINOR_VERSION",
            "API_VISIBLE_CALL_LIMIT",
            "SAMPLER_INDEX",
            "SASS_VERSION",
            "REGISTER_COUNT",
            "BARRIER_COUNT",
            "SHARED_MEMORY_SIZE",
            "SHADER_LOCAL_MEMORY_HIGH_SIZE",
            "SHADER_LOCAL_MEMORY_LOW_SIZE",
            "MIN_SM_CONFIG_SHARED_MEM_SIZE",
            "MAX_SM_CONFIG_SHARED_MEM_SIZE",
            "GRID_WIDTH",
            "GRID_HEIGHT",
            "GRID_DEPTH",
            "CTA_THREAD_DIMENSION0",
            "CTA_THREAD_DIMENSION1",
            "CTA_THREAD_DIMENSION2",
            "CWD_MEMBAR_TYPE",
            "PROGRAM_PREFETCH_SIZE",
            "PROGRAM_PREFETCH_TYPE",
            "CONSTANT_BUFFER_SIZE_SHIFTED4",
            "RELEASE_ENABLE",
            "RELEASE_STRUCTURE_SIZE",
            "INVALIDATE_SHADER_CONSTANT_CACHE",
        ] {
            assert!(theirs.field(field).is_some(), "{field}");
            assert_eq!(ours.field(field), theirs.field(field), "{name} {field}");
        }
    }
}

#[test]
fn clusters_are_launched_as_the_kernel_requires() {
    let image = load(&bytes("loads.sm_90.cubin")).unwrap();
    let recorded = ("clusters", [6, 1, 1], [32, 1, 1], 0, 8);
    let parameters = [0; 8];
    let launch = request(&image, recorded, &parameters);
    let built = launch.build(&writer(0xcbc0)).unwrap();
    let decoded = decode(&built, Delivery::Memory);
    assert_eq!((decoded.kind, decoded.cluster), (QmdKind::ClusterGrid, Some([2, 1, 1])));
    assert_eq!(decoded.grid, [6, 1, 1]);
    let odd = LaunchRequest {
        grid: [5, 1, 1],
        ..launch.clone()
    };
    let error = odd.build(&writer(0xcbc0)).unwrap_err();
    assert!(
        matches!(error, LaunchBuildError::Bank(BankError::Cluster { .. })),
        "{error}"
    );
    let other = LaunchRequest {
        cluster: Some([3, 1, 1]),
        ..launch
    };
    assert!(matches!(
        other.build(&writer(0xcbc0)),
        Err(LaunchBuildError::Dimensions { .. })
    ));
}

#[test]
fn launches_that_cannot_run_are_refused() {
    let image = load(&bytes("kernels.sm_90.cubin")).unwrap();
    let parameters = [0; 20];
    let good = request(&image, RECORDED[3], &parameters);
    assert!(good.build(&writer(0xcbc0)).is_ok());
    let build = |request: LaunchRequest<'_>| request.build(&writer(0xcbc0)).unwrap_err();
    for (grid, block) in [
        ([0, 1, 1], [1, 1, 1]),
        ([1, 0x1_0000, 1], [1, 1, 1]),
        ([1, 1, 1], [1025, 1, 1]),
        ([1, 1, 1], [32, 32, 2]),
        ([1, 1, 1], [1, 1, 65]),
    ] {
        let error = build(LaunchRequest {
            grid,
            block,
            ..good.clone()
        });
        assert!(matches!(error, LaunchBuildError::Dimensions { .. }), "{error}");
    }
    let error = build(LaunchRequest {
        parameters: &[0; 16],
        ..good.clone()
    });
    assert_eq!(
        error.to_string(),
        "localmem: 16 bytes of parameters are given; the kernel has 20"
    );
    let error = build(LaunchRequest {
        local_bytes: 0x200,
        ..good.clone()
    });
    assert!(
        matches!(
            error,
            LaunchBuildError::LocalMemory {
                needed: 0x340,
                available: 0x200,
                ..
            }
        ),
        "{error}"
    );
    let error = build(LaunchRequest {
        dynamic_shared_bytes: 228 << 10,
        ..good.clone()
    });
    assert!(matches!(error, LaunchBuildError::SharedMemory { .. }), "{error}");
    let error = build(LaunchRequest {
        descriptor: GpuVa(0x80),
        ..good.clone()
    });
    assert!(
        matches!(error, LaunchBuildError::Words(EncodeError::Address { .. })),
        "{error}"
    );
    let error = build(LaunchRequest {
        constant_bank_0: GpuVa(0x20),
        ..good.clone()
    });
    assert!(
        matches!(error, LaunchBuildError::Descriptor(QmdBuildError::Value { .. })),
        "{error}"
    );
    let error = good.build(&writer(0xc6c0)).unwrap_err();
    assert!(matches!(
        error,
        LaunchBuildError::Descriptor(QmdBuildError::UnprovenClass { class: 0xc6c0 })
    ));
    let unbound = PushBufferWriter::new(Bindings::new(0xc86f));
    assert!(matches!(
        good.build(&unbound),
        Err(LaunchBuildError::Words(EncodeError::UnboundEngine(_)))
    ));
}
