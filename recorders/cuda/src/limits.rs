//! Limits of contexts: how much stack, heap and room for printing kernels have. A replay sets them before it begins.

use crate::recorder::{Recorder, is_ok};
use cuda_driver::{CuResult, LIMIT_HEAP, LIMIT_PRINTF, LIMIT_STACK};

/// `cuCtxSetLimit`. Of what was set one time and another the most is told: a replay sets it once.
pub(crate) fn set(r: &Recorder, call: &mut dyn FnMut() -> CuResult, limit: u32, value: usize) -> CuResult {
    let begun = r.session.start_call();
    let result = call();
    let value = value as u64;
    if is_ok(result) && matches!(limit, LIMIT_STACK | LIMIT_PRINTF | LIMIT_HEAP) {
        let mut tables = r.session.tables();
        let limits = &mut tables.facts.limits;
        match limits.iter_mut().find(|[known, _]| *known == u64::from(limit)) {
            Some([_, most]) => *most = value.max(*most),
            None => limits.push([limit.into(), value]),
        }
        tables.mark_changed();
    }
    r.record_call(begun, "cuCtxSetLimit", None, &[limit.into(), value], result);
    result
}
