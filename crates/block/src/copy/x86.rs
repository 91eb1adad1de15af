//! Copies in x86-64 assembly.
//!
//! The last step of each copy overlaps the one before, so no length needs a byte loop; a byte that
//! is copied twice is still one that the caller wrote.

use core::arch::asm;
use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch, _mm_sfence};
use std::sync::atomic::{AtomicU8, Ordering};

use super::{EARLY_LINES, LINE};

/// Length from which on `rep movsb` and `rep stosb` beat loops on CPUs with ERMS: 16 KiB in the L1
/// cache take 160 instead of 195 ns.
const STRING_BYTES: usize = 8192;

/// CPU features, as bits. None until [`find_features`] is called.
static FEATURES: AtomicU8 = AtomicU8::new(0);
/// AVX: registers of 32 bytes.
const WIDE: u8 = 1;
/// Fast `rep movsb`.
const STRING: u8 = 2;
/// AVX-512: registers of 64 bytes. A cold copy of 512 bytes takes 52 instead of 64 ns.
const WIDEST: u8 = 4;

/// The standard library's check would cost 0.5 ns of the 5 that a copy of 512 bytes takes.
#[inline(always)]
fn has(feature: u8) -> bool {
    FEATURES.load(Ordering::Relaxed) & feature != 0
}

fn find_features() {
    let wide = if is_x86_feature_detected!("avx") { WIDE } else { 0 };
    let string = if is_x86_feature_detected!("ermsb") { STRING } else { 0 };
    let widest = if is_x86_feature_detected!("avx512f") { WIDEST } else { 0 };
    FEATURES.store(wide | string | widest, Ordering::Relaxed);
}

/// Copies `len` bytes.
///
/// # Safety
/// `from` is valid for reads and `to` for writes of `len` bytes, and they do not overlap.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise, and the lengths that each asks for.
    unsafe {
        if len <= 2 * LINE {
            copy_short(from, to, len);
        } else if len >= STRING_BYTES && suits_string(from, to) {
            copy_string(from, to, len);
        } else if has(WIDEST) {
            copy_widest(from, to, len);
        } else if has(WIDE) {
            copy_wide(from, to, len);
        } else {
            copy_narrow(from, to, len, from);
        }
    }
}

/// Copies `len` bytes; beyond the early lines it prefetches the lines of `next` meanwhile.
///
/// # Safety
/// Same as for [`copy`]; `next` may be any address.
#[inline]
pub(crate) unsafe fn copy_ahead(from: *const u8, to: *mut u8, len: usize, next: *const u8) {
    // SAFETY: the caller's promise, and the lengths that each asks for.
    unsafe {
        if len <= EARLY_LINES * LINE {
            copy(from, to, len);
        } else if has(WIDEST) {
            copy_widest_ahead(from, to, len, next);
        } else if has(WIDE) {
            copy_wide_ahead(from, to, len, next);
        } else {
            copy_narrow(from, to, len, next);
        }
    }
}

/// Copies with non-temporal stores, except for the lines at both ends, which may be shared. Other
/// cores see the stores after [`end_stream`].
///
/// # Safety
/// Same as for [`copy_ahead`].
#[inline]
pub(crate) unsafe fn copy_past_cache(from: *const u8, to: *mut u8, len: usize, next: *const u8) {
    let mut at = to.align_offset(LINE).min(len);
    // SAFETY: at <= len, and the caller's promise.
    unsafe { copy_short(from, to, at) }
    while at + LINE <= len {
        if at > EARLY_LINES * LINE {
            prefetch(next.wrapping_add(at));
        }
        // SAFETY: at + LINE <= len, the caller's promise for `len` bytes, and `to` + `at` is at the
        // beginning of a line.
        unsafe { stream_line(from.add(at), to.add(at)) };
        at += LINE;
    }
    // SAFETY: at <= len, and the caller's promise.
    unsafe { copy_short(from.add(at), to.add(at), len - at) }
}

/// Makes `len` bytes zero.
///
/// # Safety
/// `to` is valid for writes of `len` bytes.
#[inline]
pub(crate) unsafe fn zero(to: *mut u8, len: usize) {
    // SAFETY: the caller's promise, and the lengths that each asks for.
    unsafe {
        if (LINE..STRING_BYTES).contains(&len) && has(WIDE) {
            zero_wide(to, len);
        } else {
            asm!("rep stosb", inout("rcx") len => _, inout("rdi") to => _, in("al") 0_u8,
                options(nostack, preserves_flags));
        }
    }
}

/// Orders non-temporal stores before all later stores.
#[inline]
pub(crate) fn end_stream() {
    // SAFETY: a fence has no conditions; every x86-64 has SSE.
    unsafe { _mm_sfence() }
}

/// Prefetches a line.
#[inline]
pub(crate) fn prefetch(line: *const u8) {
    // SAFETY: a prefetch is a hint: it never faults, whatever the address. Into the L2 cache: it
    // has more fill buffers than L1, which alone would be the limit (512 B: 32 ns a copy instead of
    // 71 ns, 4 KiB: 278 ns instead of 350 ns).
    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
}

/// Whether `rep movsb` is fast: not for different offsets in a line, which some CPUs copy byte by
/// byte, 25 times as slowly.
#[inline]
fn suits_string(from: *const u8, to: *mut u8) -> bool {
    (to.addr() ^ from.addr()).is_multiple_of(LINE) && has(STRING)
}

/// # Safety
/// Same as for [`copy`].
#[inline(always)]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; the direction is forward, as everywhere in Rust.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags));
    }
}

/// A function that copies with wide registers, `step` bytes at a time, with optional instructions
/// in the loop and at the end.
macro_rules! wide {
    (
        $name:ident($($next:ident)?), $step:literal, $([$register:literal $place:literal])*,
        beside [$($beside:literal)?], end [$($end:literal)?], uses [$($used:tt)*]
    ) => {
        /// # Safety
        /// Same as for [`copy`]; `len` is more than two lines, and the processor has the registers.
        #[inline(always)]
        unsafe fn $name(from: *const u8, to: *mut u8, len: usize, $($next: *const u8)?) {
            // SAFETY: the caller's promise; `at` goes up to `end`, a step before `len`.
            unsafe {
                asm!(
                    "2:",
                    $($beside,)?
                    $(concat!("vmovups ", $register, ", [{from} + {at} + ", $place, "]"),)*
                    $(concat!("vmovups [{to} + {at} + ", $place, "], ", $register),)*
                    concat!("sub {at}, -", $step),
                    "cmp {at}, {end}",
                    "jb 2b",
                    $(concat!("vmovups ", $register, ", [{from} + {end} + ", $place, "]"),)*
                    $(concat!("vmovups [{to} + {end} + ", $place, "], ", $register),)*
                    $($end,)?
                    from = in(reg) from,
                    to = in(reg) to,
                    end = in(reg) len - $step,
                    at = inout(reg) 0_usize => _,
                    $($next = in(reg) $next,)?
                    $(out($used) _,)*
                    options(nostack),
                );
            }
        }
    };
    // 32 bytes. All registers are used, because the final vzeroupper clears their upper halves.
    (32: $name:ident($($next:ident)?), $step:literal, $([$register:literal $place:literal])*,
        $($beside:literal)?
    ) => {
        wide!($name($($next)?), $step, $([$register $place])*, beside [$($beside)?],
            end ["vzeroupper"], uses ["xmm0" "xmm1" "xmm2" "xmm3" "xmm4" "xmm5" "xmm6" "xmm7"
                "xmm8" "xmm9" "xmm10" "xmm11" "xmm12" "xmm13" "xmm14" "xmm15"]);
    };
    // 64 bytes. The upper 16 of the 32 registers need no clearing.
    (64: $name:ident($($next:ident)?), $step:literal, $([$register:literal $place:literal])*,
        $($beside:literal)?
    ) => {
        wide!($name($($next)?), $step, $([$register $place])*, beside [$($beside)?],
            end [], uses ["xmm16" "xmm17"]);
    };
}

wide!(32: copy_wide(), 128, ["ymm0" "0"] ["ymm1" "32"] ["ymm2" "64"] ["ymm3" "96"],);
wide!(32: copy_wide_ahead(next), 64, ["ymm0" "0"] ["ymm1" "32"], "prefetcht1 [{next} + {at}]");
wide!(64: copy_widest(), 128, ["zmm16" "0"] ["zmm17" "64"],);
wide!(64: copy_widest_ahead(next), 64, ["zmm16" "0"], "prefetcht1 [{next} + {at}]");

/// # Safety
/// Same as for [`zero`]; `len` is at least a line, and the processor has AVX.
#[inline(always)]
unsafe fn zero_wide(to: *mut u8, len: usize) {
    // SAFETY: as in the copies: `at` goes up to `end`, which is a line before `len`.
    unsafe {
        asm!(
            "vxorps xmm0, xmm0, xmm0",
            "test {end}, {end}",
            "jz 3f",
            "2:",
            "vmovups [{to} + {at}], ymm0",
            "vmovups [{to} + {at} + 32], ymm0",
            "add {at}, 64",
            "cmp {at}, {end}",
            "jb 2b",
            "3:",
            "vmovups [{to} + {end}], ymm0",
            "vmovups [{to} + {end} + 32], ymm0",
            to = in(reg) to,
            end = in(reg) len - LINE,
            at = inout(reg) 0_usize => _,
            // The upper half of this register is zero, so nothing has to be cleared.
            out("xmm0") _,
            options(nostack),
        );
    }
}

/// Copies line by line with SSE, and prefetches the lines of `next` meanwhile. The first call
/// detects what else the CPU has.
///
/// # Safety
/// Same as for [`copy_ahead`]; `len` is at least a line.
#[cold]
#[inline(never)]
unsafe fn copy_narrow(from: *const u8, to: *mut u8, len: usize, next: *const u8) {
    find_features();
    let end = len - LINE;
    // SAFETY: every step is at most at `end`, and the caller's promise.
    unsafe {
        for at in (0..end).step_by(LINE) {
            prefetch(next.wrapping_add(at));
            copy_line(from.add(at), to.add(at));
        }
        copy_line(from.add(end), to.add(end));
    }
}

/// Copies the first and the last line.
///
/// # Safety
/// Same as for [`copy`]; `len` is one or two lines, or something between.
#[inline(always)]
unsafe fn copy_two_lines(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups {e}, [{from} + {last}]",
            "movups {f}, [{from} + {last} + 16]",
            "movups {g}, [{from} + {last} + 32]",
            "movups {h}, [{from} + {last} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            "movups [{to} + {last}], {e}",
            "movups [{to} + {last} + 16], {f}",
            "movups [{to} + {last} + 32], {g}",
            "movups [{to} + {last} + 48], {h}",
            from = in(reg) from,
            to = in(reg) to,
            last = in(reg) len - LINE,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            e = out(xmm_reg) _,
            f = out(xmm_reg) _,
            g = out(xmm_reg) _,
            h = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
/// Same as for [`copy`] with a length of one line.
#[inline(always)]
unsafe fn copy_line(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies one line with non-temporal stores.
///
/// # Safety
/// Same as for [`copy_line`]; `to` is a multiple of 64.
#[inline(always)]
unsafe fn stream_line(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movntps [{to}], {a}",
            "movntps [{to} + 16], {b}",
            "movntps [{to} + 32], {c}",
            "movntps [{to} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// A function that copies from the length of a register to twice that.
macro_rules! pair {
    ($name:ident, $load:literal, $store:literal, $register:ident, $bytes:literal) => {
        /// # Safety
        /// Same as for [`copy`]; the length is that of the register, or up to twice that.
        #[inline(always)]
        unsafe fn $name(from: *const u8, to: *mut u8, len: usize) {
            let last = len - $bytes;
            // SAFETY: the caller's promise.
            unsafe {
                asm!($load, $store, from = in(reg) from, to = in(reg) to, last = in(reg) last,
                    a = out($register) _, b = out($register) _,
                    options(nostack, preserves_flags));
            }
        }
    };
}

pair!(
    copy_16,
    "movups {a}, [{from}]\nmovups {b}, [{from} + {last}]",
    "movups [{to}], {a}\nmovups [{to} + {last}], {b}",
    xmm_reg,
    16
);
pair!(
    copy_8,
    "mov {a}, [{from}]\nmov {b}, [{from} + {last}]",
    "mov [{to}], {a}\nmov [{to} + {last}], {b}",
    reg,
    8
);
pair!(
    copy_4,
    "mov {a:e}, [{from}]\nmov {b:e}, [{from} + {last}]",
    "mov [{to}], {a:e}\nmov [{to} + {last}], {b:e}",
    reg,
    4
);
pair!(
    copy_2,
    "mov {a:x}, [{from}]\nmov {b:x}, [{from} + {last}]",
    "mov [{to}], {a:x}\nmov [{to} + {last}], {b:x}",
    reg,
    2
);

/// Copies up to two lines.
///
/// # Safety
/// Same as for [`copy`].
#[inline(always)]
unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise, and the lengths that each asks for.
    unsafe {
        match len {
            65.. => copy_two_lines(from, to, len),
            LINE => copy_line(from, to),
            32..64 => {
                copy_16(from, to, 32);
                copy_16(from.add(len - 32), to.add(len - 32), 32);
            }
            16..32 => copy_16(from, to, len),
            8..16 => copy_8(from, to, len),
            4..8 => copy_4(from, to, len),
            2..4 => copy_2(from, to, len),
            1 => asm!("mov {a}, [{from}]", "mov [{to}], {a}", from = in(reg) from,
                to = in(reg) to, a = out(reg_byte) _, options(nostack, preserves_flags)),
            0 => {}
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn ways_that_this_processor_would_not_choose_copy_too() {
        let pattern: Vec<u8> = (0..9000).map(|i| ((i * 31) >> 3) as u8).collect();
        for len in [64, 65, 127, 128, 129, 200, 512, 4097, 8192] {
            let ways: [unsafe fn(_, _, _, _); 4] = [copy_narrow, no_next, wide, wide_ahead];
            let wide_too = len > 2 * LINE && has(WIDE);
            let ways = &ways[..if wide_too { 4 } else { 2 }];
            for (number, way) in ways.iter().enumerate() {
                let (from, mut to) = (&pattern[number + 5..][..len], vec![0xee; len + 2]);
                // SAFETY: both are that long; a hint may be any address.
                unsafe { way(from.as_ptr(), to[1..].as_mut_ptr(), len, std::ptr::null()) };
                assert!(to[0] == 0xee && to[len + 1] == 0xee && to[1..=len] == *from, "{len}");
            }
        }
    }

    unsafe fn no_next(from: *const u8, to: *mut u8, len: usize, _: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { copy_string(from, to, len) }
    }

    unsafe fn wide(from: *const u8, to: *mut u8, len: usize, _: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { copy_wide(from, to, len) }
    }

    unsafe fn wide_ahead(from: *const u8, to: *mut u8, len: usize, next: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { copy_wide_ahead(from, to, len, next) }
    }
}
