//! Loads and stores: bounds, alignment, and the address of a byte in a memory's region.

use super::function::FunctionEmitter;
use super::region::Guard;
use super::registers::CONTROL;
use super::text::{Source, line};
use super::value::{NanBits, Operand, Value};
use crate::access::Access;
use crate::layout::{LANES, MemoryRegion, PAGE_BYTES};
use crate::options::Placement;
use crate::program::TrapKind;
use crate::values::MemoryId;

/// Largest constant that is added to an address inside of a load.
const MAX_FOLDED: u64 = 1 << 22;

/// How the bytes of a memory are found from its base address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Scheme {
    /// Bytes of a cell, or 0 if the memory is contiguous.
    pub cell: u32,
}

impl Scheme {
    pub fn new(region: &MemoryRegion) -> Self {
        match region.placement {
            Placement::Interleaved => Self {
                cell: region.cell.bytes(),
            },
            Placement::Contiguous => Self { cell: 0 },
        }
    }

    /// Returns the largest access that stays in one cell if it is aligned.
    pub fn unit(self) -> u32 {
        if self.cell == 4 { 4 } else { 8 }
    }

    /// Returns the alignment of an access that is one instruction, or two in cells of 4 bytes.
    pub fn fast_align(self, access: &Access) -> u32 {
        access.bytes.min(self.unit())
    }

    /// Returns how far bytes at distance `bytes` are apart; `bytes` is a multiple of the cell.
    pub fn distance(self, bytes: u64) -> u64 {
        if self.cell == 0 {
            bytes
        } else {
            bytes * u64::from(LANES)
        }
    }

    /// Returns the distance from a byte at the start of a cell to the byte `offset` bytes behind it.
    pub fn constant_distance(self, offset: u32) -> u64 {
        if self.cell == 0 {
            return offset.into();
        }
        let inside = offset % self.cell;
        self.distance((offset - inside).into()) + u64::from(inside)
    }

    /// Returns the distance from a byte to the byte 4 behind it, if both are in an aligned group of 8.
    pub fn half(self) -> u64 {
        if self.cell == 4 { u64::from(4 * LANES) } else { 4 }
    }

    /// Writes `%d{target}` = address of byte `%r{address}` for an aligned access of `bytes` bytes.
    ///
    /// `scratch` is a register of 32 bits.
    pub fn write_address(self, out: &mut String, target: u32, base: u32, address: Source, bytes: u32, scratch: u32) {
        if self.cell == 0 {
            line!(out, "mad.wide.u32 %d{target}, {address}, 1, %d{base};");
            return;
        }
        line!(out, "mad.wide.u32 %d{target}, {address}, {LANES}, %d{base};");
        if bytes < self.cell {
            line!(out, "and.b32 %r{scratch}, {address}, {};", self.cell - 1);
            line!(out, "mad.wide.s32 %d{target}, %r{scratch}, -{}, %d{target};", LANES - 1);
        }
    }
}

/// Where an access is: the memory's scheme, the register with its base address, and the address in the memory.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub scheme: Scheme,
    pub base: u32,
    pub address: Source,
}

/// Writes the base address of a memory for the current lane to `%d{target}`; `lane` is a scratch register.
pub(crate) fn write_base(out: &mut String, region: &MemoryRegion, target: u32, lane: u32) {
    let step = match region.placement {
        Placement::Interleaved => u64::from(region.cell.bytes()),
        Placement::Contiguous => region.capacity(),
    };
    // The address of the control words contains 4 bytes for each lane.
    if step == 4 {
        line!(out, "add.s64 %d{target}, %d{CONTROL}, {};", region.start.0);
        return;
    }
    line!(out, "mov.u32 %r{lane}, %laneid;");
    line!(out, "add.s64 %d{target}, %d{CONTROL}, {};", region.start.0);
    if step > 4 {
        line!(out, "mad.wide.u32 %d{target}, %r{lane}, {}, %d{target};", step - 4);
    } else {
        // A contiguous memory without pages has no bytes.
        line!(out, "mad.wide.s32 %d{target}, %r{lane}, -4, %d{target};");
    }
}

impl FunctionEmitter<'_> {
    /// Computes the base addresses of the memories that the function accesses.
    pub fn load_bases(&mut self) {
        for memory in self.scan.memories.clone() {
            if self.bases.iter().any(|(known, _)| *known == memory) {
                continue;
            }
            let region = self.context.layout.memories()[memory.0 as usize];
            let base = self.new_wide();
            let lane = self.new_word();
            write_base(&mut self.out, &region, base, lane);
            self.bases.push((memory, base));
            if self.context.can_grow(memory) {
                let size = self.new_word();
                self.sizes.push((memory, size));
            }
        }
    }

    /// Loads the sizes of the memories that can grow, in pages.
    pub fn load_sizes(&mut self) {
        for (memory, pages) in &self.sizes {
            let word = self.context.layout.memories()[memory.0 as usize].pages_word.0;
            line!(self.out, "ld.global.b32 %r{pages}, [%d{CONTROL}+{word}];");
        }
    }

    pub fn base(&self, memory: MemoryId) -> u32 {
        self.bases
            .iter()
            .find(|(known, _)| *known == memory)
            .map_or(CONTROL, |(_, base)| *base)
    }

    /// Returns the register with the pages of a memory that can grow.
    fn pages(&self, memory: MemoryId) -> Option<u32> {
        self.sizes
            .iter()
            .find(|(known, _)| *known == memory)
            .map(|(_, pages)| *pages)
    }

    /// Returns the largest size that a memory can have during the run, bytes.
    fn max_bytes(&self, memory: MemoryId) -> u64 {
        let region = &self.context.layout.memories()[memory.0 as usize];
        if self.context.can_grow(memory) {
            region.capacity()
        } else {
            u64::from(region.min_pages) * PAGE_BYTES
        }
    }

    /// Writes a predicate that holds if `units << shift` is above the last address of an access.
    ///
    /// `need` is the constant offset plus the bytes of the access, at most [`Self::max_bytes`]. The start of the access
    /// is a multiple of `1 << shift`.
    fn test_bounds(&mut self, memory: MemoryId, units: Source, shift: u32, need: u64) -> u32 {
        let predicate = self.new_predicate();
        let max = self.max_bytes(memory);
        let min = u64::from(self.context.layout.memories()[memory.0 as usize].min_pages) * PAGE_BYTES;
        let mut text = String::new();
        // All numbers fit in 32 bits: a memory has at most 65535 pages.
        match self.pages(memory) {
            None => {
                let last = Source::WordConstant(((max - need) >> shift) as u32);
                line!(text, "setp.gt.u32 %p{predicate}, {units}, {last};");
            }
            Some(pages) => {
                let last = self.new_word();
                let back = need.div_ceil(1 << shift) as u32;
                line!(text, "shl.b32 %r{last}, %r{pages}, {};", 16 - shift);
                line!(text, "sub.s32 %r{last}, %r{last}, {};", Source::WordConstant(back));
                if need > min {
                    line!(
                        text,
                        "setp.lt.u32 %p{predicate}, %r{pages}, {};",
                        need.div_ceil(PAGE_BYTES)
                    );
                    line!(text, "setp.gt.or.u32 %p{predicate}, {units}, %r{last}, %p{predicate};");
                } else {
                    line!(text, "setp.gt.u32 %p{predicate}, {units}, %r{last};");
                }
            }
        }
        self.out.push_str(&text);
        predicate
    }

    /// Emits a load or a store.
    pub fn access(&mut self, access: &Access) {
        let memory = self.instance.memories[access.memory as usize];
        let before = self.stack.clone();
        let value = access.store.then(|| {
            let value = self.pop();
            let value = self.exact(value);
            self.register_source(value)
        });
        let address = self.pop();
        let need = u64::from(access.offset) + u64::from(access.bytes);
        if let Some(constant) = address.word_constant() {
            let region = &self.context.layout.memories()[memory.0 as usize];
            if u64::from(constant) + need <= u64::from(region.min_pages) * PAGE_BYTES {
                self.fixed_access(access, memory, constant + access.offset, value);
                return;
            }
        }
        let operand = address.operand;
        let address = self.register_source(address);
        if need > self.max_bytes(memory) {
            let label = self.trap_label(TrapKind::MemoryOutOfBounds);
            line!(self.out, "bra $L{label};");
            // The rest is unreachable, and must stay valid for the assembler.
            if !access.store {
                let target = self.push_new(access.ty, NanBits::Exact);
                let zero = if access.ty.is_wide() {
                    Source::WideConstant(0)
                } else {
                    Source::WordConstant(0)
                };
                self.move_to(target, zero);
            }
            return;
        }
        if self.region.is_second {
            self.any_access(access, memory, address, value);
            return;
        }
        self.tested_access(access, memory, (operand, address), value, &before);
    }

    /// Emits an access of a constant address that is always inside.
    fn fixed_access(&mut self, access: &Access, memory: MemoryId, address: u32, value: Option<Source>) {
        let region = self.context.layout.memories()[memory.0 as usize];
        let scheme = Scheme::new(&region);
        let base = self.base(memory);
        let distance = region.byte_offset(0, address).0 - region.start.0;
        let aligned = address.is_multiple_of(scheme.fast_align(access));
        if aligned && distance < MAX_FOLDED {
            self.transfer(access, scheme, base, distance, value);
            return;
        }
        let register = Source::Word(self.new_word());
        self.move_to(register, Source::WordConstant(address));
        if aligned {
            let (target, scratch) = (self.new_wide(), self.new_word());
            scheme.write_address(&mut self.out, target, base, register, access.bytes, scratch);
            self.transfer(access, scheme, target, 0, value);
            return;
        }
        let result = (!access.store).then(|| self.push_new(access.ty, NanBits::Exact));
        let mut text = std::mem::take(&mut self.out);
        self.unaligned(
            &mut text,
            access,
            Place {
                scheme,
                base,
                address: register,
            },
            value,
            result,
        );
        self.out = text;
    }

    /// Emits an access whose address is known at run time. The second copy of the region does it for rare addresses: those
    /// outside, not aligned, or near the end of the memory.
    fn tested_access(
        &mut self,
        access: &Access,
        memory: MemoryId,
        (operand, address): (Operand, Source),
        value: Option<Source>,
        before: &[Value],
    ) {
        let scheme = Scheme::new(&self.context.layout.memories()[memory.0 as usize]);
        let align = scheme.fast_align(access);
        let need = u64::from(access.offset) + u64::from(access.bytes);
        // With an offset that is no multiple, the sum may well be aligned: it is an address of its own.
        let is_sum = !access.offset.is_multiple_of(align);
        let guard = match self.find_guard(operand, memory, if is_sum { 1 } else { align }, need) {
            Some(guard) => guard,
            None => self.add_guard(access, memory, (operand, address), is_sum, before),
        };
        if let Some(base) = guard.address.filter(|_| !is_sum) {
            let distance = scheme.constant_distance(access.offset);
            if distance < MAX_FOLDED {
                self.transfer(access, scheme, base, distance, value);
                return;
            }
        }
        let base = self.base(memory);
        let folded =
            access.offset.is_multiple_of(scheme.cell.max(1)) && scheme.distance(access.offset.into()) < MAX_FOLDED;
        let sum = self.add_offset(address, access.offset, folded && !is_sum);
        if is_sum {
            let (low, predicate) = (self.new_word(), self.new_predicate());
            let label = self.second_copy(before);
            line!(self.out, "and.b32 %r{low}, {sum}, {};", align - 1);
            line!(
                self.out,
                "setp.ne.s32 %p{predicate}, %r{low}, 0;\n@%p{predicate} bra $L{label};"
            );
        }
        let (target, scratch) = (self.new_wide(), self.new_word());
        scheme.write_address(&mut self.out, target, base, sum, access.bytes, scratch);
        let rest = if folded && !is_sum {
            scheme.distance(access.offset.into())
        } else {
            0
        };
        self.transfer(access, scheme, target, rest, value);
    }

    /// Tests an address: bounds, and alignment unless the access is at an offset that is no multiple of it.
    fn add_guard(
        &mut self,
        access: &Access,
        memory: MemoryId,
        (operand, address): (Operand, Source),
        is_sum: bool,
        before: &[Value],
    ) -> Guard {
        let scheme = Scheme::new(&self.context.layout.memories()[memory.0 as usize]);
        let align = if is_sum { 1 } else { scheme.fast_align(access) };
        let need = u64::from(access.offset) + u64::from(access.bytes);
        let need = self.covered_bytes(access, need, self.max_bytes(memory));
        let shift = align.trailing_zeros();
        // Rotated to the right, an address that is not aligned is above each limit.
        let units = if shift == 0 {
            address
        } else {
            let units = Source::Word(self.new_word());
            line!(self.out, "shf.r.wrap.b32 {units}, {address}, {address}, {shift};");
            units
        };
        let leaves = self.test_bounds(memory, units, shift, need);
        let label = self.second_copy(before);
        line!(self.out, "@%p{leaves} bra $L{label};");
        let base = self.base(memory);
        let register = if align >= scheme.cell {
            let register = self.new_wide();
            if scheme.cell > 0 && align == scheme.cell {
                let step = scheme.cell * LANES;
                line!(self.out, "mad.wide.u32 %d{register}, {units}, {step}, %d{base};");
            } else {
                let scratch = self.new_word();
                scheme.write_address(&mut self.out, register, base, address, align.max(1), scratch);
            }
            Some(register)
        } else {
            None
        };
        let guard = Guard {
            operand,
            memory,
            align,
            need,
            address: register,
        };
        if !matches!(operand, Operand::Constant(_) | Operand::Predicate { .. }) {
            self.region.guards.push(guard);
        }
        guard
    }

    /// Emits an access of any address, without branches but for the trap.
    fn any_access(&mut self, access: &Access, memory: MemoryId, address: Source, value: Option<Source>) {
        let scheme = Scheme::new(&self.context.layout.memories()[memory.0 as usize]);
        let base = self.base(memory);
        let need = u64::from(access.offset) + u64::from(access.bytes);
        let outside = self.test_bounds(memory, address, 0, need);
        self.trap_if(outside, false, TrapKind::MemoryOutOfBounds);
        let sum = self.add_offset(address, access.offset, false);
        if scheme.fast_align(access) == 1 {
            let (target, scratch) = (self.new_wide(), self.new_word());
            scheme.write_address(&mut self.out, target, base, sum, access.bytes, scratch);
            self.transfer(access, scheme, target, 0, value);
            return;
        }
        let result = (!access.store).then(|| self.push_new(access.ty, NanBits::Exact));
        let mut text = std::mem::take(&mut self.out);
        let place = Place {
            scheme,
            base,
            address: sum,
        };
        self.unaligned(&mut text, access, place, value, result);
        self.out = text;
    }

    /// Returns the address plus the constant offset, unless the offset is part of the load.
    fn add_offset(&mut self, address: Source, offset: u32, folded: bool) -> Source {
        if folded || offset == 0 {
            return address;
        }
        let sum = Source::Word(self.new_word());
        line!(self.out, "add.s32 {sum}, {address}, {};", Source::WordConstant(offset));
        sum
    }

    /// Loads or stores at `%d{base}` plus `distance`, and pushes what was loaded.
    fn transfer(
        &mut self,
        access: &Access,
        scheme: Scheme,
        base: u32,
        distance: u64,
        value: Option<Source>,
    ) -> Option<Source> {
        let split = access.bytes == 8 && scheme.unit() == 4;
        if let Some(value) = value {
            if split {
                let (low, high) = self.split(value);
                line!(self.out, "st.global.b32 [%d{base}+{distance}], %r{low};");
                line!(
                    self.out,
                    "st.global.b32 [%d{base}+{}], %r{high};",
                    distance + scheme.half()
                );
            } else {
                line!(
                    self.out,
                    "st.global.b{} [%d{base}+{distance}], {value};",
                    access.bytes * 8
                );
            }
            return None;
        }
        let target = self.push_new(access.ty, NanBits::Exact);
        if split {
            let (low, high) = (self.new_word(), self.new_word());
            line!(self.out, "ld.global.b32 %r{low}, [%d{base}+{distance}];");
            line!(
                self.out,
                "ld.global.b32 %r{high}, [%d{base}+{}];",
                distance + scheme.half()
            );
            line!(self.out, "mov.b64 {target}, {{%r{low},%r{high}}};");
        } else {
            let form = match (access.bytes, access.ty.is_wide(), access.signed) {
                (4, false, _) => "b32",
                (8, ..) => "b64",
                (1, _, true) => "s8",
                (1, _, false) => "u8",
                (2, _, true) => "s16",
                (2, _, false) => "u16",
                (_, _, true) => "s32",
                (_, _, false) => "u32",
            };
            line!(self.out, "ld.global.{form} {target}, [%d{base}+{distance}];");
        }
        Some(target)
    }
}
