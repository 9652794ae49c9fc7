//! Tests of hostile plans that make a device access foreign memory. The bodies are written by hand, and the registers
//! still have values of another driver.

use super::{EDU, device, edu};
use replay_core::{Device, DeviceError, WaitResult};
use replay_engine::device::{DeviceInfo, JobReport, RegisterTarget, ReplayDeviceError, Target, space};
use replay_engine::plan::text::{NoFiles, assemble};
use replay_engine::plan::{Compiled, PlanPage};
use replay_engine::run::{Outcome, Verdict, run};
use replay_engine::verify::{MAX_STEPS, Reason, Refusal, Verified, Work, verify_within};
use std::sync::{Arc, Mutex};
use trace_core::PAGE_SIZE;
use trace_core::progress::Progress;
use trace_core::recording::{FrameRole, Page, ZERO_PAGE};

const BASE: u64 = 0x8_7654_0000;
/// Number of pages of the plans.
const USED: u64 = 16;
/// Offsets of the queue's parts in the plan's memory.
const TABLE: u64 = 0;
const RING: u64 = 0x4000;
const DONE: u64 = 0x6000;
const BUFFERS: u64 = 0xa000;

/// Resets the device and waits for the end of the reset.
const RESET: &str = "write 0 0x14 1 0\nuntil 0 0x14 1 0 mask 0xff reads 0 limit 1000000\n";
/// Accepts version 1 and no other feature.
const FEATURES: &str = "write 0 0x8 4 0\nwrite 0 0xc 4 0\nwrite 0 0x8 4 1\nwrite 0 0xc 4 1\n";
const LOW: &str = "write 0 0x20 4 0x76540000\nwrite 0 0x28 4 0x76544000\nwrite 0 0x30 4 0x76546000\n";
const HIGH: &str = "write 0 0x24 4 8\nwrite 0 0x2c 4 8\nwrite 0 0x34 4 8\n";
const SELECT_QUEUE: &str = "write 0 0x16 2 0\n";
const ENABLE: &str = "write 0 0x1c 2 1\nwrite 0 0x14 1 0xf\n";
const NOTIFY: &str = "write 0 0x3000 2 0\n";

fn virtio() -> DeviceInfo {
    let mut info = device("virtio-gpu", (0x1af4, 0x1050), ("bar4", 0x4000));
    info.windows.truncate(1);
    info
}

fn size(entries: u64) -> String {
    format!("write 0 0x18 2 {entries}\n")
}

/// Returns a plan of a virtio graphics device from lines of a body without their events.
fn virtio_plan(body: &str) -> Compiled {
    let hardware = serde_json::to_string(&virtio().hardware.unwrap()).unwrap();
    let lines: String = body.lines().map(|l| format!("1 {l}\n")).collect();
    let text = format!(
        "kinescope plan 5\ntitle \"hostile\"\ngpu 0x0 map \"virtio-gpu\"\narena {BASE:#x} pages 64 used {USED}\n\
         hardware {hardware:?}\nbus-mastering\nwindow 0 \"bar4\" registers bytes 16384\nbody\n{lines}"
    );
    assemble(&text, &NoFiles).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Writes bytes to the initial pages of a plan.
fn put(plan: &mut Compiled, at: u64, bytes: &[u8]) {
    for (n, byte) in bytes.iter().enumerate() {
        let at = at + n as u64;
        let frame = (BASE + at) / PAGE_SIZE as u64;
        let existing = plan
            .plan
            .accesses()
            .unwrap()
            .pages
            .iter()
            .position(|p| p.frame == frame);
        let mut page = existing.map_or(ZERO_PAGE, |i| {
            let old = plan.plan.accesses_mut().unwrap().pages.remove(i);
            *plan.pages.remove(&old.digest).unwrap()
        });
        page[(at % PAGE_SIZE as u64) as usize] = *byte;
        let digest = *blake3::hash(&page).as_bytes();
        let insert_at = plan.plan.accesses().unwrap().pages.partition_point(|p| p.frame < frame);
        let role = FrameRole::Data;
        plan.plan
            .accesses_mut()
            .unwrap()
            .pages
            .insert(insert_at, PlanPage { frame, digest, role });
        plan.pages.insert(digest, page.into());
    }
}

fn verify_plan(c: &Compiled, work: &Work<'_>) -> Result<Verified, Refusal> {
    verify_within(&c.plan, &c.pages, &virtio(), work)
}

fn refuse(body: &str) -> String {
    let progress = Progress::new();
    let e = verify_plan(&virtio_plan(body), &Work::new(MAX_STEPS, &progress)).unwrap_err();
    assert!(matches!(e.reason, Reason::BusMastering { .. }) && e.rule == 2, "{e}");
    e.to_string()
}

fn check_accepted(body: &str) {
    let progress = Progress::new();
    let done = verify_plan(&virtio_plan(body), &Work::new(MAX_STEPS, &progress));
    assert_eq!(done.unwrap().report().unproved, Vec::<String>::new());
}

#[test]
fn device_reset_clears_the_selected_queue() {
    let sound = [RESET, FEATURES, SELECT_QUEUE, &size(64), LOW, HIGH, ENABLE, NOTIFY].concat();
    check_accepted(&sound);
    // The reset selects queue 0 again, so the device uses the upper halves for queue 0.
    let one = [RESET, "write 0 0x16 2 1\n", RESET, FEATURES].concat();
    let e = refuse(&[&one, HIGH, SELECT_QUEUE, &size(64), LOW, ENABLE, NOTIFY].concat());
    assert!(
        e.contains("QUEUE_DESC_HI is written, but no queue was selected since the reset"),
        "{e}"
    );
    // The plan does not know the queue that the device itself selects after a reset.
    for written in [HIGH, &size(64), ENABLE] {
        let e = refuse(&[RESET, FEATURES, written].concat());
        assert!(e.contains("no queue was selected since the reset"), "{written}: {e}");
    }
    // The same rule applies to the feature word.
    for features in [
        "write 0 0xc 4 1\n",
        &["write 0 0x8 4 1\n", RESET, "write 0 0xc 4 1\n"].concat(),
    ] {
        let e = refuse(&[RESET, features].concat());
        assert!(e.contains("no word of features was selected since the reset"), "{e}");
    }
}

#[test]
fn address_register_must_be_written_after_reset() {
    let queue = |halves: &str| [RESET, FEATURES, SELECT_QUEUE, &size(64), halves, ENABLE, NOTIFY].concat();
    for left_out in 0..6 {
        let halves: String = [LOW, HIGH].concat();
        let lines = halves.lines().enumerate().filter(|(n, _)| *n != left_out);
        let halves: String = lines.map(|(_, l)| format!("{l}\n")).collect();
        let e = refuse(&queue(&halves));
        assert!(e.contains("was written since the reset"), "{left_out}: {e}");
    }
    // Values from before the reset do not count.
    let before = [RESET, SELECT_QUEUE, HIGH, &queue(LOW)].concat();
    assert!(refuse(&before).contains("not all of QUEUE_DESC was written since the reset"));
    let size_before = [
        RESET,
        SELECT_QUEUE,
        &size(64),
        RESET,
        FEATURES,
        SELECT_QUEUE,
        LOW,
        HIGH,
        ENABLE,
    ]
    .concat();
    assert!(refuse(&size_before).contains("0 entries"));
    // The device may keep features of another driver, such as packed rings.
    for (features, word) in [
        ("", 0),
        ("write 0 0x8 4 0\nwrite 0 0xc 4 0\n", 1),
        ("write 0 0x8 4 1\nwrite 0 0xc 4 1\n", 0),
    ] {
        let e = refuse(&[RESET, features, SELECT_QUEUE, &size(64), LOW, HIGH, ENABLE].concat());
        assert!(
            e.contains(&format!("word {word} of the features was not written since the reset")),
            "{e}"
        );
    }
}

#[test]
fn plan_must_reset_the_device_first() {
    // In a second run the device would use values of the first run.
    for first in [NOTIFY, SELECT_QUEUE, FEATURES, HIGH, ENABLE, "write 0 0x14 1 0xf\n"] {
        let e = refuse(&[first, RESET].concat());
        assert!(e.contains("before the device was reset"), "{first}: {e}");
    }
    // A status of 0 does not prove that the other registers are reset.
    let e = refuse(&["until 0 0x14 1 0 mask 0xff reads 0 limit 1000000\n", SELECT_QUEUE].concat());
    assert!(e.contains("before the device was reset"), "{e}");
    let verify_changed = |from: &str, to: &str| {
        assert!(EDU.contains(from), "{from}");
        let text = EDU.replacen("arena 0x2000000 pages 16384", &format!("arena {BASE:#x} pages 64"), 1);
        let c = assemble(&text.replacen(from, to, 1), &NoFiles).unwrap();
        let progress = Progress::new();
        verify_within(&c.plan, &c.pages, &edu(), &Work::new(MAX_STEPS, &progress)).map_err(|e| e.to_string())
    };
    verify_changed("title", "title").unwrap();
    let idle = "22 until 0 0x98 8 0x0 mask 0x1 reads 0 limit 100000000\n";
    let e = verify_changed(idle, "").unwrap_err();
    assert!(
        e.contains("EDU_DMA_SOURCE is written before the device was seen idle"),
        "{e}"
    );
    // A wait for another bit does not prove that the device is idle.
    let e = verify_changed(idle, "22 until 0 0x98 8 0x0 mask 0x4 reads 0 limit 100000000\n").unwrap_err();
    assert!(e.contains("before the device was seen idle"), "{e}");
    // A register value of another driver does not count as the plan's.
    for (line, name) in [
        ("22 write 0 0x80 8 arena+0x0\n", "EDU_DMA_SOURCE"),
        ("23 write 0 0x88 8 0x40000\n", "EDU_DMA_DESTINATION"),
        ("24 write 0 0x90 8 2048\n", "its number of bytes"),
    ] {
        let e = verify_changed(line, "").unwrap_err();
        assert!(
            e.contains(name) && e.contains("was not written since the device was seen idle"),
            "{e}"
        );
    }
}

#[test]
fn plan_that_ends_with_a_busy_device_is_refused() {
    let end = "after action";
    let e = refuse(&[RESET, "write 0 0x14 1 0\n"].concat());
    assert!(
        e.contains(end) && e.contains("may still be at work when the plan ends"),
        "{e}"
    );
    let text = EDU.replacen("arena 0x2000000 pages 16384", &format!("arena {BASE:#x} pages 64"), 1);
    let from = "36 until 0 0x98 8 0x6 mask 0xffffffffffffffff reads 1 limit 100000000\n";
    assert!(text.contains(from));
    let c = assemble(&text.replacen(from, "", 1), &NoFiles).unwrap();
    let progress = Progress::new();
    let e = verify_within(&c.plan, &c.pages, &edu(), &Work::new(MAX_STEPS, &progress)).unwrap_err();
    assert!(e.to_string().contains("may still be at work when the plan ends"), "{e}");
    // Relocation adds the wait.
    let mut other = edu();
    other.arena.base += 0x10_0000;
    let moved = c.moved_to(&other).unwrap();
    verify_within(&moved.plan, &moved.pages, &other, &Work::new(MAX_STEPS, &progress)).unwrap();
}

/// Returns one chain of descriptors at distinct addresses. The device reads the first half and writes the second.
fn chain(descriptors: u64) -> Vec<u8> {
    let mut table = Vec::new();
    for n in 0..descriptors {
        let write = n >= descriptors / 2;
        let (at, bytes) = match n {
            // Both halves begin with a command.
            0 | 1 => (BASE + BUFFERS, 24u32),
            n => (BASE + BUFFERS + 32 + 8 * n, 1),
        };
        let next = u16::from(n + 1 < descriptors);
        table.extend(at.to_le_bytes());
        table.extend(bytes.to_le_bytes());
        table.extend((next | u16::from(write) << 1).to_le_bytes());
        table.extend((n as u16 + 1).to_le_bytes());
    }
    table
}

#[test]
fn walking_a_ring_costs_steps_for_its_entries() {
    let setup = [RESET, FEATURES, SELECT_QUEUE, &size(1024), LOW, HIGH, ENABLE, NOTIFY].concat();
    let done = format!("until 1 {:#x} 2 {{}} mask 0xffff reads 0 limit 1000000\n", DONE + 2);
    let with = |body: &str, index: u16, descriptors: u64, heads: &[u16]| {
        let mut c = virtio_plan(body);
        put(&mut c, TABLE, &chain(descriptors));
        let mut ring = vec![0, 0];
        ring.extend(index.to_le_bytes());
        heads.iter().for_each(|h| ring.extend(h.to_le_bytes()));
        put(&mut c, RING, &ring);
        put(&mut c, BUFFERS, &0x100u32.to_le_bytes());
        c
    };
    let judge = |c: &Compiled| {
        let progress = Progress::new();
        let work = Work::new(MAX_STEPS, &progress);
        let result = verify_plan(c, &work);
        (result.map(drop).map_err(|e| e.to_string()), work.done())
    };
    // Each of 1024 entries of the ring refers to the same chain. The check refuses it before it follows the chain.
    let (result, steps) = judge(&with(&setup, 1024, 1024, &[0; 1024]));
    assert!(
        result
            .unwrap_err()
            .contains("the chain from descriptor 0 twice at once")
    );
    assert!(steps < 2_000, "{steps}");
    // The check follows the chain once. Its steps grow with the number of descriptors.
    let body = [setup.as_str(), &done.replace("{}", "1")].concat();
    let (result, all) = judge(&with(&body, 1, 1024, &[0]));
    assert_eq!(result, Ok(()));
    let (result, half) = judge(&with(&body, 1, 512, &[0]));
    assert_eq!(result, Ok(()));
    assert!(half < all && all < 20_000, "{half} {all}");
    // The plan submits chain after chain before any is done. The check follows at most as many descriptors as the queue
    // has.
    let more = format!("put {:#x} 2 2\n{NOTIFY}", RING + 2);
    let (result, steps) = judge(&with(&[&setup, more.as_str()].concat(), 1, 1024, &[0, 0]));
    assert!(result.unwrap_err().contains("while it is not known to be done"));
    assert!(steps < 20_000, "{steps}");
    // Two simultaneous chains share all descriptors except the first.
    let (result, _) = judge(&with(&setup, 2, 1024, &[0, 1]));
    assert!(result.unwrap_err().contains("has 2047 of them waiting at once"));
    // A limit below the required work ends the check.
    let progress = Progress::new();
    let c = with(&body, 1, 1024, &[0]);
    let e = verify_plan(&c, &Work::new(all / 2, &progress)).unwrap_err();
    assert!(e.to_string().contains("steps"), "{e}");
}

/// The requests to a device, in order.
type RequestLog = Arc<Mutex<Vec<String>>>;

/// A device that its machine cannot reset. Its registers keep their values until a register write changes them.
struct UnresettableDevice {
    info: DeviceInfo,
    /// The busy register and the value that it reads.
    status: (u64, u64),
    /// Number of reads for which it still has this value.
    reads: u64,
    requests: RequestLog,
}

impl UnresettableDevice {
    fn new(info: DeviceInfo, status: (u64, u64), reads: u64) -> (Self, RequestLog) {
        let requests = RequestLog::default();
        let new = Self {
            info,
            status,
            reads,
            requests: Arc::clone(&requests),
        };
        (new, requests)
    }

    fn note(&self, request: impl Into<String>) {
        self.requests.lock().unwrap().push(request.into());
    }
}

impl Device for UnresettableDevice {
    fn read(&mut self, number: u8, offset: u64, _: u8) -> Result<u64, DeviceError> {
        if (number, offset) != (space::REGISTERS, self.status.0) || self.reads == 0 {
            return Ok(0);
        }
        self.reads -= 1;
        Ok(self.status.1)
    }
    fn write(&mut self, _: u8, offset: u64, _: u8, value: u64) -> Result<(), DeviceError> {
        self.note(format!("{offset:#x} = {value:#x}"));
        Ok(())
    }
    fn wait_interrupt(&mut self, _: u32, _: u64) -> Result<WaitResult, DeviceError> {
        Ok(WaitResult::TimedOut)
    }
    fn pause(&mut self, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn now_ns(&mut self) -> u64 {
        0
    }
}

impl Target for UnresettableDevice {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        self.note("reset");
        Ok(())
    }
}

impl RegisterTarget for UnresettableDevice {
    fn store_page(&mut self, frame: u64, _: &Page) -> Result<(), ReplayDeviceError> {
        self.note(format!("page {frame:#x}"));
        Ok(())
    }
    fn load_page(&mut self, _: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
        *page = ZERO_PAGE;
        Ok(())
    }
    fn set_bus_mastering(&mut self, on: bool) -> Result<(), ReplayDeviceError> {
        self.note(format!("mastering {on}"));
        Ok(())
    }
    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }
}

fn run_plan(plan: &Compiled, (mut device, requests): (UnresettableDevice, RequestLog)) -> (Outcome, Vec<String>) {
    let outcome = run(&plan.plan, &plan.pages, &mut device, &Progress::new());
    let requests = requests.lock().unwrap().clone();
    (outcome, requests)
}

#[test]
fn unresettable_device_is_quiesced_around_bus_mastering() {
    let mut plan = virtio_plan(RESET);
    put(&mut plan, TABLE, &[1]);
    let page = format!("page {:#x}", BASE / PAGE_SIZE as u64);
    let reset = "0x14 = 0x0";
    // The device follows another driver's rings. Memory that it may have written since is cleared again.
    let (outcome, requests) = run_plan(&plan, UnresettableDevice::new(virtio(), (0x14, 0xf), 3));
    assert_eq!((outcome.verdict, &outcome.failure), (Verdict::Match, &None));
    let on = ["mastering true", reset, "mastering false", reset];
    assert_eq!(
        requests,
        [&["reset", reset, "reset", reset, page.as_str()][..], &on].concat()
    );
    let (_, requests) = run_plan(&plan, UnresettableDevice::new(virtio(), (0x14, 0), 0));
    assert_eq!(requests, [&["reset", reset, page.as_str()][..], &on].concat());
    // A device that never becomes idle gets no bus mastering and no page.
    let (outcome, requests) = run_plan(&plan, UnresettableDevice::new(virtio(), (0x14, 0xf), u64::MAX));
    assert_eq!(outcome.verdict, Verdict::Failed);
    let why = outcome.failure.unwrap();
    assert!(why.contains("does not become idle"), "{why}");
    assert_eq!(requests, ["reset", reset, "reset"]);
}

#[test]
fn running_transfer_must_end_before_bus_mastering() {
    let text = EDU.replacen("arena 0x2000000 pages 16384", &format!("arena {BASE:#x} pages 64"), 1);
    let (head, _) = text.split_once("body\n").unwrap();
    let head: String = head
        .lines()
        .filter(|l| !l.starts_with("expect"))
        .map(|l| format!("{l}\n"))
        .collect();
    let plan = assemble(&format!("{head}body\n1 equal 0 0x0 4 0\n"), &NoFiles).unwrap();
    let page = format!("page {:#x}", BASE / PAGE_SIZE as u64);
    let (outcome, requests) = run_plan(&plan, UnresettableDevice::new(edu(), (0x98, 7), 100));
    assert_eq!((outcome.verdict, &outcome.failure), (Verdict::Match, &None));
    assert_eq!(requests, ["reset", "reset", &page, "mastering true", "mastering false"]);
    // The device keeps the bits next to the start bit from the previous transfer.
    let (_, requests) = run_plan(&plan, UnresettableDevice::new(edu(), (0x98, 6), u64::MAX));
    assert_eq!(requests, ["reset", &page, "mastering true", "mastering false"]);
    let (outcome, requests) = run_plan(&plan, UnresettableDevice::new(edu(), (0x98, 7), u64::MAX));
    assert!(outcome.failure.unwrap().contains("does not become idle"));
    assert_eq!(requests, ["reset", "reset"]);
}
