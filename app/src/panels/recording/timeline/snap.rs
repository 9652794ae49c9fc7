//! Snapping of a measurement's edge to a near event, or to the submit or the end of a near job.

use super::scale::{Scale, event_x};
use kinescope_session::Document;
use kinescope_session::jobs::JobFact;

/// Distance from which an edge jumps to an event, points.
const SNAP: f32 = 6.0;
/// Number of jobs of a slot that are checked around a position.
const JOBS: usize = 3;

/// Returns the position on the axis for an edge at a horizontal coordinate: that of the nearest submit or end of a job
/// within reach, else of the nearest event within reach, else of the coordinate itself.
pub fn snap_to_edge(doc: &Document, scale: &Scale, x: f32) -> f64 {
    let place = scale.position(x);
    let near = |event: &u64| (event_x(doc, scale, *event) - x).abs() <= SNAP;
    let event = doc.derived.axis.nearest(scale.axis, place);
    let found = job_edge(doc, scale, x).or(Some(event)).filter(near);
    found.map_or(place, |e| doc.derived.axis.position(scale.axis, e))
}

/// Returns the submit or the end of a job that is nearest to a coordinate, if one is within reach.
fn job_edge(doc: &Document, scale: &Scale, x: f32) -> Option<u64> {
    let job = |i: &u32| doc.derived.jobs.get(*i as usize);
    let end = doc.derived.axis.event_at(scale.axis, scale.position(x + SNAP));
    let away = |e: &u64| (event_x(doc, scale, *e) - x).abs();
    let mut edges: Vec<u64> = Vec::new();
    for slot in &doc.derived.slots {
        let n = slot.partition_point(|i| job(i).is_some_and(|j| j.submit <= end));
        let around = slot.get(n.saturating_sub(JOBS)..n).unwrap_or_default();
        for j in around.iter().filter_map(job) {
            edges.extend(job_edges(j));
        }
    }
    edges
        .into_iter()
        .filter(|e| away(e) <= SNAP)
        .min_by(|a, b| away(a).total_cmp(&away(b)))
}

fn job_edges(job: &JobFact) -> impl Iterator<Item = u64> {
    [Some(job.submit), job.done].into_iter().flatten()
}
