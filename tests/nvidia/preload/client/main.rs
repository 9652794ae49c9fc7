//! Test program: a client of NVIDIA's driver that uses the functions of the C library, with or without a model.
//!
//! It copies 64 KiB and adds numbers, and exits with 0 if both are right. An argument `fault` makes a kernel store to an
//! address without memory: the program then prints the code of the error.
#![allow(unsafe_code, reason = "a client of a driver uses system calls and mapped memory")]
#![allow(
    clippy::panic,
    clippy::print_stdout,
    reason = "a test program panics when it fails, and prints what it did"
)]

#[path = "../../model/tests/it/client.rs"]
mod client;

use client::{COMPUTE, COPY, Client, Driver, Refusal, high_low, methods, put32, put64};
use std::ffi::CString;
use std::os::fd::RawFd;

/// The driver behind the C library.
struct System;

fn result(value: i32) -> i32 {
    match value {
        -1 => -std::io::Error::last_os_error().raw_os_error().unwrap_or(1),
        value => value,
    }
}

impl Driver for System {
    fn open(&self, path: &str) -> i32 {
        let path = CString::new(path).unwrap_or_default();
        // SAFETY: the path ends with a zero byte.
        result(unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })
    }

    fn close(&self, fd: RawFd) -> i32 {
        // SAFETY: the client owns the descriptor.
        result(unsafe { libc::close(fd) })
    }

    unsafe fn ioctl(&self, fd: RawFd, request: u64, argument: *mut u8) -> i32 {
        // SAFETY: the caller promises the argument.
        result(unsafe { libc::ioctl(fd, request, argument) })
    }

    unsafe fn map(&self, fd: RawFd, bytes: usize) -> *mut u8 {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the address.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        assert_ne!(address, libc::MAP_FAILED, "the memory is mapped");
        address.cast()
    }

    unsafe fn unmap(&self, address: *mut u8, bytes: usize) {
        // SAFETY: the caller promises the range.
        let result = unsafe { libc::munmap(address.cast(), bytes) };
        assert_eq!(result, 0, "the memory is unmapped");
    }
}

const DATA: u64 = 0x11_0000_0000;

/// Sets bits of a descriptor.
fn set(bytes: &mut [u8], high: usize, low: usize, value: u64) {
    for bit in low..=high {
        let one = (value >> (bit - low) & 1) as u8;
        bytes[bit / 8] = bytes[bit / 8] & !(1 << (bit % 8)) | one << (bit % 8);
    }
}

/// Writes bank and descriptor of a launch at `DATA`, and returns the words that launch it.
fn launch(client: &Client<System>, grid: u32, block: u32, parameters: &[u8]) -> Vec<u32> {
    let mut bank = vec![0; 0x400];
    for (n, size) in [block, 1, 1, grid, 1, 1].into_iter().enumerate() {
        put32(&mut bank, 4 * n, size);
    }
    bank[0x210..0x210 + parameters.len()].copy_from_slice(parameters);
    client.write_at(DATA, &bank);
    let program = DATA + 0x8000;
    let mut qmd = [0; 384];
    for (high, low, value) in [
        (25, 23, 2),
        (583, 580, 4),
        (568, 568, 1),
        (569, 569, 1),
        (1055, 1024, u64::from(grid)),
        (1071, 1056, 1),
        (1103, 1088, 1),
        (1167, 1152, u64::from(block)),
        (1183, 1168, 1),
        (1199, 1184, 1),
        (601, 584, 0x400),
        (1208, 1200, 16),
        (1247, 1216, program & 0xffff_ffff),
        (1272, 1248, program >> 32),
        (416, 416, 1),
        (1567, 1536, DATA >> 6 & 0xffff_ffff),
        (1586, 1568, DATA >> 38),
        (1599, 1587, 0x40),
    ] {
        set(&mut qmd, high, low, value);
    }
    client.write_at(DATA + 0x1000, &qmd);
    let descriptor = ((DATA + 0x1000) >> 8) as u32;
    [methods(COMPUTE, 0x2b4, &[descriptor]), methods(COMPUTE, 0x2c0, &[9])].concat()
}

/// Returns the code of a kernel: the offsets are those of `kernels.cubin`.
fn code(offset: usize, bytes: usize) -> &'static [u8] {
    let cubin = include_bytes!("../../model/kernels/kernels.cubin");
    cubin.get(offset..offset + bytes).unwrap_or_default()
}

fn run(fault: bool) -> Result<(), Refusal> {
    let client = Client::bring_up(System)?;
    let channel = client.channel(&[0xcbc0, 0xc8b5])?;
    client.schedule()?;
    client.buffer(0x20_0000, DATA, false)?;
    assert!(client.run(&channel, &client.bind_words()), "the classes are bound");
    let floats = |step: f32| {
        (0..1000u16)
            .map(|n| (f32::from(n) * step).to_bits())
            .collect::<Vec<u32>>()
    };
    client.write_words(DATA + 0x10_0000, &floats(1.0));
    let [from, to] = [DATA + 0x10_0000, DATA + 0x11_0000].map(high_low);
    let copy = [
        methods(COPY, 0x400, &[from[0], from[1], to[0], to[1]]),
        methods(COPY, 0x418, &[0x1_0000]),
        methods(COPY, 0x300, &[0x182]),
    ];
    assert!(client.run(&channel, &copy.concat()), "the copy ends");
    assert_eq!(
        client.read_words(DATA + 0x11_0000, 1000),
        floats(1.0),
        "the copy is right"
    );
    if fault {
        client.write_at(DATA + 0x8000, code(0x1600, 0x180));
        let words = launch(&client, 1, 4, &0x7f_0000_0000u64.to_le_bytes());
        assert!(!client.run(&channel, &words), "the kernel fails");
        println!("error {:?}", client.notifier_code());
    } else {
        client.write_at(DATA + 0x8000, code(0x4c00, 0x200));
        let mut parameters = [0; 28];
        for (offset, va) in [(0, 0x10_0000), (8, 0x11_0000), (16, 0x12_0000)] {
            put64(&mut parameters, offset, DATA + va);
        }
        put32(&mut parameters, 24, 1000);
        let words = launch(&client, 4, 256, &parameters);
        assert!(client.run(&channel, &words), "the kernel ends");
        assert_eq!(
            client.read_words(DATA + 0x12_0000, 1000),
            floats(2.0),
            "the sums are right"
        );
        println!("added");
    }
    client.close();
    Ok(())
}

fn main() {
    let version = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    println!("{}", version.lines().next().unwrap_or("no driver"));
    let fault = std::env::args().nth(1).is_some_and(|argument| argument == "fault");
    if let Err(refusal) = run(fault) {
        println!("refused {:#x}", refusal.0);
        std::process::exit(3);
    }
}
