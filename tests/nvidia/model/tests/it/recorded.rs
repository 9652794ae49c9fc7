//! Ioctls that an H100's driver answered, sent to the model: statuses and returned fields are the same.

use crate::bring_up::{InProcess, model};
use crate::client::{Driver, get32, get64, put, put32, put64};
use crate::log::{Ioctl, Record, read};
use nvidia_channel::rm::{
    Argument, ArgumentError, DeviceFile, DriverBranch, FieldKind, Request, decode_allocation, decode_argument,
    decode_control,
};
use nvidia_model::Model;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

const BRANCH: DriverBranch = DriverBranch::R580;
const RM_ALLOC_MEMORY: u64 = 0x27;
const RM_CONTROL: u64 = 0x2a;
const RM_ALLOC: u64 = 0x2b;
const RM_MAP_MEMORY: u64 = 0x4e;
const GR_GET_INFO: u32 = 0x2080_1201;
const GET_BUILD_VERSION: u32 = 0x101;
/// Pairs of index and value that the programs ask for.
const INFO: [(u32, u32); 7] = [(0x14, 8), (0x17, 9), (0x20, 2), (0xd, 64), (0xc, 0x900), (7, 0), (9, 0)];

/// Fields that are addresses, handles of the program's or numbers of the machine.
fn is_identity(name: &str, class: Option<u32>) -> bool {
    let identity = [
        "hRoot",
        "hClient",
        "fd",
        "ctl_fd",
        "rmCtrlFd",
        "uvmFd",
        "cid",
        "workSubmitToken",
        "reg_address",
        "fb_address",
        "interrupt_line",
        "hClientShare",
        "owner",
        "data",
        "gpuUuid.uuid",
        "gpu_uuid.uuid",
        "hParentClient",
        "hAppClient",
        "rangeGroupId",
        "vaSpaceToken",
        "grInfoListSize",
    ];
    // The offset of memory is its physical address.
    identity.contains(&name) || name == "offset" && matches!(class, Some(0x40 | 0x3e))
}

/// Returns the differences of two decoded structs.
fn compare(recorded: &Argument, answered: &Argument, class: Option<u32>) -> Vec<String> {
    let pairs = recorded.values.iter().zip(&answered.values);
    let different = pairs.filter(|(a, b)| {
        a.value != b.value
            && !a.field.name.to_lowercase().ends_with("status")
            && a.field.kind != FieldKind::Pointer
            && !is_identity(a.field.name, class)
    });
    different
        .map(|(a, _)| format!("{}.{}", recorded.name, a.field.name))
        .collect()
}

/// Commands of CUDA's driver that the model refuses: they describe the GPU's units. Their answers differ too.
const UNSUPPORTED: [&str; 16] = [
    "command 0x00801307 0x56",
    "command 0x20800102 0x56",
    "command 0x2080012f 0x56",
    "command 0x20800170 0x56",
    "command 0x20800195 0x56",
    "command 0x2080121b 0x56",
    "command 0x20801227 0x56",
    "command 0x2080122a 0x56",
    "command 0x2080122b 0x56",
    "command 0x20801803 0x56",
    "command 0x20801823 0x56",
    "command 0x20802a0a 0x56",
    "command 0x20803801 0x56",
    "command 0x20808159 0x56",
    "command 0x20808162 0x56",
    "command 0x20810108 0x56",
];

/// Fields of CUDA's program that differ, with the number of requests. The log's numbers of the GPU are blank.
const DIFFERENCES: [(&str, usize); 24] = [
    ("NV0000_CTRL_CMD_GPU_GET_PROBED_IDS.excludedGpuIds", 1),
    ("NV0000_CTRL_CMD_GPU_GET_PROBED_IDS.gpuIds", 1),
    ("NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION.officialChangelistNumber", 1),
    ("NV0080_CTRL_CMD_FB_GET_CAPS_V2.capsTbl", 1),
    ("NV2080_CTRL_CMD_BUS_GET_INFO_V2.busInfoList", 2),
    ("NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO.pciBarCount", 1),
    ("NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO.pciBarInfo", 1),
    ("NV2080_CTRL_CMD_CE_GET_ALL_CAPS.capsTbl", 1),
    ("NV2080_CTRL_CMD_CE_GET_ALL_CAPS.present", 1),
    ("NV2080_CTRL_CMD_FB_GET_INFO_V2.fbInfoList", 5),
    ("NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG.numConfigs", 1),
    ("NV2080_CTRL_CMD_GPU_GET_ENGINES_V2.engineCount", 1),
    ("NV2080_CTRL_CMD_GPU_GET_ENGINES_V2.engineList", 1),
    ("NV2080_CTRL_CMD_GPU_GET_GID_INFO.length", 2),
    ("NV2080_CTRL_CMD_GPU_GET_INFO_V2.gpuInfoList", 1),
    ("NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS.units", 3),
    ("NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO.queries", 1),
    ("NV2080_CTRL_CMD_GR_GET_CAPS_V2.bCapsPopulated", 1),
    ("NV2080_CTRL_CMD_GR_GET_CAPS_V2.capsTbl", 1),
    ("NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER.globalSmId", 1),
    ("NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER.numSm", 1),
    ("NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER.numTpc", 1),
    ("NV2080_CTRL_CMD_GR_GET_GPC_MASK.gpcMask", 1),
    ("NV2080_CTRL_CMD_GR_GET_TPC_MASK.tpcMask", 8),
];

/// A replay of a log.
struct Replay<'a> {
    driver: InProcess<'a>,
    /// Descriptors of the model by those of the log.
    files: BTreeMap<i32, i32>,
    /// Clients of the model by those of the log.
    clients: BTreeMap<u32, u32>,
    /// Memory of the program that the requests register.
    program: Vec<Box<[u8]>>,
    count: usize,
    /// Requests whose answers differ, with the number of them.
    differences: BTreeMap<String, usize>,
    refused: BTreeSet<String>,
}

impl<'a> Replay<'a> {
    fn new(model: &'a Model) -> Self {
        Self {
            driver: InProcess(model),
            files: BTreeMap::new(),
            clients: BTreeMap::new(),
            program: Vec::new(),
            count: 0,
            differences: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    fn run(&mut self, records: &[Record]) {
        for record in records {
            match record {
                Record::Open { fd, path } => {
                    if Model::has_path(path.as_bytes()) {
                        let opened = self.driver.open(path);
                        assert!(opened >= 0, "{path}");
                        self.files.insert(*fd, opened);
                    }
                }
                Record::Close { fd } => {
                    if let Some(fd) = self.files.remove(fd) {
                        assert_eq!(self.driver.close(fd), 0);
                    }
                }
                Record::Map { fd, bytes } => {
                    if let Some(fd) = self.files.get(fd) {
                        let bytes = *bytes as usize;
                        let address = unsafe { self.driver.map(*fd, bytes) };
                        unsafe { self.driver.unmap(address, bytes) };
                    }
                }
                Record::Ioctl(ioctl) => self.ioctl(ioctl),
            }
        }
    }

    /// Closes the files that the log leaves open.
    fn close(&mut self) {
        for fd in std::mem::take(&mut self.files).into_values() {
            assert_eq!(self.driver.close(fd), 0);
        }
    }

    /// Replaces the clients of the log.
    fn translate(&self, bytes: &mut [u8]) {
        for at in (0..bytes.len() / 4).map(|word| word * 4) {
            if let Some(client) = self.clients.get(&get32(bytes, at)) {
                put32(bytes, at, *client);
            }
        }
    }

    fn translate_file(&self, bytes: &mut [u8], offset: usize) {
        let fd = get32(bytes, offset).cast_signed();
        let fd = self.files.get(&fd).copied().unwrap_or(-1);
        put(bytes, offset, &fd.to_le_bytes());
    }

    fn ioctl(&mut self, ioctl: &Ioctl) {
        let fd = self.files[&ioctl.fd];
        let number = if ioctl.uvm { 0 } else { ioctl.request & 0xff };
        let mut argument = ioctl.before.clone();
        let mut nested = ioctl.nested_before.clone();
        self.translate(&mut argument);
        self.translate(&mut nested);
        match (ioctl.uvm, ioctl.request & 0xff) {
            (false, 0xc9) => self.translate_file(&mut argument, 0),
            (false, RM_MAP_MEMORY) => self.translate_file(&mut argument, 48),
            (true, 0x4b) => self.translate_file(&mut argument, 0),
            _ => {}
        }
        if number == RM_ALLOC_MEMORY {
            let bytes = get64(&argument, 32) as usize + 1;
            self.program.push(vec![0; bytes].into_boxed_slice());
            let memory = self.program.last_mut().unwrap();
            put64(&mut argument, 24, memory.as_mut_ptr().expose_provenance() as u64);
        }
        let command = (number == RM_CONTROL).then(|| get32(&argument, 8));
        let mut list: Vec<u8> = INFO
            .iter()
            .flat_map(|(index, _)| [index.to_le_bytes(), [0xee; 4]].concat())
            .collect();
        let mut strings = [0u8; 3 * 0x80];
        if command == Some(GR_GET_INFO) {
            put32(&mut nested, 0, INFO.len() as u32);
            put64(&mut nested, 8, list.as_mut_ptr().expose_provenance() as u64);
        }
        if command == Some(GET_BUILD_VERSION) {
            for n in 0..3 {
                let address = strings.as_mut_ptr().expose_provenance() as u64 + n * 0x80;
                put64(&mut nested, 8 + 8 * n as usize, address);
            }
        }
        if matches!(number, RM_ALLOC | RM_CONTROL) && get64(&argument, 16) != 0 {
            if nested.is_empty() {
                // The log has no parameters of classes that take none.
                nested = vec![0; 64];
            }
            put64(&mut argument, 16, nested.as_mut_ptr().expose_provenance() as u64);
        }
        let request = if ioctl.uvm {
            ioctl.request
        } else {
            ioctl.request & 0xffff_ffff
        };
        let result = unsafe { self.driver.ioctl(fd, request, argument.as_mut_ptr()) };
        assert_eq!(result, 0, "{:#x} of {}", ioctl.request, ioctl.fd);
        if command == Some(GR_GET_INFO) {
            let values: Vec<_> = list
                .chunks_exact(8)
                .map(|pair| (get32(pair, 0), get32(pair, 4)))
                .collect();
            assert_eq!(values, INFO);
        }
        self.compare(ioctl, &argument, &nested);
    }

    fn compare(&mut self, ioctl: &Ioctl, argument: &[u8], nested: &[u8]) {
        self.count += 1;
        let file = if ioctl.uvm { DeviceFile::Uvm } else { DeviceFile::Rm };
        let request = ioctl.request as u32;
        let decode = |bytes: &[u8]| decode_argument(BRANCH, file, request, bytes).unwrap();
        let (mut after, mut nested_after) = (ioctl.after.clone(), ioctl.nested_after.clone());
        self.translate(&mut after);
        self.translate(&mut nested_after);
        let (recorded, answered) = (decode(&after), decode(argument));
        let class = recorded.number("hClass").map(|class| class as u32);
        let command = recorded.number("cmd").map(|command| command as u32);
        if class == Some(0x41) {
            let handle = |a: &Argument| a.number("hObjectNew").unwrap() as u32;
            self.clients.insert(handle(&recorded), handle(&answered));
        }
        // Handles of clients differ, those of other objects do not.
        let mut differences = match class {
            Some(0x41) => Vec::new(),
            _ => compare(&recorded, &answered, None),
        };
        let parameters = |bytes: &[u8]| -> Option<Result<Argument, ArgumentError>> {
            match (class, command) {
                (Some(class), _) => Some(decode_allocation(BRANCH, class, bytes)),
                (_, Some(command)) => Some(decode_control(BRANCH, command, bytes)),
                _ => None,
            }
        };
        let size = nested_after.len();
        if size > 0
            && let (Some(Ok(a)), Some(Ok(b))) = (parameters(&nested_after), parameters(&nested[..size]))
        {
            differences.extend(compare(&a, &b, class));
        }
        if answered.status() != recorded.status() {
            let name = match (class, command) {
                (_, Some(command)) => format!("command {command:#010x}"),
                (Some(class), _) => format!("class {class:#06x}"),
                _ => Request::find(file, if ioctl.uvm { request } else { request & 0xff })
                    .unwrap()
                    .name
                    .to_owned(),
            };
            self.refused.insert(format!("{name} {:#x}", answered.status().unwrap()));
        }
        for difference in differences {
            *self.differences.entry(difference).or_default() += 1;
        }
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../trace-core/import/tests/nvidia")
}

#[test]
fn small_client_gets_the_driver_s_answers() {
    let model = model();
    let mut replay = Replay::new(&model);
    replay.run(&read(&folder().join("h100-rm-client.klog.gz")));
    assert_eq!(replay.count, 52);
    assert_eq!(replay.differences, BTreeMap::new());
    assert_eq!(replay.refused, BTreeSet::new());
    let usage = model.usage();
    assert_eq!((usage.clients, usage.channels, usage.mappings), (1, 2, 8));
}

#[test]
fn program_of_cuda_gets_the_driver_s_answers_with_known_exceptions() {
    let model = model();
    let mut replay = Replay::new(&model);
    replay.run(&read(&folder().join("h100-cuda-vadd.klog.gz")));
    assert_eq!(replay.count, 679);
    let refused: Vec<&str> = replay.refused.iter().map(String::as_str).collect();
    assert_eq!(refused, UNSUPPORTED);
    let differences: Vec<_> = replay.differences.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(differences, DIFFERENCES);
    // The program leaves its client to the end of the process.
    assert_eq!((model.usage().clients, model.usage().objects), (1, 12));
    replay.close();
    let usage = model.usage();
    assert_eq!(
        (usage.files, usage.clients, usage.objects, usage.video_bytes),
        (0, 0, 0, 0)
    );
}
