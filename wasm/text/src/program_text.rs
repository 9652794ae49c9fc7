//! A printed program: lines with byte offsets, and searches between both.

use std::ops::Range;

/// Offset of a line without one.
const NO_OFFSET: u32 = u32::MAX;

/// The lines of a function that the program defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionLines {
    /// Index of its first line, `(func …`.
    pub first: u32,
    /// Index after its last line.
    pub end: u32,
}

/// The text form of a program. Lines and their offsets are in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct ProgramText {
    text: String,
    /// Start of each line in `text`.
    starts: Vec<u32>,
    /// Byte offset of each line in the program's file.
    offsets: Vec<u32>,
    functions: Vec<FunctionLines>,
    /// Lines of instructions: their offsets rise.
    code: Range<u32>,
    truncated: bool,
}

impl ProgramText {
    /// Creates a text from lines with their offsets; `text` has the lines, each with its line feed.
    pub(crate) fn new(text: String, lines: Vec<(u32, Option<u64>)>, truncated: bool) -> Self {
        let (starts, offsets): (Vec<u32>, Vec<u32>) = lines
            .into_iter()
            .map(|(start, offset)| (start, offset.and_then(|o| u32::try_from(o).ok()).unwrap_or(NO_OFFSET)))
            .unzip();
        let mut printed = Self {
            text,
            starts,
            offsets,
            functions: Vec::new(),
            code: 0..0,
            truncated,
        };
        printed.find_functions();
        printed
    }

    fn find_functions(&mut self) {
        for line in 0..self.lines() {
            let indent = self.line(line).bytes().take_while(|b| *b == b' ').count();
            if indent > 2 {
                continue;
            }
            // A line of the module ends a function: the next function, the data segments, or the last parenthesis.
            if let Some(function) = self.functions.last_mut().filter(|f| f.end > line) {
                function.end = line;
            }
            if self.line(line).starts_with("  (func ") {
                self.functions.push(FunctionLines {
                    first: line,
                    end: self.lines(),
                });
            }
        }
        let first = self.functions.first().map_or(0, |f| f.first);
        self.code = first..self.functions.last().map_or(0, |f| f.end);
        // A line without an offset, such as a last parenthesis, gets that of the line before it, for the search.
        let code = self.offsets.get_mut(self.code.start as usize..self.code.end as usize);
        let mut last = NO_OFFSET;
        for offset in code.unwrap_or_default() {
            if *offset == NO_OFFSET {
                *offset = last;
            }
            last = *offset;
        }
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn lines(&self) -> u32 {
        u32::try_from(self.starts.len()).unwrap_or(u32::MAX)
    }

    /// Returns a line without its line feed; lines after the last are empty.
    #[must_use]
    pub fn line(&self, line: u32) -> &str {
        let start = |line: usize| self.starts.get(line).map(|s| *s as usize);
        let Some(first) = start(line as usize) else { return "" };
        let end = start(line as usize + 1).unwrap_or(self.text.len());
        self.text.get(first..end).unwrap_or_default().trim_end_matches('\n')
    }

    /// Returns the whole text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether lines are missing at the end, because the text is longer than [`crate::MAX_TEXT_BYTES`].
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }

    /// Returns the byte offset of a line in the program's file, or `None` if the line has none.
    #[must_use]
    pub fn offset(&self, line: u32) -> Option<u64> {
        let offset = *self.offsets.get(line as usize)?;
        (offset != NO_OFFSET).then_some(u64::from(offset))
    }

    /// Returns the line of the instruction that contains a byte of the file, or `None` if no function does.
    #[must_use]
    pub fn find_line(&self, offset: u64) -> Option<u32> {
        let offset = u32::try_from(offset).ok()?;
        let code = self.offsets.get(self.code.start as usize..self.code.end as usize)?;
        let after = code.partition_point(|o| *o <= offset);
        let found = *code.get(after.checked_sub(1)?)?;
        let first = code.partition_point(|o| *o < found);
        let line = self.code.start.checked_add(u32::try_from(first).ok()?)?;
        self.function(line).map(|_| line)
    }

    /// Returns the functions that the program defines, in the order of the file.
    #[must_use]
    pub fn functions(&self) -> &[FunctionLines] {
        &self.functions
    }

    /// Returns the function of a line.
    #[must_use]
    pub fn function(&self, line: u32) -> Option<FunctionLines> {
        let at = self.functions.partition_point(|f| f.first <= line);
        let function = *self.functions.get(at.checked_sub(1)?)?;
        (line < function.end).then_some(function)
    }

    /// Returns the name of a function as its first line has it: `$main`, or `func[3]` if it has no name.
    #[must_use]
    pub fn function_name(&self, function: FunctionLines) -> String {
        let heading = self.line(function.first).trim_start().trim_start_matches("(func ");
        let name = match heading.strip_prefix("$\"") {
            Some(quoted) => quoted.split('"').next(),
            None => heading.strip_prefix('$').and_then(|rest| rest.split([' ', ')']).next()),
        };
        if let Some(name) = name {
            return name.to_owned();
        }
        let index = heading
            .split_once("(;")
            .and_then(|(_, rest)| rest.split_once(";)"))
            .map_or("", |(index, _)| index);
        format!("func[{index}]")
    }
}
