//! Kernel log messages about DMA accesses that an IOMMU blocked. VFIO itself reports nothing to a program; the kernel
//! log has one or more lines for each.

use crate::device::host::Host;
use rustix::fs::{OFlags, SeekFrom, seek};
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// Maximum size of a kernel log record, bytes.
const MAX_BYTES: usize = 8192;
/// Maximum number of records to read, and of lines to report: a faulty device fills the log.
const MAX_RECORDS: usize = 1 << 14;
const MAX_LINES: usize = 4;

/// A position in the kernel log, from which it is read.
#[derive(Debug)]
pub struct FaultLog {
    file: File,
    name: String,
}

impl FaultLog {
    /// Starts at the current end of the log, for the PCI function at an address. Returns `None` if the log cannot be
    /// read.
    pub fn from_now(host: &Host, name: &str) -> Option<Self> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(host.path("dev/kmsg"))
            .ok()?;
        seek(&file, SeekFrom::End(0)).ok()?;
        Some(Self {
            file,
            name: name.to_owned(),
        })
    }

    /// Returns the messages about the function since then, one line for each of the first few accesses.
    pub fn read_faults(&mut self) -> Vec<String> {
        let mut records = Vec::new();
        let mut record = vec![0; MAX_BYTES];
        for _ in 0..MAX_RECORDS {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(n) => records.extend(record.get(..n).map(text)),
                // Records were overwritten before they were read; the next ones follow.
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::PIPE.raw_os_error()) => {}
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let mut messages = filter_faults(&records, &self.name);
        messages.truncate(MAX_LINES);
        messages
    }
}

/// Returns the text of a record as one line. The numbers before the first semicolon and further lines are dropped.
#[must_use]
pub fn text(record: &[u8]) -> String {
    let text = String::from_utf8_lossy(record);
    let text = text.split_once(';').map_or("", |(_, text)| text);
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the records about blocked accesses of a function.
///
/// The Intel and AMD drivers name the function, with or without its domain. An Arm SMMUv3 reports an event as 64-bit
/// words, one per record. The upper half of the first is the stream number: bus, device and function on machines that
/// map them one to one. On other machines nothing is reported.
#[must_use]
pub fn filter_faults(records: &[String], name: &str) -> Vec<String> {
    let short = name.split_once(':').map_or(name, |(_, rest)| rest);
    let stream = stream(short);
    let mut event = false;
    let mut messages = Vec::new();
    for record in records {
        let of_x86 =
            (record.contains("DMAR:") && record.contains("fault addr") && record.contains(&format!("[{short}]")))
                || (record.contains("AMD-Vi:") && record.contains("IO_PAGE_FAULT") && record.contains(short));
        if of_x86 {
            messages.push(record.clone());
        } else if record.contains("arm-smmu-v3") {
            let word = record
                .rsplit_once("0x")
                .and_then(|(_, w)| u64::from_str_radix(w.trim(), 16).ok());
            if record.contains("received:") {
                event = true;
            } else if std::mem::take(&mut event)
                && let (Some(word), Some(stream)) = (word, stream)
                && word >> 32 == stream
            {
                messages.push(format!("the SMMU's event {:#x}", word & 0xff));
            }
        }
    }
    messages
}

/// Returns `00:02.0` as 16 bits.
fn stream(short: &str) -> Option<u64> {
    let (bus, rest) = short.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(number(bus)? << 8 | number(device)? << 3 | number(function)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dma_faults_of_the_function_are_found_in_the_kernel_log() {
        let lines = [
            "6,400,1;vfio-pci 0000:00:02.0: enabling device (0000 -> 0002)\n SUBSYSTEM=pci\n",
            "3,401,2;DMAR: DRHD: handling fault status reg 2\n",
            "3,402,3;DMAR: [DMA Write NO_PASID] Request device [00:02.0] fault addr 0x8000000 [fault reason 0x05] PTE \
             Write access is not set\n",
            "3,403,4;DMAR: [DMA Read NO_PASID] Request device [00:03.0] fault addr 0x8000000 [fault reason 0x06]\n",
            "3,404,5;AMD-Vi: Event logged [IO_PAGE_FAULT device=00:02.0 domain=0x0003 address=0x8000000 flags=0x0020]\n",
            "3,405,6;arm-smmu-v3 9050000.smmuv3: event 0x10 received:\n",
            "3,406,7;arm-smmu-v3 9050000.smmuv3: \t0x0000001000000010\n",
            "3,407,8;arm-smmu-v3 9050000.smmuv3: \t0x0000020000000000\n",
            "3,408,9;arm-smmu-v3 9050000.smmuv3: event 0x10 received:\n",
            "3,409,10;arm-smmu-v3 9050000.smmuv3: \t0x0000001800000010\n",
            "no record",
        ];
        let records: Vec<String> = lines.iter().map(|l| text(l.as_bytes())).collect();
        let found = filter_faults(&records, "0000:00:02.0");
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].contains("Write") && found[1].contains("AMD-Vi"), "{found:#?}");
        assert_eq!(found[2], "the SMMU's event 0x10");
        assert_eq!(filter_faults(&records, "0000:00:03.0").len(), 2);
        assert!(filter_faults(&records, "0000:01:02.0").is_empty());
    }

    #[test]
    fn dma_faults_are_reported_only_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("dev")).unwrap();
        let kmsg = folder.path().join("dev/kmsg");
        let line = |n: u32| format!("3,{n},1;DMAR: [DMA Write] Request device [00:02.0] fault addr {n:#x}\n");
        std::fs::write(&kmsg, line(1)).unwrap();
        let mut log = FaultLog::from_now(&Host::with_root(folder.path()), "0000:00:02.0").unwrap();
        assert!(log.read_faults().is_empty());
        std::fs::write(&kmsg, line(1) + &line(2)).unwrap();
        assert_eq!(
            log.read_faults(),
            ["DMAR: [DMA Write] Request device [00:02.0] fault addr 0x2"]
        );
        assert!(log.read_faults().is_empty());
        assert!(FaultLog::from_now(&Host::with_root("/nonexistent"), "0000:00:02.0").is_none());
    }
}
