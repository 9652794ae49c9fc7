//! Decodes whole recordings of an H100: every ioctl, and every word of every push buffer.

use crate::launches::data;
use crate::log::{Record, read};
use nvidia_channel::command::{Command, SemaphoreOperation, SemaphoreSource, SurfaceLayout};
use nvidia_channel::gpfifo::GpfifoEntry;
use nvidia_channel::launch::{Launch, LaunchError};
use nvidia_channel::memory::NoMemory;
use nvidia_channel::push_buffer::PushBuffer;
use nvidia_channel::rm::{self, ArgumentError, DeviceFile, DriverBranch};
use nvidia_channel::{Bindings, CommandReader};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const BRANCH: DriverBranch = DriverBranch::R580;

/// What the ioctls of a recording say.
#[derive(Default)]
struct Ioctls {
    count: usize,
    /// Classes of the objects that exist or existed, by handle.
    classes: BTreeMap<u64, u32>,
    /// Names of the allocated classes and of the control commands.
    names: BTreeSet<String>,
    /// Commands and classes whose fields are unknown.
    unknown: BTreeSet<String>,
}

fn decode_ioctls(records: &[Record]) -> Ioctls {
    let mut out = Ioctls::default();
    for record in records {
        let Record::Ioctl(ioctl) = record else {
            continue;
        };
        out.count += 1;
        let file = DeviceFile::from_path(&ioctl.path).unwrap_or_else(|| panic!("{}", ioctl.path));
        let argument = rm::decode_argument(BRANCH, file, ioctl.request, &ioctl.after);
        let argument = argument.unwrap_or_else(|e| panic!("{} {:#x}: {e}", ioctl.path, ioctl.request));
        if file == DeviceFile::Uvm {
            continue;
        }
        let nested = &ioctl.nested_after;
        let parameters = match argument.name.as_str() {
            "RM_ALLOC" => {
                let class = argument.number("hClass").unwrap() as u32;
                out.names.insert(rm::class_name(class).unwrap_or("?").to_owned());
                out.classes.insert(argument.number("hObjectNew").unwrap(), class);
                (!nested.is_empty()).then(|| rm::decode_allocation(BRANCH, class, nested))
            }
            "RM_CONTROL" => {
                let command = argument.number("cmd").unwrap() as u32;
                out.names.extend(rm::control_name(command));
                (!nested.is_empty()).then(|| rm::decode_control(BRANCH, command, nested))
            }
            _ => None,
        };
        match parameters {
            None | Some(Ok(_)) => {}
            Some(Err(ArgumentError::UnknownFields { name, .. })) => _ = out.unknown.insert(name),
            Some(Err(error)) => panic!("{error}"),
        }
        // The driver refuses some of the requests of CUDA's driver, which only asks what exists.
        if let Some(status) = argument.status() {
            assert!(
                rm::find_status(status).is_some(),
                "{} has the status {status:#x}",
                argument.name
            );
        }
    }
    out
}

/// The commands of all push buffers by the channel's handle, and the number of methods without a name.
struct Submissions {
    commands: Vec<Command>,
    methods: usize,
    unnamed: BTreeSet<(Option<u16>, u16)>,
}

fn decode_submissions(records: &[Record], classes: &BTreeMap<u64, u32>) -> Submissions {
    let mut channels: BTreeMap<u32, (Bindings, CommandReader)> = BTreeMap::new();
    let mut out = Submissions {
        commands: Vec::new(),
        methods: 0,
        unnamed: BTreeSet::new(),
    };
    let mut last = None;
    for record in records {
        match record {
            Record::Entry { channel, entry } => last = Some((*channel, GpfifoEntry::decode(*entry))),
            Record::Words(bytes) => {
                let (channel, entry) = last.take().unwrap();
                let GpfifoEntry::Segment(segment) = entry else {
                    panic!("a control entry has words");
                };
                assert_eq!(segment.words as usize * 4, bytes.len());
                let class = classes.get(&u64::from(channel)).copied().unwrap();
                let (bindings, reader) = channels
                    .entry(channel)
                    .or_insert_with(|| (Bindings::new(class as u16), CommandReader::new()));
                for method in PushBuffer::new(bytes).methods(bindings) {
                    let method = method.unwrap();
                    out.methods += 1;
                    if method.named().is_none() {
                        out.unnamed.insert((method.class, method.method));
                    }
                    out.commands.extend(reader.read(&method, &NoMemory));
                }
            }
            _ => {}
        }
    }
    out
}

fn launches(commands: &[Command]) -> Vec<&Launch> {
    let launches = commands.iter().filter_map(|c| match c {
        Command::Launch(launch) => Some(&**launch),
        _ => None,
    });
    launches.collect()
}

#[test]
fn every_ioctl_of_a_small_client_is_decoded() {
    let records = read(&data().join("h100-rm-client.klog.gz"));
    let ioctls = decode_ioctls(&records);
    assert_eq!(ioctls.count, 52);
    assert_eq!(ioctls.unknown, BTreeSet::new());
    for name in [
        "NV01_ROOT_CLIENT",
        "NV01_DEVICE_0",
        "FERMI_VASPACE_A",
        "HOPPER_CHANNEL_GPFIFO_A",
        "HOPPER_COMPUTE_A",
        "HOPPER_DMA_COPY_A",
        "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE",
        "NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN",
    ] {
        assert!(ioctls.names.contains(name), "{name}");
    }
}

#[test]
fn every_submission_of_a_small_client_is_decoded() {
    let records = read(&data().join("h100-rm-client.klog.gz"));
    let submissions = decode_submissions(&records, &decode_ioctls(&records).classes);
    assert_eq!(submissions.unnamed, BTreeSet::new());
    // The client writes two descriptors through the CPU, and one into its push buffer.
    let unreadable = submissions
        .commands
        .iter()
        .filter(|c| matches!(c, Command::UnreadableLaunch(LaunchError::UnknownMemory { .. })));
    assert_eq!(unreadable.count(), 2);
    let [launch] = launches(&submissions.commands)[..] else {
        panic!("not one launch");
    };
    assert_eq!(
        (launch.grid, launch.block, launch.cluster),
        ([4, 1, 1], [256, 1, 1], None)
    );
    assert_eq!((launch.registers, launch.barriers), (12, 1));
    assert_eq!(launch.parameters, None);
    let copies: Vec<_> = submissions
        .commands
        .iter()
        .filter_map(|c| match c {
            Command::Copy(copy) => Some(copy),
            _ => None,
        })
        .collect();
    assert_eq!(copies.len(), 1);
    assert_eq!(
        (copies[0].bytes(), copies[0].source.layout),
        (1 << 20, SurfaceLayout::Pitch)
    );
    let semaphores: Vec<_> = submissions
        .commands
        .iter()
        .filter_map(|c| match c {
            Command::Semaphore(s) => Some((s.source, s.operation, s.payload, s.timestamp)),
            _ => None,
        })
        .collect();
    let release = |source, payload, timestamp| (source, SemaphoreOperation::Release, payload, timestamp);
    let expected = [
        release(SemaphoreSource::Host, 0x1001, true),
        release(SemaphoreSource::Host, 0x1002, true),
        release(SemaphoreSource::Host, 0x1003, true),
        release(SemaphoreSource::Copy, 0x1007, false),
    ];
    assert_eq!(semaphores, expected);
}

/// Returns the folder of recordings, which may be absent.
fn recordings() -> PathBuf {
    std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    )
}

#[test]
fn recording_of_a_cuda_program_is_decoded() {
    let path = recordings().join("gdev/h100-cuda-vadd.klog.gz");
    if !path.exists() {
        println!("skipped: {} is missing", path.display());
        return;
    }
    let records = read(&path);
    let ioctls = decode_ioctls(&records);
    assert_eq!(ioctls.count, 679);
    // The headers do not have the rest.
    let named = ioctls.unknown.iter().filter(|name| !name.starts_with("command 0x"));
    assert_eq!(named.count(), 0, "{:?}", ioctls.unknown);
    let marks = records.iter().filter(|r| matches!(r, Record::Mark)).count();
    assert_eq!(marks, 25);
    let submissions = decode_submissions(&records, &ioctls.classes);
    assert!(submissions.methods > 60_000, "{} methods", submissions.methods);
    assert_eq!(submissions.unnamed, BTreeSet::new());
    let unreadable = submissions
        .commands
        .iter()
        .filter(|c| matches!(c, Command::UnreadableLaunch(_)))
        .count();
    let launches = launches(&submissions.commands);
    // Every kernel has two descriptors: one for order, and the grid. The program starts 407 and sets memory once.
    assert_eq!((launches.len(), unreadable), (816, 0));
    let with_parameters = launches.iter().filter(|l| l.parameters.is_some()).count();
    assert!(with_parameters >= 407, "{with_parameters} launches with parameters");
}
