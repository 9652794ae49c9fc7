//! An entry of a register map: a register, or an array of registers that is stored once.

use super::array::{ArrayPart, ArrayShape, fix_numbers};
use super::{Half, Layout, Register};
use crate::RegOffset;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

/// A register, or an array of registers. Members after the first are built when they are first asked for.
#[derive(Debug)]
pub(super) struct RegisterEntry {
    first: Register,
    shape: ArrayShape,
    /// The name with `{n}` for each level; the register's own name if it is no array.
    name: String,
    /// The level whose number is the index of the register's block.
    index_level: Option<usize>,
    members: OnceLock<Box<[OnceLock<Box<Register>>]>>,
}

impl RegisterEntry {
    /// Creates the entry of a single register.
    pub fn single(register: Register) -> Self {
        let name = register.name.clone();
        Self::array(register, ArrayShape::default(), name, None)
    }

    /// Creates an entry. `first` is the first member, apart from its names.
    pub fn array(first: Register, shape: ArrayShape, name: String, index_level: Option<usize>) -> Self {
        let mut entry = Self {
            first,
            shape,
            name,
            index_level,
            members: OnceLock::new(),
        };
        if entry.is_array() {
            let mut first = entry.first.clone();
            entry.set_member(&mut first, 0);
            entry.first = first;
        }
        entry
    }

    pub fn is_array(&self) -> bool {
        !self.shape.levels().is_empty()
    }

    pub fn first(&self) -> &Register {
        &self.first
    }

    pub fn shape(&self) -> &ArrayShape {
        &self.shape
    }

    /// Returns the name with `{n}` for the number of each level.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn members(&self) -> u64 {
        self.shape.members()
    }

    /// Returns the offset after the last byte of the last member.
    pub fn end(&self) -> RegOffset {
        let span = u32::try_from(self.shape.span()).unwrap_or(u32::MAX);
        self.first.end().saturating_add(span)
    }

    /// Returns the offset of a member.
    pub fn offset_of(&self, member: u64) -> RegOffset {
        let delta = u32::try_from(self.shape.offset_of(member)).unwrap_or(u32::MAX);
        self.first.offset.saturating_add(delta)
    }

    /// Returns the member that contains a byte of the window.
    pub fn member_at(&self, offset: RegOffset) -> Option<u64> {
        let byte = offset.get().checked_sub(self.first.offset.get())?;
        self.shape.member_at(byte.into(), self.first.width.into())
    }

    /// Returns the name of a member.
    pub fn name_of(&self, member: u64) -> String {
        self.shape.name_of(&self.name, member)
    }

    /// Returns a member.
    pub fn member(&self, member: u64) -> &Register {
        if member == 0 {
            return &self.first;
        }
        let made = self.members.get_or_init(|| {
            let many = usize::try_from(self.members()).unwrap_or(0);
            (0..many).map(|_| OnceLock::new()).collect()
        });
        let cell = usize::try_from(member).ok().and_then(|n| made.get(n));
        cell.map_or(&self.first, |c| c.get_or_init(|| Box::new(self.build(member))))
    }

    fn build(&self, member: u64) -> Register {
        let mut r = self.first.clone();
        self.set_member(&mut r, member);
        r
    }

    /// Changes a copy of the first member to another one.
    fn set_member(&self, r: &mut Register, member: u64) {
        let delta = self.shape.offset_of(member) as u32;
        r.name = self.name_of(member);
        r.layout.name.clone_from(&r.name);
        r.offset = self.first.offset.saturating_add(delta);
        r.pair = self.first.pair.map(|half| match half {
            Half::Low { high_offset } => Half::Low {
                high_offset: high_offset.saturating_add(delta),
            },
            Half::High { low_offset } => Half::High {
                low_offset: low_offset.saturating_add(delta),
            },
        });
        let whole = r.name.strip_suffix("_LO").or_else(|| r.name.strip_suffix("_HI"));
        if let (Some(wide), Some(name)) = (&self.first.wide, whole) {
            r.wide = Some(Arc::new(Layout {
                name: name.to_owned(),
                ..Layout::clone(wide)
            }));
        }
        // A register without a description has its name as one.
        let first = self.first.name.as_str();
        let first_whole = first.strip_suffix("_LO").or_else(|| first.strip_suffix("_HI"));
        let doc = match (first_whole, whole) {
            _ if *self.first.doc == *first => Some(r.name.as_str()),
            (Some(of_first), Some(own)) if *self.first.doc == *of_first => Some(own),
            _ => None,
        };
        if let Some(doc) = doc.map(Arc::<str>::from) {
            r.layout.doc = Arc::clone(&doc);
            r.doc = doc;
        }
        if let Some(level) = self.index_level {
            let number = self.shape.numbers_of(member).get(level).copied();
            r.index = number.and_then(|n| u8::try_from(n).ok());
        }
    }

    /// Calls `f` for each member, without keeping any.
    pub fn visit<B>(&self, mut f: impl FnMut(&Register) -> ControlFlow<B>) -> ControlFlow<B> {
        f(&self.first)?;
        if !self.is_array() {
            return ControlFlow::Continue(());
        }
        let mut r = self.first.clone();
        for member in 1..self.members() {
            self.set_member(&mut r, member);
            f(&r)?;
        }
        ControlFlow::Continue(())
    }

    /// Returns the entry of a part of the array. `change` completes its first member.
    pub fn part(&self, part: &ArrayPart, change: impl FnOnce(&mut Register)) -> Self {
        let mut first = self.build(part.first);
        change(&mut first);
        let shape = ArrayShape::new(&part.levels);
        let name = fix_numbers(&self.name, &part.levels);
        let index_level = self
            .index_level
            .filter(|at| part.levels.get(*at).is_some_and(|l| l.count > 1));
        let before = |at: usize| part.levels.iter().take(at).filter(|l| l.count > 1).count();
        Self::array(first, shape, name, index_level.map(before))
    }

    /// Returns the entry of one member alone.
    pub fn alone(&self, member: u64, change: impl FnOnce(&mut Register)) -> Self {
        let mut r = self.build(member);
        change(&mut r);
        Self::single(r)
    }
}
