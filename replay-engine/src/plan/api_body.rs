//! Calls as the bytes of an API-trace plan, and back. `docs/plan.md` has the format.

use bytemuck::{Pod, Zeroable};
use trace_core::recording::{CallEvent, EventKind, NO_CONTENT};

/// A call with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct CallWithData {
    /// Event of the recording.
    pub event: u64,
    /// Thread that made it.
    pub thread: u32,
    /// The row. Its positions of arguments or contents have no meaning here.
    pub call: CallEvent,
    /// Bytes of the arguments, of a launch or another call.
    pub arguments: Vec<u8>,
    /// Numbers of the page images with a copy's contents, 0 for the page of zeros; or `None` without contents.
    pub pages: Option<Vec<u32>>,
}

/// The error for bytes that are not calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of the body: {what}")]
pub struct CallsError {
    /// Byte offset.
    pub at: u64,
    /// What is wrong.
    pub what: String,
}

/// Adds a call to a body.
pub fn push(body: &mut Vec<u8>, c: &CallWithData) {
    body.extend_from_slice(&c.event.to_le_bytes());
    body.extend_from_slice(&c.thread.to_le_bytes());
    let row: (EventKind, &[u8]) = match &c.call {
        CallEvent::Launch(r) => (EventKind::Launch, bytemuck::bytes_of(r)),
        CallEvent::Copy(r) => (EventKind::Copy, bytemuck::bytes_of(r)),
        CallEvent::Fill(r) => (EventKind::Fill, bytemuck::bytes_of(r)),
        CallEvent::Order(r) => (EventKind::Order, bytemuck::bytes_of(r)),
        CallEvent::Allocation(r) => (EventKind::Allocation, bytemuck::bytes_of(r)),
        CallEvent::Call(r) => (EventKind::Call, bytemuck::bytes_of(r)),
    };
    body.push(row.0 as u8);
    body.extend_from_slice(row.1);
    match &c.call {
        CallEvent::Launch(_) | CallEvent::Call(_) => {
            // The row has the length of these arguments.
            body.extend_from_slice(&c.arguments);
        }
        CallEvent::Copy(_) => {
            body.push(u8::from(c.pages.is_some()));
            for page in c.pages.iter().flatten() {
                body.extend_from_slice(&page.to_le_bytes());
            }
        }
        _ => {}
    }
}

/// An iterator over the calls of a body.
#[derive(Clone, Debug)]
pub struct CallReader<'a> {
    body: &'a [u8],
    at: usize,
    images: u64,
    ended: bool,
}

impl<'a> CallReader<'a> {
    /// Iterates over the calls of a body whose plan has this many page images.
    #[must_use]
    pub fn new(body: &'a [u8], images: usize) -> Self {
        Self {
            body,
            at: 0,
            images: images as u64,
            ended: false,
        }
    }

    fn wrong<T>(&self, what: impl Into<String>) -> Result<T, CallsError> {
        Err(CallsError {
            at: self.at as u64,
            what: what.into(),
        })
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], CallsError> {
        let end = self.at.checked_add(bytes);
        match end.and_then(|end| self.body.get(self.at..end)) {
            Some(taken) => {
                self.at += bytes;
                Ok(taken)
            }
            None => self.wrong(format!(
                "{bytes} bytes are expected, {} are left",
                self.body.len().saturating_sub(self.at)
            )),
        }
    }

    fn row<T: Pod + Zeroable>(&mut self) -> Result<T, CallsError> {
        Ok(bytemuck::pod_read_unaligned(self.take(size_of::<T>())?))
    }

    fn one(&mut self) -> Result<CallWithData, CallsError> {
        let event = self.row::<u64>()?;
        let thread = self.row::<u32>()?;
        let kind = self.row::<u8>()?;
        let call = match EventKind::from_raw(kind) {
            Some(EventKind::Launch) => CallEvent::Launch(self.row()?),
            Some(EventKind::Copy) => CallEvent::Copy(self.row()?),
            Some(EventKind::Fill) => CallEvent::Fill(self.row()?),
            Some(EventKind::Order) => CallEvent::Order(self.row()?),
            Some(EventKind::Allocation) => CallEvent::Allocation(self.row()?),
            Some(EventKind::Call) => CallEvent::Call(self.row()?),
            _ => return self.wrong(format!("{kind} is not a kind of call")),
        };
        let mut carried = CallWithData {
            event,
            thread,
            call,
            arguments: Vec::new(),
            pages: None,
        };
        match call {
            CallEvent::Launch(r) => carried.arguments = self.take(r.arguments as usize)?.to_vec(),
            CallEvent::Call(r) => carried.arguments = self.take(r.arguments as usize)?.to_vec(),
            CallEvent::Copy(r) if self.row::<u8>()? != 0 => {
                let Some(count) = r.pages().and_then(|n| usize::try_from(n).ok()) else {
                    return self.wrong("a copy of too many bytes");
                };
                let Some(bytes) = count.checked_mul(4) else {
                    return self.wrong("a copy of too many bytes");
                };
                let (words, _) = self.take(bytes)?.as_chunks::<4>();
                let pages: Vec<u32> = words.iter().map(|w| u32::from_le_bytes(*w)).collect();
                if let Some(odd) = pages.iter().find(|p| u64::from(**p) > self.images) {
                    return self.wrong(format!(
                        "page image {odd} of a copy is not among the plan's {}",
                        self.images
                    ));
                }
                carried.pages = Some(pages);
            }
            _ => {}
        }
        Ok(carried)
    }
}

impl Iterator for CallReader<'_> {
    type Item = Result<CallWithData, CallsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.at >= self.body.len() {
            return None;
        }
        let one = self.one();
        self.ended = one.is_err();
        Some(one)
    }
}

/// Returns the call without contents: the position of its contents says that there are none.
#[must_use]
pub fn without_content(call: CallEvent) -> CallEvent {
    match call {
        CallEvent::Launch(mut r) => {
            r.arguments_at = 0;
            CallEvent::Launch(r)
        }
        CallEvent::Copy(mut r) => {
            r.pages_at = NO_CONTENT;
            CallEvent::Copy(r)
        }
        CallEvent::Call(mut r) => {
            r.arguments_at = 0;
            CallEvent::Call(r)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_core::recording::{CopyKind, CopyRow, LaunchRow, OrderRow};

    fn some() -> Vec<CallWithData> {
        let launch = LaunchRow {
            arguments: 3,
            function: 1,
            ..Default::default()
        };
        let copy = CopyRow {
            to: 0x1000_0ff0,
            bytes: 100,
            rows: 1,
            kind: CopyKind::HostToDevice as u32,
            pages_at: NO_CONTENT,
            ..Default::default()
        };
        let carried = |event, call, arguments: &[u8], pages| CallWithData {
            event,
            thread: 7,
            call,
            arguments: arguments.to_vec(),
            pages,
        };
        vec![
            carried(4, CallEvent::Launch(launch), &[1, 2, 3], None),
            carried(5, CallEvent::Copy(copy), &[], Some(vec![2, 0])),
            carried(9, CallEvent::Copy(copy), &[], None),
            carried(10, CallEvent::Order(OrderRow::default()), &[], None),
        ]
    }

    #[test]
    fn plan_calls_round_trip() {
        let mut body = Vec::new();
        some().iter().for_each(|c| push(&mut body, c));
        let back: Result<Vec<_>, _> = CallReader::new(&body, 2).collect();
        assert_eq!(back.unwrap(), some());
    }

    #[test]
    fn corrupt_plan_body_is_reported_with_its_offset() {
        let mut body = Vec::new();
        some().iter().for_each(|c| push(&mut body, c));
        let mut ends = 0;
        for cut in 0..body.len() {
            let read: Vec<_> = CallReader::new(&body[..cut], 2).collect();
            match read.last() {
                None | Some(Ok(_)) => ends += 1,
                Some(Err(e)) => assert!(e.at <= cut as u64, "{e}"),
            }
            assert!(read.iter().rev().skip(1).all(Result::is_ok));
        }
        // A truncated body is valid only between calls.
        assert_eq!(ends, some().len());
        let e = CallReader::new(&body, 1).find_map(Result::err).unwrap();
        assert!(e.what.contains("page image 2"), "{e}");
        let mut other = body.clone();
        other[12] = 77;
        let e = CallReader::new(&other, 2).next().unwrap().unwrap_err();
        assert_eq!((e.at, e.what.as_str()), (13, "77 is not a kind of call"));
        // A copy with more bytes than the body must not allocate memory.
        let huge = CopyRow {
            bytes: 1 << 50,
            rows: 1,
            kind: CopyKind::HostToDevice as u32,
            ..Default::default()
        };
        let mut body = Vec::new();
        push(
            &mut body,
            &CallWithData {
                event: 0,
                thread: 0,
                call: CallEvent::Copy(huge),
                arguments: Vec::new(),
                pages: Some(Vec::new()),
            },
        );
        assert!(CallReader::new(&body, 2).next().unwrap().is_err());
    }
}
