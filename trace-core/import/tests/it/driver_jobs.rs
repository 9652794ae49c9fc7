//! Tests of the trace events of GPU drivers: each driver's log has the family of its GPUs, its queues, and its jobs.

use std::fmt::Write as _;
use trace_core::check;
use trace_core::container;
use trace_core::families::{JobForm, find_family, job_form, job_type};
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{EventKind, Recording};
use trace_core::registers::RegisterMap;
use trace_core::timeline::{self, JobSpan};
use trace_import::trace::{self, Options};

/// Imports events, one a line, one microsecond apart.
fn import(events: &[&str]) -> Recording {
    let mut text = String::from("# tracer: nop\n#\n");
    for (n, event) in events.iter().enumerate() {
        writeln!(text, "          task-7       [001] .....     3.{n:06}: {event}").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("driver.txt");
    std::fs::write(&path, text).unwrap();
    let recording = trace::import(&path, &Options::default(), &Progress::new()).unwrap_or_else(|e| panic!("{e}"));
    // Queues and events are the same after the recording is saved.
    let saved = folder.path().join("driver.kine");
    timeline::write(&recording, &saved, &Progress::new()).unwrap();
    let opened = container::open(&saved).unwrap();
    assert_eq!(opened.metadata, recording.metadata);
    recording
}

fn jobs(r: &Recording) -> Vec<JobSpan> {
    let map = RegisterMap::for_jobs_of(r).unwrap();
    timeline::derive(r, map, &Progress::new()).unwrap().jobs
}

/// Returns queue, type, first event, last event and failure of each job.
fn describe_jobs(r: &Recording) -> Vec<String> {
    let describe = |j: &JobSpan| {
        let end = j.done_event.map_or_else(|| "runs".to_owned(), |e| e.to_string());
        let failed = if j.failed { " failed" } else { "" };
        let queue = r.job_queue(j.slot).unwrap_or("?");
        format!("{queue}: {}, {} to {end}{failed}", job_type(r, j.slot), j.submit_event)
    };
    jobs(r).iter().map(describe).collect()
}

/// Returns the messages of findings about errors of the driver.
fn errors(r: &Recording) -> Vec<&str> {
    let all = r.metadata.findings.iter();
    all.filter(|f| f.kind == FindingKind::DriverError)
        .map(|f| f.message.as_str())
        .collect()
}

fn family(r: &Recording) -> (&'static str, &str) {
    assert_eq!(job_form(r), JobForm::DriverJobs);
    (find_family(r).name(), &r.metadata.identity.driver)
}

#[test]
fn v3d_events_are_jobs_of_the_queues_of_v3d() {
    let r = import(&[
        "v3d_submit_cl: dev=1, BCL, seqno=41, 0x00158000..0x00158340",
        "v3d_bcl_irq: dev=1, seqno=41",
        "v3d_submit_cl: dev=1, RCL, seqno=41, 0x00160000..0x00160120",
        "v3d_submit_csd: dev=1, seqno=7",
        "v3d_csd_irq: dev=1, seqno=7",
        "v3d_submit_tfu: dev=1, seqno=3",
        "v3d_tfu_irq: dev=1, seqno=3",
        "v3d_reset_begin: dev=1",
    ]);
    assert_eq!(family(&r), ("v3d", "v3d"));
    assert_eq!(
        describe_jobs(&r),
        [
            "BCL: binning control list, 0 to 1",
            "RCL: rendering control list, 2 to 7 failed",
            "CSD: compute dispatch, 3 to 4",
            "TFU: texture conversion, 5 to 6",
        ]
    );
    assert_eq!(jobs(&r)[1].head_va.get(), 0x16_0000);
    assert_eq!(errors(&r), ["1 reset of the GPU, at 3.000007 s"]);
}

#[test]
fn msm_events_are_jobs_of_the_rings_of_an_adreno() {
    let r = import(&[
        "msm_gpu_submit_flush: id=3 pid=88 ring=0:17 ticks=99",
        "msm_gpu_submit_flush: id=4 pid=88 ring=2:5 ticks=100",
        "msm_gpu_submit_retired: id=4 pid=88 ring=2:5 elapsed=5 ns mhz=500 start=1 end=2",
        "msm_gpu_submit_retired: id=3 pid=88 ring=0:17 elapsed=5 ns mhz=500 start=1 end=2",
        "msm_gpu_freq_change: new_freq=500000000",
    ]);
    assert_eq!(family(&r), ("adreno", "msm"));
    let expected = ["ring 0: command stream, 0 to 3", "ring 2: command stream, 1 to 2"];
    assert_eq!(describe_jobs(&r), expected);
    assert_eq!(r.metadata.identity.gpu_name, "Qualcomm Adreno");
}

#[test]
fn panfrost_events_are_jobs_of_the_slots_of_a_job_manager() {
    let r = import(&[
        "drm_run_job: entity=00000000a1, id=1, fence=00000000f1, ring=pan_js1, job count:0, hw job count:0",
        "drm_run_job: entity=00000000a2, id=2, fence=00000000f2, ring=pan_js0, job count:0, hw job count:0",
        "drm_sched_process_job: fence=00000000f1 signaled",
        "drm_sched_process_job: fence=00000000f2 signaled",
    ]);
    assert_eq!(family(&r), ("mali-jm", "panfrost"));
    let expected = [
        "pan_js1: vertex, tiler or compute job chain, 0 to 2",
        "pan_js0: fragment job chain, 1 to 3",
    ];
    assert_eq!(describe_jobs(&r), expected);
}

#[test]
fn panthor_events_are_jobs_of_a_command_stream_front_end() {
    let r = import(&[
        "drm_sched_job_run: dev=fb000000.gpu, fence=7:2, ring=panthor-queue, job count:0, hw job count:1, client_id:3",
        "gpu_job_irq: fb000000.gpu: events=0x80000001 duration_ns=900",
        "drm_sched_job_done: fence=7:2 signaled",
    ]);
    assert_eq!(family(&r), ("mali-csf", "panthor"));
    assert_eq!(describe_jobs(&r), ["panthor-queue: command stream, 0 to 2"]);
    // The interrupt of the firmware ends no job.
    assert_eq!(r.events.kind(1), Some(EventKind::Interrupt));
    let timeline = timeline::derive(&r, RegisterMap::for_jobs_of(&r).unwrap(), &Progress::new()).unwrap();
    assert_eq!(timeline.interrupts.len(), 2);
}

#[test]
fn amdgpu_events_are_accesses_and_jobs_of_an_amd_gpu() {
    let r = import(&[
        "amdgpu_device_wreg: 0x731f, 0x00001234, 0x0000000f",
        "amdgpu_sched_run_job: sched_job=9, timeline=gfx_0.0.0, context=12, seqno=35, ring_name=gfx_0.0.0, num_ibs=1",
        "amdgpu_sched_run_job: sched_job=10, timeline=sdma0, context=14, seqno=2, ring_name=sdma0, num_ibs=1",
        "dma_fence_signaled: driver=amdgpu timeline=gfx_0.0.0 context=12 seqno=35",
    ]);
    assert_eq!(family(&r), ("amdgpu", "amdgpu"));
    let expected = [
        "gfx_0.0.0: graphics commands, 1 to 3",
        "sdma0: copy commands, 2 to runs",
    ];
    assert_eq!(describe_jobs(&r), expected);
    let access = r.events.access(0).unwrap();
    assert_eq!((access.offset.get(), access.value), (0x48d0, 0xf));
    // Accesses alone are of the same family.
    let r = import(&["amdgpu_device_wreg: 0x731f, 0x00001234, 0x0000000f"]);
    assert_eq!(find_family(&r).name(), "amdgpu");
}

#[test]
fn i915_events_are_accesses_and_requests_of_engines() {
    let r = import(&[
        "i915_request_add: dev=0, engine=0:0, ctx=7, seqno=9, tail=16",
        "i915_request_add: dev=0, engine=1:0, ctx=8, seqno=1, tail=16",
        "i915_reg_rw: read reg=0x44200, len=4, val=(0x80010000, 0x0)",
        "i915_request_retire: dev=0, engine=0:0, ctx=7, seqno=9",
    ]);
    assert_eq!(family(&r), ("intel", "i915"));
    let expected = ["rcs0: render commands, 0 to 3", "bcs0: copy commands, 1 to runs"];
    assert_eq!(describe_jobs(&r), expected);
    assert_eq!(r.events.access(2).unwrap().offset.get(), 0x4_4200);
}

#[test]
fn xe_events_are_jobs_of_exec_queues_and_a_hang_ends_its_job_alone() {
    let job = |event: &str, fence: u32| {
        format!(
            "{event}: dev=0000:03:00.0, fence=00000000c0ffee{fence:02x}, seqno=5, lrc_seqno=5, guc_id={fence}, \
             batch_addr=0x0000001{fence}0000, guc_state=0x0, flags=0x8, error=0"
        )
    };
    let events = [
        job("xe_sched_job_run", 2),
        job("xe_sched_job_run", 3),
        job("xe_sched_job_timedout", 3),
        "xe_exec_queue_memory_cat_error: dev=0000:03:00.0, 0:0x1, gt=0, width=1, guc_id=3, guc_state=0x1, flags=0x0"
            .to_owned(),
        "xe_hw_fence_signal: dev=0000:03:00.0, ctx=0x0000000000000012, fence=00000000c0ffee02, seqno=5".to_owned(),
        "xe_reg_rw: dev=0000:03:00.0, write reg=0xa188, len=4, val=(0x10001, 0x0)".to_owned(),
    ];
    let r = import(&events.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(family(&r), ("intel", "xe"));
    let expected = [
        "exec queue 2: job of the driver, 0 to 4",
        "exec queue 3: job of the driver, 1 to 2 failed",
    ];
    assert_eq!(describe_jobs(&r), expected);
    assert_eq!(jobs(&r)[1].head_va.get(), 0x13_0000);
    assert_eq!(
        errors(&r),
        ["1 job hung, at 3.000002 s", "1 fault of a queue, at 3.000003 s"]
    );
    assert!(check::check(&r).iter().any(|f| f.kind == FindingKind::DriverError));
}

#[test]
fn events_of_other_drivers_keep_the_general_family() {
    let r = import(&[
        "vc4_submit_cl: dev=0, RCL, seqno=4, 0x00160000..0x00160120",
        "vc4_rcl_end_irq: dev=0, seqno=4",
    ]);
    assert_eq!(family(&r), ("driver-events", "vc4"));
    assert_eq!(describe_jobs(&r), ["RCL: job of the driver, 0 to 1"]);
}
