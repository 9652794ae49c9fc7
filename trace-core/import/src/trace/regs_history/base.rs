//! The address of the register window in a history: the history has kernel virtual addresses, but not the mapped base.

use std::collections::BTreeMap;
use trace_core::RegOffset;
use trace_core::registers::RegisterMap;

/// Maximum size of a Mali register window, bytes: GPUs with a command stream frontend have doorbells in it.
pub(super) const MAX_BYTES: u64 = 4 << 20;
/// Size of the register window of a Mali with a job manager, bytes.
pub(super) const MIN_BYTES: u64 = 0x4000;
/// A window is mapped in whole pages.
const PAGE: u64 = 0x1000;
/// Maximum number of pages between the start of the window and the first accessed page.
const MAX_BEFORE: u64 = 16;
/// First major architecture of Malis with a command stream front end.
const FIRST_CSF_ARCHITECTURE: u32 = 10;
/// Offset of the GPU id, in every Mali.
const GPU_ID: u32 = 0;

/// A register access of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) address: u64,
    pub(super) value: u32,
    pub(super) write: bool,
}

/// The base of the registers, and how it was determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) address: u64,
    /// The reason for the assumed base, if the history does not give it.
    pub(super) assumed: Option<String>,
}

/// Whether accesses at these offsets belong to a GPU with a command stream front end: its id says so, or they reach
/// beyond the registers of a job manager, such as to its doorbells.
pub(super) fn has_command_streams(gpu_id: Option<u32>, reach: u64) -> bool {
    match gpu_id.filter(|id| *id != 0) {
        Some(id) => id >> 28 >= FIRST_CSF_ARCHITECTURE,
        None => reach >= MIN_BYTES,
    }
}

/// How well a base fits: whether the id of a known GPU is read there, and the number of accesses that known registers
/// allow.
type Fit = (bool, u64);

fn fit(counts: &BTreeMap<(u64, bool), u64>, ids: &[(u64, u32)], map: &RegisterMap, base: u64) -> Fit {
    let known = |address: u64, write: bool| {
        let offset = address.checked_sub(base).and_then(|o| u32::try_from(o).ok());
        let register = offset.and_then(|o| map.at(RegOffset::new(o)));
        register.is_some_and(|r| !write || r.access.is_writable())
    };
    let id = ids
        .iter()
        .any(|(at, value)| *at == base + u64::from(GPU_ID) && trace_core::registers::gpu_name(*value).is_some());
    let all = counts.iter().filter(|((at, write), _)| known(*at, *write));
    (id, all.map(|(_, n)| n).sum())
}

/// Finds the base of the registers.
///
/// # Errors
///
/// The reason why there is none, as text for users.
pub(super) fn find(entries: &[Entry]) -> Result<Base, String> {
    let range = entries
        .iter()
        .map(|e| (e.address, e.address))
        .reduce(|(low, high), (at, _)| (low.min(at), high.max(at)));
    let Some((low, high)) = range else {
        return Err("it has no access".to_owned());
    };
    if entries.len() > 1 && low == high && low % PAGE == 0 {
        return Err(format!(
            "all of its {} accesses have the address {low:#x}: the kernel hid the addresses (read the history as root, \
             with 0 in /proc/sys/kernel/kptr_restrict)",
            entries.len()
        ));
    }
    if high - low >= MAX_BYTES || entries.iter().any(|e| e.address % 4 != 0) {
        return Err(format!(
            "its addresses, {low:#x} to {high:#x}, do not fit one register window: kernels from 4.15 on print a hash \
             instead of an address (boot with no_hash_pointers); --base ADDRESS selects the accesses from that address \
             on"
        ));
    }
    // No kernel maps a device at the bottom of its address space.
    if high < MAX_BYTES {
        let message = "the addresses of the history are so low that they are read as register offsets";
        return Ok(Base {
            address: 0,
            assumed: Some(message.to_owned()),
        });
    }
    let mut counts = BTreeMap::new();
    let mut ids = Vec::new();
    for e in entries {
        *counts.entry((e.address, e.write)).or_insert(0u64) += 1;
        if !e.write && e.address % PAGE == 0 && ids.len() < entries.len().min(1 << 16) {
            ids.push((e.address, e.value));
        }
    }
    let first = low & !(PAGE - 1);
    let bases = (0..=MAX_BEFORE).filter_map(|n| first.checked_sub(n * PAGE));
    let bases = bases.filter(|b| high - b < MAX_BYTES);
    // An access far from the first page is none of a job manager.
    let known_ids = ids
        .iter()
        .map(|(_, id)| *id)
        .find(|id| trace_core::registers::gpu_name(*id).is_some());
    let has_streams = has_command_streams(known_ids, high - first);
    let (map, kind) = match has_streams {
        true => (RegisterMap::by_name("mali-csf"), "command stream front end"),
        false => (RegisterMap::by_name("mali-jm"), "job manager"),
    };
    let fits: Vec<(u64, Fit)> = bases
        .map(|b| (b, map.map_or((false, 0), |m| fit(&counts, &ids, m, b))))
        .collect();
    let best = fits.iter().map(|(_, f)| *f).max().unwrap_or((false, 0));
    // Of equally good bases the highest: its first page is in the history.
    let base = fits.iter().find(|(_, f)| *f == best).map_or(first, |(b, _)| *b);
    let others: Vec<String> = fits
        .iter()
        .filter(|(b, f)| *f == best && *b != base)
        .map(|(b, _)| format!("{b:#x}"))
        .collect();
    let (id, known) = best;
    let why = match id {
        true => ", where the id of a known GPU is read",
        false => "",
    };
    let mut message = format!(
        "the history holds kernel addresses; the registers are assumed to begin at {base:#x}{why}: then {known} of {} \
         accesses are to registers of a Mali with a {kind}",
        entries.len()
    );
    if !others.is_empty() {
        message += &format!("; {} are equally possible", others.join(", "));
    }
    message += "; --base ADDRESS sets another base";
    Ok(Base {
        address: base,
        assumed: Some(message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(values: &[(u64, u32)]) -> Vec<Entry> {
        let entry = |(address, value): &(u64, u32)| Entry {
            address: *address,
            value: *value,
            write: false,
        };
        values.iter().map(entry).collect()
    }

    #[test]
    fn base_address_makes_most_accesses_known_registers() {
        const AT: u64 = 0xffff_ff80_08a8_0000;
        // The accesses are to the id of a Mali-G71 and to the raw status of the jobs.
        let found = find(&entries(&[(AT, 0x6000_0000), (AT + 0x1000, 0)])).unwrap();
        assert_eq!(found.address, AT);
        assert!(found.assumed.unwrap().contains("2 of 2 accesses"));
        // The accesses are to a job slot and an address space, and none is to the page before them.
        let found = find(&entries(&[(AT + 0x1880, 0), (AT + 0x2400, 0), (AT + 0x2428, 0)])).unwrap();
        assert_eq!(found.address, AT);
    }

    #[test]
    fn equally_plausible_register_bases_are_reported() {
        const AT: u64 = 0xffff_ff80_08a8_0000;
        // The pages of jobs and of the MMU both have these registers: raw status and mask.
        let found = find(&entries(&[(AT + 0x1000, 0), (AT + 0x1008, 0)])).unwrap();
        let message = found.assumed.unwrap();
        let others = [AT, AT - 0x1000].into_iter().filter(|b| *b != found.address);
        assert!(
            others.into_iter().any(|b| message.contains(&format!("{b:#x}"))),
            "{message}"
        );
        assert!(message.contains("are equally possible"), "{message}");
    }

    #[test]
    fn addresses_without_a_register_base_are_refused_with_a_reason() {
        for (values, message) in [
            (&[(0u64, 1u32), (0, 2)][..], "hid the addresses"),
            (&[(0x1234_5678, 0), (0xfedc_ba90, 0)][..], "hash"),
            (&[(0xffff_ff80_08a8_0002, 0)][..], "hash"),
            (&[][..], "no access"),
        ] {
            let error = find(&entries(values)).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
        assert_eq!(find(&entries(&[(0x1000, 0), (0x2000, 1)])).unwrap().address, 0);
        assert_eq!(find(&entries(&[(u64::MAX - 3, 0)])).unwrap().address, u64::MAX - 0xfff);
    }
}
