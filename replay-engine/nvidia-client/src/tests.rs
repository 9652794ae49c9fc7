//! Sizes and offsets against the tables of NVIDIA's headers, and steps as bytes.

use crate::steps::{EngineKind, Step, StepSink, Steps};
use crate::{DriverBranch, Place, find_module_version};
use nvidia_channel::rm::{DriverBranch as TableBranch, Structure};

/// Returns the branch in the tables, which are of a crate that takes its branches from this one.
fn table_branch(branch: DriverBranch) -> TableBranch {
    TableBranch::ALL
        .into_iter()
        .find(|b| b.number() == branch.number())
        .unwrap()
}

fn structure(name: &str, branch: DriverBranch) -> &'static Structure {
    Structure::find(name, table_branch(branch)).unwrap()
}

fn offset(name: &str, branch: DriverBranch, field: &str) -> usize {
    let found = structure(name, branch).fields.iter().find(|f| f.name == field);
    found.unwrap_or_else(|| panic!("{name}.{field}")).offset
}

#[test]
fn sizes_of_each_branch_are_those_of_its_headers() {
    for branch in DriverBranch::ALL {
        let dma = "NVOS46_PARAMETERS";
        let status = offset(dma, branch, "status");
        let expected = (structure(dma, branch).bytes, offset(dma, branch, "dmaOffset"), status);
        assert_eq!(branch.map_dma(), expected, "{branch:?}");
        let space = structure("NV_VASPACE_ALLOCATION_PARAMETERS", branch).bytes;
        assert_eq!(branch.address_space_bytes(), space);
        let schedule = structure("NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS", branch).bytes;
        assert_eq!(branch.schedule_bytes(), schedule);
        let name = structure("NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS", branch).bytes;
        assert_eq!(branch.name_bytes(), name);
        let classes = structure("NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS", branch).bytes;
        assert_eq!(4 + 4 * branch.class_list_entries(), classes);
    }
}

#[test]
fn fields_are_where_the_headers_have_them() {
    let fields = [
        (
            "NVOS21_PARAMETERS",
            32,
            &[
                ("hRoot", 0),
                ("hObjectParent", 4),
                ("hObjectNew", 8),
                ("hClass", 12),
                ("status", 28),
            ][..],
        ),
        (
            "NVOS54_PARAMETERS",
            32,
            &[
                ("hClient", 0),
                ("hObject", 4),
                ("cmd", 8),
                ("paramsSize", 24),
                ("status", 28),
            ],
        ),
        (
            "NVOS00_PARAMETERS",
            16,
            &[("hRoot", 0), ("hObjectParent", 4), ("hObjectOld", 8), ("status", 12)],
        ),
        (
            "NVOS34_PARAMETERS",
            32,
            &[("hClient", 0), ("hDevice", 4), ("hMemory", 8), ("status", 24)],
        ),
        (
            "NVOS47_PARAMETERS",
            48,
            &[("hDma", 8), ("hMemory", 12), ("dmaOffset", 24), ("status", 40)],
        ),
        (
            "NV_CHANNEL_ALLOC_PARAMS",
            368,
            &[
                ("gpFifoOffset", 8),
                ("gpFifoEntries", 16),
                ("hContextShare", 24),
                ("hUserdMemory", 32),
                ("userdOffset", 64),
            ],
        ),
        (
            "NV_MEMORY_ALLOCATION_PARAMS",
            128,
            &[
                ("owner", 0),
                ("type", 4),
                ("flags", 8),
                ("attr", 24),
                ("attr2", 28),
                ("format", 32),
                ("size", 64),
                ("alignment", 72),
                ("limit", 88),
            ],
        ),
        (
            "NV83DE_ALLOC_PARAMETERS",
            12,
            &[("hAppClient", 4), ("hClass3dObject", 8)],
        ),
        (
            "NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS",
            4824,
            &[
                ("hTargetChannel", 0),
                ("numSMsToRead", 4),
                ("smErrorStateArray", 8),
                ("startingSM", 4820),
            ],
        ),
        ("NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS", 72, &[("count", 64)]),
    ];
    for branch in DriverBranch::ALL {
        for (name, bytes, places) in fields {
            assert_eq!(structure(name, branch).bytes, bytes, "{name}");
            for (field, at) in places {
                assert_eq!(offset(name, branch, field), *at, "{name}.{field}");
            }
        }
    }
}

#[test]
fn branch_comes_from_the_version_file() {
    let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs-builder@U22)\nGCC version:";
    assert_eq!(find_module_version(text), Some("580.159.04"));
    let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023";
    assert_eq!(find_module_version(closed), Some("535.104.05"));
    assert_eq!(find_module_version("GCC version:  gcc version 12.2.0"), None);
    assert_eq!(DriverBranch::from_version("535.104.05"), None);
    assert_eq!(DriverBranch::from_version_file(text), Some(DriverBranch::R580));
    assert_eq!(DriverBranch::from_version_file(&text.replace("580", "550")), None);
    assert_eq!(DriverBranch::from_version_file("GCC version: 12"), None);
}

struct Bytes(Vec<u8>);

impl StepSink for Bytes {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

#[test]
fn steps_round_trip_and_end_at_a_cut() {
    let pages = [1u32.to_le_bytes(), [0; 4]];
    let steps = [
        Step::Map {
            place: Place::System,
            va: 0x2000_0000,
            bytes: 0x20_0000,
        },
        Step::MapScheduler { va: 0x3000_0000 },
        Step::Write {
            va: 0x2000_0004,
            data: &[1, 2, 3],
        },
        Step::WritePages {
            va: 0x2000_0ff0,
            bytes: 100,
            pages: &pages,
        },
        Step::Submit {
            event: 7,
            engine: EngineKind::Copy,
            va: 0x2000_0000,
            words: 12,
        },
        Step::Read {
            output: 1,
            va: 0x2000_0100,
            bytes: 16,
        },
    ];
    let mut bytes = Bytes(Vec::new());
    let mut ends = vec![0];
    for step in &steps {
        step.encode(&mut bytes);
        ends.push(bytes.0.len());
    }
    let back: Vec<_> = Steps::new(&bytes.0).collect::<Result<_, _>>().unwrap();
    assert_eq!(back, steps);
    for cut in 0..bytes.0.len() {
        let read: Vec<_> = Steps::new(&bytes.0[..cut]).collect();
        let failed = read.iter().filter(|s| s.is_err()).count();
        assert_eq!(failed, usize::from(!ends.contains(&cut)), "cut at {cut}");
    }
    let mut wrong = bytes.0.clone();
    wrong[0] = 9;
    let error = Steps::new(&wrong).next().unwrap().unwrap_err();
    assert_eq!((error.at, error.what), (0, "the step is unknown"));
}
