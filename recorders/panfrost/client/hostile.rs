//! Forbidden requests, which must return an error and never crash.

use crate::calls::{Node, errno, name_buffer};
use crate::ensure;
use panfrost_node::uapi::{self, family::DRM, flag, iow, iowr, number};
use trace_core::GpuVa;

const PAGE: usize = 4096;

/// Runs invalid chains: at an unmapped address, with a write to an unmapped address, and endless. Then runs valid work.
pub fn fault(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let (data, chain) = (
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    let describe = |operation: &'static str| move |e: i32| format!("{operation}: error {e}");
    node.submit(GpuVa::new(0xdead_0000), &[], 0, 0)
        .map_err(describe("a chain at an unmapped address"))?;
    node.run_value_writes(&chain, &[(data.va, 1)])?;
    ensure!(
        data.word(0) == 1,
        "after a chain at an unmapped address: {:#x}",
        data.word(0)
    );
    // A write to an unmapped address fails the job, but not the call.
    node.run_value_writes(&chain, &[(GpuVa::new(0x40), 1)])?;
    node.run_value_writes(&chain, &[(data.va + 8, 2)])?;
    ensure!(
        data.word(1) == 2,
        "after a write to an unmapped address: {:#x}",
        data.word(1)
    );
    // The first job of this chain is its own next job.
    let mut job = chain.read(0, 64);
    for (to, from) in job.iter_mut().skip(24).zip(chain.va.get().to_le_bytes()) {
        *to = from;
    }
    chain.write(0, &job);
    node.submit(chain.va, &[chain.handle], 0, 0)
        .map_err(describe("an endless chain"))?;
    // These bytes are not a job.
    chain.write(0, &[0xff; 256]);
    node.submit(chain.va, &[chain.handle], flag::FRAGMENT, 0)
        .map_err(describe("a chain that is not a job"))?;
    node.run_value_writes(&chain, &[(data.va + 16, 3)])?;
    ensure!(data.word(2) == 3, "after all invalid chains: {:#x}", data.word(2));
    Ok(())
}

/// Makes requests with every kind of error.
pub fn calls(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let is = |case: &str, got: Result<(), i32>, expected: i32| {
        ensure!(got == Err(expected), "{case}: {got:?}, expected error {expected}");
        Ok(())
    };
    let create = iowr::<uapi::CreateBo>(DRM, number::CREATE_BO);
    let create_object = |size, flags| node.create_bo(size, flags).map(drop);
    is("no bytes", create_object(0, flag::BO_NOEXEC), libc::EINVAL)?;
    is("unknown flags", create_object(4096, 1 << 7), libc::EINVAL)?;
    is("a heap for shaders", create_object(4096, flag::BO_HEAP), libc::EINVAL)?;
    // The object is larger than the free address space.
    let largest = 0xffff_f000;
    is("all addresses", create_object(largest, flag::BO_NOEXEC), libc::ENOSPC)?;
    let mut padded = uapi::CreateBo {
        size: 4096,
        pad: 1,
        ..Default::default()
    };
    is("padding", node.ioctl(create, &mut padded), libc::EINVAL)?;
    is("null", node.ioctl_raw(create, std::ptr::null_mut()), libc::EFAULT)?;
    is(
        "nowhere",
        node.ioctl_raw(create, 0xffff_ffff_ffff_0000u64 as *mut _),
        libc::EFAULT,
    )?;

    for handle in [0, 1, 77, u32::MAX] {
        is("close", node.close_handle(handle), libc::EINVAL)?;
        is("offset", node.get_map_offset(handle).map(drop), libc::ENOENT)?;
        is("wait", node.wait_bo(handle), libc::ENOENT)?;
        is("submit", node.submit(GpuVa::new(0x1000), &[handle], 0, 0), libc::ENOENT)?;
        is(
            "out sync",
            node.submit(GpuVa::new(0x1000), &[], 0, handle.max(1)),
            libc::ENODEV,
        )?;
        is("sync wait", node.wait_syncobjs(&[handle], 0, 0).map(drop), libc::ENOENT)?;
    }
    is("no chain", node.submit(GpuVa::ZERO, &[], 0, 0), libc::EINVAL)?;
    is(
        "unknown requirements",
        node.submit(GpuVa::new(0x1000), &[], 8, 0),
        libc::EINVAL,
    )?;
    is(
        "nothing to wait for",
        node.wait_syncobjs(&[], 0, 0).map(drop),
        libc::EINVAL,
    )?;
    let submit = iow::<uapi::Submit>(DRM, number::SUBMIT);
    for (count, at, expected) in [
        (u32::MAX, 0x1000, libc::ENOMEM),
        (4, 0, libc::EFAULT),
        (1, u64::MAX, libc::EFAULT),
    ] {
        let mut s = uapi::Submit {
            jc: 0x1000,
            bo_handles: at,
            bo_handle_count: count,
            ..Default::default()
        };
        is("handles", node.ioctl(submit, &mut s), expected)?;
        let mut s = uapi::Submit {
            jc: 0x1000,
            in_syncs: at,
            in_sync_count: count,
            ..Default::default()
        };
        is("syncs", node.ioctl(submit, &mut s), expected)?;
    }
    let object = node
        .create_bo(4096, flag::BO_NOEXEC)
        .map_err(|e| format!("create: error {e}"))?;
    node.close_handle(object.handle)
        .map_err(|e| format!("close: error {e}"))?;
    is("closed twice", node.close_handle(object.handle), libc::EINVAL)?;
    let heap = node
        .create_bo(5 << 20, flag::BO_HEAP | flag::BO_NOEXEC)
        .map_err(|e| format!("heap: error {e}"))?;
    is(
        "a heap to map",
        node.get_map_offset(heap.handle).map(drop),
        libc::EINVAL,
    )?;

    is("an unknown parameter", node.get_param(4000).map(drop), libc::EINVAL)?;
    is("a timestamp", node.get_param(41).map(drop), libc::EINVAL)?;
    for number in [0x03u8, 0x4f, 0x9f, 0xa0, 0xff] {
        is(
            "an unknown request",
            node.ioctl(iowr::<u64>(DRM, number), &mut 0u64),
            libc::EINVAL,
        )?;
    }
    is(
        "another family",
        node.ioctl(iowr::<u64>(b'T', 1), &mut 0u64),
        libc::ENOTTY,
    )?;
    for number in [number::PRIME_HANDLE_TO_FD, number::PRIME_FD_TO_HANDLE] {
        is(
            "sharing",
            node.ioctl(iowr::<[u32; 3]>(DRM, number), &mut [1u32; 3]),
            libc::EOPNOTSUPP,
        )?;
    }
    // A program can have a shorter or longer version of a structure.
    let short = 3 << 30 | 8 << 16 | 0x6442;
    let mut small = [4096u32, 1];
    node.ioctl(short, &mut small)
        .map_err(|e| format!("a short structure: error {e}"))?;
    let long = 3 << 30 | 64 << 16 | 0x6442;
    let mut large = [0u32; 16];
    (large[0], large[1], large[15]) = (4096, 1, 0x55);
    node.ioctl(long, &mut large)
        .map_err(|e| format!("a long structure: error {e}"))?;
    ensure!(large[2] != 0 && large[15] == 0x55, "{large:x?}");
    Ok(())
}

/// Makes wrong mappings, and mappings that outlive their objects.
pub fn memory(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let object = node.create_mapped(2 * PAGE, flag::BO_NOEXEC)?;
    let offset = node
        .get_map_offset(object.handle)
        .map_err(|e| format!("offset: error {e}"))?;
    for (case, at, bytes, flags) in [
        ("too long", offset, 3 * PAGE, libc::MAP_SHARED),
        (
            "not from the start of the object",
            offset + PAGE as u64,
            PAGE,
            libc::MAP_SHARED,
        ),
        ("no object at the offset", 0, PAGE, libc::MAP_SHARED),
        ("an offset after all objects", 1 << 50, PAGE, libc::MAP_SHARED),
        ("private", offset, PAGE, libc::MAP_PRIVATE),
    ] {
        let got = node.map(at, bytes, flags);
        ensure!(got == Err(libc::EINVAL), "{case}: {got:?}");
    }
    object.write(PAGE, &[7; 16]);
    node.close_handle(object.handle)
        .map_err(|e| format!("close: error {e}"))?;
    ensure!(
        node.map(offset, PAGE, libc::MAP_SHARED) == Err(libc::EINVAL),
        "an object was mapped after its close"
    );
    // These objects are so large that the node releases their memory. It must not release mapped memory.
    for _ in 0..3 {
        let large = node.create_mapped(40 << 20, flag::BO_NOEXEC)?;
        large.write(0, &[1; 64]);
        large.unmap();
        node.close_handle(large.handle)
            .map_err(|e| format!("close: error {e}"))?;
    }
    ensure!(object.read(PAGE, 16) == [7; 16], "the mapping lost its content");
    object.write(0, &[8; 16]);
    // SAFETY: the descriptor is the scene's own.
    unsafe { libc::close(node.0) };
    ensure!(
        object.read(0, 16) == [8; 16],
        "the mapping lost its content at the close of the descriptor"
    );
    ensure!(
        node.create_bo(4096, 1) == Err(libc::EBADF),
        "a request after the close of the descriptor succeeded"
    );
    ensure!(
        node.map(offset, PAGE, libc::MAP_SHARED) == Err(libc::EBADF),
        "a mapping after the close of the descriptor succeeded"
    );

    let stack = [0u8; 16];
    let named = |at: *const u8, bytes| name_buffer(at, bytes, "x", 1, "u8", "");
    if let Some(refused) = named(stack.as_ptr(), 16) {
        ensure!(refused == libc::EFAULT, "a name for the stack was accepted: {refused}");
        ensure!(
            named(std::ptr::null(), 16) == Some(libc::EFAULT),
            "a name for a null pointer was accepted"
        );
        let node = Node::open()?;
        let object = node.create_mapped(PAGE, flag::BO_NOEXEC)?;
        ensure!(
            named(object.at, PAGE + 1) == Some(libc::EINVAL),
            "a name for more than the object was accepted"
        );
        ensure!(
            named(object.at, 0) == Some(libc::EINVAL),
            "a name for no bytes was accepted"
        );
        for (role, element, shape) in [(9, "u8", ""), (0, "u9", ""), (0, "u8", "8x"), (0, "u8", "0")] {
            let got = name_buffer(object.at, 8, "x", role, element, shape);
            ensure!(got == Some(libc::EINVAL), "{role} {element} {shape}: {got:?}");
        }
        ensure!(
            name_buffer(object.at, 8, "", 0, "u8", "8") == Some(libc::EINVAL),
            "an empty name was accepted"
        );
    }
    Ok(())
}

/// Uses descriptors that are copied, closed in bulk, and used by number.
pub fn descriptors(_: &[String]) -> Result<(), String> {
    let node = Node::open()?;
    let (data, chain) = (
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
        node.create_mapped(PAGE, flag::BO_NOEXEC)?,
    );
    // SAFETY: the descriptors belong to this scene.
    let copies = unsafe {
        [
            libc::dup(node.0),
            libc::fcntl(node.0, libc::F_DUPFD_CLOEXEC, 100),
            libc::dup2(node.0, 77),
        ]
    };
    for copy in copies {
        Node(copy).run_value_writes(&chain, &[(data.va, copy as u64)])?;
        ensure!(data.word(0) == copy as u64, "by descriptor {copy}: {:#x}", data.word(0));
    }
    // SAFETY: as above.
    unsafe { libc::close(node.0) };
    ensure!(
        node.wait_bo(data.handle) == Err(libc::EBADF),
        "a request with a closed descriptor succeeded"
    );
    Node(77).run_value_writes(&chain, &[(data.va, 5)])?;
    // The recorder's own descriptor of the node is one of these numbers.
    for fd in 3..200 {
        if fd != 77 {
            // SAFETY: this scene needs only descriptor 77 from here on.
            unsafe { libc::close(fd) };
        }
    }
    Node(77).run_value_writes(&chain, &[(data.va, 6)])?;
    ensure!(
        data.word(0) == 6,
        "after the close of all other descriptors: {:#x}",
        data.word(0)
    );
    let more = Node(77).create_mapped(PAGE, flag::BO_NOEXEC)?;
    ensure!(more.word(0) == 0, "a new object is not zero");
    // SAFETY: the descriptors belong to this scene. The system call is not intercepted.
    let closed = unsafe { libc::syscall(libc::SYS_dup2, 2, 77) };
    ensure!(closed == 77, "dup2: error {}", errno());
    ensure!(
        Node(77).wait_bo(data.handle) == Err(libc::ENOTTY),
        "a request for another file was not forwarded"
    );
    Ok(())
}
