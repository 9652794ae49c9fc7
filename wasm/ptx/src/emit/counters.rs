//! Counters of blocks: executions, and active lanes.

use super::function::FunctionEmitter;
use super::registers::CONTROL;
use super::text::line;
use crate::layout::Word;
use crate::program::Block;

impl FunctionEmitter<'_> {
    /// Counts the block that starts at the current instruction, if the host wants counters.
    pub fn count_block(&mut self) {
        self.count_block_at(self.offset);
    }

    /// Counts the block that starts after the current instruction, which some lanes leave with a branch.
    pub fn count_next_block(&mut self) {
        if let Some((_, next)) = self.body.operators.get(self.index + 1) {
            self.count_block_at(*next);
        }
    }

    fn count_block_at(&mut self, code_offset: u64) {
        if !self.context.options.counters || self.dead {
            return;
        }
        let index = self.shared.blocks.len() as u64;
        self.shared.blocks.push(Block {
            function: self.function,
            code_offset,
        });
        let (low, high, mask) = (self.new_word(), self.new_word(), self.new_word());
        let (first, lane, lanes) = (self.new_word(), self.new_word(), self.new_word());
        let (address, one, count) = (self.new_wide(), self.new_wide(), self.new_wide());
        let (enabled, leader) = (self.new_predicate(), self.new_predicate());
        line!(
            self.out,
            "ld.global.b32 %r{low}, [%d{CONTROL}+{}];",
            Word::CountersLow.offset().0
        );
        line!(
            self.out,
            "ld.global.b32 %r{high}, [%d{CONTROL}+{}];",
            Word::CountersHigh.offset().0
        );
        line!(self.out, "mov.b64 %d{address}, {{%r{low},%r{high}}};");
        line!(self.out, "setp.ne.s64 %p{enabled}, %d{address}, 0;");
        line!(
            self.out,
            "activemask.b32 %r{mask};\nbrev.b32 %r{first}, %r{mask};\nclz.b32 %r{first}, %r{first};"
        );
        line!(self.out, "mov.u32 %r{lane}, %laneid;");
        // The lowest active lane counts for all.
        line!(
            self.out,
            "setp.eq.and.s32 %p{leader}, %r{lane}, %r{first}, %p{enabled};"
        );
        line!(
            self.out,
            "popc.b32 %r{lanes}, %r{mask};\ncvt.u64.u32 %d{count}, %r{lanes};\nmov.b64 %d{one}, 1;"
        );
        line!(
            self.out,
            "@%p{leader} red.global.add.u64 [%d{address}+{}], %d{one};",
            index * 16
        );
        line!(
            self.out,
            "@%p{leader} red.global.add.u64 [%d{address}+{}], %d{count};",
            index * 16 + 8
        );
    }
}
