//! The commands of a submission as items of a list: methods, words that belong together, launches, copies, uploads.

use super::{DriverData, ObjectText};
use crate::api_trace;
use crate::text;
use trace_core::GpuVa;
use trace_core::api_trace::ApiTrace;
use trace_core::driver_trace::{DecodedMethod, DriverTrace, GpuWork, Submission, SubmittedLaunch};
use trace_core::families::find_family;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;

/// Number of neighbours of one method from which they are one item.
const MIN_RUN: usize = 3;
/// Number of words of data in a line.
pub(super) const WORDS_PER_LINE: usize = 4;

/// Name of the line of a launch with its function.
pub const KERNEL: &str = "kernel";
/// Name of the line of a launch with the call that made it.
pub const CALL: &str = "call";
/// Name of the line of a launch with the address of its code.
pub const PROGRAM: &str = "program";

/// A buffer that an address points into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointedBuffer {
    /// The address.
    pub va: GpuVa,
    /// Index of the buffer in [`DriverTrace::objects`] and the offset in it; `None` if no buffer is known there.
    pub buffer: Option<(u32, u64)>,
}

/// A line below an item.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineDetail {
    /// Name of the value.
    pub key: String,
    /// The value.
    pub value: String,
    /// The buffer that it points into.
    pub target: Option<PointedBuffer>,
}

/// An item of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PushItem {
    /// A method, with the address that it completes.
    Method(DecodedMethod, Option<PointedBuffer>),
    /// Neighbours that write the same method, or elements of one array of methods.
    Words {
        /// The first of them.
        first: DecodedMethod,
        /// Name in the list.
        name: String,
        /// Their values.
        values: Vec<u32>,
    },
    /// A launch, with its lines.
    Launch {
        /// Offset of its method in words.
        word: u32,
        /// `launch vadd, grid 4,1,1, block 256,1,1`.
        title: String,
        /// Its lines.
        details: Vec<LineDetail>,
        /// Address of the first instruction.
        program: GpuVa,
        /// Class of the compute engine, if known.
        class: Option<u16>,
        /// The function, an index into the list of the API trace, if it is certain.
        function: Option<u32>,
        /// Event of the call, if the recording holds it.
        call: Option<u64>,
    },
    /// An upload, with the words that it writes.
    Upload {
        /// Offset of its method in words.
        word: u32,
        /// Number of bytes.
        bytes: u64,
        /// Where they go.
        to: PointedBuffer,
        /// The words as far as they follow in this submission.
        values: Vec<u32>,
    },
    /// A copy or a fill.
    Copy {
        /// Offset of its method in words.
        word: u32,
        /// Number of bytes.
        bytes: u64,
        /// Source; `None` for a fill.
        from: Option<PointedBuffer>,
        /// Destination.
        to: PointedBuffer,
    },
    /// Other work, described in words, with the address that it names.
    Other {
        /// Offset of its method in words.
        word: u32,
        /// The description.
        text: String,
        /// The address.
        target: Option<PointedBuffer>,
        /// Whether it is an error.
        is_error: bool,
    },
}

impl PushItem {
    /// Whether it is work of the GPU, not a method.
    #[must_use]
    pub fn is_work(&self) -> bool {
        !matches!(self, Self::Method(..) | Self::Words { .. })
    }

    /// Returns the number of lines below it.
    #[must_use]
    pub fn line_count(&self) -> usize {
        match self {
            Self::Launch { details, .. } => details.len(),
            Self::Words { values, .. } | Self::Upload { values, .. } => values.len().div_ceil(WORDS_PER_LINE),
            Self::Method(..) | Self::Copy { .. } | Self::Other { .. } => 0,
        }
    }

    /// Returns a line below it, by its number.
    #[must_use]
    pub fn line(&self, n: usize) -> Option<LineDetail> {
        match self {
            Self::Launch { details, .. } => details.get(n).cloned(),
            Self::Words { values, .. } | Self::Upload { values, .. } => {
                let first = n.checked_mul(WORDS_PER_LINE)?;
                let words = values.get(first..)?;
                let words = words.get(..WORDS_PER_LINE.min(words.len()))?;
                Some(LineDetail {
                    key: format!("+{:#x}", first.checked_mul(4)?),
                    value: format_words(words),
                    target: None,
                })
            }
            Self::Method(..) | Self::Copy { .. } | Self::Other { .. } => None,
        }
    }
}

/// Formats words as bytes in memory order, with their characters.
fn format_words(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut text = String::new();
    for (n, b) in bytes.iter().enumerate() {
        let gap = if n > 0 && n % 4 == 0 { "  " } else { " " };
        text.push_str(if n == 0 { "" } else { gap });
        text.push_str(&format!("{b:02x}"));
    }
    let shown = bytes.iter().map(|b| match b {
        0x20..0x7f => char::from(*b),
        _ => '.',
    });
    let width = WORDS_PER_LINE * 13 - 2;
    format!("{text:<width$}  {}", shown.collect::<String>())
}

/// The commands of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushListing {
    /// The submission.
    pub submission: Submission,
    /// The items, in order.
    pub items: Vec<PushItem>,
    /// Number of methods, with those that [`PushItem::Words`] and [`PushItem::Upload`] hold.
    pub methods: usize,
    /// Number of launches.
    pub launches: usize,
    /// Why the decoder stopped before the end, or why it read nothing.
    pub error: Option<String>,
}

/// Decodes a submission. Reads the earlier submissions of its channel too, because they set the state of the channel.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
pub fn read_push_buffer(
    recording: &Recording,
    data: &DriverData,
    api_trace: Option<&ApiTrace>,
    submission: &Submission,
    progress: &Progress,
) -> Result<PushListing, Cancelled> {
    let trace = &*data.trace;
    let empty = |error: &str| PushListing {
        submission: *submission,
        items: Vec::new(),
        methods: 0,
        launches: 0,
        error: Some(error.to_owned()),
    };
    let Some(mut decoder) = find_family(recording).submission_decoder(recording, trace) else {
        return Ok(empty("the program cannot decode the commands of this GPU"));
    };
    let earlier = trace.submissions().iter().take(submission.index as usize);
    progress.set_total(u64::from(submission.index) + 1);
    for s in earlier {
        if s.channel == submission.channel {
            let _ = decoder.decode_work(s);
        }
        progress.advance(1)?;
    }
    let decoded = decoder.decode(submission);
    progress.check()?;
    let builder = ListBuilder {
        recording,
        data,
        api_trace,
        submission,
    };
    let methods = decoded.methods.len();
    let launches = decoded.work.iter().filter(|w| matches!(w, GpuWork::Launch(_)));
    let launches = launches.count();
    Ok(PushListing {
        submission: *submission,
        items: builder.build(decoded.methods, decoded.work),
        methods,
        launches,
        error: decoded.error,
    })
}

/// What the items of a submission are made with.
struct ListBuilder<'a> {
    recording: &'a Recording,
    data: &'a DriverData,
    api_trace: Option<&'a ApiTrace>,
    submission: &'a Submission,
}

impl ListBuilder<'_> {
    fn build(&self, methods: Vec<DecodedMethod>, work: Vec<GpuWork>) -> Vec<PushItem> {
        let mut items = Vec::new();
        // Work is found when its last method is read; the list shows it after the method that starts it.
        let mut work = work;
        work.sort_by_key(GpuWork::word);
        let mut work = work.into_iter().peekable();
        let mut methods = methods.into_iter().peekable();
        let mut before: Option<DecodedMethod> = None;
        while let Some(method) = methods.next() {
            let (word, class) = (method.word, method.class);
            let mut run = vec![method.value];
            while let Some(next) = methods.next_if(|n| {
                let started = work.peek().is_some_and(|w| w.word() < n.word);
                !started && is_same_array(&method, n)
            }) {
                run.push(next.value);
            }
            let target = before.as_ref().and_then(|b| find_address(b, &method));
            let target = target.or_else(|| find_shifted_address(&method));
            before = Some(method.clone());
            self.push_methods(&mut items, method, run, target);
            let last = methods.peek().map_or(u32::MAX, |m| m.word);
            while let Some(w) = work.next_if(|w| w.word() < last || w.word() <= word) {
                items.push(self.to_item(w, class));
            }
        }
        items.extend(work.map(|w| self.to_item(w, None)));
        items
    }

    fn push_methods(&self, items: &mut Vec<PushItem>, method: DecodedMethod, run: Vec<u32>, at: Option<GpuVa>) {
        let is_data = method.name.as_deref() == Some("LOAD_INLINE_DATA");
        if let Some(PushItem::Upload { values, bytes, .. }) = items.last_mut().filter(|_| is_data)
            && values.is_empty()
            && run.len() as u64 == bytes.div_ceil(4)
        {
            *values = run;
            return;
        }
        if run.len() < MIN_RUN {
            let mut at = at;
            for (n, value) in (0u32..).zip(run) {
                let method = DecodedMethod {
                    value,
                    word: method.word.saturating_add(n),
                    ..method.clone()
                };
                items.push(PushItem::Method(method, at.take().map(|va| self.point(va))));
            }
            return;
        }
        let name = method
            .name
            .as_deref()
            .map_or_else(|| format!("method {:#06x}", method.method), |n| base_name(n).to_owned());
        items.push(PushItem::Words {
            name,
            first: method,
            values: run,
        });
    }

    fn point(&self, va: GpuVa) -> PointedBuffer {
        let found = self.data.trace.find_buffer(va, self.submission.event);
        PointedBuffer {
            va,
            buffer: found.and_then(|(n, offset)| Some((u32::try_from(n).ok()?, offset))),
        }
    }

    fn to_item(&self, work: GpuWork, class: Option<u16>) -> PushItem {
        let other = |word, text: String, va: Option<GpuVa>| PushItem::Other {
            word,
            text,
            target: va.map(|va| self.point(va)),
            is_error: false,
        };
        match work {
            GpuWork::Launch(launch) => self.to_launch(&launch, class),
            GpuWork::Copy {
                word, from, to, bytes, ..
            } => PushItem::Copy {
                word,
                bytes,
                from: from.map(|va| self.point(va)),
                to: self.point(to),
            },
            GpuWork::Upload { word, to, bytes } => PushItem::Upload {
                word,
                bytes,
                to: self.point(to),
                values: Vec::new(),
            },
            GpuWork::Semaphore {
                word,
                waits,
                va,
                payload,
                operation,
            } => {
                let kind = if waits { "wait for semaphore" } else { "semaphore" };
                other(word, format!("{kind}: {operation} {payload:#x}"), Some(va))
            }
            GpuWork::Order { word, descriptor, kind } => {
                other(word, format!("{kind}, which only orders others"), Some(descriptor))
            }
            GpuWork::Unreadable { word, reason } => PushItem::Other {
                word,
                text: format!("launch that cannot be read: {reason}"),
                target: None,
                is_error: true,
            },
        }
    }

    fn to_launch(&self, launch: &SubmittedLaunch, class: Option<u16>) -> PushItem {
        let three = |d: [u32; 3]| format!("{},{},{}", d[0], d[1], d[2]);
        let kernel = self.data.kernels.kernel_of(self.submission.index, launch.word);
        let function = self.api_trace.zip(kernel);
        let name = function.map(|(a, kernel)| api_trace::short_function_name(a.function_name(kernel.function)));
        let call = kernel
            .and_then(|k| k.event)
            .or_else(|| self.data.call_of(self.submission));
        let mut details = Vec::new();
        let mut add = |key: &str, value: String, va: Option<GpuVa>| {
            let target = va.map(|va| self.point(va));
            let key = key.to_owned();
            details.push(LineDetail { key, value, target });
        };
        if let Some(name) = name {
            add(KERNEL, name.to_owned(), None);
        }
        if let Some(event) = call {
            let call = self.api_trace.map(|a| api_trace::name_call(a, self.recording, event));
            let call = call.unwrap_or_default();
            add(CALL, format!("{call}, event {}", text::count(event)), None);
        }
        for p in &launch.parameters {
            let va = p.buffer.is_some().then(|| GpuVa::new(p.value));
            let value = match p.buffer {
                Some(_) => format!("{:#x}", p.value),
                None => format!("{:#x} ({})", p.value, text::count(p.value)),
            };
            add(&format!("parameter +{:#x}", p.offset), value, va);
        }
        if launch.parameters.is_empty() {
            add("parameters", "not in the recording".to_owned(), None);
        }
        add(PROGRAM, launch.program.to_string(), Some(launch.program));
        // Grid and block stand in the title.
        if let Some(cluster) = launch.cluster {
            add("cluster", three(cluster), None);
        }
        add("shared", format!("{} of a block", text::bytes(launch.shared)), None);
        add("local", format!("{} of a thread", text::bytes(launch.local)), None);
        add("registers", format!("{} of a thread", launch.registers), None);
        if launch.barriers > 0 {
            add("barriers", launch.barriers.to_string(), None);
        }
        add("descriptor", launch.descriptor.to_string(), Some(launch.descriptor));
        for b in &launch.banks {
            let value = format!("{}, {}", b.va, text::bytes(b.bytes));
            add(&format!("bank {}", b.index), value, Some(b.va));
        }
        for r in &launch.releases {
            let how = r.reduction.map_or_else(|| "release".to_owned(), |r| r.to_owned());
            add("at the end", format!("{how} {:#x} at {}", r.payload, r.va), Some(r.va));
        }
        let function = kernel.map(|k| k.function);
        let name = name.map_or_else(String::new, |name| format!(" {name},"));
        PushItem::Launch {
            word: launch.word,
            title: format!(
                "launch{name} grid {}, block {}",
                three(launch.grid),
                three(launch.block)
            ),
            details,
            program: launch.program,
            class,
            function,
            call,
        }
    }
}

impl PointedBuffer {
    /// Names the buffer: `buffer 0x5c000098 + 0x1000`. Returns `None` if no buffer is known at the address.
    #[must_use]
    pub fn describe(&self, recording: &Recording, trace: &DriverTrace) -> Option<String> {
        let (object, offset) = self.buffer?;
        let name = ObjectText::new(recording, trace, object as usize)?.name();
        Some(match offset {
            0 => name,
            _ => format!("{name} + {offset:#x}"),
        })
    }
}

/// Returns the name of a method without the number of its element.
fn base_name(name: &str) -> &str {
    name.split_once('(').map_or(name, |(base, _)| base)
}

/// Whether two methods are one, or elements of one array.
fn is_same_array(a: &DecodedMethod, b: &DecodedMethod) -> bool {
    let same_name = || match (&a.name, &b.name) {
        (Some(a), Some(b)) => base_name(a) == base_name(b) && a.contains('('),
        _ => false,
    };
    a.subchannel == b.subchannel && a.class == b.class && (a.method == b.method || same_name())
}

/// Returns the address that two neighbours hold: its upper word and its lower word, in either order.
fn find_address(first: &DecodedMethod, second: &DecodedMethod) -> Option<GpuVa> {
    if first.subchannel != second.subchannel || first.class != second.class {
        return None;
    }
    let (a, b) = (first.name.as_deref()?, second.name.as_deref()?);
    let join = |upper: u32, lower: u32| GpuVa::new(u64::from(upper) << 32 | u64::from(lower));
    let has_field = |m: &DecodedMethod, end: &str| m.fields.iter().any(|f| f.0.ends_with(end));
    let upper_first = match a.strip_suffix("_UPPER") {
        Some(stem) => b.strip_suffix("_LOWER").unwrap_or(b) == stem,
        None => {
            let stems = a.strip_suffix("_A").zip(b.strip_suffix("_B"));
            stems.is_some_and(|(a, b)| a == b) && has_field(first, "UPPER") && has_field(second, "LOWER")
        }
    };
    if upper_first {
        return Some(join(first.value & 0x1ff_ffff, second.value));
    }
    let stems = a.strip_suffix("_LO").zip(b.strip_suffix("_HI"));
    let is_address = stems.is_some_and(|(a, b)| a == b && a.ends_with("ADDR"));
    is_address.then(|| join(second.value & 0x1ff_ffff, first.value & !3))
}

/// Returns the address that a method holds without its lower bits.
fn find_shifted_address(method: &DecodedMethod) -> Option<GpuVa> {
    let has_address = method.fields.iter().any(|f| f.0.ends_with("ADDRESS_SHIFTED8"));
    has_address.then(|| GpuVa::new(u64::from(method.value) << 8))
}
