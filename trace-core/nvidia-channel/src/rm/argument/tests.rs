use super::DriverBranch::{R570, R580, R595};
use super::*;

/// Returns the size of a struct, or `None` if the branch does not have it.
fn size(name: &str, branch: DriverBranch) -> Option<usize> {
    Structure::find(name, branch).map(|s| s.bytes)
}

#[test]
fn sizes_by_branch() {
    for (name, r570, r580, r595) in [
        ("NVOS00_PARAMETERS", 16, 16, 16),
        ("NVOS21_PARAMETERS", 32, 32, 32),
        ("NVOS64_PARAMETERS", 48, 48, 48),
        ("NVOS54_PARAMETERS", 32, 32, 32),
        ("nv_ioctl_nvos33_parameters_with_fd", 56, 56, 56),
        ("nv_ioctl_nvos02_parameters_with_fd", 56, 56, 56),
        ("NVOS46_PARAMETERS", 56, 64, 64),
        ("NVOS47_PARAMETERS", 48, 48, 48),
        ("NVOS32_PARAMETERS", 184, 184, 184),
        ("nv_ioctl_card_info_t", 72, 72, 72),
        ("nv_ioctl_numa_info_t", 560, 560, 560),
        ("NV_VASPACE_ALLOCATION_PARAMETERS", 48, 56, 56),
        ("NV_CHANNEL_ALLOC_PARAMS", 368, 368, 368),
        ("NV_MEMORY_ALLOCATION_PARAMS", 128, 128, 128),
        ("NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS", 2, 3, 3),
        ("NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS", 132, 132, 68),
        ("NV0080_CTRL_GPU_GET_CLASSLIST_V2_PARAMS", 404, 804, 804),
        ("NV0000_CTRL_GPU_GET_PROBED_IDS_PARAMS", 256, 384, 384),
        ("UVM_MAP_EXTERNAL_ALLOCATION_PARAMS", 9264, 9264, 9264),
        ("UVM_ALLOC_SEMAPHORE_POOL_PARAMS", 9248, 9248, 9248),
        ("UVM_REGISTER_CHANNEL_PARAMS", 56, 56, 56),
        ("UVM_UNREGISTER_CHANNEL_PARAMS", 28, 28, 12),
        ("UVM_FREE_PARAMS", 24, 24, 16),
    ] {
        let sizes = [R570, R580, R595].map(|b| size(name, b));
        assert_eq!(sizes, [Some(r570), Some(r580), Some(r595)], "{name}");
    }
}

#[test]
fn control_argument_has_named_fields() {
    let mut bytes = [0; 32];
    bytes[8..12].copy_from_slice(&0x2080_0110_u32.to_le_bytes());
    bytes[16..24].copy_from_slice(&0x7fff_1234_u64.to_le_bytes());
    bytes[28] = 0x56;
    let argument = decode_argument(R580, DeviceFile::Rm, 0xc020_462a, &bytes).unwrap();
    assert_eq!(
        (argument.name.as_str(), argument.structure.name),
        ("RM_CONTROL", "NVOS54_PARAMETERS")
    );
    assert_eq!(
        (argument.number("cmd"), argument.number("params")),
        (Some(0x2080_0110), Some(0x7fff_1234))
    );
    assert_eq!((argument.status(), argument.number("nothing")), (Some(0x56), None));
}

#[test]
fn size_selects_the_form_of_an_allocation() {
    for (bytes, structure) in [(48, "NVOS64_PARAMETERS"), (32, "NVOS21_PARAMETERS")] {
        let request = RequestCode { number: 0x2b, bytes }.encode().unwrap();
        let argument = decode_argument(R580, DeviceFile::Rm, request, &vec![0; usize::from(bytes)]).unwrap();
        assert_eq!(argument.structure.name, structure);
    }
}

#[test]
fn array_argument_has_every_element() {
    let mut bytes = vec![0; 144];
    bytes[72] = 1;
    bytes[132..138].copy_from_slice(b"nvidia");
    let argument = decode_argument(R580, DeviceFile::Rm, 0xc090_46c8, &bytes).unwrap();
    let second: Vec<String> = argument
        .values
        .iter()
        .filter(|v| v.element == 1)
        .map(|v| format!("{}={}", v.field.name, v.value))
        .collect();
    assert_eq!(second[0], "valid=0x1");
    assert_eq!(second.last().map(String::as_str), Some("dev_name=\"nvidia\""));
}

#[test]
fn same_request_differs_between_branches() {
    let mut bytes = [0; 64];
    bytes[48] = 7;
    let argument = decode_argument(R580, DeviceFile::Rm, 0xc040_4657, &bytes).unwrap();
    assert_eq!((argument.number("dmaOffset"), argument.status()), (Some(7), Some(0)));
    let error = decode_argument(R570, DeviceFile::Rm, 0xc040_4657, &bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "RM_MAP_MEMORY_DMA has 64 bytes; NVOS46_PARAMETERS of driver branch 570 has 56"
    );
}

#[test]
fn unknown_and_damaged_arguments_are_errors() {
    let rm = |request, bytes: &[u8]| decode_argument(R580, DeviceFile::Rm, request, bytes).unwrap_err();
    assert_eq!(
        rm(0xc000_4600, &[]),
        ArgumentError::UnknownRequest { request: 0xc000_4600 }
    );
    assert_eq!(
        rm(0x3000_0001, &[]),
        ArgumentError::UnknownRequest { request: 0x3000_0001 }
    );
    let announced = rm(0xc020_462a, &[0; 31]);
    assert_eq!(
        announced.to_string(),
        "the request 0xc020462a announces 32 bytes, and the argument has 31"
    );
    assert!(matches!(rm(0xc000_46d4, &[]), ArgumentError::UnknownFields { .. }));
    let empty = decode_argument(R580, DeviceFile::Rm, 0xc000_46c8, &[]).map(|a| a.values.len());
    assert_eq!(empty, Ok(0));
}

#[test]
fn parameters_of_allocations_and_commands() {
    let mut bytes = [0; 128];
    bytes[64..72].copy_from_slice(&0x20_0000_u64.to_le_bytes());
    bytes[120..124].copy_from_slice(&(-1_i32).to_le_bytes());
    let memory = decode_allocation(R580, 0x40, &bytes).unwrap();
    assert_eq!(
        (memory.name.as_str(), memory.number("size")),
        ("NV01_MEMORY_LOCAL_USER", Some(0x20_0000))
    );
    let node = memory
        .values
        .iter()
        .find(|v| v.field.name == "numaNode")
        .map(|v| v.value.to_string());
    assert_eq!(node.as_deref(), Some("-1"));
    let schedule = decode_control(R580, 0xa06c_0101, &[1, 0, 0]).unwrap();
    assert_eq!(schedule.name, "NVA06C_CTRL_CMD_GPFIFO_SCHEDULE");
    assert_eq!(schedule.number("bEnable"), Some(1));
    let classes = decode_control(R570, 0x0080_0292, &[1; 404]).unwrap();
    let Value::List(list) = &classes.values[1].value else {
        panic!("{classes:?}");
    };
    assert_eq!((list.len(), list[99]), (100, 0x0101_0101));
    let error = decode_control(R580, 0x2080_9999, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the fields of command 0x20809999 are unknown in driver branch 580"
    );
    let error = decode_allocation(R580, 0x1234, &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the fields of class 0x1234 are unknown in driver branch 580"
    );
}

#[test]
fn unified_memory_has_whole_request_numbers() {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&0x7f00_0000_u64.to_le_bytes());
    let range = decode_argument(R580, DeviceFile::Uvm, 0x49, &bytes).unwrap();
    assert_eq!(
        (range.name.as_str(), range.number("base")),
        ("UVM_CREATE_EXTERNAL_RANGE", Some(0x7f00_0000))
    );
    assert_eq!(range.status(), Some(0));
}

#[test]
fn branch_of_a_version() {
    assert_eq!(DriverBranch::from_version("580.159.04"), Some(R580));
    assert_eq!(DriverBranch::from_version("595"), Some(R595));
    assert_eq!(DriverBranch::from_version("550.54.15"), None);
    assert_eq!(DriverBranch::from_version(""), None);
}
