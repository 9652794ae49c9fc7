//! Tests of the findings about faults, unmapped addresses and buffers that stay.

use super::*;
use trace_core::GpuVa;
use trace_core::check::check;
use trace_core::finding::Finding;

/// Commands of a launch of vadd, as CUDA's driver wrote them.
const VADD: &[u8] = include_bytes!("../../../../nvidia-channel/tests/data/h100-launch-vadd.pb");
/// Number of the channel in the hardware.
const NUMBER: u32 = 8;
/// Address of the commands.
const COMMANDS: u64 = 0x10_0000;

fn control(object: u32, command: u32, parameters: &[u8]) -> Vec<u8> {
    let argument = fields(&[1, object, command, 0, 0, 0, parameters.len() as u32, 0]);
    ioctl("nvidiactl", 0xc020_462a, &argument, parameters)
}

fn mark(text: &str) -> Vec<u8> {
    record(7, text.as_bytes())
}

/// A client with a device 2, a channel 3 with an error notifier in buffer 6, and a compute engine 4.
fn channel() -> Vec<u8> {
    let mut parameters = vec![0; 368];
    parameters[..4].copy_from_slice(&6u32.to_le_bytes());
    let token = fields(&[NUMBER]);
    [
        allocate(0, 1, 0x41, &[], 0),
        allocate(1, 2, 0x80, &[], 0),
        allocate(2, 6, 0x3e, &[], 0),
        map(6, 0, 0x9000),
        allocate(2, 3, 0xc86f, &parameters, 0),
        allocate(3, 4, 0xcbc0, &[], 0),
        control(3, 0xc36f_0108, &token),
    ]
    .concat()
}

/// A submission of vadd to the channel.
fn launch() -> Vec<u8> {
    let entry = COMMANDS | (VADD.len() as u64 / 4) << 42;
    let (words, _) = VADD.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|w| u32::from_le_bytes(*w)).collect();
    [ring_entry(entry, true), push_buffer(COMMANDS, &words)].concat()
}

fn found(parts: &[Vec<u8>], kind: FindingKind) -> Vec<Finding> {
    let r = import_parts(parts).unwrap();
    check(&r).into_iter().filter(|f| f.kind == kind).collect()
}

#[test]
fn error_in_the_kernel_log_names_submission_launch_and_buffer() {
    let line = "NVRM: Xid (PCI:0000:00:06): 31, pid=463, name=a, channel 0x00000008, intr 00000000. MMU Fault: ENGINE \
                GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x0_0000a800. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE";
    let errors = found(&[channel(), launch(), mark(line), launch()], FindingKind::DriverError);
    let [error] = &errors[..] else {
        panic!("{errors:?}");
    };
    assert_eq!(error.address, Some(GpuVa::new(0xa800)));
    let event = error.event.unwrap();
    assert_eq!(
        error.message,
        format!(
            "Xid 31, MMU fault: VIRT_WRITE at 0xa800, engine GRAPHICS, client GPC1 GPCCLIENT_T1_8, reason PDE, channel \
             0x8 of a (process 463); the last submission of channel 0x3 before it is 0 at event {}; its launch has grid \
             4x1x1, block 256x1x1 and its program at 0x7f2bd37ac200; 0xa800 is 2.0 KiB above buffer 0x6",
            event - 1
        )
    );
}

#[test]
fn answers_of_the_debugger_are_faults() {
    let debugger = fields(&[0, 1, 4]);
    let mut info = vec![0; 72];
    info[..8].copy_from_slice(&0x7f_0000_0000u64.to_le_bytes());
    (info[12], info[64]) = (1, 1);
    let mut states = vec![0; 4824];
    (states[0], states[4]) = (3, 100);
    let second = 8 + 48;
    (states[second], states[second + 4]) = (4, 0xf);
    states[second + 24..second + 32].copy_from_slice(&0x9004u64.to_le_bytes());
    let parts = [
        channel(),
        allocate(2, 7, 0x83de, &debugger, 0),
        launch(),
        control(7, 0x83de_0328, &info),
        // Drivers ask again.
        control(7, 0x83de_0328, &info),
        control(7, 0x83de_030c, &states),
    ];
    let errors = found(&parts, FindingKind::DriverError);
    let messages: Vec<&str> = errors.iter().map(|f| f.message.as_str()).collect();
    let [fault, state] = messages[..] else {
        panic!("{messages:?}");
    };
    assert!(
        fault.starts_with(
            "MMU fault: WRITE at 0x7f00000000, reason PDE; the last submission of channel 0x3 before it is 0"
        ),
        "{fault}"
    );
    assert!(fault.ends_with("; no buffer is mapped near 0x7f00000000"), "{fault}");
    assert!(
        state.starts_with(
            "1 of 100 multiprocessors report an error, the first one is 1: warp error 0xf, global error 0x4"
        ),
        "{state}"
    );
    assert!(state.ends_with("0x9004 is in buffer 0x6 + 0x4"), "{state}");
}

#[test]
fn error_notifier_in_a_saved_page_is_a_fault() {
    let page = |code: u32, status: u32| {
        let mut bytes = vec![0; 4096];
        bytes[8..16].copy_from_slice(&fields(&[code, status << 16 | 1]));
        // The second notifier holds the token of the channel.
        bytes[24..32].copy_from_slice(&fields(&[5, 0xffff_0000]));
        record(6, &[fields(&[0, 0, 0, 0, 6, 0]), bytes].concat())
    };
    assert_eq!(found(&[channel(), launch(), page(0, 0)], FindingKind::DriverError), []);
    let errors = found(&[channel(), launch(), page(13, 0xffff)], FindingKind::DriverError);
    let [error] = &errors[..] else {
        panic!("{errors:?}");
    };
    let start =
        "error notifier: code 13, graphics exception, engine 1; the last submission of channel 0x3 before it is 0";
    assert!(error.message.starts_with(start), "{}", error.message);
}

#[test]
fn work_at_unmapped_addresses_is_a_finding() {
    // A release of a semaphore by the host: address, payload, operation.
    let release = |va: u32| [0x2005_0017, va, 0, 1, 0, 1];
    let submit = |va: u32| {
        let entry = COMMANDS | 6 << 42;
        [ring_entry(entry, true), push_buffer(COMMANDS, &release(va))].concat()
    };
    let free = |handle| ioctl("nvidiactl", 0xc010_4629, &fields(&[1, 2, handle, 0]), &[]);
    let parts = [
        channel(),
        submit(0x9010),
        submit(0x9100),
        submit(0xb000),
        free(6),
        submit(0x9010),
    ];
    let findings = found(&parts, FindingKind::UnmappedAddress);
    let messages: Vec<&str> = findings.iter().map(|f| f.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "a semaphore is released at 0xb000 in submission 2, where no buffer is mapped: 0xb000 is 4.0 KiB above buffer \
             0x6"
                .to_owned(),
            format!(
                "a semaphore is released at 0x9010 in submission 3, after the buffer there lost the address: 0x9010 was in \
                 buffer 0x6 + 0x10, whose address ended at event {}",
                findings[1].event.unwrap() - 1
            ),
        ]
    );
    assert_eq!(findings[0].address, Some(GpuVa::new(0xb000)));
}

#[test]
fn buffer_that_a_client_keeps_is_a_finding() {
    let free = |handle| ioctl("nvidiactl", 0xc010_4629, &fields(&[1, 2, handle, 0]), &[]);
    let more = [allocate(2, 7, 0x40, &[], 0), allocate(2, 8, 0x40, &[], 0)].concat();
    let kept = |parts: &[Vec<u8>]| {
        let all = [&[channel(), more.clone()], parts].concat();
        let findings = found(&all, FindingKind::NotFreed);
        findings.into_iter().map(|f| f.place).collect::<Vec<_>>()
    };
    // The channel is in use.
    assert_eq!(kept(&[free(7)]), Vec::<String>::new());
    assert_eq!(kept(&[free(3), free(6), free(7), free(8)]), Vec::<String>::new());
    let [place] = &kept(&[free(3), free(6), free(7)])[..] else {
        panic!("one buffer stays");
    };
    assert!(place.ends_with("buffer 0x8"), "{place}");
    // The end of the device takes it along.
    assert_eq!(kept(&[free(3), free(6), free(7), free(2)]).len(), 1);
}
