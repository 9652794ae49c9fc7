//! A client's life: bring-up, semaphores, uploads, copies, end.

use crate::client::{COMPUTE, COPY, Client, Driver, high_low, methods, repeated};
use nvidia_model::{Model, Settings};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A model in this process.
pub struct InProcess<'a>(pub &'a Model);

impl Driver for InProcess<'_> {
    fn open(&self, path: &str) -> i32 {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        self.0.open(path.as_bytes(), flags).unwrap().unwrap_or_else(|e| -e.0)
    }

    fn close(&self, fd: RawFd) -> i32 {
        self.0.close(fd).unwrap().map_or_else(|e| -e.0, |()| 0)
    }

    unsafe fn ioctl(&self, fd: RawFd, request: u64, argument: *mut u8) -> i32 {
        let result = unsafe { self.0.ioctl(fd, request, argument.cast()) };
        result.unwrap().unwrap_or_else(|e| -e.0)
    }

    unsafe fn map(&self, fd: RawFd, bytes: usize) -> *mut u8 {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let null = std::ptr::null_mut();
        let address = unsafe { self.0.mmap(fd, null, bytes, protection, libc::MAP_SHARED, 0) };
        address.unwrap().unwrap().cast()
    }

    unsafe fn unmap(&self, address: *mut u8, bytes: usize) {
        unsafe { self.0.munmap(address.cast(), bytes) }.unwrap();
    }
}

pub fn model() -> Model {
    Model::new(Settings::default()).unwrap()
}

#[test]
fn client_comes_up_and_leaves_nothing() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[0xcbc0, 0xc8b5]).unwrap();
    client.schedule().unwrap();
    assert!(client.run(&channel, &client.bind_words()));
    let usage = model.usage();
    assert_eq!((usage.clients, usage.channels, usage.mappings), (1, 1, 4));
    assert_eq!(usage.video_bytes, 0x40_0000);
    client.close();
    let rest = model.usage();
    let zero = nvidia_model::ModelUsage {
        polls: rest.polls,
        ..Default::default()
    };
    assert_eq!(rest, zero);
    // The thread rests as soon as it sees that no channel is scheduled.
    std::thread::sleep(Duration::from_millis(20));
    let polls = model.usage().polls;
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(model.usage().polls, polls);
}

#[test]
fn closed_file_frees_its_client() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    client.channel(&[]).unwrap();
    client.schedule().unwrap();
    assert_eq!(client.driver.close(client.control), 0);
    let usage = model.usage();
    assert_eq!((usage.clients, usage.channels, usage.video_bytes), (0, 0, 0));
}

#[test]
fn host_semaphores_release_and_acquire() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let (first, second) = (client.channel(&[]).unwrap(), client.channel(&[]).unwrap());
    client.schedule().unwrap();
    let [high, low] = high_low(client.marks.va + 0x100);
    // The second channel waits until the first one releases.
    let (end, mark) = client.mark();
    let acquire = methods(0, 0x5c, &[low, high, 7, 0, 0x1003]);
    client.submit(&second, &[acquire, end].concat());
    std::thread::sleep(Duration::from_millis(10));
    assert_ne!(client.marks.word(0).load(Ordering::SeqCst), mark);
    client.submit(&first, &methods(0, 0x5c, &[low, high, 9, 0, 1]));
    assert!(client.wait(|| client.marks.word(0).load(Ordering::SeqCst) == mark));
    // A wide release with a time stamp has 16 bytes.
    let [high, low] = high_low(client.marks.va + 0x200);
    let release = methods(0, 0x5c, &[low, high, 5, 6, 1 | 1 << 24 | 1 << 25]);
    assert!(client.run(&first, &release));
    let bytes = client.marks.read(0x200, 16);
    assert_eq!(bytes[..8], (6u64 << 32 | 5).to_le_bytes());
    assert!(bytes[8..].iter().any(|b| *b != 0));
    // The mark itself has a time stamp, near the time of the registers.
    let time = client.marks.read(8, 8);
    let stamp = u64::from_le_bytes(time.try_into().unwrap());
    let now = u64::from(client.registers.word(0x84).load(Ordering::SeqCst)) << 32;
    assert!(
        stamp >> 32 <= now >> 32 && now >> 32 <= (stamp >> 32) + 20,
        "{stamp:#x} {now:#x}"
    );
    client.close();
}

#[test]
fn ring_wraps_and_reports_what_it_fetched() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[]).unwrap();
    client.schedule().unwrap();
    for _ in 0..150 {
        assert!(client.run(&channel, &[]));
    }
    assert_eq!(client.ring.word(64 * 8 + 0x88).load(Ordering::SeqCst), 150 % 64);
    client.close();
}

#[test]
fn entries_before_the_schedule_run_after_it() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[]).unwrap();
    assert!(!client.run_for(&channel, &[], Duration::from_millis(20)));
    client.schedule().unwrap();
    assert!(client.run(&channel, &[]));
    client.close();
}

#[test]
fn uploads_and_report_semaphores() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[0xcbc0, 0xc8b5]).unwrap();
    client.schedule().unwrap();
    let data = client.buffer(0x20_0000, 0x11_0000_0000, false).unwrap();
    let words: Vec<u32> = (1..=8).map(|n| n * 0x1111_1111).collect();
    let [high, low] = high_low(data.va + 0x1000);
    let [report_high, report_low] = high_low(data.va + 0x2000);
    let push = [
        client.bind_words(),
        methods(COMPUTE, 0x180, &[32, 1]),
        methods(COMPUTE, 0x188, &[high, low]),
        methods(COMPUTE, 0x1b0, &[0x11]),
        repeated(COMPUTE, 0x1b4, &words),
        methods(COMPUTE, 0x1b00, &[report_high, report_low, 0x70, 4]),
        methods(COMPUTE, 0x1b00, &[report_high, report_low + 0x10, 0x71, 1 << 28]),
        // Three lines of 4 bytes, 16 apart.
        methods(COMPUTE, 0x180, &[4, 3]),
        methods(COMPUTE, 0x188, &[high, low + 0x100, 16]),
        methods(COMPUTE, 0x1b0, &[0x11]),
        repeated(COMPUTE, 0x1b4, &[1, 2, 3]),
    ];
    assert!(client.run(&channel, &push.concat()), "{:?}", client.notifier_code());
    assert_eq!(client.read_words(data.va + 0x1000, 9), [&words[..], &[0]].concat());
    let report = client.read_words(data.va + 0x2000, 6);
    assert_eq!((report[0], report[1], report[4], report[5]), (0x70, 0, 0x71, 0));
    assert_ne!((report[2], report[3]), (0, 0));
    let lines = client.read_words(data.va + 0x1100, 9);
    assert_eq!(lines, [1, 0, 0, 0, 2, 0, 0, 0, 3]);
    client.close();
}

#[test]
fn copies_and_fills() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[0xc8b5]).unwrap();
    client.schedule().unwrap();
    let data = client.buffer(0x40_0000, 0x11_0000_0000, false).unwrap();
    let system = client.buffer(0x20_0000, 0x12_0000_0000, true).unwrap();
    let bytes: Vec<u8> = (0..1u32 << 18).flat_map(|n| (n ^ 0x5a5a).to_le_bytes()).collect();
    data.write(0x10_0000, &bytes);
    let [mark_high, mark_low] = high_low(client.marks.va + 0x300);
    let [in_high, in_low] = high_low(data.va + 0x10_0000);
    let [out_high, out_low] = high_low(system.va);
    let push = [
        methods(COPY, 0, &[0xc8b5]),
        methods(COPY, 0x400, &[in_high, in_low, out_high, out_low]),
        methods(COPY, 0x418, &[1 << 20]),
        methods(COPY, 0x300, &[0x182]),
        methods(COPY, 0x240, &[mark_high, mark_low, 0x55]),
        methods(COPY, 0x300, &[0x14]),
    ];
    assert!(client.run(&channel, &push.concat()));
    assert!(system.read(0, bytes.len()) == bytes, "1 MiB is copied");
    let mark = client.read_words(client.marks.va + 0x300, 4);
    assert_eq!(mark[0], 0x55);
    assert_ne!((mark[2], mark[3]), (0, 0));
    // Four lines of 8 bytes, from a pitch of 32 to a pitch of 64.
    let [out_high, out_low] = high_low(data.va);
    let lines = [
        methods(COPY, 0x400, &[in_high, in_low, out_high, out_low, 32, 64, 8, 4]),
        methods(COPY, 0x300, &[0x382]),
        // A fill of 5 pixels of 4 bytes with a constant.
        methods(COPY, 0x408, &high_low(data.va + 0x1000)),
        methods(COPY, 0x418, &[5, 1]),
        methods(COPY, 0x700, &[0xabcd_1234, 0, 0x0003_0004]),
        methods(COPY, 0x300, &[0x582]),
    ];
    assert!(client.run(&channel, &lines.concat()));
    for line in 0..4 {
        let from = 32 * line;
        assert_eq!(data.read(64 * line as u64, 8), bytes[from..from + 8]);
        assert_eq!(data.read(64 * line as u64 + 8, 8), [0; 8]);
    }
    let filled = client.read_words(data.va + 0x1000, 6);
    assert_eq!(
        filled,
        [0xabcd_1234, 0xabcd_1234, 0xabcd_1234, 0xabcd_1234, 0xabcd_1234, 0]
    );
    client.close();
}

#[test]
fn memory_of_the_program_is_read_and_written() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[0xc8b5]).unwrap();
    client.schedule().unwrap();
    let mut program = vec![7u8; 0x4000].into_boxed_slice();
    let mut argument = [0; 56];
    for (offset, value) in [
        (0, client.root),
        (4, client.device),
        (8, 0x5c00_0001),
        (12, 0x71),
        (16, 0x4000_1010),
    ] {
        crate::client::put32(&mut argument, offset, value);
    }
    let address = program.as_mut_ptr().expose_provenance() as u64;
    crate::client::put64(&mut argument, 24, address);
    crate::client::put64(&mut argument, 32, 0x3fff);
    crate::client::put32(&mut argument, 48, u32::MAX);
    assert_eq!(client.request(crate::client::RM_ALLOC_MEMORY, &mut argument), 0);
    assert_eq!(crate::client::get32(&argument, 40), 0);
    let va = client.map_dma(0x5c00_0001, 0, 0x4000, false).unwrap();
    let data = client.buffer(0x20_0000, 0x11_0000_0000, false).unwrap();
    data.write(0, &[9; 0x100]);
    let copy = |from: u64, to: u64| {
        let [[a, b], [c, d]] = [high_low(from), high_low(to)];
        [
            methods(COPY, 0x400, &[a, b, c, d]),
            methods(COPY, 0x418, &[0x100]),
            methods(COPY, 0x300, &[0x182]),
        ]
        .concat()
    };
    let push = [
        methods(COPY, 0, &[0xc8b5]),
        copy(va, data.va + 0x1000),
        copy(data.va, va + 0x2000),
    ];
    assert!(client.run(&channel, &push.concat()));
    assert_eq!(data.read(0x1000, 0x100), [7; 0x100]);
    assert_eq!(program[0x1fff..0x2101], [&[7][..], &[9; 0x100], &[7]].concat());
    client.close();
}

#[test]
fn two_mappings_of_a_file_show_the_same_bytes() {
    let model = model();
    let driver = InProcess(&model);
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let memory = client.memory(0x20_0000, false).unwrap();
    let fd = client.open_gpu();
    let mut argument = [0; 56];
    for (offset, value) in [(0, client.root), (4, client.device), (8, memory)] {
        crate::client::put32(&mut argument, offset, value);
    }
    crate::client::put64(&mut argument, 16, 0x1000);
    crate::client::put64(&mut argument, 24, 0x2000);
    crate::client::put(&mut argument, 48, &fd.to_le_bytes());
    assert_eq!(client.request(crate::client::RM_MAP_MEMORY, &mut argument), 0);
    assert_eq!(crate::client::get32(&argument, 40), 0);
    let (first, second) = unsafe { (driver.map(fd, 0x2000), driver.map(fd, 0x2000)) };
    assert_ne!(first, second);
    unsafe {
        first.add(0x1234).write_volatile(0x77);
        assert_eq!(second.add(0x1234).read_volatile(), 0x77);
        // The file ends where the request does.
        let null = std::ptr::null_mut();
        let beyond = model.mmap(fd, null, 0x3000, libc::PROT_READ, libc::MAP_SHARED, 0);
        assert_eq!(beyond.unwrap().unwrap_err().0, libc::EINVAL);
        driver.unmap(first, 0x2000);
        driver.unmap(second, 0x2000);
    }
    client.close();
}
