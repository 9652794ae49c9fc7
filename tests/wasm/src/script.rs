//! Scripts of the official test-suite: each directive is run and counted.

use crate::error::MachineError;
use crate::interpreted_copy::InterpretedCopy;
use crate::machine::{Outcome, Settings};
use crate::spectest::SPECTEST;
use crate::suite::{Exception, SuiteFile};
use crate::target::CopyTarget;
use crate::values::{self, SpecialFloats};
use crate::world::{World, WorldError};
use std::collections::{BTreeMap, HashMap};
use wasm_ptx::{ExportedItem, InstanceId, Options, TranslateError};
use wast::parser::{ParseBuffer, parse};
use wast::{QuoteWat, Wast, WastDirective, WastExecute, WastInvoke, WastRet, Wat};

/// Number of directives that passed, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub BTreeMap<&'static str, usize>);

impl Counts {
    fn add(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    /// Adds the numbers of another file.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// Returns the number of assertions: all but modules and calls alone.
    #[must_use]
    pub fn assertions(&self) -> usize {
        let is_assertion = |name: &&&str| name.starts_with("assert_");
        let names = self.0.keys().filter(is_assertion);
        names.filter_map(|name| self.0.get(name)).sum()
    }
}

/// Assertions of one operation of floats, or of one file about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FloatCounts {
    /// Assertions that passed.
    pub passed: usize,
    /// Assertions that failed.
    pub failed: usize,
    /// Assertions with a NaN as an argument or result.
    pub nan: usize,
    /// Assertions with a zero as an argument or result.
    pub zero: usize,
    /// Assertions with a subnormal number as an argument or result.
    pub subnormal: usize,
}

impl FloatCounts {
    fn add(&mut self, special: SpecialFloats, passed: bool) {
        self.passed += usize::from(passed);
        self.failed += usize::from(!passed);
        self.nan += usize::from(special.nan);
        self.zero += usize::from(special.zero);
        self.subnormal += usize::from(special.subnormal);
    }

    /// Adds the numbers of another file.
    pub fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.nan += other.nan;
        self.zero += other.zero;
        self.subnormal += other.subnormal;
    }
}

/// Result of a file.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// Folder and file.
    pub name: String,
    /// Directives that passed.
    pub counts: Counts,
    /// Number of uses of each exception that applied, by its reason.
    pub exceptions: BTreeMap<&'static str, usize>,
    /// Directives that failed: line and reason.
    pub failures: Vec<String>,
    /// Number of assertions that failed.
    pub failed_assertions: usize,
    /// Assertions with floats, by their operation or file.
    pub floats: BTreeMap<String, FloatCounts>,
    /// The device failed, and cannot run another program.
    pub device_failed: bool,
    /// Text of each program, as it was after its last directive.
    pub texts: Vec<String>,
}

/// Name of the module that scripts import from without a registration.
const SPECTEST_NAME: &[u8] = b"spectest";

/// An instance: its world, and its number there.
type Place = (usize, InstanceId);

/// State of a script.
struct Script<'a, T> {
    options: Options,
    settings: Settings,
    new_target: &'a mut dyn FnMut() -> T,
    /// Every module joins the same program: some module imports from another one.
    is_shared: bool,
    /// Programs by number. Those that no later directive can name are gone.
    worlds: Vec<Option<World<T>>>,
    current: Option<Place>,
    named: HashMap<String, Place>,
    spectest: Vec<u8>,
    imports_spectest: bool,
    texts: Vec<String>,
    device_failed: bool,
}

/// Why a directive failed.
type Failure = String;

/// Runs all directives of a file in the interpreter.
#[must_use]
pub fn run_file(file: &SuiteFile, options: &Options, settings: Settings, exceptions: &[Exception]) -> FileReport {
    let mut new_target = || InterpretedCopy::new(settings.copy, settings.steps);
    run_file_on(&mut new_target, file, options, settings, exceptions)
}

/// Runs all directives of a file on the devices that `new_target` returns: one for each program.
///
/// After a failure of the device the other directives do not run.
#[must_use]
pub fn run_file_on<T: CopyTarget>(
    new_target: &mut dyn FnMut() -> T,
    file: &SuiteFile,
    options: &Options,
    settings: Settings,
    exceptions: &[Exception],
) -> FileReport {
    let mut report = FileReport {
        name: file.path(),
        ..FileReport::default()
    };
    if let Err(e) = run_directives(new_target, file, options, settings, exceptions, &mut report) {
        report.failures.push(format!("{}: {e}", report.name));
    }
    report
}

fn run_directives<T: CopyTarget>(
    new_target: &mut dyn FnMut() -> T,
    file: &SuiteFile,
    options: &Options,
    settings: Settings,
    exceptions: &[Exception],
    report: &mut FileReport,
) -> Result<(), Failure> {
    let failed = |e: wast::Error| e.to_string();
    // Some scripts hold characters that look like others.
    let mut lexer = wast::lexer::Lexer::new(file.text);
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer).map_err(failed)?;
    let directives = parse::<Wast<'_>>(&buffer).map_err(failed)?.directives;
    let mut script = Script {
        options: options.clone(),
        settings,
        new_target,
        is_shared: file.text.contains("(register"),
        worlds: Vec::new(),
        current: None,
        named: HashMap::new(),
        spectest: wat::parse_str(SPECTEST).map_err(|e| format!("the module spectest is wrong: {e}"))?,
        imports_spectest: file.text.contains("\"spectest\""),
        texts: Vec::new(),
        device_failed: false,
    };
    for mut directive in directives {
        let line = directive.span().linecol_in(file.text).0 + 1;
        let message = message_of(&directive).to_owned();
        let applies = |e: &&Exception| {
            e.file == report.name && (e.line == 0 || e.line == line) && (e.message.is_empty() || e.message == message)
        };
        if let Some(exception) = exceptions.iter().find(applies) {
            *report.exceptions.entry(exception.reason).or_default() += 1;
            continue;
        }
        let floats = float_group(file, &directive);
        let is_assertion = !matches!(
            directive,
            WastDirective::Module(_) | WastDirective::Register { .. } | WastDirective::Invoke(_)
        );
        let result = script.directive(&mut directive);
        if let Some((group, special)) = floats {
            report.floats.entry(group).or_default().add(special, result.is_ok());
        }
        match result {
            Ok(name) => report.counts.add(name),
            Err(failure) => {
                report.failures.push(format!("{}:{line}: {failure}", report.name));
                report.failed_assertions += usize::from(is_assertion);
            }
        }
        if script.device_failed {
            report.device_failed = true;
            break;
        }
        script.drop_unreachable();
    }
    script.named.clear();
    script.current = None;
    script.is_shared = false;
    script.drop_unreachable();
    report.texts = script.texts;
    Ok(())
}

/// Returns the operation of floats that an assertion is about, or its file, and its special values.
fn float_group(file: &SuiteFile, directive: &WastDirective<'_>) -> Option<(String, SpecialFloats)> {
    let WastDirective::AssertReturn {
        exec: WastExecute::Invoke(invoke),
        results,
        ..
    } = directive
    else {
        return None;
    };
    let special = SpecialFloats::of_assertion(&invoke.args, results);
    if !special.float {
        return None;
    }
    let stem = file.name.strip_suffix(".wast").unwrap_or(file.name);
    let group = match stem {
        "f32" | "f32_cmp" | "f32_bitwise" => format!("f32.{}", invoke.name),
        "f64" | "f64_cmp" | "f64_bitwise" => format!("f64.{}", invoke.name),
        "float_misc" | "conversions" => invoke.name.to_owned(),
        _ => format!("other: {stem}"),
    };
    Some((group, special))
}

fn message_of<'a>(directive: &WastDirective<'a>) -> &'a str {
    match directive {
        WastDirective::AssertMalformed { message, .. }
        | WastDirective::AssertInvalid { message, .. }
        | WastDirective::AssertTrap { message, .. }
        | WastDirective::AssertExhaustion { message, .. }
        | WastDirective::AssertUnlinkable { message, .. } => message,
        _ => "",
    }
}

fn is_refused(error: &WorldError) -> bool {
    matches!(
        error,
        WorldError::Translate(TranslateError::Invalid { .. } | TranslateError::Unsupported { .. })
    )
}

impl<T: CopyTarget> Script<'_, T> {
    fn directive(&mut self, directive: &mut WastDirective<'_>) -> Result<&'static str, Failure> {
        match directive {
            WastDirective::Module(module) => {
                self.module(module)?;
                Ok("module")
            }
            WastDirective::Register { name, module, .. } => {
                let (world, instance) = self.find(module.map(|id| id.name()))?;
                self.world(world)?.set_alias(instance, name);
                Ok("register")
            }
            WastDirective::Invoke(invoke) => match self.invoke(invoke)? {
                Outcome::Returned(_) => Ok("invoke"),
                outcome => Err(format!("{outcome:?}")),
            },
            WastDirective::AssertReturn { exec, results, .. } => {
                self.assert_return(exec, results)?;
                Ok("assert_return")
            }
            WastDirective::AssertTrap { exec, message, .. } => {
                self.assert_trap(exec, message)?;
                Ok("assert_trap")
            }
            WastDirective::AssertExhaustion { call, message, .. } => {
                check_trap(&self.invoke(call)?, message)?;
                Ok("assert_exhaustion")
            }
            WastDirective::AssertMalformed { module, .. } => {
                self.assert_refused(module)?;
                Ok("assert_malformed")
            }
            WastDirective::AssertInvalid { module, .. } => {
                self.assert_refused(module)?;
                Ok("assert_invalid")
            }
            WastDirective::AssertUnlinkable { module, message, .. } => {
                self.assert_unlinkable(module, message)?;
                Ok("assert_unlinkable")
            }
            other => Err(format!("directive is not supported: {other:?}")),
        }
    }

    /// Drops the programs that no later directive can name: a device has the memory of few.
    fn drop_unreachable(&mut self) {
        for (index, place) in self.worlds.iter_mut().enumerate() {
            let is_here = |place: &Place| place.0 == index;
            let is_reachable = self.is_shared || self.current.iter().chain(self.named.values()).any(is_here);
            if !is_reachable && let Some(machine) = place.take().and_then(|world| world.machine) {
                self.texts.push(machine.program.text);
            }
        }
    }

    fn world(&mut self, index: usize) -> Result<&mut World<T>, Failure> {
        let world = self.worlds.get_mut(index).and_then(Option::as_mut);
        world.ok_or_else(|| "there is no instance".to_owned())
    }

    /// Describes a defect, and notes a failure of the device.
    fn defect(&mut self, error: &MachineError) -> Failure {
        self.device_failed |= matches!(error, MachineError::Device(_));
        format!("defect: {error}")
    }

    fn describe(&mut self, error: &WorldError) -> Failure {
        match error {
            WorldError::Translate(error) => error.to_string(),
            WorldError::Machine(error) => self.defect(error),
        }
    }

    /// Returns the instance with a name, or the last one.
    fn find(&self, name: Option<&str>) -> Result<Place, Failure> {
        let place = match name {
            Some(name) => self.named.get(name).copied(),
            None => self.current,
        };
        place.ok_or_else(|| format!("there is no instance {name:?}"))
    }

    /// Returns the world that a new module joins.
    fn target(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        if self.is_shared && !self.worlds.is_empty() {
            return Ok(0);
        }
        let mut world = World::with_target((self.new_target)(), self.options.clone(), self.settings);
        if self.imports_spectest || bytes.windows(SPECTEST_NAME.len()).any(|bytes| bytes == SPECTEST_NAME) {
            let spectest = self.spectest.clone();
            let (instance, _) = world.add(&spectest).map_err(|e| self.describe(&e))?;
            world.set_alias(instance, "spectest");
        }
        self.worlds.push(Some(world));
        Ok(self.worlds.len() - 1)
    }

    fn describe_refusal(&mut self, error: &AddError) -> Failure {
        match error {
            AddError::World(error) => self.describe(error),
            AddError::Other(failure) => failure.clone(),
        }
    }

    fn add(&mut self, bytes: &[u8]) -> Result<(Place, Outcome), AddError> {
        let target = self.target(bytes).map_err(AddError::Other)?;
        let world = self.world(target).map_err(AddError::Other)?;
        match world.add(bytes) {
            Ok((instance, outcome)) => Ok(((target, instance), outcome)),
            Err(error) => Err(AddError::World(error)),
        }
    }

    fn module(&mut self, module: &mut QuoteWat<'_>) -> Result<(), Failure> {
        let name = module.name().map(|id| id.name().to_owned());
        let bytes = module.encode().map_err(|e| e.to_string())?;
        let (place, outcome) = self.add(&bytes).map_err(|e| self.describe_refusal(&e))?;
        self.current = Some(place);
        if let Some(name) = name {
            self.named.insert(name, place);
        }
        match outcome {
            Outcome::Returned(_) => Ok(()),
            outcome => Err(format!("{outcome:?}")),
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Result<Outcome, Failure> {
        let (world, instance) = self.find(invoke.module.map(|id| id.name()))?;
        let arguments = values::arguments(&invoke.args).ok_or("an argument has another type than programs have")?;
        let machine = self.world(world)?.machine.as_mut().ok_or("the world has no copy")?;
        let outcome = machine.call_export(instance, invoke.name, &arguments);
        outcome
            .map_err(|e| self.defect(&e))?
            .ok_or_else(|| format!("the instance exports no function {}", invoke.name))
    }

    fn assert_return(&mut self, exec: &mut WastExecute<'_>, expected: &[WastRet<'_>]) -> Result<(), Failure> {
        let results = match exec {
            WastExecute::Invoke(invoke) => match self.invoke(invoke)? {
                Outcome::Returned(results) => results,
                outcome => return Err(format!("{outcome:?}")),
            },
            WastExecute::Get { module, global, .. } => {
                let (world, instance) = self.find(module.map(|id| id.name()))?;
                let machine = self.world(world)?.machine.as_mut().ok_or("the world has no copy")?;
                let Some(ExportedItem::Global(id)) = machine.program.export(instance, global) else {
                    return Err(format!("the instance exports no global {global}"));
                };
                let (_, bits) = machine.global(id).ok_or("the global is outside the area")?;
                vec![bits]
            }
            WastExecute::Wat(_) => return Err("a module returns nothing".to_owned()),
        };
        if values::all_match(expected, &results) {
            return Ok(());
        }
        Err(format!("expected {expected:?}, found {results:x?}"))
    }

    fn assert_trap(&mut self, exec: &mut WastExecute<'_>, message: &str) -> Result<(), Failure> {
        let outcome = match exec {
            WastExecute::Invoke(invoke) => self.invoke(invoke)?,
            WastExecute::Wat(module) => {
                let bytes = module.encode().map_err(|e| e.to_string())?;
                self.add(&bytes).map_err(|e| self.describe_refusal(&e))?.1
            }
            WastExecute::Get { .. } => return Err("a global does not trap".to_owned()),
        };
        check_trap(&outcome, message)
    }

    fn assert_refused(&mut self, module: &mut QuoteWat<'_>) -> Result<(), Failure> {
        // A text that is no module at all is refused before the translator sees it.
        let Ok(bytes) = module.encode() else { return Ok(()) };
        // The other instances do not matter for what is no module.
        let mut world = World::new(self.options.clone(), self.settings);
        match world.add(&bytes) {
            Err(error) if is_refused(&error) => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("the module is accepted".to_owned()),
        }
    }

    fn assert_unlinkable(&mut self, module: &mut Wat<'_>, message: &str) -> Result<(), Failure> {
        let bytes = module.encode().map_err(|e| e.to_string())?;
        match self.add(&bytes) {
            Err(AddError::World(WorldError::Translate(
                TranslateError::UnknownImport { .. } | TranslateError::IncompatibleImport { .. },
            ))) => Ok(()),
            Err(error) => Err(self.describe_refusal(&error)),
            // Since bulk memory operations, a segment that does not fit is a trap of the instantiation.
            Ok((_, outcome)) if message.ends_with("segment does not fit") => check_segment_trap(&outcome, message),
            Ok(_) => Err("the module is accepted".to_owned()),
        }
    }
}

/// Why a module was not added.
enum AddError {
    World(WorldError),
    Other(Failure),
}

/// Checks that a call ended with the trap of a message. Some messages name more than the kind.
fn check_trap(outcome: &Outcome, message: &str) -> Result<(), Failure> {
    match outcome {
        Outcome::Trapped { kind, .. }
            if message.starts_with(kind.message()) || is_abbreviation(message, kind.message()) =>
        {
            Ok(())
        }
        outcome => Err(format!("expected trap {message:?}, found {outcome:?}")),
    }
}

/// Returns whether a message is the start of another one: older scripts write "uninitialized" alone.
fn is_abbreviation(message: &str, whole: &str) -> bool {
    !message.is_empty() && whole.starts_with(message)
}

fn check_segment_trap(outcome: &Outcome, message: &str) -> Result<(), Failure> {
    let trap = if message.starts_with("data") {
        "out of bounds memory access"
    } else {
        "out of bounds table access"
    };
    check_trap(outcome, trap)
}
