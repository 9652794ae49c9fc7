//! Tests of the descriptor comparison, on the jobs of the samples.

use super::*;
use crate::families::mali_jm::{self, read_chain};
use crate::families::{address_spaces, memory_at_submits};
use crate::recording::Memory;
use crate::registers::RegisterMap;
use crate::timeline;
use crate::{GpuVa, mmu};

fn sample(name: &str) -> Recording {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sample-traces")
        .join(name);
    crate::container::open(&path).unwrap()
}

/// Returns the recording with other bytes at an address of its first address space, in every snapshot.
fn with(r: &Recording, va: u64, bytes: &[u8]) -> Recording {
    with_in(r, va, bytes, |_| true)
}

/// Returns the recording with other bytes at an address, in the snapshots of these events.
fn with_in(r: &Recording, va: u64, bytes: &[u8], changes: impl Fn(u64) -> bool) -> Recording {
    let space = &r.metadata.address_spaces[0];
    let mut memory = MemoryBuilder::new();
    for s in r.memory.snapshots.iter() {
        let view = r.memory.at(s.event);
        let at = mmu::translate(space.format, space.root, GpuVa::new(va), &view).unwrap();
        let frame = at.pa.frame() + (va - at.va.get()) / 4096;
        let mut frames = Vec::new();
        for run in view.runs() {
            for f in run.first_frame..run.end_frame() {
                let mut page = *view.frame(f).unwrap();
                if f == frame && changes(s.event) {
                    let from = (va % 4096) as usize;
                    page[from..from + bytes.len()].copy_from_slice(bytes);
                }
                frames.push((f, memory.add_page(&page), run.role));
            }
        }
        memory.add_snapshot(s.event, frames);
    }
    let memory: Memory = memory.finish();
    Recording { memory, ..r.clone() }
}

/// Returns the address of the head of the first job's chain, and of its draw descriptor.
fn first_job(r: &Recording) -> (u64, u64) {
    let map = RegisterMap::for_recording(r).unwrap();
    let job = timeline::derive(r, map, &Progress::new()).unwrap().jobs[0];
    assert_eq!(address_spaces(r, map, &[job.submit_event]), [Some(0)]);
    let view = memory_at_submits(r, map, &[job.submit_event])[0].unwrap();
    let chain = read_chain(&view, job.head_va);
    let mali_jm::Payload::Compute(c) = chain.jobs[0].payload else {
        panic!("no compute job")
    };
    (job.head_va.get(), c.draw.get())
}

#[test]
fn equal_jobs_have_equal_descriptors() {
    let r = sample("vecadd.kine");
    let d = diff(&r, &r).descriptors;
    assert!(d.same >= 4, "header, invocation, draw, state: {}", d.same);
    assert_eq!((d.count_differing(), d.relocated, d.unknown), (0, 0, 0));
    assert!(d.list.is_empty());
}

#[test]
fn descriptor_field_difference_shows_both_values() {
    let r = sample("vecadd.kine");
    let (head, draw) = first_job(&r);
    // The barrier is bit 8 of the third 64-bit word of the header.
    let other = with(&r, head + 17, &[0]);
    let d = diff(&r, &other);
    let [difference] = &d.descriptors.list[..] else {
        panic!("{:?}", d.descriptors)
    };
    assert_eq!((difference.layout.as_str(), difference.in_chain), ("job-header", 0));
    assert_eq!(
        (difference.a, difference.b),
        (Some(GpuVa::new(head)), Some(GpuVa::new(head)))
    );
    assert_eq!(difference.first_byte, 17);
    assert_eq!(
        difference.fields,
        [("barrier".to_owned(), "yes".to_owned(), "no".to_owned())]
    );
    assert!(!d.is_empty(), "the page of the descriptor does not differ");
    assert_eq!(diff(&other, &r), d.swapped());
    // The recordings have no ranges that would show a relocation of this pointer.
    let other = with(&r, draw + 24, &0x1234_5000u64.to_le_bytes());
    let d = diff(&r, &other).descriptors;
    assert_eq!(d.list.len(), 1);
    let difference = &d.list[0];
    assert_eq!((difference.layout.as_str(), difference.fields.len()), ("draw", 1));
    assert_eq!(
        (difference.fields[0].0.as_str(), difference.fields[0].2.as_str()),
        ("uniform_buffers", "0x12345000")
    );
    assert_eq!(difference.first_byte, 24);
}

#[test]
fn undescribed_bit_differences_name_their_word() {
    let r = sample("vecadd.kine");
    let (_, draw) = first_job(&r);
    let other = with(&r, draw + 8, &[0x40]);
    let d = diff(&r, &other).descriptors;
    assert_eq!(d.list.len(), 1, "{d:?}");
    assert_eq!(d.list[0].fields[0].0, "unknown bits of word 1");
    assert_eq!(d.list[0].first_byte, 8);
}

#[test]
fn job_on_one_side_of_a_chain_is_reported() {
    let r = sample("vecadd.kine");
    let (head, _) = first_job(&r);
    let chained = sample("twopass.kine");
    let one = diff(&r, &chained).descriptors;
    assert_eq!(one.clone().swapped(), diff(&chained, &r).descriptors);
    // A chain that loops ends at the first repeated job; one with an invalid link ends at once.
    let other = with(&r, head + 24, &(head + 64).to_le_bytes());
    let d = diff(&r, &other).descriptors;
    assert_eq!((d.only_a, d.only_b), (0, 1), "{d:?}");
    let unmatched = d.list.iter().find(|l| l.a.is_none()).unwrap();
    assert_eq!((unmatched.in_chain, unmatched.b), (1, Some(GpuVa::new(head + 64))));
}

#[test]
fn ignored_descriptors_are_not_compared() {
    let r = sample("vecadd.kine");
    let (head, _) = first_job(&r);
    let other = with(&r, head + 17, &[0]);
    let rules: Rules = format!("ignore memory {:#x}..{:#x}", head, head + 32).parse().unwrap();
    let d = diff_with(&r, &other, &rules, &Progress::new()).unwrap();
    assert_eq!((d.descriptors.count_differing(), d.descriptors.unknown), (0, 1));
    assert!(d.is_empty());
}

/// A job had other descriptors, but the bytes were restored before the end: no page differs there, and no event does.
#[test]
fn descriptors_alone_make_two_recordings_differ() {
    let r = sample("vecadd.kine");
    let (head, _) = first_job(&r);
    let end = r.events.len() as u64;
    let other = with_in(&r, head + 17, &[0], |event| event < end);
    let (d, aligned) = compare(&r, &other, &Rules::default(), &Progress::new()).unwrap();
    assert_eq!(
        (d.descriptors.changed, d.pages.changed, d.events.count_differing()),
        (1, 0, 0)
    );
    assert!(!d.is_empty());
    let found = find_causes((&r, &other), (&d, &aligned), &Progress::new()).unwrap();
    let summary = summarize((&r, &other), (&d, &aligned), &found);
    assert_eq!((summary.same, summary.part), (false, Some(Part::Descriptors)));
    assert_eq!(
        summary.sentence,
        "A descriptor (job-header) of job 0 differs; events and page tables are the same."
    );
}

#[test]
fn header_status_written_by_the_device_is_ignored() {
    let r = sample("vecadd.kine");
    let (head, _) = first_job(&r);
    let end = r.events.len() as u64;
    let other = with_in(&r, head, &[0x42, 0, 0, 0, 7], |event| event < end);
    let d = diff(&r, &other);
    assert_eq!((d.descriptors.count_differing(), d.descriptors.status), (0, 1));
    assert_eq!(
        d.descriptors.status_fields,
        ["exception_status", "first_incomplete_task"]
    );
    assert!(d.is_empty());
}

#[test]
fn summary_names_the_differing_input_and_its_output() {
    let r = sample("vecadd.kine");
    let at = |name: &str| r.buffer(name).unwrap().va.get();
    let end = r.events.len() as u64;
    let other = with(&r, at("a"), &[0x55]);
    let other = with_in(&other, at("c"), &[0x55], |event| event == end);
    let (d, aligned) = compare(&r, &other, &Rules::default(), &Progress::new()).unwrap();
    let found = find_causes((&r, &other), (&d, &aligned), &Progress::new()).unwrap();
    let summary = summarize((&r, &other), (&d, &aligned), &found);
    assert_eq!((summary.same, summary.part), (false, Some(Part::Buffers)));
    assert_eq!(
        summary.sentence,
        "Input a differs (1 of 1,024), so output c differs after job 0; events, descriptors and page tables are the same."
    );
    let (d, aligned) = compare(&r, &r, &Rules::default(), &Progress::new()).unwrap();
    let summary = summarize((&r, &r), (&d, &aligned), &[]);
    assert_eq!(
        (summary.same, summary.part, summary.sentence.as_str()),
        (true, None, "No difference.")
    );
}

/// If jobs were not computed, their outputs are no evidence about the two recordings.
#[test]
fn outputs_that_were_not_computed_are_not_compared() {
    let r = sample("vecadd.kine");
    let (_, submit) = {
        let map = RegisterMap::for_recording(&r).unwrap();
        let job = timeline::derive(&r, map, &Progress::new()).unwrap().jobs[0];
        (job.head_va, job.submit_event)
    };
    let end = r.events.len() as u64;
    let mut other = with_in(&r, r.buffer("c").unwrap().va.get(), &[0x55], |event| event == end);
    assert!(!diff(&r, &other).is_empty());
    other.register_trace_mut().unwrap().chain_reports = vec![crate::recording::ChainReport {
        submit_event: submit,
        status: 1,
        computed: Some(false),
        reason: None,
    }];
    let (d, aligned) = compare(&r, &other, &Rules::default(), &Progress::new()).unwrap();
    assert!(d.is_empty() && d.pages.ignored == 1, "{d:?}");
    assert_eq!(d.not_computed, NotComputed { a: 0, b: 1 });
    assert_eq!(diff(&other, &r), d.clone().swapped());
    let summary = summarize((&r, &other), (&d, &aligned), &[]);
    assert_eq!(summary.sentence, "No difference in the compared parts.");
    assert_eq!(
        summary.not_compared,
        "Outputs not compared: not computed (1 of 1 job of the second)."
    );
}
