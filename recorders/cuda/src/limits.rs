//! Limits of contexts: sizes of stack, heap and print buffer for kernels. A replay sets them before it starts.

use crate::recorder::{Recorder, is_ok};
use cuda_driver::{CuResult, LIMIT_HEAP, LIMIT_PRINTF, LIMIT_STACK};

/// Handles `cuCtxSetLimit`. The largest of several values is recorded: a replay sets each limit once.
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
