//! The loop that executes the operations of a thread.

use super::{Stop, Thread, write};
use crate::arithmetic::integer::lop3;
use crate::error::FaultKind;
use crate::memory::{AddressSpace, GlobalAddress, Width};
use crate::program::{Function, Operation, Program, Special};
use crate::types::Space;
use crate::variables::function_index;

/// Where a thread goes when its frame changes.
enum Turn {
    Call(usize),
    Return,
    Exit,
}

fn illegal(address: u64) -> Stop {
    let address = GlobalAddress(address);
    (FaultKind::IllegalAddress(address), Some(address))
}

#[inline(always)]
fn read(frame: &[u64], slot: u32) -> u64 {
    frame.get(slot as usize).copied().unwrap_or(0)
}

#[inline(always)]
fn aligned_address(frame: &[u64], base: u32, offset: i64, bytes: u64) -> Result<u64, Stop> {
    let address = read(frame, base).wrapping_add_signed(offset);
    if address & bytes.wrapping_sub(1) != 0 {
        let address = GlobalAddress(address);
        return Err((FaultKind::MisalignedAddress(address), Some(address)));
    }
    Ok(address)
}

fn sign_extend(value: u64, width: Width) -> u64 {
    match width {
        Width::Byte => value as i8 as u64,
        Width::Half => value as i16 as u64,
        Width::Word => value as i32 as u64,
        Width::Double => value,
    }
}

/// Reads memory of the device, or a variable of the module.
#[inline(always)]
fn load_global(program: &Program, memory: &mut dyn AddressSpace, address: u64, width: Width) -> Option<u64> {
    let value = memory.load(GlobalAddress(address), width);
    value.or_else(|| program.variables.global.load(address, width))
}

fn load_local(local: &[u8], address: u64, width: Width) -> Option<u64> {
    let bytes = local.get(usize::try_from(address).ok()?..)?;
    Some(match width {
        Width::Byte => u64::from(*bytes.first()?),
        Width::Half => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)),
        Width::Word => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)),
        Width::Double => u64::from_le_bytes(*bytes.first_chunk()?),
    })
}

fn store_local(local: &mut [u8], address: u64, width: Width, value: u64) -> Option<()> {
    let bytes = local.get_mut(usize::try_from(address).ok()?..)?;
    let bytes = bytes.get_mut(..width.bytes() as usize)?;
    bytes.copy_from_slice(value.to_le_bytes().get(..bytes.len())?);
    Some(())
}

impl Thread<'_> {
    /// Executes operations from `at` until the entry returns. `at` is behind the faulting operation after an error.
    pub(super) fn execute(&mut self, at: &mut usize, memory: &mut dyn AddressSpace) -> Result<(), Stop> {
        let program = self.program;
        loop {
            let (turn, site) = self.execute_frame(at, memory)?;
            match turn {
                Turn::Exit => return Ok(()),
                Turn::Return => match self.leave() {
                    Some(resume) => *at = resume,
                    None => return Ok(()),
                },
                Turn::Call(function) => {
                    let Some(function) = program.functions.get(function) else {
                        return Ok(());
                    };
                    *at = self.call(function, site, *at).map_err(|kind| (kind, None))?;
                }
            }
        }
    }

    fn special(&self, special: Special) -> u64 {
        u64::from(match special {
            Special::Thread => self.thread,
            Special::Block => self.block,
            Special::BlockThreads => self.shape.threads,
            Special::Blocks => self.shape.blocks,
            Special::Lane => self.thread % 32,
            Special::ActiveMask => 1 << (self.thread % 32),
        })
    }

    /// Returns the index of the function at an address, if it has this signature and a body.
    fn indirect_callee(&self, address: u64, site: u32) -> Option<usize> {
        let index = function_index(address)?;
        let function: &Function = self.program.functions.get(index)?;
        let prototype = &self.program.sites.get(site as usize)?.prototype;
        let matches = !function.is_entry && function.start.is_some() && function.signature == *prototype;
        matches.then_some(index)
    }

    /// Executes operations until the frame changes, and returns the change with the site of a call.
    fn execute_frame(&mut self, at: &mut usize, memory: &mut dyn AddressSpace) -> Result<(Turn, usize), Stop> {
        let program = self.program;
        let (base, slots, local_base) = self.frames.last().map_or((0, 0, 0), |f| (f.base, f.slots, f.local));
        let mut stack = std::mem::take(&mut self.stack);
        let mut steps = self.steps;
        let frame = stack.get_mut(base..base + slots).unwrap_or_default();
        let mut next = *at;
        let result = loop {
            let Some(operation) = program.operations.get(next) else {
                break Ok((Turn::Exit, 0));
            };
            next += 1;
            if steps == 0 {
                break Err((FaultKind::StepLimit, None));
            }
            steps -= 1;
            match *operation {
                Operation::Constant { to, value } => write(frame, to, value),
                Operation::Copy { to, from } => write(frame, to, read(frame, from)),
                Operation::Add { to, a, b } => write(frame, to, read(frame, a).wrapping_add(read(frame, b))),
                Operation::AddConstant { to, a, b } => write(frame, to, read(frame, a).wrapping_add(b)),
                Operation::Binary { function, to, a, b } => {
                    write(frame, to, function(read(frame, a), read(frame, b)));
                }
                Operation::BinaryConstant { function, to, a, b } => write(frame, to, function(read(frame, a), b)),
                Operation::Unary { function, to, a } => write(frame, to, function(read(frame, a))),
                Operation::Ternary { function, to, a, b, c } => {
                    write(frame, to, function(read(frame, a), read(frame, b), read(frame, c)));
                }
                Operation::Branch { target } => next = target as usize,
                Operation::BranchIf { predicate, target } => {
                    if read(frame, predicate) & 1 != 0 {
                        next = target as usize;
                    }
                }
                Operation::BranchIfNot { predicate, target } => {
                    if read(frame, predicate) & 1 == 0 {
                        next = target as usize;
                    }
                }
                Operation::CompareBranch {
                    function,
                    to,
                    a,
                    b,
                    target,
                    expected,
                } => {
                    let value = function(read(frame, a), read(frame, b));
                    write(frame, to, value);
                    if (value != 0) == expected {
                        next = target as usize;
                    }
                }
                Operation::CompareConstantBranch {
                    function,
                    to,
                    a,
                    b,
                    target,
                    expected,
                } => {
                    let value = function(read(frame, a), b);
                    write(frame, to, value);
                    if (value != 0) == expected {
                        next = target as usize;
                    }
                }
                Operation::Load {
                    space,
                    width,
                    to,
                    base,
                    offset,
                } => {
                    let address = match aligned_address(frame, base, offset, width.bytes()) {
                        Ok(address) => address,
                        Err(stop) => break Err(stop),
                    };
                    let value = match space {
                        Space::Global => load_global(program, memory, address, width),
                        Space::Const => program.variables.constant.load(address, width),
                        Space::Local => load_local(&self.local, address, width),
                    };
                    let Some(value) = value else {
                        break Err(illegal(address));
                    };
                    write(frame, to, value);
                }
                Operation::LoadSigned {
                    space,
                    width,
                    to,
                    base,
                    offset,
                } => {
                    let address = match aligned_address(frame, base, offset, width.bytes()) {
                        Ok(address) => address,
                        Err(stop) => break Err(stop),
                    };
                    let value = match space {
                        Space::Global => load_global(program, memory, address, width),
                        Space::Const => program.variables.constant.load(address, width),
                        Space::Local => load_local(&self.local, address, width),
                    };
                    let Some(value) = value else {
                        break Err(illegal(address));
                    };
                    write(frame, to, sign_extend(value, width));
                }
                Operation::Store {
                    space,
                    width,
                    from,
                    base,
                    offset,
                } => {
                    let address = match aligned_address(frame, base, offset, width.bytes()) {
                        Ok(address) => address,
                        Err(stop) => break Err(stop),
                    };
                    let value = read(frame, from);
                    let done = match space {
                        Space::Global => memory.store(GlobalAddress(address), width, value),
                        Space::Const => None,
                        Space::Local => store_local(&mut self.local, address, width, value),
                    };
                    if done.is_none() {
                        break Err(illegal(address));
                    }
                }
                Operation::Select { to, a, b, predicate } => {
                    let from = if read(frame, predicate) & 1 != 0 { a } else { b };
                    write(frame, to, read(frame, from));
                }
                Operation::SelectConstant { to, a, b, predicate } => {
                    let value = if read(frame, predicate) & 1 != 0 { a } else { b };
                    write(frame, to, u64::from(value));
                }
                Operation::Extract { to, from, shift, mask } => write(frame, to, read(frame, from) >> shift & mask),
                Operation::ExtractSigned { to, from, shift, bits } => {
                    let value = read(frame, from) >> shift << (64 - bits);
                    write(frame, to, (value as i64 >> (64 - bits)) as u64);
                }
                Operation::Insert { to, from, shift, mask } => {
                    let value = read(frame, to) & !(mask << shift) | (read(frame, from) & mask) << shift;
                    write(frame, to, value);
                }
                Operation::Special { to, special } => {
                    let value = self.special(special);
                    write(frame, to, value);
                }
                Operation::LocalAddress { to, offset } => write(frame, to, local_base as u64 + u64::from(offset)),
                Operation::Division { function, to, a, b } => match function(read(frame, a), read(frame, b)) {
                    Some(value) => write(frame, to, value),
                    None => break Err((FaultKind::DivisionByZero, None)),
                },
                Operation::Quaternary { function, to, operands } => {
                    let [a, b, c, d] = operands.map(|slot| read(frame, slot));
                    let value = function(a, b, c, d);
                    write(frame, to, value);
                }
                Operation::Logic { to, a, b, c, table } => {
                    write(frame, to, lop3(read(frame, a), read(frame, b), read(frame, c), table));
                }
                Operation::CheckAlignment { bytes, base, offset } => {
                    if let Err(stop) = aligned_address(frame, base, offset, u64::from(bytes)) {
                        break Err(stop);
                    }
                }
                Operation::AtomicAdd {
                    width,
                    from,
                    base,
                    offset,
                } => {
                    let address = match aligned_address(frame, base, offset, width.bytes()) {
                        Ok(address) => address,
                        Err(stop) => break Err(stop),
                    };
                    if memory.add(GlobalAddress(address), width, read(frame, from)).is_none() {
                        break Err(illegal(address));
                    }
                }
                Operation::BranchIndexed { index, table } => {
                    let index = read(frame, index) as u32;
                    let table = program.tables.get(table as usize);
                    match table.and_then(|t| t.get(index as usize)) {
                        Some(target) => next = *target as usize,
                        None => break Err((FaultKind::BranchIndex(index), None)),
                    }
                }
                Operation::Call { site } => {
                    let callee = program.sites.get(site as usize).and_then(|s| s.function);
                    break Ok((Turn::Call(callee.unwrap_or(u32::MAX) as usize), site as usize));
                }
                Operation::CallIndirect { address, site } => {
                    let address = read(frame, address);
                    match self.indirect_callee(address, site) {
                        Some(callee) => break Ok((Turn::Call(callee), site as usize)),
                        None => {
                            let address = GlobalAddress(address);
                            break Err((FaultKind::IndirectCall(address), Some(address)));
                        }
                    }
                }
                Operation::Return => break Ok((Turn::Return, 0)),
                Operation::Exit => break Ok((Turn::Exit, 0)),
                Operation::Nothing => {}
            }
        };
        self.stack = stack;
        self.steps = steps;
        *at = next;
        result
    }
}
