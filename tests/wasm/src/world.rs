//! A program that grows: instances of a script's modules, in one copy.

use crate::error::MachineError;
use crate::interpreted_copy::InterpretedCopy;
use crate::machine::{Machine, Outcome, Settings};
use crate::target::CopyTarget;
use thiserror::Error;
use wasm_ptx::{InstanceId, MemoryId, ModuleRole, Options, Program, ProgramBuilder, Signature, TranslateError};

/// Why a module cannot be added.
#[derive(Debug, Error)]
pub enum WorldError {
    /// The translator refuses it.
    #[error(transparent)]
    Translate(#[from] TranslateError),
    /// The translation does not run: a defect.
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Cells for globals and tables of instances that join later.
const SPARE_CELLS: u32 = 4096;

/// A step of the construction of a program.
#[derive(Clone, Debug)]
enum Event {
    Host(String, String, Signature),
    Instance(Vec<u8>),
    Alias(InstanceId, String),
    /// A memory has grown before the next instance joins.
    Pages(MemoryId, u32),
}

/// Instances in one program and their state.
#[derive(Debug)]
pub struct World<T = InterpretedCopy> {
    events: Vec<Event>,
    instances: u32,
    options: Options,
    settings: Settings,
    /// The copy, once there is an instance.
    pub machine: Option<Machine<T>>,
    /// The device of the copy, until there is an instance.
    target: Option<T>,
}

impl World {
    /// Returns a world without instances in the interpreter.
    pub fn new(options: Options, settings: Settings) -> Self {
        let target = InterpretedCopy::new(settings.copy, settings.steps);
        Self::with_target(target, options, settings)
    }
}

impl<T: CopyTarget> World<T> {
    /// Returns a world without instances.
    pub fn with_target(target: T, mut options: Options, settings: Settings) -> Self {
        options.tables_in_area = true;
        options.spare_cells = SPARE_CELLS;
        Self {
            events: Vec::new(),
            instances: 0,
            options,
            settings,
            machine: None,
            target: Some(target),
        }
    }

    fn translate(&self, added: Option<&[u8]>) -> Result<Program, TranslateError> {
        let mut builder = ProgramBuilder::new(self.options.clone());
        for event in &self.events {
            match event {
                Event::Host(module, name, signature) => {
                    builder.define_host_function(module, name, &signature.params, &signature.results)?;
                }
                Event::Instance(bytes) => {
                    builder.add_module("module", bytes, ModuleRole::User)?;
                }
                Event::Alias(instance, name) => builder.alias(*instance, name),
                Event::Pages(memory, pages) => builder.set_known_pages(*memory, *pages)?,
            }
        }
        if let Some(bytes) = added {
            builder.add_module("module", bytes, ModuleRole::User)?;
        }
        builder.translate()
    }

    /// Notes the sizes of all memories: they count when a later module imports one.
    fn note_pages(&mut self) {
        let Some(machine) = &mut self.machine else { return };
        let memories = (0..).map(MemoryId).take(machine.program.layout.memories().len());
        let pages = memories.filter_map(|memory| Some(Event::Pages(memory, machine.pages(memory)?)));
        let pages: Vec<_> = pages.collect();
        self.events.retain(|event| !matches!(event, Event::Pages(..)));
        self.events.extend(pages);
    }

    /// Adds and instantiates a module. A module that traps during instantiation stays: others may hold its functions.
    ///
    /// # Errors
    ///
    /// Returns why the translator refuses the module; the world is then unchanged.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(InstanceId, Outcome), WorldError> {
        self.note_pages();
        let program = self.translate(Some(bytes))?;
        let id = InstanceId(self.instances);
        self.events.push(Event::Instance(bytes.to_vec()));
        self.instances += 1;
        let mut machine = match self.machine.take() {
            None => {
                let target = self.target.take();
                let target = target.ok_or(MachineError::Area("the device refused an earlier program"))?;
                Machine::with_target(target, program, self.settings)?
            }
            Some(mut machine) => {
                machine.extend(program)?;
                machine
            }
        };
        let outcome = machine.instantiate(id);
        self.machine = Some(machine);
        Ok((id, outcome?))
    }

    /// Defines a host function for modules that are added later. No instance may exist yet.
    pub fn define_host_function(&mut self, module: &str, name: &str, signature: Signature) {
        self.events
            .push(Event::Host(module.to_owned(), name.to_owned(), signature));
    }

    /// Gives an instance a name that later modules import from.
    pub fn set_alias(&mut self, instance: InstanceId, name: &str) {
        self.events.push(Event::Alias(instance, name.to_owned()));
    }
}
