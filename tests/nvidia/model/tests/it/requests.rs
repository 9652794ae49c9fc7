//! Requests that the driver refuses, by driver branch.

use crate::bring_up::{InProcess, model};
use crate::client::{Client, Driver, Refusal, get32, get64, put, put32, put64};
use nvidia_model::{Model, Settings};

fn client(model: &Model) -> Client<InProcess<'_>> {
    Client::bring_up(InProcess(model)).unwrap()
}

#[test]
fn refused_allocations_have_their_status() {
    let model = model();
    let client = client(&model);
    let free = |parent, class, handle, parameters: &mut [u8]| client.allocate(parent, class, handle, parameters);
    for (name, result, status) in [
        ("unknown class", free(client.device, 0xbeef, 0, &mut []), 0x22),
        ("class of another chip", free(client.device, 0xc7c0, 0, &mut []), 0x22),
        ("unknown parent", free(0x1234, 0x2080, 0, &mut [0; 4]), 0x36),
        ("subdevice of a client", free(client.root, 0x2080, 0, &mut [0; 4]), 0x36),
        (
            "channel of a device",
            free(client.device, 0xc86f, 0, &mut [0; 368]),
            0x36,
        ),
        ("engine of a group", free(client.group, 0xcbc0, 0, &mut []), 0x36),
        (
            "known handle",
            free(client.device, 0x90f1, client.group, &mut [0; 56]),
            0x19,
        ),
        (
            "handle of the client",
            free(client.device, 0x90f1, client.root, &mut [0; 56]),
            0x19,
        ),
        ("size of branch 570", free(client.device, 0x90f1, 0, &mut [0; 48]), 0x3a),
        ("no parameters", free(client.device, 0x90f1, 0, &mut []), 0x1f),
        ("no memory", client.memory(1 << 40, false), 0x51),
        (
            "second GPU",
            free(client.root, 0x80, 0, &mut {
                let mut p = [0; 56];
                p[0] = 1;
                p
            }),
            0x1f,
        ),
        (
            "space of a group",
            free(client.device, 0xa06c, 0, &mut {
                let mut p = [0; 20];
                put32(&mut p, 8, client.group);
                p
            }),
            0x31,
        ),
    ] {
        assert_eq!(result, Err(Refusal(status)), "{name}");
    }
    // The program chooses handles too.
    assert_eq!(client.allocate(client.device, 0x90f1, 0x77, &mut [0; 56]), Ok(0x77));
    client.close();
}

#[test]
fn refused_commands_have_their_status() {
    let model = model();
    let client = client(&model);
    for (name, result, status) in [
        (
            "unknown object",
            client.command(0x1234, 0x2080_1701, &mut [0; 16]),
            0x57,
        ),
        (
            "unknown command",
            client.command(client.subdevice, 0x2080_ffff, &mut [0; 16]),
            0x56,
        ),
        (
            "object of another class",
            client.command(client.device, 0x2080_1701, &mut [0; 16]),
            0x56,
        ),
        (
            "wrong size",
            client.command(client.subdevice, 0x2080_1701, &mut [0; 12]),
            0x3a,
        ),
        (
            "size of branch 595",
            client.command(client.subdevice, 0x2080_0110, &mut [0; 68]),
            0x3a,
        ),
        ("unknown GPU", client.command(client.root, 0x205, &mut [9; 32]), 0x1f),
    ] {
        assert_eq!(result, Err(Refusal(status)), "{name}");
    }
    // The driver accepts to free what does not exist, as CUDA's driver does at its start.
    assert_eq!(client.free(0x1234), Ok(()));
    let mut other = Client::bring_up(InProcess(&model)).unwrap();
    let root = other.root;
    other.root = 0xc1d0_0999;
    assert_eq!(other.free(0x1234), Err(Refusal(0x23)));
    assert_eq!(other.allocate(other.root, 0x80, 0, &mut [0; 56]), Err(Refusal(0x23)));
    other.root = root;
    other.close();
    client.close();
}

#[test]
fn system_calls_fail_as_the_kernels() {
    let model = model();
    let client = client(&model);
    let driver = InProcess(&model);
    let ioctl = |request: u64, argument: *mut u8| unsafe { driver.ioctl(client.control, request, argument) };
    let mut bytes = [0u8; 64];
    assert_eq!(ioctl(0xc020_46aa, bytes.as_mut_ptr()), -libc::ENOTTY, "unknown number");
    assert_eq!(ioctl(0xc010_462a, bytes.as_mut_ptr()), -libc::EINVAL, "wrong size");
    assert_eq!(ioctl(0x5401, bytes.as_mut_ptr()), -libc::EINVAL, "another driver");
    assert_eq!(
        ioctl(0xc020_462a, std::ptr::without_provenance_mut(0x10)),
        -libc::EFAULT,
        "no memory"
    );
    assert_eq!(driver.open("/dev/nvidia1"), -libc::ENOENT);
    assert!(model.open(b"/dev/null", 0).is_none());
    assert!(model.close(client.control + 1000).is_none());
    let fd = driver.open("/dev/nvidia0");
    let null = std::ptr::null_mut();
    let unmapped = unsafe { model.mmap(fd, null, 0x1000, libc::PROT_READ, libc::MAP_SHARED, 0) };
    assert_eq!(unmapped.unwrap().unwrap_err().0, libc::EINVAL);
    // A file belongs to one control file.
    let mut control = client.control.to_le_bytes();
    let register = 0xc004_46c9;
    assert_eq!(unsafe { driver.ioctl(fd, register, control.as_mut_ptr()) }, 0);
    assert_eq!(
        unsafe { driver.ioctl(fd, register, control.as_mut_ptr()) },
        -libc::EINVAL
    );
    assert_eq!(
        unsafe { driver.ioctl(fd, register, fd.to_le_bytes().as_mut_ptr()) },
        -libc::EINVAL
    );
    assert_eq!(driver.close(fd), 0);
    client.close();
}

#[test]
fn mappings_of_the_gpu_are_checked() {
    let model = model();
    let client = client(&model);
    let memory = client.memory(0x20_0000, false).unwrap();
    let va = 0x11_0000_0000;
    assert_eq!(client.map_dma(memory, va, 0x20_0000, true), Ok(va));
    for (name, va, bytes, status) in [
        ("same address", va, 0x1000, 0x51),
        ("overlap", va + 0x1f_f000, 0x1000, 0x51),
        ("not at a page", va + 0x40_0010, 0x1000, 0x1e),
        ("below the space", 0x1000, 0x1000, 0x1e),
        ("more than the memory", va + 0x40_0000, 0x40_0000, 0x2e),
    ] {
        assert_eq!(client.map_dma(memory, va, bytes, true), Err(Refusal(status)), "{name}");
    }
    let chosen = client.map_dma(memory, 0, 0x20_0000, false).unwrap();
    assert_ne!(chosen, va);
    // The highest addresses of 48 bits and more are granted too.
    for high in [0x7fd0_1a80_0000, 0x1_0000_0000_0000] {
        assert_eq!(client.map_dma(memory, high, 0x20_0000, true), Ok(high));
    }
    client.unmap_dma(memory, va).unwrap();
    assert_eq!(client.unmap_dma(memory, va), Err(Refusal(0x1e)));
    assert_eq!(client.map_dma(memory, va, 0x20_0000, true), Ok(va));
    // Freed memory leaves all its addresses.
    let before = model.usage().mappings;
    client.free(memory).unwrap();
    assert_eq!(model.usage().mappings, before - 4);
    client.close();
}

#[test]
fn mappings_of_the_program_are_checked() {
    let model = model();
    let client = client(&model);
    let video = client.memory(0x20_0000, false).unwrap();
    let fd = client.open_gpu();
    let map = |memory: u32, bytes: u64, fd: i32| {
        let mut argument = [0; 56];
        for (offset, value) in [(0, client.root), (4, client.device), (8, memory)] {
            put32(&mut argument, offset, value);
        }
        put64(&mut argument, 24, bytes);
        put(&mut argument, 48, &fd.to_le_bytes());
        assert_eq!(client.request(crate::client::RM_MAP_MEMORY, &mut argument), 0);
        get32(&argument, 40)
    };
    assert_eq!(
        map(video, 0x20_0000, client.control),
        0x1f,
        "video memory needs a device file"
    );
    assert_eq!(map(video, 0x40_0000, fd), 0x2e, "the range ends within the memory");
    assert_eq!(map(client.group, 0x1000, fd), 0x31, "a group is no memory");
    assert_eq!(map(video, 0x20_0000, fd), 0);
    assert_eq!(map(video, 0x20_0000, fd), 0x63, "a file shows one memory");
    client.close();
}

#[test]
fn settings_refuse_requests() {
    let settings = Settings::default().with_failures("alloc:a06c:0x51,control:a06c0101:0x40@1");
    let model = Model::new(settings.unwrap()).unwrap();
    let refused = Client::bring_up(InProcess(&model)).err();
    assert_eq!(refused, Some(Refusal(0x51)));
    let settings = Settings::default().with_failures("control:a06c0101:0x40@1,request:58:0x65");
    let model = Model::new(settings.unwrap()).unwrap();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    assert_eq!(client.schedule(), Err(Refusal(0x40)));
    assert_eq!(client.schedule(), Ok(()));
    assert_eq!(client.unmap_dma(0, 0), Err(Refusal(0x65)));
    client.close();
}

#[test]
fn little_video_memory_runs_out_and_comes_back() {
    let model = Model::new(Settings::default().with_memory(0x80_0000)).unwrap();
    let client = client(&model);
    let memory = client.memory(0x40_0000, false).unwrap();
    assert_eq!(client.memory(0x20_0000, false), Err(Refusal(0x51)));
    client.free(memory).unwrap();
    client.memory(0x20_0000, false).unwrap();
    client.close();
}

/// Allocates with the parameters of a branch, without a whole client.
struct Raw<'a> {
    driver: InProcess<'a>,
    control: i32,
    root: u32,
}

impl Raw<'_> {
    fn request(&self, number: u64, argument: &mut [u8]) -> i32 {
        let request = 3 << 30 | (argument.len() as u64) << 16 | 0x46 << 8 | number;
        unsafe { self.driver.ioctl(self.control, request, argument.as_mut_ptr()) }
    }

    fn allocate(&self, parent: u32, class: u32, parameters: &mut [u8]) -> (u32, u32) {
        let mut argument = [0; 48];
        for (offset, value) in [(0, self.root), (4, parent), (12, class)] {
            put32(&mut argument, offset, value);
        }
        put64(&mut argument, 16, parameters.as_mut_ptr().expose_provenance() as u64);
        put32(&mut argument, 32, parameters.len() as u32);
        assert_eq!(self.request(0x2b, &mut argument), 0);
        (get32(&argument, 8), get32(&argument, 40))
    }

    fn command(&self, object: u32, command: u32, parameters: &mut [u8]) -> u32 {
        let mut argument = [0; 32];
        for (offset, value) in [(0, self.root), (4, object), (8, command), (24, parameters.len() as u32)] {
            put32(&mut argument, offset, value);
        }
        put64(&mut argument, 16, parameters.as_mut_ptr().expose_provenance() as u64);
        assert_eq!(self.request(0x2a, &mut argument), 0);
        get32(&argument, 28)
    }
}

#[test]
fn sizes_differ_between_branches() {
    for (version, space_bytes, name_bytes, list_bytes, dma_bytes, schedule_bytes) in [
        ("570.211.01", 48, 132, 404, 56, 2),
        ("580.142", 56, 132, 804, 64, 3),
        ("595.45.04", 56, 68, 804, 64, 3),
    ] {
        let model = Model::new(Settings::default().with_version(version).unwrap()).unwrap();
        let driver = InProcess(&model);
        let control = driver.open("/dev/nvidiactl");
        let mut raw = Raw {
            driver,
            control,
            root: 0,
        };
        raw.root = raw.allocate(0, 0x41, &mut [0; 4]).0;
        let (device, status) = raw.allocate(raw.root, 0x80, &mut [0; 56]);
        assert_eq!(status, 0, "{version}");
        let (subdevice, _) = raw.allocate(device, 0x2080, &mut [0; 4]);
        let (space, status) = raw.allocate(device, 0x90f1, &mut vec![0; space_bytes]);
        assert_eq!(status, 0, "{version}");
        assert_eq!(
            raw.allocate(device, 0x90f1, &mut vec![0; 104 - space_bytes]).1,
            0x3a,
            "{version}"
        );
        let mut name = vec![0; name_bytes];
        assert_eq!(raw.command(subdevice, 0x2080_0110, &mut name), 0, "{version}");
        assert!(name[4..].starts_with(b"NVIDIA H100"), "{version}");
        let mut list = vec![0; list_bytes];
        assert_eq!(raw.command(device, 0x80_0292, &mut list), 0, "{version}");
        let classes = (get32(&list, 0), get32(&list, 4 + 14 * 4));
        assert!(classes.0 >= 100 && classes.1 == 0x2080, "{version}: {classes:x?}");
        let mut parameters = [0; 20];
        put32(&mut parameters, 8, space);
        let (group, _) = raw.allocate(device, 0xa06c, &mut parameters);
        assert_eq!(
            raw.command(group, 0xa06c_0101, &mut vec![1; schedule_bytes]),
            0,
            "{version}"
        );
        assert_eq!(
            raw.command(group, 0xa06c_0101, &mut vec![1; 5 - schedule_bytes]),
            0x3a,
            "{version}"
        );
        let mut argument = vec![0; dma_bytes];
        assert_eq!(raw.request(0x57, &mut argument), 0, "{version}");
        let mut argument = vec![0; 120 - dma_bytes];
        assert_eq!(raw.request(0x57, &mut argument), -libc::EINVAL, "{version}");
        assert_eq!(raw.driver.close(control), 0);
        assert_eq!(model.usage().objects, 0);
    }
}

#[test]
fn version_is_told_by_file_and_request() {
    let model = Model::new(Settings::default().with_version("570.211.01").unwrap()).unwrap();
    let driver = InProcess(&model);
    let fd = driver.open("/proc/driver/nvidia/version");
    let mut text = [0u8; 256];
    let read = unsafe { libc::read(fd, text.as_mut_ptr().cast(), text.len()) };
    let text = String::from_utf8_lossy(&text[..read as usize]).into_owned();
    assert!(
        text.starts_with("NVRM version: ") && text.contains("  570.211.01  "),
        "{text}"
    );
    assert_eq!(unsafe { libc::close(fd) }, 0);
    let control = driver.open("/dev/nvidiactl");
    let mut argument = [0; 72];
    argument[8..18].copy_from_slice(b"570.211.01");
    assert_eq!(unsafe { driver.ioctl(control, 0xc048_46d2, argument.as_mut_ptr()) }, 0);
    assert_eq!(get32(&argument, 4), 1, "the versions are the same");
    argument[8] = b'6';
    assert_eq!(unsafe { driver.ioctl(control, 0xc048_46d2, argument.as_mut_ptr()) }, 0);
    assert_eq!((get32(&argument, 4), &argument[8..18]), (0, &b"570.211.01"[..]));
    // The same request by a pointer to its argument.
    let mut transfer = [0; 16];
    put32(&mut transfer, 0, 0xd2);
    put32(&mut transfer, 4, 72);
    put64(&mut transfer, 8, argument.as_mut_ptr().expose_provenance() as u64);
    assert_eq!(unsafe { driver.ioctl(control, 0xc010_46d3, transfer.as_mut_ptr()) }, 0);
    assert_eq!((get32(&argument, 4), get64(&transfer, 8) != 0), (1, true));
    assert_eq!(driver.close(control), 0);
}
