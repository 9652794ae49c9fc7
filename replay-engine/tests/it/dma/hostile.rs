//! Plans that somebody made to have a device reach memory that is not theirs: bodies written by hand, with the
//! registers of a device that was somebody else's before.

use super::{EDU, device, edu};
use replay_core::{Device, DeviceError, WaitResult};
use replay_engine::device::{DeviceInfo, JobReport, ReplayDevice, ReplayDeviceError, space};
use replay_engine::plan::text::{NoFiles, assemble};
use replay_engine::plan::{Compiled, PlanPage};
use replay_engine::run::{Outcome, Verdict, run};
use replay_engine::verify::{MAX_STEPS, Reason, Refusal, Verified, Work, verify_within};
use std::sync::{Arc, Mutex};
use trace_core::PAGE_SIZE;
use trace_core::progress::Progress;
use trace_core::recording::{FrameRole, Page, ZERO_PAGE};

const BASE: u64 = 0x8_7654_0000;
/// Pages of the plans.
const USED: u64 = 16;
/// Where the parts of a queue lie in the plan's memory.
const TABLE: u64 = 0;
const RING: u64 = 0x4000;
const DONE: u64 = 0x6000;
const BUFFERS: u64 = 0xa000;

/// A reset, and its end.
const RESET: &str = "write 0 0x14 1 0\nuntil 0 0x14 1 0 mask 0xff reads 0 limit 1000000\n";
/// Version 1 and nothing else.
const FEATURES: &str = "write 0 0x8 4 0\nwrite 0 0xc 4 0\nwrite 0 0x8 4 1\nwrite 0 0xc 4 1\n";
const LOW: &str = "write 0 0x20 4 0x76540000\nwrite 0 0x28 4 0x76544000\nwrite 0 0x30 4 0x76546000\n";
const HIGH: &str = "write 0 0x24 4 8\nwrite 0 0x2c 4 8\nwrite 0 0x34 4 8\n";
const CHOOSE: &str = "write 0 0x16 2 0\n";
const ENABLE: &str = "write 0 0x1c 2 1\nwrite 0 0x14 1 0xf\n";
const RING_IT: &str = "write 0 0x3000 2 0\n";

fn virtio() -> DeviceInfo {
    let mut info = device("virtio-gpu", (0x1af4, 0x1050), ("bar4", 0x4000));
    info.windows.truncate(1);
    info
}

fn size(entries: u64) -> String {
    format!("write 0 0x18 2 {entries}\n")
}

/// A plan of a virtio graphics device: lines of a body without their events.
fn rings(body: &str) -> Compiled {
    let hardware = serde_json::to_string(&virtio().hardware.unwrap()).unwrap();
    let lines: String = body.lines().map(|l| format!("1 {l}\n")).collect();
    let text = format!(
        "kinescope plan 5\ntitle \"hostile\"\ngpu 0x0 map \"virtio-gpu\"\narena {BASE:#x} pages 64 used {USED}\n\
         hardware {hardware:?}\nbus-mastering\nwindow 0 \"bar4\" registers bytes 16384\nbody\n{lines}"
    );
    assemble(&text, &NoFiles).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Puts bytes into the pages that a plan begins with.
fn put(plan: &mut Compiled, at: u64, bytes: &[u8]) {
    for (n, byte) in bytes.iter().enumerate() {
        let at = at + n as u64;
        let frame = (BASE + at) / PAGE_SIZE as u64;
        let known = plan.plan.pages.iter().position(|p| p.frame == frame);
        let mut page = known.map_or(Box::new(ZERO_PAGE), |i| {
            let old = plan.plan.pages.remove(i);
            plan.pages.remove(&old.digest).unwrap()
        });
        page[(at % PAGE_SIZE as u64) as usize] = *byte;
        let digest = *blake3::hash(&*page).as_bytes();
        let place = plan.plan.pages.partition_point(|p| p.frame < frame);
        let role = FrameRole::Data;
        plan.plan.pages.insert(place, PlanPage { frame, digest, role });
        plan.pages.insert(digest, page);
    }
}

fn judged(c: &Compiled, work: &Work<'_>) -> Result<Verified, Refusal> {
    verify_within(&c.plan, &c.pages, &virtio(), work)
}

fn refused(body: &str) -> String {
    let progress = Progress::new();
    let e = judged(&rings(body), &Work::new(MAX_STEPS, &progress)).unwrap_err();
    assert!(matches!(e.reason, Reason::BusMastering { .. }) && e.rule == 2, "{e}");
    e.to_string()
}

fn verified(body: &str) {
    let progress = Progress::new();
    let done = judged(&rings(body), &Work::new(MAX_STEPS, &progress));
    assert_eq!(done.unwrap().unproved, Vec::<String>::new());
}

#[test]
fn device_reset_clears_the_selected_queue() {
    let sound = [RESET, FEATURES, CHOOSE, &size(64), LOW, HIGH, ENABLE, RING_IT].concat();
    verified(&sound);
    // The device goes back to its queue 0, and takes the upper halves for that one's.
    let one = [RESET, "write 0 0x16 2 1\n", RESET, FEATURES].concat();
    let e = refused(&[&one, HIGH, CHOOSE, &size(64), LOW, ENABLE, RING_IT].concat());
    assert!(
        e.contains("QUEUE_DESC_HI is written, but no queue was selected since the reset"),
        "{e}"
    );
    // Nor is any queue chosen by the device itself one that the plan knows.
    for written in [HIGH, &size(64), ENABLE] {
        let e = refused(&[RESET, FEATURES, written].concat());
        assert!(e.contains("no queue was selected since the reset"), "{written}: {e}");
    }
    // So with the word of features.
    for features in [
        "write 0 0xc 4 1\n",
        &["write 0 0x8 4 1\n", RESET, "write 0 0xc 4 1\n"].concat(),
    ] {
        let e = refused(&[RESET, features].concat());
        assert!(e.contains("no word of features was selected since the reset"), "{e}");
    }
}

#[test]
fn address_register_must_be_written_after_reset() {
    let queue = |halves: &str| [RESET, FEATURES, CHOOSE, &size(64), halves, ENABLE, RING_IT].concat();
    for left_out in 0..6 {
        let halves: String = [LOW, HIGH].concat();
        let lines = halves.lines().enumerate().filter(|(n, _)| *n != left_out);
        let halves: String = lines.map(|(_, l)| format!("{l}\n")).collect();
        let e = refused(&queue(&halves));
        assert!(e.contains("was written since the reset"), "{left_out}: {e}");
    }
    // What was written before the reset does not count.
    let before = [RESET, CHOOSE, HIGH, &queue(LOW)].concat();
    assert!(refused(&before).contains("not all of QUEUE_DESC was written since the reset"));
    let size_before = [RESET, CHOOSE, &size(64), RESET, FEATURES, CHOOSE, LOW, HIGH, ENABLE].concat();
    assert!(refused(&size_before).contains("0 entries"));
    // The device may keep features of another driver, the packed form of rings among them.
    for (features, word) in [
        ("", 0),
        ("write 0 0x8 4 0\nwrite 0 0xc 4 0\n", 1),
        ("write 0 0x8 4 1\nwrite 0 0xc 4 1\n", 0),
    ] {
        let e = refused(&[RESET, features, CHOOSE, &size(64), LOW, HIGH, ENABLE].concat());
        assert!(
            e.contains(&format!("word {word} of the features was not written since the reset")),
            "{e}"
        );
    }
}

#[test]
fn plan_must_reset_the_device_first() {
    // Run a second time it would have the device follow what the first time left.
    for first in [RING_IT, CHOOSE, FEATURES, HIGH, ENABLE, "write 0 0x14 1 0xf\n"] {
        let e = refused(&[first, RESET].concat());
        assert!(e.contains("before the device was reset"), "{first}: {e}");
    }
    // That the status reads 0 says nothing of the rest.
    let e = refused(&["until 0 0x14 1 0 mask 0xff reads 0 limit 1000000\n", CHOOSE].concat());
    assert!(e.contains("before the device was reset"), "{e}");
    let of = |from: &str, to: &str| {
        assert!(EDU.contains(from), "{from}");
        let text = EDU.replacen("arena 0x2000000 pages 16384", &format!("arena {BASE:#x} pages 64"), 1);
        let c = assemble(&text.replacen(from, to, 1), &NoFiles).unwrap();
        let progress = Progress::new();
        verify_within(&c.plan, &c.pages, &edu(), &Work::new(MAX_STEPS, &progress)).map_err(|e| e.to_string())
    };
    of("title", "title").unwrap();
    let idle = "22 until 0 0x98 8 0x0 mask 0x1 reads 0 limit 100000000\n";
    let e = of(idle, "").unwrap_err();
    assert!(
        e.contains("EDU_DMA_SOURCE is written before the device was seen idle"),
        "{e}"
    );
    // A wait for another bit is none for that.
    let e = of(idle, "22 until 0 0x98 8 0x0 mask 0x4 reads 0 limit 100000000\n").unwrap_err();
    assert!(e.contains("before the device was seen idle"), "{e}");
    // Nor is what another left in a register the plan's.
    for (line, name) in [
        ("22 write 0 0x80 8 arena+0x0\n", "EDU_DMA_SOURCE"),
        ("23 write 0 0x88 8 0x40000\n", "EDU_DMA_DESTINATION"),
        ("24 write 0 0x90 8 2048\n", "its number of bytes"),
    ] {
        let e = of(line, "").unwrap_err();
        assert!(
            e.contains(name) && e.contains("was not written since the device was seen idle"),
            "{e}"
        );
    }
}

#[test]
fn plan_that_ends_with_a_busy_device_is_refused() {
    let end = "after action";
    let e = refused(&[RESET, "write 0 0x14 1 0\n"].concat());
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
    // Moved to other memory the wait is added.
    let mut other = edu();
    other.arena.base.0 += 0x10_0000;
    let moved = c.moved_to(&other).unwrap();
    verify_within(&moved.plan, &moved.pages, &other, &Work::new(MAX_STEPS, &progress)).unwrap();
}

/// One chain of many descriptors, the first half read and the second written, a word from each other.
fn chain(descriptors: u64) -> Vec<u8> {
    let mut table = Vec::new();
    for n in 0..descriptors {
        let write = n >= descriptors / 2;
        let (at, bytes) = match n {
            // Both begin with a command.
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
    let setup = [RESET, FEATURES, CHOOSE, &size(1024), LOW, HIGH, ENABLE, RING_IT].concat();
    let done = format!("until 1 {:#x} 2 {{}} mask 0xffff reads 0 limit 1000000\n", DONE + 2);
    let with = |body: &str, index: u16, descriptors: u64, heads: &[u16]| {
        let mut c = rings(body);
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
        let result = judged(c, &work);
        (result.map(drop).map_err(|e| e.to_string()), work.done())
    };
    // Each of 1024 entries of the ring leads to the same chain: it is refused before it is followed.
    let (result, steps) = judge(&with(&setup, 1024, 1024, &[0; 1024]));
    assert!(
        result
            .unwrap_err()
            .contains("the chain from descriptor 0 twice at once")
    );
    assert!(steps < 2_000, "{steps}");
    // Once it is followed, in steps that grow with what is there.
    let body = [setup.as_str(), &done.replace("{}", "1")].concat();
    let (result, all) = judge(&with(&body, 1, 1024, &[0]));
    assert_eq!(result, Ok(()));
    let (result, half) = judge(&with(&body, 1, 512, &[0]));
    assert_eq!(result, Ok(()));
    assert!(half < all && all < 20_000, "{half} {all}");
    // One chain after another, while none is known to be done with: no more descriptors than the queue has.
    let more = format!("put {:#x} 2 2\n{RING_IT}", RING + 2);
    let (result, steps) = judge(&with(&[&setup, more.as_str()].concat(), 1, 1024, &[0, 0]));
    assert!(result.unwrap_err().contains("while it is not known to be done"));
    assert!(steps < 20_000, "{steps}");
    // Two chains at once that share their descriptors but the first.
    let (result, _) = judge(&with(&setup, 2, 1024, &[0, 1]));
    assert!(result.unwrap_err().contains("has 2047 of them waiting at once"));
    // A limit that it does not fit ends the check.
    let progress = Progress::new();
    let c = with(&body, 1, 1024, &[0]);
    let e = judged(&c, &Work::new(all / 2, &progress)).unwrap_err();
    assert!(e.to_string().contains("steps"), "{e}");
}

/// The requests to a device, in order.
type RequestLog = Arc<Mutex<Vec<String>>>;

/// A device whose machine cannot reset it: its registers stay through everything but what they themselves do.
struct Kept {
    info: DeviceInfo,
    /// The register that tells whether it is at work, and what it reads.
    status: (u64, u64),
    /// How often it still reads so.
    reads: u64,
    asked: RequestLog,
}

impl Kept {
    fn new(info: DeviceInfo, status: (u64, u64), reads: u64) -> (Self, RequestLog) {
        let asked = RequestLog::default();
        let new = Self {
            info,
            status,
            reads,
            asked: Arc::clone(&asked),
        };
        (new, asked)
    }

    fn note(&self, what: impl Into<String>) {
        self.asked.lock().unwrap().push(what.into());
    }
}

impl Device for Kept {
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

impl ReplayDevice for Kept {
    fn info(&self) -> DeviceInfo {
        self.info.clone()
    }
    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        self.note("reset");
        Ok(())
    }
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

fn ran(plan: &Compiled, (mut device, asked): (Kept, RequestLog)) -> (Outcome, Vec<String>) {
    let outcome = run(&plan.plan, &plan.pages, &mut device, &Progress::new());
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

#[test]
fn unresettable_device_is_quiesced_around_bus_mastering() {
    let mut plan = rings(RESET);
    put(&mut plan, TABLE, &[1]);
    let page = format!("page {:#x}", BASE / PAGE_SIZE as u64);
    let reset = "0x14 = 0x0";
    // One that follows another driver's rings: what it may have written since is cleared again.
    let (outcome, asked) = ran(&plan, Kept::new(virtio(), (0x14, 0xf), 3));
    assert_eq!((outcome.verdict, &outcome.failure), (Verdict::Match, &None));
    let on = ["mastering true", reset, "mastering false", reset];
    assert_eq!(
        asked,
        [&["reset", reset, "reset", reset, page.as_str()][..], &on].concat()
    );
    let (_, asked) = ran(&plan, Kept::new(virtio(), (0x14, 0), 0));
    assert_eq!(asked, [&["reset", reset, page.as_str()][..], &on].concat());
    // One that never comes to rest masters no bus, and no page is put in its reach.
    let (outcome, asked) = ran(&plan, Kept::new(virtio(), (0x14, 0xf), u64::MAX));
    assert_eq!(outcome.verdict, Verdict::Failed);
    let why = outcome.failure.unwrap();
    assert!(why.contains("does not become idle"), "{why}");
    assert_eq!(asked, ["reset", reset, "reset"]);
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
    let (outcome, asked) = ran(&plan, Kept::new(edu(), (0x98, 7), 100));
    assert_eq!((outcome.verdict, &outcome.failure), (Verdict::Match, &None));
    assert_eq!(asked, ["reset", "reset", &page, "mastering true", "mastering false"]);
    // Bits next to the start bit stay from the transfer before.
    let (_, asked) = ran(&plan, Kept::new(edu(), (0x98, 6), u64::MAX));
    assert_eq!(asked, ["reset", &page, "mastering true", "mastering false"]);
    let (outcome, asked) = ran(&plan, Kept::new(edu(), (0x98, 7), u64::MAX));
    assert!(outcome.failure.unwrap().contains("does not become idle"));
    assert_eq!(asked, ["reset", "reset"]);
}
