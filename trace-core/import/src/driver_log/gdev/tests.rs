use super::super::test_logs::{caller, created, describe_events, import_as, messages, objects, open_as, write};
use super::*;
use crate::test_recordings::recordings;
use trace_core::GpuVa;
use trace_core::recording::EventKind;

const LOG: &str = "\
[    8.000001] usb 1-1: new device
[    9.000001] gopen: opening minor device 1
[    9.000002] gopen: creating a new virtual address space object. size: 0x4000000
[    9.000003] gdev_drv_vspace_alloc: creating a new vspace. size: 0x4000000
[    9.000004] nouveau_fifo_channel_create_: channel addr: 0xe0001000, len: 0x1000.
[    9.000005] gopen: creating a new GPU context. [1]
[    9.000006] gdev_drv_chan_alloc: allocating a channel. push buffer addr: 0x20000, size: 0x8000. indirect buffer addr: 0x30000 (2)
[    9.000007] gdev_raw_ctx_new: fence buffer allocation with size: 0x2000
[    9.000008] gdev_drv_bo_alloc: allocating a new buffer object. size: 0x2000
[    9.000009] gopen: allocating static bounce bound buffer. size: 0x1000
[    9.000010] gdev_drv_bo_alloc: allocating a new buffer object. size: 0x1000 (memory allocated at host for DMA) [3]
[    9.000011] [gdev] Opened gdev1
[    9.000012] __malloc_dma: allocating 1 memory regions with size 0x3000
[    9.000013] gdev_raw_mem_alloc_dma: allocating memory at host for DMA. size: 0x3000
[    9.000014] gdev_drv_bo_alloc: allocating a new buffer object. size: 0x3000
[    9.000015] gmalloc: allocating device memory by calling gdev_mem_alloc. size: 0x500
[    9.000016] gdev_raw_mem_alloc: allocing memory at device. size: 0x500
[    9.000017] gdev_drv_bo_alloc: allocating a new buffer object. size: 0x500
cuModuleLoad: allocating local static data memory. size: 0x700
gdev_drv_bo_alloc: allocating a new buffer object. size: 0x700
[    9.000020] [gdev] code_addr = 0x12000
[    9.000021] cmem[0].size = 0x100
[    9.000022] grid_x = 4
[    9.000023] [gdev] Closed gdev1
";

#[test]
fn several_lines_become_one_object_with_its_caller() {
    let r = import_as("gdev", LOG);
    assert_eq!(
        describe_events(&r)
            .into_iter()
            .filter(|t| t.starts_with("created"))
            .collect::<Vec<_>>(),
        [
            "created device, asked for by gopen",
            "created address space, 67108864 bytes, asked for by gopen",
            "created registers, 4096 bytes at 0xe0001000, asked for by gopen",
            "created context, asked for by gopen",
            "created channel, push buffer of 32768 bytes at 0x20000, ring at 0x30000, asked for by gopen",
            "created buffer, 8192 bytes, asked for by gdev_raw_ctx_new",
            "created buffer, 4096 bytes, in host memory, asked for by gopen",
            "created buffer, 12288 bytes, in host memory, asked for by __malloc_dma",
            "created buffer, 1280 bytes, asked for by gmalloc",
            "created buffer, 1792 bytes, asked for by cuModuleLoad",
        ]
    );
    let flags: Vec<u32> = created(&r, ObjectKind::Buffer).iter().map(|b| b.flags).collect();
    let (host, video) = (ObjectRow::HOST_MEMORY, ObjectRow::VIDEO_MEMORY);
    assert_eq!(flags, [0, host, host, video, 0]);
    assert_eq!(r.metadata.identity.clock, Clock::Monotonic);
    assert!(!r.driver_trace().unwrap().has_arguments);
}

#[test]
fn each_line_is_a_mark_and_its_object_follows() {
    let r = import_as("gdev", LOG);
    assert_eq!(r.events.marks.len(), LOG.lines().count());
    let texts = describe_events(&r);
    assert_eq!(texts[0], "[    8.000001] usb 1-1: new device");
    assert!(texts[1].ends_with("opening minor device 1") && texts[2].starts_with("created device"));
    assert!(texts.iter().any(|t| t == "[    9.000022] grid_x = 4"));
    assert_eq!(
        (r.events.time.get(0), r.events.time.get(2)),
        (Some(8_000_001_000), Some(9_000_001_000))
    );
}

#[test]
fn closing_a_device_ends_its_objects_in_reverse_order() {
    let other = "gopen: opening minor device 0\ngdev_drv_bo_alloc: allocating a new buffer object. size: 0x10\n";
    let r = import_as("gdev", format!("{other}{LOG}"));
    let (freed, made): (Vec<ObjectRow>, Vec<ObjectRow>) = objects(&r)
        .into_iter()
        .partition(|row| row.action == ObjectAction::Free as u32);
    let create = ObjectAction::Create as u32;
    let ended: Vec<ObjectRow> = freed
        .iter()
        .rev()
        .map(|row| ObjectRow { action: create, ..*row })
        .collect();
    assert_eq!(made.len(), 12);
    assert_eq!(ended, made[2..]);
}

#[test]
fn incomplete_lines_are_findings() {
    let r = import_as(
        "gdev",
        "gopen: opening minor device 0\ngdev_drv_bo_alloc: allocating a new buffer object. size: \n",
    );
    assert_eq!(created(&r, ObjectKind::Buffer), []);
    let expected = "1 lines from here on look like lines of the format, but are incomplete; they are only marks";
    assert_eq!(messages(&r, FindingKind::NotUsed), [expected]);
    assert_eq!(r.metadata.findings[0].place, "line 2");
}

#[test]
fn faults_between_the_messages_are_findings() {
    let fault = "[    9.5] nouveau 0000:01:00.0: fifo: fault 00 [READ] at 0000000000007000 engine 00 [gr] client 01 [x] \
                 reason 00 [PDE] on channel 1 [0012345000 unknown]\n";
    let r = import_as("gdev", format!("{LOG}{fault}"));
    let errors = messages(&r, FindingKind::DriverError);
    assert_eq!(
        errors,
        ["MMU fault: READ at 0x7000, engine gr, client x, reason PDE, channel 1"]
    );
    let at = r.metadata.findings[0].event.unwrap() as usize;
    assert_eq!(r.events.kind(at), Some(EventKind::Mark));
}

#[test]
fn other_texts_do_not_fit() {
    for text in [
        "",
        "gdev_drv_bo_alloc: allocating\n",
        "see gopen: opening minor device 0\n",
        "a = b\nusb 1-1: x\n",
    ] {
        let (_folder, path) = write(text);
        assert!(!fits(&path), "{text}");
        assert!(
            import(&path, &Progress::new()).is_err() || text.starts_with("gdev_"),
            "{text}"
        );
    }
    let (_folder, path) = write(format!("{}{LOG}", "other line of a long log\n".repeat(10_000)));
    assert!(fits(&path));
}

#[test]
fn published_log_has_its_objects() {
    let Some(folder) = recordings("gdev/public") else {
        return;
    };
    let r = open_as("gdev", &folder.join("gdev-blog-dmesg.txt"));
    let buffers = created(&r, ObjectKind::Buffer);
    assert_eq!(buffers.len(), 9);
    let callers = |name: &str| {
        let of = buffers.iter().filter(|b| caller(&r, b) == name);
        of.map(|b| b.bytes).collect::<Vec<_>>()
    };
    assert_eq!(callers("gopen"), [0x40000; 2]);
    assert_eq!(callers("__malloc_dma"), [0x40000; 2]);
    assert_eq!(callers("gdev_raw_ctx_new"), [0x10000, 8]);
    assert_eq!(callers("gmalloc"), [0xc0_0000, 0x2_0300, 0x24]);
    let [channel] = created(&r, ObjectKind::Channel)[..] else {
        panic!("one channel")
    };
    assert_eq!(channel.known_address(), Some(GpuVa::new(0x103f_5000)));
    assert_eq!((channel.bytes, channel.known_second()), (0x1_0000, Some(0x1040_5000)));
    let [space] = created(&r, ObjectKind::AddressSpace)[..] else {
        panic!("one space")
    };
    assert_eq!(space.bytes, 0x100_0000_0000);
    let [registers] = created(&r, ObjectKind::Registers)[..] else {
        panic!("one page of registers")
    };
    assert_eq!((registers.address.get(), registers.bytes), (0xe800_2000, 0x1000));
    let kinds: Vec<FindingKind> = r.metadata.findings.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [FindingKind::Assumed]);
}
