//! The values of a run as they travel between client and agent.

use replay_engine::client::WasmInputRef;
use replay_engine::wasm::{
    WasmCall, WasmCopyLimits, WasmEnd, WasmInput, WasmLocation, WasmResult, WasmRun, WasmTranslation,
};
use std::time::Duration;
use wasm_gpu::{GpuOptions, TranslationOptions};
use wasm_ptx::CellSize;
use wasm_run::{Input, Limits, ProgramRun, RunEnd, RunOptions, Trap, TrapKind, TrapPlace};
use wasm_system::SystemCall;

/// Returns what a client asks for, without the sizes of program and inputs.
pub fn encode_run(target: &str, options: &RunOptions, gpu: &GpuOptions) -> WasmRun {
    let limits = &options.limits;
    WasmRun {
        target: target.to_owned(),
        function: options.function.clone(),
        arguments: options.arguments.clone(),
        environment: options.environment.clone(),
        seed: options.seed,
        clock_start: options.clock_start,
        clock_step: options.clock_step,
        limits: WasmCopyLimits {
            memory_pages: limits.memory_pages,
            call_depth: limits.call_depth,
            fuel: limits.fuel,
            time_ns: limits.time.map(|t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX)),
            output_bytes: limits.output_bytes,
            log_entries: limits.log_entries,
        },
        copies: options.copies,
        translation: WasmTranslation {
            cell: gpu.translation.cell.map(CellSize::bytes),
            strict: gpu.translation.strict,
        },
        sort: gpu.sort,
        use_cache: !gpu.no_cache,
        ..WasmRun::default()
    }
}

/// Returns the options of a run that a client asks for. The number of the GPU is 0.
///
/// # Errors
/// When the cell size is none of the translator's.
pub fn decode_run(run: &WasmRun) -> Result<(RunOptions, GpuOptions), String> {
    let cell = match run.translation.cell {
        None => None,
        Some(4) => Some(CellSize::Four),
        Some(8) => Some(CellSize::Eight),
        Some(16) => Some(CellSize::Sixteen),
        Some(bytes) => return Err(format!("cells of {bytes} bytes (expected 4, 8 or 16)")),
    };
    let limits = &run.limits;
    let options = RunOptions {
        function: run.function.clone(),
        arguments: run.arguments.clone(),
        environment: run.environment.clone(),
        seed: run.seed,
        clock_start: run.clock_start,
        clock_step: run.clock_step,
        limits: Limits {
            memory_pages: limits.memory_pages,
            call_depth: limits.call_depth,
            fuel: limits.fuel,
            time: limits.time_ns.map(Duration::from_nanos),
            output_bytes: limits.output_bytes,
            log_entries: limits.log_entries,
        },
        copies: run.copies,
    };
    let gpu = GpuOptions {
        device: 0,
        translation: TranslationOptions {
            cell,
            strict: run.translation.strict,
            counters: false,
        },
        sort: run.sort,
        no_cache: !run.use_cache,
    };
    Ok((options, gpu))
}

/// Returns an input as a client sends it.
pub fn encode_input(input: &Input) -> WasmInputRef<'_> {
    let more = input.more_requests.iter().map(Vec::as_slice);
    WasmInputRef {
        name: &input.name,
        requests: std::iter::once(input.bytes.as_slice()).chain(more).collect(),
    }
}

/// Returns an input that a client sent.
pub fn decode_input(input: WasmInput) -> Input {
    let mut requests = input.requests.into_iter();
    Input {
        name: input.name,
        bytes: requests.next().unwrap_or_default(),
        more_requests: requests.collect(),
    }
}

/// Returns a result as an agent sends it.
pub fn encode_result(index: usize, run: ProgramRun) -> WasmResult {
    let end = match run.end {
        RunEnd::Exit(code) => WasmEnd::Exit(code),
        RunEnd::Trap(trap) => WasmEnd::Trap {
            kind: trap.kind.number(),
            location: trap.place.map(|place| WasmLocation {
                function: place.function,
                function_index: place.function_index,
                offset: place.offset,
            }),
        },
    };
    let calls = run.calls.iter().map(|call| WasmCall {
        function: call.function,
        result: call.result,
        arguments: call.arguments,
        time: call.time,
        bytes: call.bytes,
    });
    WasmResult {
        index: index as u64,
        end,
        output: run.standard_output,
        error: run.standard_error,
        calls: calls.collect(),
        lost_calls: run.lost_calls,
    }
}

/// Returns a result that an agent sent, with the position of its input.
///
/// # Errors
/// When the trap is unknown.
pub fn decode_result(result: WasmResult) -> Result<(usize, ProgramRun), String> {
    let end = match result.end {
        WasmEnd::Exit(code) => RunEnd::Exit(code),
        WasmEnd::Trap { kind, location } => RunEnd::Trap(Trap {
            kind: TrapKind::from_number(kind).ok_or_else(|| format!("the agent sent the unknown trap {kind}"))?,
            place: location.map(|location| TrapPlace {
                function: location.function,
                function_index: location.function_index,
                offset: location.offset,
            }),
        }),
    };
    let calls = result.calls.iter().map(|call| SystemCall {
        function: call.function,
        result: call.result,
        arguments: call.arguments,
        time: call.time,
        bytes: call.bytes,
    });
    let run = ProgramRun {
        end,
        standard_output: result.output,
        standard_error: result.error,
        calls: calls.collect(),
        lost_calls: result.lost_calls,
    };
    Ok((usize::try_from(result.index).unwrap_or(usize::MAX), run))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let options = RunOptions {
            arguments: vec![b"program".to_vec(), b"x".to_vec()],
            environment: vec![(b"N".to_vec(), b"v".to_vec())],
            seed: 7,
            copies: Some(9),
            ..RunOptions::default()
        };
        let gpu = GpuOptions {
            device: 0,
            translation: TranslationOptions {
                cell: Some(CellSize::Sixteen),
                strict: true,
                counters: false,
            },
            sort: true,
            no_cache: true,
        };
        let mut run = encode_run("cuda0", &options, &gpu);
        assert_eq!(decode_run(&run).unwrap(), (options, gpu));
        run.translation.cell = Some(5);
        assert!(decode_run(&run).unwrap_err().contains("cells of 5 bytes"));
    }

    #[test]
    fn inputs_and_results_come_back() {
        let input = Input {
            name: "in".into(),
            bytes: b"first".to_vec(),
            more_requests: vec![Vec::new(), b"second".to_vec()],
        };
        let sent = encode_input(&input);
        let received = WasmInput {
            name: sent.name.to_owned(),
            requests: sent.requests.iter().map(|r| r.to_vec()).collect(),
        };
        assert_eq!(decode_input(received), input);
        let run = ProgramRun {
            end: RunEnd::Trap(Trap {
                kind: TrapKind::Unreachable,
                place: Some(TrapPlace {
                    function: "f".into(),
                    function_index: 3,
                    offset: 1 << 33,
                }),
            }),
            standard_output: b"out".to_vec(),
            standard_error: b"err".to_vec(),
            calls: vec![SystemCall {
                function: 3,
                result: -28,
                arguments: [1, 2],
                time: 99,
                bytes: 5,
            }],
            lost_calls: 4,
        };
        let mut sent = encode_result(5, run.clone());
        assert_eq!(decode_result(sent.clone()).unwrap(), (5, run));
        sent.end = WasmEnd::Trap {
            kind: 0,
            location: None,
        };
        assert!(decode_result(sent).unwrap_err().contains("unknown trap 0"));
    }
}
