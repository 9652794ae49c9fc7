//! Tests of the executor on a fake device: comparisons, polls, waits, slots and budgets.
#![allow(clippy::unwrap_used, reason = "tests fail in this way")]

use proptest::prelude::*;
use replay_core::{
    Action, Actions, Budget, Compared, Device, DeviceError, Divergence, Encoder, FailureKind, Flow, MAX_ACTION_BYTES,
    ObservedAccess, Observer, ReadClass, WaitResult, execute,
};

/// A device with sixteen registers. Register 0 counts down at each pause. The line is raised `raise_after` ns after the
/// start.
#[derive(Default)]
struct FakeDevice {
    regs: [u32; 16],
    now: u64,
    raise_after: Option<u64>,
    clock_stopped: bool,
}

impl Device for FakeDevice {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        if width != 4 {
            return Err(DeviceError::OutOfRange);
        }
        self.regs
            .get(offset as usize / 4)
            .map(|v| u64::from(*v))
            .ok_or(DeviceError::OutOfRange)
    }
    fn write(&mut self, space: u8, offset: u64, _: u8, value: u64) -> Result<(), DeviceError> {
        if space != 0 {
            return Err(DeviceError::NoSpace);
        }
        let r = self.regs.get_mut(offset as usize / 4).ok_or(DeviceError::OutOfRange)?;
        *r = value as u32;
        Ok(())
    }
    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        match self.raise_after {
            Some(at) if at.saturating_sub(self.now) <= limit_ns => {
                self.now = self.now.max(at);
                Ok(WaitResult::Raised { lines })
            }
            _ => {
                self.now += limit_ns;
                Ok(WaitResult::TimedOut)
            }
        }
    }
    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        if !self.clock_stopped {
            self.now += ns;
        }
        self.regs[0] = self.regs[0].saturating_sub(1);
        Ok(())
    }
    fn now_ns(&mut self) -> u64 {
        self.now
    }
}

#[derive(Default)]
struct Notes {
    seen: Vec<ObservedAccess>,
    differ: Vec<Divergence>,
    before: Vec<Divergence>,
    interrupts: Vec<(u32, u32, u64)>,
    stop_at_first: bool,
}

impl Observer for Notes {
    const TIMES: bool = true;
    fn access(&mut self, seen: &ObservedAccess) -> Flow {
        self.seen.push(*seen);
        Flow::Continue
    }
    fn interrupt(&mut self, event: u32, lines: u32, time_ns: u64) -> Flow {
        self.interrupts.push((event, lines, time_ns));
        Flow::Continue
    }
    fn divergence(&mut self, divergence: &Divergence) -> Flow {
        self.differ.push(*divergence);
        if self.stop_at_first { Flow::Stop } else { Flow::Continue }
    }
    fn state_before(&mut self, difference: &Divergence) -> Flow {
        self.before.push(*difference);
        Flow::Continue
    }
}

fn encode(actions: &[Action]) -> Vec<u8> {
    let mut room = vec![0; MAX_ACTION_BYTES * actions.len()];
    let mut e = Encoder::new(&mut room);
    for a in actions {
        e.push(a).unwrap();
    }
    let used = e.len();
    room.truncate(used);
    room
}

fn read(event: u32, offset: u64, class: ReadClass, expected: u64) -> Action {
    Action::Read {
        event,
        space: 0,
        offset,
        width: 4,
        class,
        expected,
    }
}

fn write(event: u32, offset: u64, value: u64) -> Action {
    Action::Write {
        event,
        space: 0,
        offset,
        width: 4,
        value,
    }
}

fn until(event: u32, reads: u32, expected: u64) -> Action {
    Action::Until {
        event,
        reads,
        space: 0,
        offset: 0,
        width: 4,
        mask: 0xffff_ffff,
        expected,
        limit_ns: 5_000,
    }
}

#[test]
fn reads_count_by_class_and_a_difference_does_not_stop_the_run() {
    let body = encode(&[
        write(0, 4, 7),
        read(1, 4, ReadClass::Equal, 7),
        read(2, 4, ReadClass::Equal, 8),
        read(3, 4, ReadClass::Masked(0xf0), 0x0f),
        read(4, 4, ReadClass::Masked(0x0f), 0xf6),
        read(5, 4, ReadClass::Any, 99),
        read(6, 4, ReadClass::Feeds(3), 99),
        Action::WriteSlot {
            event: 7,
            space: 0,
            offset: 8,
            width: 4,
            slot: 3,
        },
        read(8, 8, ReadClass::Equal, 7),
    ]);
    let mut notes = Notes::default();
    let c = execute(
        &mut FakeDevice::default(),
        Actions::new(&body),
        &Budget::default(),
        &mut notes,
    )
    .unwrap();
    assert_eq!(
        (c.actions, c.writes, c.equal, c.masked, c.any, c.feeds),
        (9, 2, 3, 2, 1, 1)
    );
    assert_eq!((c.compared(), c.matched, c.divergences), (5, 3, 2));
    let events: Vec<u32> = notes.differ.iter().map(|d| d.event).collect();
    assert_eq!(events, [2, 4]);
    assert_eq!(notes.differ[1].compared, Compared::Masked(0x0f));
    assert_eq!((notes.differ[0].expected, notes.differ[0].got), (8, 7));
    assert_eq!(notes.seen.len(), 9);
}

#[test]
fn state_from_before_the_recording_is_noted_not_compared() {
    let all = ReadClass::Before(0xffff_ffff);
    let body = encode(&[
        read(0, 4, all, 0),
        read(1, 4, all, 9),
        read(2, 4, ReadClass::Before(0xf0), 0x0f),
        read(3, 4, ReadClass::Before(0x0f), 0x0f),
    ]);
    let mut notes = Notes::default();
    let c = execute(
        &mut FakeDevice::default(),
        Actions::new(&body),
        &Budget::default(),
        &mut notes,
    )
    .unwrap();
    assert_eq!((c.equal, c.masked, c.before), (2, 2, 2));
    assert_eq!((c.compared(), c.matched, c.divergences), (2, 2, 0));
    let entries: Vec<(u32, u64, u64, Compared)> = notes
        .before
        .iter()
        .map(|d| (d.event, d.expected, d.got, d.compared))
        .collect();
    assert_eq!(
        entries,
        [
            (1, 9, 0, Compared::Before(0xffff_ffff)),
            (3, 0x0f, 0, Compared::Before(0x0f))
        ]
    );
    assert!(notes.differ.is_empty());
}

#[test]
fn an_observer_may_stop_at_a_difference() {
    let body = encode(&[read(1, 4, ReadClass::Equal, 1), write(2, 4, 1)]);
    let mut notes = Notes {
        stop_at_first: true,
        ..Notes::default()
    };
    let f = execute(
        &mut FakeDevice::default(),
        Actions::new(&body),
        &Budget::default(),
        &mut notes,
    )
    .unwrap_err();
    assert_eq!((f.event, f.kind, f.counts.writes), (1, FailureKind::Stopped, 0));
}

#[test]
fn a_poll_counts_its_recorded_reads_and_waits_for_the_recorded_value() {
    let mut device = FakeDevice::default();
    device.regs[0] = 3;
    let mut notes = Notes::default();
    let c = execute(
        &mut device,
        Actions::new(&encode(&[until(9, 599, 0)])),
        &Budget::default(),
        &mut notes,
    )
    .unwrap();
    assert_eq!((c.until, c.matched, c.divergences), (599, 599, 0));
    let values: Vec<(u64, bool)> = notes.seen.iter().map(|s| (s.value, s.poll_repeat)).collect();
    assert_eq!(values, [(3, false), (2, true), (1, true), (0, true)]);
}

#[test]
fn endless_poll_diverges_at_its_limit_without_a_clock() {
    for clock_stopped in [false, true] {
        let mut device = FakeDevice {
            clock_stopped,
            ..FakeDevice::default()
        };
        let mut notes = Notes::default();
        let body = encode(&[until(9, 2, 1), write(10, 4, 1)]);
        let c = execute(&mut device, Actions::new(&body), &Budget::default(), &mut notes).unwrap();
        assert_eq!((c.until, c.matched, c.divergences, c.writes), (2, 0, 1, 1));
        let d = notes.differ[0];
        assert_eq!((d.event, d.expected, d.got), (9, 1, 0));
        // The poll reads at 0, 1, 2, 3, 4 and 5 µs. The write follows.
        assert_eq!(notes.seen.len(), 7);
    }
}

#[test]
fn an_interrupt_is_taken_or_times_out() {
    let wait = Action::WaitInterrupt {
        event: 3,
        lines: 4,
        limit_ns: 100,
    };
    let mut device = FakeDevice {
        raise_after: Some(60),
        ..FakeDevice::default()
    };
    let mut notes = Notes::default();
    let c = execute(
        &mut device,
        Actions::new(&encode(&[wait])),
        &Budget::default(),
        &mut notes,
    )
    .unwrap();
    assert_eq!((c.interrupts, notes.interrupts.as_slice()), (1, &[(3, 4, 60)][..]));
    let f = execute(
        &mut FakeDevice::default(),
        Actions::new(&encode(&[wait])),
        &Budget::default(),
        &mut (),
    )
    .unwrap_err();
    assert_eq!(
        (f.event, f.kind),
        (
            3,
            FailureKind::InterruptTimedOut {
                lines: 4,
                limit_ns: 100
            }
        )
    );
}

#[test]
fn budgets_stop_a_run() {
    let body = encode(&[write(0, 4, 1), write(1, 4, 2), write(2, 4, 3)]);
    let budget = Budget {
        actions: 2,
        ..Budget::default()
    };
    let f = execute(&mut FakeDevice::default(), Actions::new(&body), &budget, &mut ()).unwrap_err();
    assert_eq!((f.kind, f.counts.actions), (FailureKind::ActionBudget, 2));

    let body = encode(&[Action::Pause { event: 5, ns: 200 }, write(6, 4, 1)]);
    let budget = Budget {
        time_ns: 100,
        ..Budget::default()
    };
    let f = execute(&mut FakeDevice::default(), Actions::new(&body), &budget, &mut ()).unwrap_err();
    assert_eq!((f.event, f.kind), (5, FailureKind::TimeBudget));

    // The time budget also applies to a run of writes alone.
    struct Slow(FakeDevice);
    impl Device for Slow {
        fn read(&mut self, s: u8, o: u64, w: u8) -> Result<u64, DeviceError> {
            self.0.read(s, o, w)
        }
        fn write(&mut self, s: u8, o: u64, w: u8, v: u64) -> Result<(), DeviceError> {
            self.0.now += 1;
            self.0.write(s, o, w, v)
        }
        fn wait_interrupt(&mut self, l: u32, n: u64) -> Result<WaitResult, DeviceError> {
            self.0.wait_interrupt(l, n)
        }
        fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
            self.0.pause(ns)
        }
        fn now_ns(&mut self) -> u64 {
            self.0.now
        }
    }
    let many: Vec<Action> = (0..5000).map(|e| write(e, 4, 1)).collect();
    let f = execute(
        &mut Slow(FakeDevice::default()),
        Actions::new(&encode(&many)),
        &budget,
        &mut (),
    )
    .unwrap_err();
    assert_eq!(f.kind, FailureKind::TimeBudget);
    assert!(f.counts.writes < 1100, "{}", f.counts.writes);
}

#[test]
fn device_and_decode_errors_end_the_run_at_their_event() {
    let body = encode(&[write(0, 4, 1), write(7, 0x4000, 1)]);
    let f = execute(
        &mut FakeDevice::default(),
        Actions::new(&body),
        &Budget::default(),
        &mut (),
    )
    .unwrap_err();
    let kind = FailureKind::Device {
        error: DeviceError::OutOfRange,
        space: 0,
        offset: 0x4000,
    };
    assert_eq!((f.event, f.kind, f.counts.writes), (7, kind, 1));
    let f = execute(
        &mut FakeDevice::default(),
        Actions::new(&body[..9]),
        &Budget::default(),
        &mut (),
    )
    .unwrap_err();
    assert!(matches!(f.kind, FailureKind::Decode(e) if e.at == 7), "{f:?}");
}

/// A device whose register region is as large as a real one.
struct Window(Vec<u32>);

impl Device for Window {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        assert_eq!((space, width), (0, 4));
        let r = self.0.get(offset as usize / 4);
        r.map(|v| u64::from(*v)).ok_or(DeviceError::OutOfRange)
    }
    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        assert_eq!((space, width), (0, 4));
        let r = self.0.get_mut(offset as usize / 4).ok_or(DeviceError::OutOfRange)?;
        *r = value as u32;
        Ok(())
    }
    fn wait_interrupt(&mut self, lines: u32, _: u64) -> Result<WaitResult, DeviceError> {
        Ok(WaitResult::Raised { lines })
    }
    fn pause(&mut self, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn now_ns(&mut self) -> u64 {
        0
    }
}

/// The expected result of a run, computed action by action.
#[derive(Debug, Default, PartialEq)]
struct Expected {
    counts: (u64, u64, u64, u64, u64),
    seen: Vec<(u32, bool, u64, u64)>,
    differ: Vec<u32>,
    failed: Option<(u32, bool)>,
}

fn expected(list: &[Action], max: u64) -> Expected {
    let mut e = Expected::default();
    let mut registers = vec![0u32; 0x1000];
    for a in list {
        if e.counts.0 == max {
            e.failed = Some((a.event(), true));
            break;
        }
        e.counts.0 += 1;
        let (offset, write) = match *a {
            Action::Write { offset, .. } => (offset, true),
            Action::Read { offset, .. } => (offset, false),
            _ => continue,
        };
        let Some(r) = registers.get_mut(offset as usize / 4) else {
            e.failed = Some((a.event(), false));
            break;
        };
        match *a {
            Action::Write { value, .. } => {
                *r = value as u32;
                e.counts.1 += 1;
            }
            Action::Read { expected, .. } => {
                e.counts.2 += 1;
                if expected == u64::from(*r) {
                    e.counts.3 += 1;
                } else {
                    e.counts.4 += 1;
                    e.differ.push(a.event());
                }
            }
            _ => {}
        }
        e.seen.push((a.event(), write, offset, u64::from(*r)));
    }
    e
}

proptest! {
    /// Actions run in order, whether the executor reads them singly or in batches.
    #[test]
    fn run_executes_actions_in_order(
        rows in prop::collection::vec(
            (any::<bool>(), prop_oneof![8 => 0x80u64..0x4000, 1 => 0u64..0x80, 1 => 0x3ff0u64..0x4010],
             0u64..3, prop_oneof![20 => 0u32..0x80, 1 => 0u32..400], 0u8..40),
            0..200,
        ),
        start in prop_oneof![Just(0u32), Just(u32::MAX - 90_000), Just(u32::MAX - 10_000)],
        max in prop_oneof![Just(u64::MAX), 0u64..200],
    ) {
        let mut event = start;
        let list: Vec<Action> = rows
            .into_iter()
            .map(|(w, offset, value, step, other)| {
                event = event.saturating_add(step);
                match (w, other) {
                    (_, 0) => Action::Pause { event, ns: value },
                    (true, _) => write(event, offset, value),
                    (false, _) => read(event, offset, ReadClass::Equal, value),
                }
            })
            .collect();
        let body = encode(&list);
        let budget = Budget { actions: max, ..Budget::default() };
        let mut notes = Notes::default();
        let done = execute(&mut Window(vec![0; 0x1000]), Actions::new(&body), &budget, &mut notes);
        let (c, failed) = match done {
            Ok(c) => (c, None),
            Err(f) => (f.counts, Some((f.event, f.kind == FailureKind::ActionBudget))),
        };
        let got = Expected {
            counts: (c.actions, c.writes, c.equal, c.matched, c.divergences),
            seen: notes.seen.iter().map(|s| (s.event, s.write, s.offset, s.value)).collect(),
            differ: notes.differ.iter().map(|d| d.event).collect(),
            failed,
        };
        prop_assert_eq!(&got, &expected(&list, max));
        // A run without an observer returns the same counts.
        let quiet = execute(&mut Window(vec![0; 0x1000]), Actions::new(&body), &budget, &mut ());
        let quiet = quiet.unwrap_or_else(|f| f.counts);
        prop_assert_eq!(quiet, c);
    }
}

/// A device with a page of memory and optional images.
struct Memory {
    page: [u8; 64],
    images: Option<[u8; 64]>,
}

impl Device for Memory {
    fn read(&mut self, _: u8, _: u64, _: u8) -> Result<u64, DeviceError> {
        Ok(0)
    }
    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        assert_eq!(space, replay_core::MEMORY);
        let (at, width) = (offset as usize, usize::from(width));
        let to = self.page.get_mut(at..at + width).ok_or(DeviceError::OutOfRange)?;
        to.copy_from_slice(&value.to_le_bytes()[..width]);
        Ok(())
    }
    fn copy(&mut self, offset: u64, bytes: u32, image: u32) -> Result<(), DeviceError> {
        let images = self.images.filter(|_| image == 0).ok_or(DeviceError::NoImages)?;
        let range = offset as usize..offset as usize + bytes as usize;
        self.page[range.clone()].copy_from_slice(&images[range]);
        Ok(())
    }
    fn wait_interrupt(&mut self, lines: u32, _: u64) -> Result<WaitResult, DeviceError> {
        Ok(WaitResult::Raised { lines })
    }
    fn pause(&mut self, _: u64) -> Result<(), DeviceError> {
        Ok(())
    }
    fn now_ns(&mut self) -> u64 {
        5
    }
}

#[test]
fn host_writes_are_applied_or_unsupported_images_reported() {
    #[derive(Default)]
    struct RecordedWrites(Vec<(u32, u64, u32)>);
    impl Observer for RecordedWrites {
        fn host_write(&mut self, event: u32, offset: u64, bytes: u32, _: u64) -> Flow {
            self.0.push((event, offset, bytes));
            Flow::Continue
        }
    }
    let put = Action::Put {
        event: 3,
        offset: 8,
        width: 4,
        value: 0x0403_0201,
    };
    let copy = Action::Copy {
        event: 4,
        offset: 16,
        bytes: 3,
        image: 0,
    };
    let body = encode(&[put, copy]);
    let mut report = RecordedWrites::default();
    let mut device = Memory {
        page: [0; 64],
        images: Some([7; 64]),
    };
    let counts = execute(&mut device, Actions::new(&body), &Budget::default(), &mut report).unwrap();
    assert_eq!((counts.actions, counts.writes), (2, 2));
    assert_eq!(report.0, [(3, 8, 4), (4, 16, 3)]);
    assert_eq!(device.page[8..20], [1, 2, 3, 4, 0, 0, 0, 0, 7, 7, 7, 0]);
    device.images = None;
    let failed = execute(&mut device, Actions::new(&body), &Budget::default(), &mut ()).unwrap_err();
    let kind = FailureKind::Device {
        error: DeviceError::NoImages,
        space: replay_core::MEMORY,
        offset: 16,
    };
    assert_eq!((failed.event, failed.kind, failed.counts.writes), (4, kind, 1));
}

#[test]
fn check_action_needs_a_runner() {
    struct CheckCounter(Vec<u32>, Memory);
    impl Device for CheckCounter {
        fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
            self.1.read(space, offset, width)
        }
        fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
            self.1.write(space, offset, width, value)
        }
        fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
            self.1.wait_interrupt(lines, limit_ns)
        }
        fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
            self.1.pause(ns)
        }
        fn check(&mut self, expectation: u32) -> Result<(), DeviceError> {
            self.0.push(expectation);
            Ok(())
        }
        fn now_ns(&mut self) -> u64 {
            self.1.now_ns()
        }
    }
    let memory = || Memory {
        page: [0; 64],
        images: None,
    };
    let check = |event, expectation| Action::Check { event, expectation };
    let body = encode(&[check(1, 3), check(4, 0)]);
    let mut counter = CheckCounter(Vec::new(), memory());
    let counts = execute(&mut counter, Actions::new(&body), &Budget::default(), &mut ()).unwrap();
    assert_eq!((counts.actions, counts.writes, counts.compared()), (2, 0, 0));
    assert_eq!(counter.0, [3, 0]);
    let failed = execute(&mut memory(), Actions::new(&body), &Budget::default(), &mut ()).unwrap_err();
    let kind = FailureKind::Device {
        error: DeviceError::NoEffects,
        space: replay_core::MEMORY,
        offset: 0,
    };
    assert_eq!((failed.event, failed.kind), (1, kind));
}
