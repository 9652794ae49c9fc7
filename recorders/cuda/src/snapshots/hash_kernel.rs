//! The PTX function that hashes pages on the device, word by word as `cuda_session::hash_page` does.

use cuda_session::{HASH_FIRST, HASH_PLACE, HASH_SECOND};
use std::fmt::Write as _;

/// Parameters, and the loop over the pages of a group of 32 threads. Each page is searched among the ranges.
const FIND_RANGE: &str = "\
.version 6.0
.target sm_50
.address_size 64
.visible .entry kinescope_hash(
 .param .u64 p_ranges, .param .u32 p_count, .param .u64 p_pages, .param .u64 p_out)
{
 .reg .pred %p<8>;
 .reg .b32 %r<16>;
 .reg .b64 %d<32>;
 ld.param.u64 %d0, [p_ranges];
 ld.param.u32 %r0, [p_count];
 ld.param.u64 %d1, [p_pages];
 ld.param.u64 %d2, [p_out];
 cvta.to.global.u64 %d0, %d0;
 cvta.to.global.u64 %d2, %d2;
 mov.u32 %r1, %tid.x;
 and.b32 %r2, %r1, 31;
 shr.u32 %r3, %r1, 5;
 mov.u32 %r4, %ctaid.x;
 mov.u32 %r5, %ntid.x;
 shr.u32 %r5, %r5, 5;
 mad.lo.u32 %r6, %r4, %r5, %r3;
 cvt.u64.u32 %d3, %r6;
 mov.u32 %r7, %nctaid.x;
 mul.lo.u32 %r7, %r7, %r5;
 cvt.u64.u32 %d4, %r7;
PAGE:
 setp.ge.u64 %p0, %d3, %d1;
 @%p0 bra END;
 mov.u32 %r8, 0;
 sub.u32 %r9, %r0, 1;
SEARCH:
 setp.ge.u32 %p1, %r8, %r9;
 @%p1 bra FOUND;
 add.u32 %r10, %r8, %r9;
 add.u32 %r10, %r10, 1;
 shr.u32 %r10, %r10, 1;
 mul.wide.u32 %d5, %r10, 24;
 add.u64 %d5, %d0, %d5;
 ld.global.u64 %d6, [%d5+16];
 setp.le.u64 %p2, %d6, %d3;
 @%p2 mov.u32 %r8, %r10;
 @!%p2 sub.u32 %r9, %r10, 1;
 bra SEARCH;
";

/// Computes the page's address and the first word of each thread.
const FIND_PAGE: &str = "\
FOUND:
 mul.wide.u32 %d5, %r8, 24;
 add.u64 %d5, %d0, %d5;
 ld.global.u64 %d7, [%d5];
 ld.global.u64 %d8, [%d5+8];
 ld.global.u64 %d9, [%d5+16];
 sub.u64 %d9, %d3, %d9;
 shl.b64 %d9, %d9, 12;
 and.b64 %d10, %d7, -4096;
 add.u64 %d10, %d10, %d9;
 cvt.u64.u32 %d11, %r2;
 shl.b64 %d12, %d11, 3;
 add.u64 %d13, %d10, %d12;
";

/// The start of the loop over the words of a page of which the range has only a part.
const EDGE: &str = "\
EDGE:
 mov.u32 %r11, 16;
EDGE_WORD:
 mov.u64 %d20, 0;
 setp.ge.u64 %p5, %d13, %d7;
 setp.lt.u64 %p6, %d13, %d8;
 and.pred %p5, %p5, %p6;
 @!%p5 bra EDGE_MIX;
 ld.global.u64 %d20, [%d13];
 sub.u64 %d21, %d8, %d13;
 setp.ge.u64 %p5, %d21, 8;
 @%p5 bra EDGE_MIX;
 cvt.u32.u64 %r12, %d21;
 shl.b32 %r12, %r12, 3;
 mov.u64 %d22, 1;
 shl.b64 %d22, %d22, %r12;
 sub.u64 %d22, %d22, 1;
 and.b64 %d20, %d20, %d22;
EDGE_MIX:
";

/// Stores the sums of a page, and goes on to the next one.
const STORE: &str = " setp.ne.u32 %p5, %r2, 0;
 @%p5 bra NEXT;
 shl.b64 %d20, %d3, 4;
 add.u64 %d20, %d2, %d20;
 st.global.u64 [%d20], %d15;
 st.global.u64 [%d20+8], %d16;
NEXT:
 add.u64 %d3, %d3, %d4;
 bra PAGE;
END:
 ret;
}
";

/// Returns the PTX function: 32 threads hash a page. Each thread takes every 32nd word; the sums are then added up. A
/// page that its range fills is read without checks of the range's ends.
pub(super) fn build_ptx() -> String {
    let mut t = format!("{FIND_RANGE}{FIND_PAGE}");
    write_whole_page(&mut t);
    t.push_str(EDGE);
    mix(&mut t, 20);
    t.push_str(
        " add.u64 %d13, %d13, 256;
 sub.u32 %r11, %r11, 1;
 setp.ne.u32 %p5, %r11, 0;
 @%p5 bra EDGE_WORD;
SUM:
",
    );
    write_sum(&mut t);
    t.push_str(STORE);
    t
}

/// Writes the choice between whole pages and edges, and the loop over the words of a whole page.
fn write_whole_page(t: &mut String) {
    // A write to a string cannot fail.
    let _ = write!(
        t,
        " add.u64 %d14, %d11, 1;
 mul.lo.u64 %d14, %d14, {HASH_PLACE:#x};
 mov.u64 %d15, 0;
 mov.u64 %d16, 0;
 setp.lt.u64 %p3, %d10, %d7;
 add.u64 %d17, %d10, 4096;
 setp.gt.u64 %p4, %d17, %d8;
 or.pred %p3, %p3, %p4;
 @%p3 bra EDGE;
 mov.u32 %r11, 4;
WHOLE:
"
    );
    for n in 0..4 {
        let _ = writeln!(t, " ld.global.u64 %d{}, [%d13+{}];", 20 + n, n * 256);
    }
    for n in 0..4 {
        mix(t, 20 + n);
    }
    t.push_str(
        " add.u64 %d13, %d13, 1024;
 sub.u32 %r11, %r11, 1;
 setp.ne.u32 %p5, %r11, 0;
 @%p5 bra WHOLE;
 bra SUM;
",
    );
}

/// Writes the addition of the sums of all threads.
fn write_sum(t: &mut String) {
    for distance in [16, 8, 4, 2, 1] {
        for sum in ["%d15", "%d16"] {
            let _ = write!(
                t,
                " mov.b64 {{%r12, %r13}}, {sum};
 shfl.sync.down.b32 %r12, %r12, {distance}, 31, 0xffffffff;
 shfl.sync.down.b32 %r13, %r13, {distance}, 31, 0xffffffff;
 mov.b64 %d20, {{%r12, %r13}};
 add.u64 {sum}, {sum}, %d20;
"
            );
        }
    }
}

/// Adds a word to the two sums, and advances to the next word's offset.
fn mix(t: &mut String, word: u32) {
    let [a, b] = HASH_FIRST;
    let [c, e] = HASH_SECOND;
    let step = HASH_PLACE.wrapping_mul(32);
    let _ = write!(
        t,
        " xor.b64 %d26, %d{word}, %d14;
 mul.lo.u64 %d26, %d26, {a:#x};
 shr.u64 %d27, %d26, 32;
 xor.b64 %d26, %d26, %d27;
 mul.lo.u64 %d26, %d26, {b:#x};
 shr.u64 %d27, %d26, 29;
 xor.b64 %d26, %d26, %d27;
 add.u64 %d15, %d15, %d26;
 add.u64 %d28, %d{word}, %d14;
 mul.lo.u64 %d28, %d28, {c:#x};
 shr.u64 %d29, %d28, 31;
 xor.b64 %d28, %d28, %d29;
 mul.lo.u64 %d28, %d28, {e:#x};
 shr.u64 %d29, %d28, 33;
 xor.b64 %d28, %d28, %d29;
 add.u64 %d16, %d16, %d28;
 add.u64 %d14, %d14, {step:#x};
"
    );
}
