//! A target of an agent, as a client's runs use it.

use crate::convert::{decode_result, encode_input, encode_run};
use replay_engine::client::{Client, ClientError};
use replay_engine::wasm::{WasmObserver, WasmReport, WasmResult, WasmRun};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wasm_gpu::GpuOptions;
use wasm_run::{Backend, BackendError, Control, Input, Program, ProgramError, RunOptions};

/// Connects to an agent.
type Connect = Box<dyn Fn() -> Result<Client, ClientError> + Send + Sync>;

/// A program on a target of an agent.
pub struct AgentBackend {
    program: Program,
    run: WasmRun,
    connect: Connect,
    /// The connection of the first run.
    client: Mutex<Option<Client>>,
    /// The report of the last run, or `None` if it has none.
    report: Mutex<Option<WasmReport>>,
}

/// Why a target of an agent cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The program does not fit the options.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The agent cannot be reached.
    #[error(transparent)]
    Client(#[from] ClientError),
}

impl AgentBackend {
    /// Checks a program, and connects to the agent. The target is leased for each run.
    ///
    /// `target` is a device of the agent, `cpu` or `interpreter`. The number of the GPU in `gpu` is not used.
    ///
    /// # Errors
    /// When the program does not fit the options, or the agent cannot be reached.
    pub fn open(
        program: Program,
        options: &RunOptions,
        gpu: &GpuOptions,
        target: &str,
        connect: impl Fn() -> Result<Client, ClientError> + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        program.check(options)?;
        let client = connect()?;
        Ok(Self {
            program,
            run: encode_run(target, options, gpu),
            connect: Box::new(connect),
            client: Mutex::new(Some(client)),
            report: Mutex::default(),
        })
    }

    fn report(&self) -> Option<WasmReport> {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for AgentBackend {
    fn copies(&self, _inputs: usize) -> u32 {
        self.report().unwrap_or_default().copies
    }

    fn compile_time(&self) -> Duration {
        Duration::from_nanos(self.report().unwrap_or_default().compile_ns)
    }

    fn run_time(&self) -> Option<Duration> {
        self.report().map(|report| Duration::from_nanos(report.run_ns))
    }

    fn reports_starts(&self) -> bool {
        false
    }

    fn lowered_call_depth(&self) -> Option<u32> {
        self.report()?.lowered_call_depth
    }

    fn run(&self, inputs: &[Input], control: &dyn Control) -> Result<(), BackendError> {
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let target = |e: ClientError| BackendError::Target(e.to_string());
        let first = self.client.lock().unwrap_or_else(PoisonError::into_inner).take();
        let client = first.map_or_else(|| (self.connect)(), Ok).map_err(target)?;
        let observer = Observer {
            control,
            failure: Mutex::new(None),
        };
        let inputs = inputs.iter().map(encode_input);
        let ended = client.run_wasm(self.run.clone(), self.program.bytes(), inputs, &observer);
        if let Some(failure) = observer.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(BackendError::ResultNotTaken(failure));
        }
        match ended {
            Ok(report) => {
                *self.report.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
                Ok(())
            }
            Err(ClientError::Cancelled) => Err(BackendError::Cancelled),
            Err(e @ ClientError::Busy { .. }) => Err(BackendError::InUse(e.to_string())),
            Err(e) => Err(target(e)),
        }
    }
}

/// Passes the results of an agent to the caller of a run.
struct Observer<'a> {
    control: &'a dyn Control,
    /// Why a result was not taken.
    failure: Mutex<Option<String>>,
}

impl WasmObserver for Observer<'_> {
    fn is_cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    fn take_result(&self, result: WasmResult) -> Result<(), String> {
        let taken = decode_result(result).and_then(|(index, run)| self.control.take_result(index, run));
        if let Err(why) = &taken {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| why.clone());
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_engine::serve::{Options, Server};
    use replay_engine::wasm::{PreparedWasm, WasmInput, WasmRunError, WasmRunner};
    use std::sync::{Arc, Condvar};

    /// `(module (func (export "_start")))`
    const PROGRAM: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\
                             \x07\x0a\x01\x06_start\0\0\x0a\x04\x01\x02\0\x0b";

    /// Returns a report, and runs nothing. A program with the argument `fail` fails, and one with `wait` waits for
    /// [`Reporter::release`].
    #[derive(Debug, Default)]
    struct Reporter {
        runs: Arc<(Mutex<(u32, bool)>, Condvar)>,
    }

    impl Reporter {
        /// Waits until a program waits.
        fn wait_for_run(&self) {
            let (state, changed) = &*self.runs;
            drop(
                changed
                    .wait_while(state.lock().unwrap(), |(runs, _)| *runs == 0)
                    .unwrap(),
            );
        }

        fn release(&self) {
            self.runs.0.lock().unwrap().1 = true;
            self.runs.1.notify_all();
        }
    }

    struct Prepared {
        argument: Vec<u8>,
        runs: Arc<(Mutex<(u32, bool)>, Condvar)>,
    }

    impl WasmRunner for Reporter {
        fn targets(&self) -> Vec<String> {
            vec!["cpu".to_owned()]
        }

        fn runs_on_device(&self, _device: &str) -> bool {
            false
        }

        fn prepare(&self, run: &WasmRun, _program: Vec<u8>) -> Result<Box<dyn PreparedWasm>, String> {
            Ok(Box::new(Prepared {
                argument: run.arguments.first().cloned().unwrap_or_default(),
                runs: Arc::clone(&self.runs),
            }))
        }
    }

    impl PreparedWasm for Prepared {
        fn run(&self, _inputs: Vec<WasmInput>, _observer: &dyn WasmObserver) -> Result<WasmReport, WasmRunError> {
            if self.argument == b"wait" {
                let (state, changed) = &*self.runs;
                let mut state = state.lock().unwrap();
                state.0 += 1;
                changed.notify_all();
                drop(changed.wait_while(state, |(_, released)| !*released).unwrap());
            }
            match self.argument == b"fail" {
                true => Err(WasmRunError::Failed("as it was asked to".to_owned())),
                false => Ok(WasmReport {
                    copies: 3,
                    compile_ns: 5,
                    run_ns: 7,
                    lowered_call_depth: Some(9),
                }),
            }
        }
    }

    struct Never;

    impl Control for Never {
        fn is_cancelled(&self) -> bool {
            false
        }

        fn take_result(&self, index: usize, _run: wasm_run::ProgramRun) -> Result<(), String> {
            Err(format!("a result of no input: {index}"))
        }
    }

    /// Opens the program with an argument on the target of a server.
    fn open(server: &Server, argument: &str) -> AgentBackend {
        let options = RunOptions {
            arguments: vec![argument.into()],
            ..RunOptions::default()
        };
        let program = Program::parse(PROGRAM.to_vec()).unwrap();
        let server = server.clone();
        let connect = move || Client::in_process(&server);
        AgentBackend::open(program, &options, &GpuOptions::default(), "cpu", connect).unwrap()
    }

    #[test]
    fn a_target_that_another_client_has_is_in_use() {
        let server = Server::new(&[], None, Options::default()).unwrap();
        let reporter = Arc::new(Reporter::default());
        server.serve_wasm(Arc::clone(&reporter) as Arc<dyn WasmRunner>);
        let waiting = open(&server, "wait");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| waiting.run(&[], &Never));
            reporter.wait_for_run();
            let refused = open(&server, "program").run(&[], &Never);
            reporter.release();
            assert!(
                matches!(&refused, Err(BackendError::InUse(why)) if why.contains("in use")),
                "{refused:?}"
            );
            first.join().unwrap().unwrap();
        });
    }

    #[test]
    fn the_report_of_an_agent_is_that_of_the_backend() {
        let server = Server::new(&[], None, Options::default()).unwrap();
        server.serve_wasm(Arc::new(Reporter::default()));
        let open = |argument: &str| open(&server, argument);
        let backend = open("program");
        assert_eq!(backend.run_time(), None);
        backend.run(&[], &Never).unwrap();
        assert_eq!(backend.copies(0), 3);
        assert_eq!(backend.compile_time(), Duration::from_nanos(5));
        assert_eq!(backend.run_time(), Some(Duration::from_nanos(7)));
        assert_eq!(backend.lowered_call_depth(), Some(9));
        // A run without a report has no times.
        let backend = open("fail");
        assert!(backend.run(&[], &Never).is_err());
        assert_eq!((backend.run_time(), backend.lowered_call_depth()), (None, None));
    }
}
