//! Trace events of GPU drivers and of the DRM scheduler: register accesses, jobs, their ends, interrupts and resets.
//!
//! | event | says |
//! |---|---|
//! | `i915_reg_rw`, `xe_reg_rw` | a register access: direction, byte offset, width, two halves of the value |
//! | `amdgpu_device_rreg`, `amdgpu_device_wreg`, `amdgpu_mm_*` | a register access: device id, number of a 32-bit register, value |
//! | `v3d_submit_cl`, `v3d_submit_tfu`, `v3d_submit_csd`, `v3d_*_irq` | a job of a queue, and its end |
//! | `vc4_submit_cl`, `vc4_*_end_irq` | the same of the older GPU |
//! | `msm_gpu_submit_flush`, `msm_gpu_submit_retired` | a job of a ring, and its end |
//! | `i915_request_add`, `i915_request_retire` | a request of an engine, and its end |
//! | `xe_sched_job_run`, `xe_hw_fence_signal` | a job of an exec queue, and its end by its fence |
//! | `xe_sched_job_timedout` | a job that hangs |
//! | `xe_exec_queue_reset`, `xe_exec_queue_memory_cat_error` | a fault of an exec queue |
//! | `amdgpu_sched_run_job` | a job of a ring |
//! | `lima_task_run` | a job of a pipe |
//! | `drm_run_job`, `drm_sched_job_run` | a job of a ring of any driver that uses the scheduler |
//! | `drm_sched_process_job`, `drm_sched_job_done`, `dma_fence_signaled` | the end of a job, by its fence |
//! | `gpu_job_irq` | an interrupt of the firmware, of panthor |
//! | `v3d_reset_begin`, `vc4_reset_begin`, `msm_gpu_fault`, `i915_reset_engine` | a reset |
//!
//! Other events of v3d, vc4, msm, panthor and of exec queues of xe are notes. Sources: the kernel's `i915_trace.h`, `xe_trace.h`,
//! `amdgpu_trace.h`, `v3d_trace.h`, `vc4_trace.h`, `msm_gpu_trace.h`, `panthor_trace.h`, `lima_trace.h`,
//! `gpu_scheduler_trace.h` and `include/trace/events/dma_fence.h`.

use super::driver::Driver;
use super::ftrace;
use super::names::Names;
use super::text::{self, mask};
use memchr::memmem;

/// Maximum number of characters of a note.
const MAX_NOTE: usize = 200;
/// An event of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DriverEvent {
    /// A register access.
    Register {
        driver: Driver,
        write: bool,
        offset: u32,
        width: u8,
        value: u64,
        /// Device id, and the number of the device's name in the list, if the event has them.
        id: u16,
        device: Option<u16>,
    },
    /// The GPU gets a job.
    Submit {
        driver: Driver,
        /// Number of the ring's name in the list.
        ring: u16,
        key: u64,
        /// GPU address of the job, or 0.
        head: u64,
    },
    /// A job ended, with the text for one that is not known.
    End { driver: Driver, key: u64, text: Box<str> },
    /// An interrupt that ends no job by itself.
    Interrupt { driver: Driver, status: u32 },
    /// A reset, or a fault that leads to one.
    Reset { driver: Driver, text: Box<str> },
    /// A job hangs and is ended.
    Hang { driver: Driver, key: u64, text: Box<str> },
    /// A fault of a queue, whose jobs the event does not name.
    Fault { driver: Driver, text: Box<str> },
    /// Any other event of a driver.
    Note { driver: Driver, text: Box<str> },
}

impl DriverEvent {
    /// Whether it is an access or work, and no note.
    pub(super) fn is_work(&self) -> bool {
        !matches!(self, Self::Note { .. })
    }
}

/// Parses an event, or returns `None` for one of another subject.
///
/// # Errors
///
/// What an incomplete event lacks.
pub(super) fn parse(name: &[u8], text: &[u8], names: &mut Names) -> Option<Result<DriverEvent, &'static str>> {
    let note = |driver| {
        let text = note_of(name, text);
        Ok(DriverEvent::Note { driver, text })
    };
    let reset = |driver| {
        let text = note_of(name, text);
        Ok(DriverEvent::Reset { driver, text })
    };
    let field = |key: &[u8]| ftrace::field(text, key);
    let word = |key: &[u8]| ftrace::fields(text).find(|(k, _)| *k == key).map(|(_, v)| v);
    let end = |driver, key: Option<u64>| {
        let text = note_of(name, text);
        let key = key.ok_or("the number or the fence of the job")?;
        Ok(DriverEvent::End { driver, key, text })
    };
    let mut submit = |driver, ring: &[u8], key: Option<u64>, head| {
        let ring = names.number(ring);
        let key = key.ok_or("the number or the fence of the job")?;
        Ok(DriverEvent::Submit {
            driver,
            ring,
            key,
            head,
        })
    };
    Some(match name {
        b"i915_reg_rw" => intel(Driver::I915, text, names),
        b"xe_reg_rw" => intel(Driver::Xe, text, names),
        b"amdgpu_device_rreg" | b"amdgpu_mm_rreg" => amdgpu(text, false),
        b"amdgpu_device_wreg" | b"amdgpu_mm_wreg" => amdgpu(text, true),

        b"v3d_submit_cl" | b"vc4_submit_cl" => {
            let driver = if name.starts_with(b"v3d") {
                Driver::V3d
            } else {
                Driver::Vc4
            };
            let ring: &[u8] = if memmem::find(text, b"RCL").is_some() {
                b"RCL"
            } else {
                b"BCL"
            };
            let head = range_begin(text).unwrap_or(0);
            submit(driver, ring, field(b"seqno").map(|n| key_of(driver, ring, n)), head)
        }
        b"v3d_submit_tfu" | b"v3d_submit_csd" => {
            let ring: &[u8] = if name.ends_with(b"tfu") { b"TFU" } else { b"CSD" };
            let key = field(b"seqno").map(|n| key_of(Driver::V3d, ring, n));
            submit(Driver::V3d, ring, key, 0)
        }
        b"v3d_bcl_irq" => end(Driver::V3d, field(b"seqno").map(|n| key_of(Driver::V3d, b"BCL", n))),
        b"v3d_rcl_irq" => end(Driver::V3d, field(b"seqno").map(|n| key_of(Driver::V3d, b"RCL", n))),
        b"v3d_tfu_irq" => end(Driver::V3d, field(b"seqno").map(|n| key_of(Driver::V3d, b"TFU", n))),
        b"v3d_csd_irq" => end(Driver::V3d, field(b"seqno").map(|n| key_of(Driver::V3d, b"CSD", n))),
        b"vc4_bcl_end_irq" => end(Driver::Vc4, field(b"seqno").map(|n| key_of(Driver::Vc4, b"BCL", n))),
        b"vc4_rcl_end_irq" => end(Driver::Vc4, field(b"seqno").map(|n| key_of(Driver::Vc4, b"RCL", n))),
        b"v3d_reset_begin" => reset(Driver::V3d),
        b"vc4_reset_begin" => reset(Driver::Vc4),
        // The recorder of GPUReplay has an importer of its own.
        b"v3d_access_reg" => return None,
        n if n.starts_with(b"v3d_") => note(Driver::V3d),
        n if n.starts_with(b"vc4_") => note(Driver::Vc4),

        b"msm_gpu_submit_flush" => {
            let ring = word(b"ring");
            let number = ring.and_then(|r| r.split(|b| *b == b':').next()).unwrap_or_default();
            submit(
                Driver::Msm,
                &[b"ring ", number].concat(),
                ring.map(|r| text_key(Driver::Msm, r)),
                0,
            )
        }
        b"msm_gpu_submit_retired" => end(Driver::Msm, word(b"ring").map(|r| text_key(Driver::Msm, r))),
        b"msm_gpu_fault" => reset(Driver::Msm),
        n if n.starts_with(b"msm_gpu_") || n.starts_with(b"msm_gmu_") || n.starts_with(b"msm_gem_") => {
            note(Driver::Msm)
        }

        b"gpu_job_irq" => match field(b"events").and_then(|n| u32::try_from(n).ok()) {
            Some(status) => Ok(DriverEvent::Interrupt {
                driver: Driver::Panthor,
                status,
            }),
            None => Err("the events of the interrupt, events="),
        },
        b"gpu_power_status" => note(Driver::Panthor),

        b"i915_request_add" => {
            let engine = word(b"engine").unwrap_or_default();
            let name = engine_name(engine).unwrap_or_else(|| engine.to_vec());
            submit(Driver::I915, &name, request_key(text), 0)
        }
        b"i915_request_retire" => end(Driver::I915, request_key(text)),
        b"i915_reset_engine" | b"intel_gpu_reset" => reset(Driver::I915),

        b"xe_sched_job_run" => {
            let queue = [b"exec queue ", word(b"guc_id").unwrap_or(b"?")].concat();
            let head = field(b"batch_addr").unwrap_or(0);
            submit(Driver::Xe, &queue, word(b"fence").map(scheduler_key), head)
        }
        b"xe_hw_fence_signal" => end(Driver::Xe, word(b"fence").map(scheduler_key)),
        b"xe_sched_job_timedout" => match word(b"fence") {
            Some(fence) => Ok(DriverEvent::Hang {
                driver: Driver::Xe,
                key: scheduler_key(fence),
                text: note_of(name, text),
            }),
            None => Err("the fence of the job, fence="),
        },
        b"xe_exec_queue_reset" | b"xe_exec_queue_memory_cat_error" => Ok(DriverEvent::Fault {
            driver: Driver::Xe,
            text: note_of(name, text),
        }),
        n if n.starts_with(b"xe_exec_queue_") => note(Driver::Xe),

        b"amdgpu_sched_run_job" => {
            let ring = word(b"ring_name").or_else(|| word(b"timeline")).unwrap_or_default();
            let fence = field(b"context").zip(field(b"seqno"));
            submit(Driver::Amdgpu, ring, fence.map(fence_key), 0)
        }
        b"lima_task_run" => {
            let fence = field(b"context").zip(field(b"seqno"));
            submit(Driver::Lima, word(b"pipe").unwrap_or_default(), fence.map(fence_key), 0)
        }
        b"drm_run_job" | b"drm_sched_job_run" => {
            let ring = word(b"ring").unwrap_or_default();
            let driver = Driver::of_ring(&String::from_utf8_lossy(ring));
            submit(driver, ring, word(b"fence").map(scheduler_key), 0)
        }
        b"drm_sched_process_job" | b"drm_sched_job_done" => end(Driver::Scheduler, word(b"fence").map(scheduler_key)),
        b"dma_fence_signaled" => end(Driver::Scheduler, field(b"context").zip(field(b"seqno")).map(fence_key)),
        _ => return None,
    })
}

/// Returns the note of an event: its name and its text.
fn note_of(name: &[u8], text: &[u8]) -> Box<str> {
    let note = [name, b" ", text].concat();
    let note = String::from_utf8_lossy(&note);
    note.chars()
        .filter(|c| !c.is_control())
        .take(MAX_NOTE)
        .collect::<String>()
        .trim_end()
        .into()
}

/// Returns a hash of parts (FNV-1a): a key of a job. Two jobs with the same key would exchange their ends.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut value = 0xcbf2_9ce4_8422_2325u64;
    for part in parts {
        for byte in part.iter().chain(&[0]) {
            value = (value ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    value
}

fn key_of(driver: Driver, ring: &[u8], number: u64) -> u64 {
    hash(&[driver.name().as_bytes(), ring, &number.to_le_bytes()])
}

fn text_key(driver: Driver, text: &[u8]) -> u64 {
    hash(&[driver.name().as_bytes(), text])
}

fn fence_key((context, number): (u64, u64)) -> u64 {
    hash(&[b"fence", &context.to_le_bytes(), &number.to_le_bytes()])
}

/// Returns the key of a fence of the scheduler: context and number, or its address.
fn scheduler_key(fence: &[u8]) -> u64 {
    let mut parts = fence.split(|b| *b == b':').map(ftrace::number);
    match (parts.next().flatten(), parts.next().flatten(), parts.next()) {
        (Some(context), Some(number), None) => fence_key((context, number)),
        _ => hash(&[b"address", fence]),
    }
}

/// Returns the key of a request of i915: device, engine, context and number.
fn request_key(text: &[u8]) -> Option<u64> {
    let word = |key: &[u8]| ftrace::fields(text).find(|(k, _)| *k == key).map(|(_, v)| v);
    let number = word(b"seqno")?;
    let [device, engine, context] = [&b"dev"[..], b"engine", b"ctx"].map(|k| word(k).unwrap_or_default());
    Some(hash(&[b"i915", device, engine, context, number]))
}

/// Returns the name of an engine of Intel's by its class and number: `rcs0` for `0:0`.
fn engine_name(engine: &[u8]) -> Option<Vec<u8>> {
    let (class, number) = engine.split_at_checked(engine.iter().position(|b| *b == b':')?)?;
    let class: &[u8] = match class {
        b"0" => b"rcs",
        b"1" => b"bcs",
        b"2" => b"vcs",
        b"3" => b"vecs",
        b"4" => b"ccs",
        _ => return None,
    };
    Some([class, number.get(1..)?].concat())
}

/// Returns the begin of a range of addresses, `0x00158000..0x00158340`.
fn range_begin(text: &[u8]) -> Option<u64> {
    let dots = memmem::find(text, b"..")?;
    let before = text.get(..dots)?;
    let at = before
        .iter()
        .rposition(|b| matches!(b, b' ' | b','))
        .map_or(0, |at| at + 1);
    text::hex(before.get(at..)?)
}

/// Parses `[dev=DEVICE,] write reg=0xOFFSET, len=BYTES, val=(0xLOW, 0xHIGH)`.
fn intel(driver: Driver, text: &[u8], names: &mut Names) -> Result<DriverEvent, &'static str> {
    let mut words = text.split(|b| matches!(b, b' ' | b','));
    let write = words.find_map(|w| match w {
        b"write" => Some(true),
        b"read" => Some(false),
        _ => None,
    });
    let write = write.ok_or("the direction `read` or `write`")?;
    let offset = ftrace::field(text, b"reg").and_then(|n| u32::try_from(n).ok());
    let width = match ftrace::field(text, b"len") {
        Some(bytes @ (1 | 2 | 4 | 8)) => bytes as u8,
        _ => return Err("a width of 1, 2, 4 or 8 bytes, len="),
    };
    let at = memmem::find(text, b"val=(").ok_or("the value, val=(low, high)")? + 5;
    let halves = text.get(at..).unwrap_or_default();
    let halves = halves.split(|b| *b == b')').next().unwrap_or_default();
    let mut halves = halves.split(|b| *b == b',').map(|h| ftrace::number(h.trim_ascii()));
    let low = halves.next().flatten().ok_or("the value, val=(low, high)")?;
    let high = halves.next().flatten().unwrap_or(0);
    let device = ftrace::fields(text)
        .find(|(key, _)| *key == b"dev")
        .map(|(_, value)| value);
    Ok(DriverEvent::Register {
        driver,
        write,
        offset: offset.ok_or("the offset, reg=")?,
        width,
        value: (high << 32 | low & 0xffff_ffff) & mask(width),
        id: 0,
        device: device.map(|d| names.number(d)),
    })
}

/// Parses `0xDEVICE, 0xREGISTER, 0xVALUE`.
fn amdgpu(text: &[u8], write: bool) -> Result<DriverEvent, &'static str> {
    let mut numbers = text.split(|b| *b == b',').map(|n| text::hex(n.trim_ascii()));
    let mut next = || numbers.next().flatten().ok_or("device, register and value");
    let (id, register, value) = (next()?, next()?, next()?);
    // Registers are numbered by words.
    let offset = register.checked_mul(4).and_then(|o| u32::try_from(o).ok());
    Ok(DriverEvent::Register {
        driver: Driver::Amdgpu,
        write,
        offset: offset.ok_or("a register below 4 GiB")?,
        width: 4,
        value: value & mask(4),
        id: u16::try_from(id).unwrap_or(0),
        device: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str, names: &mut Names) -> DriverEvent {
        let (name, rest) = text.split_once(": ").unwrap();
        parse(name.as_bytes(), rest.as_bytes(), names).unwrap().unwrap()
    }

    #[test]
    fn register_events_of_drivers_are_accesses() {
        let mut names = Names::default();
        let access = |driver, write, offset, width, value, id, device| DriverEvent::Register {
            driver,
            write,
            offset,
            width,
            value,
            id,
            device,
        };
        for (text, expected) in [
            (
                "i915_reg_rw: write reg=0x100030, len=8, val=(0xfca9001, 0xfce8007)",
                access(Driver::I915, true, 0x10_0030, 8, 0xfce_8007_0fca_9001, 0, None),
            ),
            (
                "i915_reg_rw: read reg=0x44200, len=4, val=(0x80010000, 0x0)",
                access(Driver::I915, false, 0x4_4200, 4, 0x8001_0000, 0, None),
            ),
            (
                "xe_reg_rw: dev=0000:03:00.0, write reg=0xa188, len=4, val=(0x10001, 0x0)",
                access(Driver::Xe, true, 0xa188, 4, 0x1_0001, 0, Some(0)),
            ),
            (
                "amdgpu_device_wreg: 0x731f, 0x00001234, 0x0000000f",
                access(Driver::Amdgpu, true, 0x48d0, 4, 0xf, 0x731f, None),
            ),
        ] {
            assert_eq!(event(text, &mut names), expected, "{text}");
        }
        assert_eq!(names.name(0), "0000:03:00.0");
        for (name, text) in [
            ("i915_reg_rw", "write reg=0x44200, len=3, val=(0x1, 0x0)"),
            ("i915_reg_rw", "reg=0x44200, len=4, val=(0x1, 0x0)"),
            ("xe_reg_rw", "write reg=0x44200, len=4"),
            ("amdgpu_device_rreg", "0x731f, 0x40000000, 0x0"),
            ("v3d_bcl_irq", "dev=1"),
        ] {
            assert!(
                parse(name.as_bytes(), text.as_bytes(), &mut names).unwrap().is_err(),
                "{name}: {text}"
            );
        }
    }

    #[test]
    fn jobs_and_their_ends_have_the_same_key() {
        let mut names = Names::default();
        for (submit, end) in [
            (
                "v3d_submit_cl: dev=1, BCL, seqno=41, 0x00158000..0x00158340",
                "v3d_bcl_irq: dev=1, seqno=41",
            ),
            ("v3d_submit_csd: dev=1, seqno=7", "v3d_csd_irq: dev=1, seqno=7"),
            (
                "msm_gpu_submit_flush: id=3 pid=88 ring=0:17 ticks=99",
                "msm_gpu_submit_retired: id=3 pid=88 ring=0:17 elapsed=5 ns mhz=500 start=1 end=2",
            ),
            (
                "drm_run_job: entity=00000000a1b2c3d4, id=5, fence=00000000deadbeef, ring=v3d_bin, job count:0, hw job count:1",
                "drm_sched_process_job: fence=00000000deadbeef signaled",
            ),
            (
                "drm_sched_job_run: dev=0000:03:00.0, fence=12:34, ring=gfx_0.0.0, job count:0, hw job count:1, client_id:3",
                "drm_sched_job_done: fence=12:34 signaled",
            ),
            (
                "amdgpu_sched_run_job: sched_job=9, timeline=gfx_0.0.0, context=12, seqno=35, ring_name=gfx_0.0.0, num_ibs=1",
                "dma_fence_signaled: driver=amdgpu timeline=gfx_0.0.0 context=12 seqno=35",
            ),
            (
                "i915_request_add: dev=0, engine=0:0, ctx=7, seqno=9, tail=16",
                "i915_request_retire: dev=0, engine=0:0, ctx=7, seqno=9",
            ),
            (
                "xe_sched_job_run: dev=0000:03:00.0, fence=00000000c0ffee01, seqno=5, lrc_seqno=5, guc_id=2, batch_addr=0x000000100000, guc_state=0x0, flags=0x8, error=0",
                "xe_hw_fence_signal: dev=0000:03:00.0, ctx=0x0000000000000012, fence=00000000c0ffee01, seqno=5",
            ),
        ] {
            let DriverEvent::Submit { key, .. } = event(submit, &mut names) else {
                panic!("{submit}");
            };
            let DriverEvent::End { key: ended, .. } = event(end, &mut names) else {
                panic!("{end}");
            };
            assert_eq!(key, ended, "{submit}");
        }
        let DriverEvent::Submit { head, ring, driver, .. } = event(
            "v3d_submit_cl: dev=1, RCL, seqno=42, 0x00160000..0x00160120",
            &mut names,
        ) else {
            panic!("no submit");
        };
        assert_eq!((head, &names.name(ring)[..], driver), (0x16_0000, "RCL", Driver::V3d));
        assert_eq!(
            event(
                "gpu_job_irq: fb000000.gpu: events=0x80000001 duration_ns=900",
                &mut names
            ),
            DriverEvent::Interrupt {
                driver: Driver::Panthor,
                status: 0x8000_0001
            }
        );
        assert!(matches!(
            event("v3d_reset_begin: dev=1", &mut names),
            DriverEvent::Reset { .. }
        ));
        assert!(!event("v3d_cache_clean_begin: dev=1", &mut names).is_work());
        assert!(parse(b"sched_switch", b"prev_comm=sh", &mut names).is_none());
    }
}
