//! Scenes of a well-behaved program, and of its different ends.

use crate::calls::{NODE, Node, errno, name_buffer};
use crate::ensure;
use panfrost_node::uapi::{self, cap, family::DRM, flag, iow, iowr, number};
use std::ffi::{CStr, CString};
use std::time::Duration;

const PAGE: usize = 4096;

/// Queries the GPU, runs chains in two submits with a change by the program between them, and names its buffers.
pub fn work(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let mut text = [0u8; 32];
    let mut v = uapi::Version {
        name_len: text.len() as u64,
        name: text.as_mut_ptr() as u64,
        ..Default::default()
    };
    node.ioctl(iowr::<uapi::Version>(DRM, number::VERSION), &mut v)
        .map_err(|e| format!("version: error {e}"))?;
    ensure!(
        &text[..8] == b"panfrost" && v.name_len == 8,
        "name: {text:?} {}",
        v.name_len
    );
    ensure!((v.major, v.minor) == (1, 2), "version {}.{}", v.major, v.minor);
    for (capability, expected) in [(cap::SYNCOBJ, 1), (cap::PRIME, 0), (cap::SYNCOBJ_TIMELINE, 0)] {
        let mut c = uapi::GetCap { capability, value: 9 };
        let got = node.ioctl(iowr::<uapi::GetCap>(DRM, number::GET_CAP), &mut c);
        ensure!(
            got.is_ok() && c.value == expected,
            "capability {capability:#x}: {got:?} {}",
            c.value
        );
    }
    let product = node.get_param(0).map_err(|e| format!("product: error {e}"))?;
    println!("product {product:#x}");
    ensure!(node.get_param(2).is_ok_and(|cores| cores != 0), "no cores");

    let data = node.create_mapped(2 * PAGE, flag::BO_NOEXEC)?;
    let chain = node.create_mapped(PAGE, flag::BO_NOEXEC)?;
    let mut where_is = uapi::GetBoOffset {
        handle: data.handle,
        ..Default::default()
    };
    let result = node.ioctl(iowr::<uapi::GetBoOffset>(DRM, number::GET_BO_OFFSET), &mut where_is);
    ensure!(
        result.is_ok() && where_is.offset == data.va.get(),
        "{result:?}: {where_is:x?}"
    );

    data.write(0, &[0xa5; 64]);
    node.run_value_writes(&chain, &[(data.va, 0x1111), (data.va + 8, 0x2222)])?;
    ensure!(
        (data.word(0), data.word(1)) == (0x1111, 0x2222),
        "{:x?}",
        data.read(0, 16)
    );
    ensure!(
        data.word(2) == 0xa5a5_a5a5_a5a5_a5a5,
        "the other words changed: {:x?}",
        data.read(0, 64)
    );

    // The program changes a word between two words of the GPU, and a word that the GPU did not write.
    data.write(8, &7u64.to_le_bytes());
    data.write(PAGE, &9u64.to_le_bytes());
    node.run_value_writes(&chain, &[(data.va + 16, 0x3333), (data.va + PAGE as u64 + 8, 0x4444)])?;
    let words = [0, 1, 2, 512, 513].map(|n| data.word(n));
    ensure!(words == [0x1111, 7, 0x3333, 9, 0x4444], "{words:x?}");

    if name_buffer(data.at, 64, "results", 1, "u64", "8").is_some_and(|e| e != 0) {
        return Err("the recorder refused the name".into());
    }
    let input = name_buffer(data.at.wrapping_add(PAGE), 16, "given", 0, "u64", "");
    ensure!(input.is_none_or(|e| e == 0), "the recorder refused the second name");
    // SAFETY: the descriptor is the scene's own.
    unsafe { libc::close(node.0) };
    Ok(())
}

/// Creates and releases objects for many submits, so that addresses and memory are reused.
pub fn many(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let chain = node.create_mapped(PAGE, flag::BO_NOEXEC)?;
    for round in 0..60u64 {
        let pages = 1 + (round % 5) as usize;
        let data = node.create_mapped(pages * PAGE, flag::BO_NOEXEC)?;
        ensure!(data.word(0) == 0, "round {round}: a new object is not zero");
        let last = ((pages - 1) * PAGE) as u64;
        node.run_value_writes(&chain, &[(data.va, round), (data.va + last, round + 1)])?;
        let first = if pages == 1 { round + 1 } else { round };
        ensure!(data.word(0) == first, "round {round}: {:#x}", data.word(0));
        data.unmap();
        node.close_handle(data.handle)
            .map_err(|e| format!("round {round}: error {e}"))?;
    }
    Ok(())
}

/// Runs several threads with their own objects. Two of the threads have their own descriptor.
pub fn threads(_: &[String]) -> Result<(), String> {
    let shared = Node::open()?;
    let work = |node: Node, index: u64| -> Result<(), String> {
        let (data, chain) = (
            node.create_mapped(PAGE, flag::BO_NOEXEC)?,
            node.create_mapped(PAGE, flag::BO_NOEXEC)?,
        );
        for n in 0..20 {
            node.run_value_writes(&chain, &[(data.va + 8 * n, index << 32 | n)])?;
            let got = data.word(n as usize);
            ensure!(got == index << 32 | n, "thread {index}, chain {n}: {got:#x}");
        }
        Ok(())
    };
    let all: Vec<_> = (0..6)
        .map(|number| std::thread::spawn(move || work(if number < 2 { Node::open()? } else { shared }, number)))
        .collect();
    all.into_iter()
        .try_for_each(|t| t.join().unwrap_or_else(|_| Err("a thread panicked".into())))
}

/// Forks. Child and parent continue with their objects and chains.
pub fn fork(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let (data, chain) = (
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    node.run_value_writes(&chain, &[(data.va, 1)])?;
    // SAFETY: the child does what the parent would do, and ends without the parent's exit handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let done = node.run_value_writes(&chain, &[(data.va + 8, 2)]).is_ok() && data.word(1) == 2;
        let reopened = Node::open()
            .and_then(|n| n.create_mapped(PAGE, flag::BO_NOEXEC))
            .is_ok();
        // SAFETY: the call ends the child.
        unsafe { libc::_exit(if done && reopened { 0 } else { 9 }) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's own.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    ensure!(status == 0, "the child ended with {status:#x}");
    node.run_value_writes(&chain, &[(data.va + 16, 3)])?;
    ensure!((data.word(0), data.word(2)) == (1, 3), "{:x?}", data.read(0, 24));
    // The second child executes a program that does not exist.
    // SAFETY: the child makes only calls that are allowed in a child.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let program = c"/no/such/program";
        let arguments = [program.as_ptr(), std::ptr::null()];
        // SAFETY: the strings end in a zero, and the list ends in null.
        unsafe {
            libc::execv(program.as_ptr(), arguments.as_ptr());
            libc::_exit(3);
        }
    }
    // SAFETY: as above.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    ensure!(
        libc::WEXITSTATUS(status) == 3,
        "the second child ended with {status:#x}"
    );
    node.run_value_writes(&chain, &[(data.va + 24, 4)])?;
    ensure!(data.word(3) == 4, "after the second child: {:#x}", data.word(3));
    Ok(())
}

fn monotonic_ns() -> i64 {
    // SAFETY: the structure contains only numbers, and the call fills it.
    unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    }
}

/// Creates sync objects, waits for them, signals them by work, and exports them as files.
pub fn sync(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let describe = |operation: &'static str| move |e: i32| format!("{operation}: error {e}");
    let ready = node.create_syncobj(true).map_err(describe("signaled"))?;
    let later = node.create_syncobj(false).map_err(describe("not signaled"))?;
    ensure!(
        node.wait_syncobjs(&[ready], 0, 0) == Ok(0),
        "the wait for a signaled object failed"
    );
    ensure!(
        node.wait_syncobjs(&[later], 0, 0) == Err(libc::EINVAL),
        "the wait for an object without a fence did not fail"
    );
    ensure!(
        node.wait_syncobjs(&[later, ready], flag::WAIT_FOR_SUBMIT, 0) == Ok(1),
        "the wait for one of two objects failed"
    );
    let both = flag::WAIT_FOR_SUBMIT | flag::WAIT_ALL;
    let soon = monotonic_ns() + 20_000_000;
    ensure!(
        node.wait_syncobjs(&[later, ready], both, soon) == Err(libc::ETIME),
        "the wait for both objects did not time out"
    );
    ensure!(monotonic_ns() >= soon, "the wait ended before its time");

    // One thread waits until another thread's work signals it.
    let waits = std::thread::spawn(move || node.wait_syncobjs(&[later], flag::WAIT_FOR_SUBMIT, i64::MAX));
    std::thread::sleep(Duration::from_millis(20));
    let (data, chain) = (
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    node.run_value_writes(&chain, &[(data.va, 5)])?;
    node.submit(chain.va, &[data.handle, chain.handle], 0, later)
        .map_err(describe("submit"))?;
    ensure!(waits.join().is_ok_and(|w| w == Ok(0)), "the wait did not end");

    let to_file = iowr::<uapi::SyncobjFile>(DRM, number::SYNCOBJ_HANDLE_TO_FD);
    let to_handle = iowr::<uapi::SyncobjFile>(DRM, number::SYNCOBJ_FD_TO_HANDLE);
    let mut fence = uapi::SyncobjFile {
        handle: later,
        flags: flag::SYNC_FILE,
        fd: -1,
        pad: 0,
    };
    node.ioctl(to_file, &mut fence).map_err(describe("a fence as a file"))?;
    let mut poll = libc::pollfd {
        fd: fence.fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is one structure.
    let polled = unsafe { libc::poll(&raw mut poll, 1, 0) };
    ensure!(
        polled == 1 && poll.revents & libc::POLLIN != 0,
        "the fence is not ready: {}",
        poll.revents
    );
    let mut merge = uapi::SyncMerge {
        other: fence.fd,
        fence: -1,
        ..Default::default()
    };
    Node(fence.fd)
        .ioctl(iowr::<uapi::SyncMerge>(b'>', number::SYNC_MERGE), &mut merge)
        .map_err(describe("one fence of two"))?;
    ensure!(merge.fence >= 0 && merge.fence != fence.fd, "{merge:?}");
    let third = node.create_syncobj(false).map_err(describe("a third"))?;
    let mut import = uapi::SyncobjFile {
        handle: third,
        fd: merge.fence,
        ..fence
    };
    node.ioctl(to_handle, &mut import)
        .map_err(describe("a file as a fence"))?;
    ensure!(
        node.wait_syncobjs(&[third], 0, 0) == Ok(0),
        "the imported fence is not signaled"
    );
    let mut shared = uapi::SyncobjFile {
        handle: third,
        flags: 0,
        fd: -1,
        pad: 0,
    };
    node.ioctl(to_file, &mut shared)
        .map_err(describe("an object as a file"))?;
    node.ioctl(to_handle, &mut shared)
        .map_err(describe("a file as an object"))?;
    ensure!(shared.handle != third, "the import returned the same handle");
    ensure!(
        node.wait_syncobjs(&[shared.handle], 0, 0) == Ok(0),
        "the imported object is another object"
    );
    Ok(())
}

/// Checks the files of the node that a program can see.
pub fn paths(_: &[String]) -> Result<(), String> {
    let path = CString::new(NODE).map_err(|e| e.to_string())?;
    // SAFETY: the strings end in a zero, the structures contain only numbers, and the lists are from the calls.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        ensure!(libc::stat(path.as_ptr(), &raw mut stat) == 0, "stat: error {}", errno());
        let device = libc::makedev(226, 128);
        ensure!(
            stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == device,
            "stat: {:#x}",
            stat.st_rdev
        );
        let node = Node::open()?;
        let mut stat: libc::stat = std::mem::zeroed();
        ensure!(libc::fstat(node.0, &raw mut stat) == 0, "fstat: error {}", errno());
        ensure!(
            stat.st_mode & libc::S_IFMT == libc::S_IFCHR && stat.st_rdev == device,
            "fstat: {:#x}",
            stat.st_rdev
        );
        ensure!(libc::access(path.as_ptr(), libc::R_OK | libc::W_OK) == 0, "access");
        ensure!(
            libc::access(c"/dev/dri/card7".as_ptr(), libc::F_OK) != 0,
            "another device exists"
        );

        let folder = libc::opendir(c"/dev/dri".as_ptr());
        ensure!(!folder.is_null(), "opendir: error {}", errno());
        let mut names = Vec::new();
        loop {
            let entry = libc::readdir(folder);
            if entry.is_null() {
                break;
            }
            names.push(CStr::from_ptr((*entry).d_name.as_ptr()).to_string_lossy().into_owned());
        }
        ensure!(libc::closedir(folder) == 0, "closedir");
        ensure!(names == ["renderD128"], "{names:?}");

        let mut link = [0i8; 64];
        let got = libc::readlink(
            c"/sys/dev/char/226:128/device/subsystem".as_ptr(),
            link.as_mut_ptr().cast(),
            64,
        );
        ensure!(got == 17, "readlink: {got}");
    }
    // Rust's standard library must see the same files.
    let uevent = std::fs::read_to_string("/sys/dev/char/226:128/device/uevent").map_err(|e| format!("uevent: {e}"))?;
    ensure!(uevent.contains("DRIVER=panfrost\n"), "{uevent}");
    let listed: Vec<_> = std::fs::read_dir("/dev/dri")
        .map_err(|e| format!("read_dir: {e}"))?
        .flatten()
        .map(|e| e.file_name())
        .collect();
    ensure!(listed == ["renderD128"], "{listed:?}");
    let metadata = std::fs::metadata(NODE).map_err(|e| format!("metadata: {e}"))?;
    ensure!(
        std::os::unix::fs::FileTypeExt::is_char_device(&metadata.file_type()),
        "{metadata:?}"
    );
    ensure!(std::fs::metadata("/dev/dri/card0").is_err(), "another device exists");
    ensure!(
        std::fs::metadata("/dev/null").is_ok(),
        "a file of another device is missing"
    );
    Ok(())
}

/// Uses two descriptors in one thread. Their objects are separate, and one works after the other is closed.
pub fn twice(_: &[String]) -> Result<(), String> {
    let (first, second) = (Node::open()?, Node::open()?);
    ensure!(first.0 != second.0, "both descriptors are equal");
    let (data, chain) = (
        first.create_mapped(PAGE, flag::BO_NOEXEC)?,
        first.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    ensure!(
        second.wait_bo(data.handle) == Err(libc::ENOENT),
        "the second knows an object of the first"
    );
    let offset = first
        .get_map_offset(data.handle)
        .map_err(|e| format!("offset: error {e}"))?;
    ensure!(
        second.map(offset, PAGE, libc::MAP_SHARED) == Err(libc::EINVAL),
        "the second maps an object of the first"
    );
    let (other, other_chain) = (
        second.create_mapped(PAGE, flag::BO_NOEXEC)?,
        second.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    ensure!(other.va == data.va, "the address spaces are not separate");
    first.run_value_writes(&chain, &[(data.va, 1)])?;
    second.run_value_writes(&other_chain, &[(other.va, 2)])?;
    ensure!(
        (data.word(0), other.word(0)) == (1, 2),
        "{:#x} and {:#x}",
        data.word(0),
        other.word(0)
    );
    // SAFETY: the descriptor is the scene's other.
    unsafe { libc::close(first.0) };
    second.run_value_writes(&other_chain, &[(other.va + 8, 3)])?;
    ensure!(other.word(1) == 3, "after the first is closed: {:#x}", other.word(1));
    Ok(())
}

/// Labels objects by the driver's own request. One object also has a name for the recorder.
pub fn labels(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let label = |handle: u32, text: &str| -> Result<(), String> {
        let text = CString::new(text).map_err(|e| e.to_string())?;
        let mut l = uapi::SetLabelBo {
            handle,
            pad: 0,
            label: text.as_ptr() as u64,
        };
        node.ioctl(iow::<uapi::SetLabelBo>(DRM, number::SET_LABEL_BO), &mut l)
            .map_err(|e| format!("label: error {e}"))
    };
    let objects = [(); 5].map(|()| node.create_mapped(PAGE, flag::BO_NOEXEC));
    let [chain, first, second, named, bare] = objects;
    let (chain, first, second, named, _bare) = (chain?, first?, second?, named?, bare?);
    label(chain.handle, "Command stream")?;
    label(first.handle, "Texture")?;
    label(second.handle, "Texture")?;
    label(named.handle, "Buffer")?;
    if name_buffer(named.at, 16, "results", 1, "u64", "2").is_some_and(|e| e != 0) {
        return Err("the recorder refused the name".into());
    }
    let mut unknown = uapi::SetLabelBo {
        handle: 999,
        ..Default::default()
    };
    let refused = node.ioctl(iow::<uapi::SetLabelBo>(DRM, number::SET_LABEL_BO), &mut unknown);
    ensure!(
        refused == Err(libc::ENOENT),
        "a label for an unknown handle was accepted: {refused:?}"
    );
    node.run_value_writes(&chain, &[(first.va, 1), (second.va, 2), (named.va, 3)])?;
    // The recording must contain an object that is released after the last chain.
    node.close_handle(second.handle)
        .map_err(|e| format!("close: error {e}"))
}

/// Runs one chain.
fn run_one_chain() -> Result<(), String> {
    let node = Node::open()?;
    let (data, chain) = (
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    node.run_value_writes(&chain, &[(data.va, 1)])
}

/// Runs a chain, and is killed by a signal that no program can handle.
pub fn killed(_: &[String]) -> Result<(), String> {
    run_one_chain()?;
    // SAFETY: the call sends a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    std::thread::sleep(Duration::from_secs(60));
    Err("the signal did not end the process".into())
}

/// Runs a chain, and aborts.
pub fn aborted(_: &[String]) -> Result<(), String> {
    run_one_chain()?;
    // SAFETY: the call ends the process.
    unsafe { libc::abort() }
}

/// Runs a chain, and ends without exit handlers.
pub fn leave(_: &[String]) -> Result<(), String> {
    run_one_chain()?;
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(7) }
}

/// Runs a chain, and is ended by a signal.
pub fn signal(_: &[String]) -> Result<(), String> {
    run_one_chain()?;
    // SAFETY: the call sends a signal to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
    std::thread::sleep(Duration::from_secs(60));
    Err("the signal did not end the process".into())
}
