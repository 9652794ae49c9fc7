use super::super::test_logs::{created, describe_events, import_as, messages, objects, open_as, write};
use super::*;
use crate::test_recordings::recordings;
use trace_core::recording::{EventKind, ObjectKind};

const LOG: &str = r#"[pid  20] 10:00:00.000100 openat(AT_FDCWD, "/dev/nvidiactl", O_RDWR|O_CLOEXEC) = 3 <0.000004>
[pid  20] 10:00:00.000200 openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 4 <0.000004>
[pid  20] 10:00:00.000300 openat(AT_FDCWD, "/dev/nvidia-uvm", O_RDWR) = 5 <0.000004>
[pid  20] 10:00:00.000400 ioctl(3, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2b, 0x30), 0x7ffc00001000) = 0 <0.000020>
[pid  21] 10:00:00.000500 ioctl(5, _IOC(_IOC_NONE, 0, 0x1, 0x3000), 0x7ffc00001000 <unfinished ...>
[pid  20] 10:00:00.000600 ioctl(3, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2a, 0x20), 0x7ffc00001000) = -1 EINVAL (Invalid argument) <0.000030>
[pid  21] 10:00:00.000700 <... ioctl resumed>) = 0 <0.000200>
[pid  20] 10:00:00.000800 read(4, "ioctl(3, x) = 0", 15) = 15 <0.000001>
[pid  20] 10:00:00.000900 mmap(0x200000000, 2097152, PROT_READ|PROT_WRITE, MAP_SHARED|MAP_FIXED, 5, 0x200000000) = 0x200000000 <0.000002>
[pid  20] 10:00:00.001000 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</dev/nvidiactl>, 0) = 0x7f0000000000 <0.000002>
[pid  20] 10:00:00.001100 munmap(0x200000000, 2097152) = 0 <0.000002>
[pid  20] 10:00:00.001200 mmap(0x7f0000000000, 4096, PROT_NONE, MAP_PRIVATE|MAP_FIXED|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000 <0.000002>
[pid  20] 10:00:00.001300 close(3) = 0 <0.000002>
[pid  20] 10:00:00.001400 ioctl(3, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0xfe, 0x8), 0x7ffc00001000) = 0 <0.000020>
"#;

#[test]
fn requests_and_mappings_become_events() {
    let r = import_as("strace", LOG);
    let events: Vec<String> = describe_events(&r)
        .into_iter()
        .filter(|t| !t.contains("10:00:00"))
        .collect();
    assert_eq!(
        events,
        [
            "open",
            "open",
            "RM_ALLOC",
            "RM_CONTROL, failed with 0x16",
            "UVM_INITIALIZE",
            "mmap",
            "created buffer, 2097152 bytes at 0x200000000, asked for by mmap",
            "mmap",
            "created buffer, 4096 bytes, asked for by mmap",
            "munmap",
            "freed buffer, 2097152 bytes at 0x200000000, asked for by mmap",
            "mmap",
            "freed buffer, 4096 bytes, asked for by mmap",
            "close",
            "RM request 0xfe",
        ]
    );
    let calls: Vec<usize> = (0..r.events.len())
        .filter(|e| r.events.kind(*e) == Some(EventKind::Call))
        .collect();
    let thread = |n: usize| r.events.thread.get(calls[n]).unwrap();
    assert_eq!((thread(3), thread(4)), (20, 21));
    let (first, joined) = (r.events.calls.get(0).unwrap(), r.events.calls.get(4).unwrap());
    assert_eq!((first.took, joined.took), (4_000, 200_000));
    assert_eq!(r.events.time.get(calls[4]), Some(600_000));
    assert!(
        describe_events(&r).iter().any(|t| t.contains("0x7f0000000000")),
        "the text has the CPU address"
    );
}

#[test]
fn missing_arguments_and_other_lines_are_findings() {
    let r = import_as("strace", LOG);
    assert_eq!(messages(&r, FindingKind::NotRecorded).len(), 1);
    assert!(!r.driver_trace().unwrap().has_arguments);
    let [other] = messages(&r, FindingKind::NotUsed)[..] else {
        panic!("one finding")
    };
    assert!(other.starts_with("2 lines from here on are no calls"), "{other}");
    let [unnamed] = messages(&r, FindingKind::Assumed)[..] else {
        panic!("one finding")
    };
    assert!(unnamed.starts_with("1 requests"), "{unnamed}");
}

#[test]
fn copies_of_descriptors_are_followed() {
    let text = "\
open(\"/dev/nvidia0\", O_RDWR) = 7
fcntl(7, F_DUPFD_CLOEXEC, 10) = 10
close(7) = 0
ioctl(10, 0xc020462a, 0x7ffc00001000) = 0
dup2(1, 10) = 10
ioctl(10, TCGETS, 0x7ffc00001000) = -1 ENOTTY (Inappropriate ioctl for device)
<... ioctl resumed>) = 0
ioctl(10, _IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2a, 0x20), 0x7ffc00001000 <unfinished ...>
";
    let r = import_as("strace", text);
    let events: Vec<String> = describe_events(&r).into_iter().filter(|t| !t.contains('(')).collect();
    assert_eq!(events, ["open", "close", "RM_CONTROL"]);
    assert!(
        messages(&r, FindingKind::NotUsed)
            .iter()
            .any(|m| m.starts_with("1 calls have no end"))
    );
}

#[test]
fn times_of_all_options_count_from_the_first_line() {
    let times = |stamps: [&str; 3]| {
        let line = |stamp: &str| format!("{stamp} ioctl(3, 0xc020462a, 0x1000) = 0\n");
        let r = import_as("strace", stamps.map(line).concat());
        (0..3).map(|e| r.events.time.get(e).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(times(["0.000000", "0.000010", "0.000005"]), [0, 10_000, 15_000]);
    assert_eq!(
        times(["1700000000.000001", "1700000000.000003", "1700000001.000001"]),
        [0, 2_000, 1_000_000_000]
    );
    assert_eq!(
        times(["23:59:59", "00:00:01", "00:00:02"]),
        [0, 2_000_000_000, 3_000_000_000]
    );
}

#[test]
fn other_texts_do_not_fit() {
    for text in [
        "ioctl(3, TCGETS, 0x1000) = 0\n",
        "ioctl(3, _IOC(_IOC_READ, 0x46), 0x1000) = 0\n",
        "openat(AT_FDCWD, \"/dev/null\", O_RDONLY) = 3\n",
        "int fd = open(\"/dev/nvidia0\", O_RDWR);\n",
    ] {
        let (_folder, path) = write(text);
        assert!(!fits(&path) && import(&path, &Progress::new()).is_err(), "{text}");
    }
}

#[test]
fn published_log_has_its_requests() {
    let Some(folder) = recordings("gdev/public") else {
        return;
    };
    let r = open_as("strace", &folder.join("strace-nccl-h100.txt"));
    let count = |name: &str| describe_events(&r).iter().filter(|t| *t == name).count();
    assert_eq!(
        (count("RM_ALLOC"), count("RM_CONTROL"), count("UVM_REGISTER_CHANNEL")),
        (4, 4, 2)
    );
    assert_eq!((count("REGISTER_FD"), count("ALLOC_OS_EVENT")), (1, 1));
    assert_eq!(created(&r, ObjectKind::Buffer), []);
    assert_eq!(objects(&r), []);
    assert_eq!(r.events.calls.len(), 12);
}
