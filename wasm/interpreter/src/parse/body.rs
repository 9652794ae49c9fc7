//! Body of a function: declarations, labels, statements.

use super::signature::{self, NamedSignature};
use super::{MAX_SLOTS, MAX_VARIABLE_BYTES, Parser, number};
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::{Place, Token};
use crate::program::{Operation, Signature, Slot};
use crate::types::Type;
use std::collections::HashMap;

/// Maximum number of nested blocks.
const MAX_NESTING: usize = 256;

/// What a name in a function stands for.
#[derive(Clone, Copy, Debug)]
pub enum Symbol {
    Register {
        slot: Slot,
        t: Type,
    },
    /// A variable in the parameter space: its first slot and its size in bytes.
    Parameter {
        slot: Slot,
        bytes: u32,
    },
    /// A local array.
    Local {
        offset: u32,
    },
}

/// Registers with a common prefix, such as `%r<10>`.
#[derive(Clone, Copy, Debug)]
struct RegisterRange {
    slot: Slot,
    count: u32,
    t: Type,
}

/// Names of a block.
#[derive(Default)]
struct Scope<'a> {
    symbols: HashMap<&'a str, Symbol>,
    ranges: HashMap<&'a str, RegisterRange>,
}

/// Use of a label whose target is set at the end of the function.
struct LabelUse<'a> {
    operation: usize,
    label: &'a str,
    place: Place,
}

/// List of targets of `brx.idx`.
struct TargetList<'a> {
    name: &'a str,
    labels: Vec<(&'a str, Place)>,
    /// Index of the table in the program.
    table: usize,
}

/// Parser of a body.
pub struct Body<'p, 'a> {
    pub parser: &'p mut Parser<'a>,
    scopes: Vec<Scope<'a>>,
    labels: HashMap<&'a str, u32>,
    label_uses: Vec<LabelUse<'a>>,
    target_lists: Vec<TargetList<'a>>,
    /// Uses of lists of targets: operation, name, place.
    list_uses: Vec<LabelUse<'a>>,
    prototypes: HashMap<&'a str, Signature>,
    /// Next free slot.
    slots: Slot,
    local_bytes: u32,
    /// Slots for operands that are no registers, reused by each statement.
    temporaries: Vec<Slot>,
    used_temporaries: usize,
    /// Operation of the last statement, if it is a comparison that a branch can join.
    comparison: Option<usize>,
    line: u32,
}

impl<'p, 'a> Body<'p, 'a> {
    /// Returns a parser of a body, with the names of the parameters.
    pub fn new(parser: &'p mut Parser<'a>, named: &NamedSignature<'a>) -> Result<Self, ParseError> {
        let (results, parameters, slots) = named.signature().first_slots();
        let mut body = Self {
            parser,
            scopes: vec![Scope::default()],
            labels: HashMap::new(),
            label_uses: Vec::new(),
            target_lists: Vec::new(),
            list_uses: Vec::new(),
            prototypes: HashMap::new(),
            slots,
            local_bytes: 0,
            temporaries: Vec::new(),
            used_temporaries: 0,
            comparison: None,
            line: 0,
        };
        let formals = named.results.iter().zip(results);
        for (formal, slot) in formals.chain(named.parameters.iter().zip(parameters)) {
            let symbol = if formal.formal.in_memory {
                Symbol::Parameter {
                    slot,
                    bytes: formal.formal.bytes,
                }
            } else {
                Symbol::Register {
                    slot,
                    t: formal.element,
                }
            };
            body.add_symbol(formal.name, formal.place, symbol)?;
        }
        Ok(body)
    }

    /// Returns the number of slots and bytes of local arrays of a frame.
    pub fn frame(&self) -> (u32, u32) {
        (self.slots, self.local_bytes)
    }

    /// Parses statements up to the end of the body, and sets the targets of branches.
    pub fn parse(&mut self) -> Result<(), ParseError> {
        while !self.scopes.is_empty() {
            self.statement()?;
        }
        self.emit(Operation::Return)?;
        self.resolve_labels()
    }

    fn statement(&mut self) -> Result<(), ParseError> {
        let place = self.parser.lexer.place();
        self.line = place.line;
        self.used_temporaries = 0;
        match self.parser.lexer.next()? {
            Token::Punctuation(b'{') => {
                if self.scopes.len() >= MAX_NESTING {
                    return Err(place.error(ParseErrorKind::Limit("nested blocks")));
                }
                self.scopes.push(Scope::default());
                Ok(())
            }
            Token::Punctuation(b'}') => {
                self.scopes.pop();
                Ok(())
            }
            Token::Punctuation(b';') => Ok(()),
            Token::Punctuation(b'@') => self.guarded(),
            Token::Word(word) if word.starts_with('.') => self.declaration(word, place),
            Token::Word(word) if self.parser.lexer.take(b':')? => self.label(word, place),
            Token::Word(word) => self.instruction(word, place, None),
            token => Err(place.error(ParseErrorKind::Unexpected {
                expected: "a statement",
                found: token.describe(),
            })),
        }
    }

    fn guarded(&mut self) -> Result<(), ParseError> {
        let expected = !self.parser.lexer.take(b'!')?;
        let place = self.parser.lexer.place();
        let name = self.parser.lexer.word("a predicate")?;
        let predicate = self.register(name, place)?;
        let Symbol::Register { slot, t: Type::Pred } = predicate else {
            return Err(place.error(ParseErrorKind::TypeMismatch {
                operand: name.to_owned(),
            }));
        };
        let place = self.parser.lexer.place();
        let word = self.parser.lexer.word("an instruction")?;
        self.instruction(word, place, Some((slot, expected)))
    }

    fn declaration(&mut self, word: &'a str, place: Place) -> Result<(), ParseError> {
        match word {
            ".reg" => self.registers()?,
            ".param" => loop {
                let array = signature::parse_array(&mut self.parser.lexer)?;
                let formal = signature::parameter_of(&array)?;
                let slot = self.reserve(formal.slots(), array.place)?;
                let bytes = formal.bytes;
                self.add_symbol(array.name, array.place, Symbol::Parameter { slot, bytes })?;
                if !self.parser.lexer.take(b',')? {
                    break;
                }
            },
            ".local" => {
                let array = signature::parse_array(&mut self.parser.lexer)?;
                let count = array.count.unwrap_or(0);
                let bytes = count.saturating_mul(u64::from(array.element.bytes()));
                let offset = u64::from(self.local_bytes.next_multiple_of(array.alignment));
                let end = offset.saturating_add(bytes);
                if end > MAX_VARIABLE_BYTES || array.alignment > 16 {
                    return Err(array.place.error(ParseErrorKind::Limit("bytes of local arrays")));
                }
                self.local_bytes = end as u32;
                let offset = offset as u32;
                self.add_symbol(array.name, array.place, Symbol::Local { offset })?;
            }
            ".pragma" => {
                self.parser.lexer.next()?;
            }
            _ => return Err(place.error(ParseErrorKind::UnknownDirective(word.to_owned()))),
        }
        self.parser.lexer.expect(b';', ";")
    }

    fn registers(&mut self) -> Result<(), ParseError> {
        let place = self.parser.lexer.place();
        let word = self.parser.lexer.word("a type")?;
        let t = word.strip_prefix('.').and_then(Type::parse);
        let t = t.ok_or_else(|| place.error(ParseErrorKind::UnknownDirective(word.to_owned())))?;
        loop {
            let place = self.parser.lexer.place();
            let name = self.parser.lexer.word("the name of a register")?;
            if self.parser.lexer.take(b'<')? {
                let here = self.parser.lexer.place();
                let word = self.parser.lexer.word("a number of registers")?;
                let count = number::parse_u32(word);
                let count = count.ok_or_else(|| here.error(ParseErrorKind::NumberOutOfRange(word.to_owned())))?;
                self.parser.lexer.expect(b'>', ">")?;
                let slot = self.reserve(count, here)?;
                let range = RegisterRange { slot, count, t };
                let scope = self.scopes.last_mut();
                if scope.is_none_or(|s| s.ranges.insert(name, range).is_some()) {
                    return Err(place.error(ParseErrorKind::DuplicateName(name.to_owned())));
                }
            } else {
                let slot = self.reserve(1, place)?;
                self.add_symbol(name, place, Symbol::Register { slot, t })?;
            }
            if !self.parser.lexer.take(b',')? {
                return Ok(());
            }
        }
    }

    fn label(&mut self, name: &'a str, place: Place) -> Result<(), ParseError> {
        match self.parser.lexer.peek() {
            Token::Word(".branchtargets") => {
                self.parser.lexer.next()?;
                self.target_list(name)
            }
            Token::Word(".callprototype") => {
                self.parser.lexer.next()?;
                self.prototype(name)
            }
            _ => {
                self.comparison = None;
                let position = self.parser.position(place)?;
                if self.labels.insert(name, position).is_some() {
                    return Err(place.error(ParseErrorKind::DuplicateName(name.to_owned())));
                }
                Ok(())
            }
        }
    }

    fn target_list(&mut self, name: &'a str) -> Result<(), ParseError> {
        let mut labels = Vec::new();
        loop {
            let place = self.parser.lexer.place();
            labels.push((self.parser.lexer.word("a label")?, place));
            if !self.parser.lexer.take(b',')? {
                break;
            }
        }
        self.parser.lexer.expect(b';', ";")?;
        let table = self.parser.program.tables.len();
        self.parser.program.tables.push(Vec::new());
        self.target_lists.push(TargetList { name, labels, table });
        Ok(())
    }

    fn prototype(&mut self, name: &'a str) -> Result<(), ParseError> {
        let lexer = &mut self.parser.lexer;
        let parenthesis = Token::Punctuation(b'(');
        let results = if lexer.peek() == parenthesis {
            signature::parse_formals(lexer)?
        } else {
            Vec::new()
        };
        lexer.word("_")?;
        let parameters = if lexer.peek() == parenthesis {
            signature::parse_formals(lexer)?
        } else {
            Vec::new()
        };
        lexer.expect(b';', ";")?;
        let signature = NamedSignature { results, parameters }.signature();
        self.prototypes.insert(name, signature);
        Ok(())
    }

    pub fn find_prototype(&self, name: &str, place: Place) -> Result<Signature, ParseError> {
        let found = self.prototypes.get(name).cloned();
        found.ok_or_else(|| place.error(ParseErrorKind::UnknownName(name.to_owned())))
    }

    fn reserve(&mut self, count: u32, place: Place) -> Result<Slot, ParseError> {
        let first = self.slots;
        let next = first.checked_add(count).filter(|n| *n <= MAX_SLOTS);
        self.slots = next.ok_or_else(|| place.error(ParseErrorKind::Limit("registers")))?;
        Ok(first)
    }

    fn add_symbol(&mut self, name: &'a str, place: Place, symbol: Symbol) -> Result<(), ParseError> {
        let scope = self.scopes.last_mut();
        if scope.is_none_or(|s| s.symbols.insert(name, symbol).is_some()) {
            return Err(place.error(ParseErrorKind::DuplicateName(name.to_owned())));
        }
        Ok(())
    }

    /// Returns what a name stands for, or `None` if the function does not declare it.
    pub fn find_symbol(&self, name: &str) -> Option<Symbol> {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = name.get(prefix.len()..).unwrap_or("");
        // `%r01` is no register of `%r<10>`.
        let is_canonical = digits == "0" || !digits.starts_with('0');
        let index = digits.parse::<u32>().ok().filter(|_| is_canonical);
        self.scopes.iter().rev().find_map(|scope| {
            let range = index.and_then(|n| scope.ranges.get(prefix).filter(|r| n < r.count).map(|r| (n, r)));
            let register = range.map(|(n, range)| Symbol::Register {
                slot: range.slot + n,
                t: range.t,
            });
            register.or_else(|| scope.symbols.get(name).copied())
        })
    }

    /// Returns a register by its name.
    pub fn register(&self, name: &str, place: Place) -> Result<Symbol, ParseError> {
        let symbol = self.find_symbol(name);
        symbol.ok_or_else(|| place.error(ParseErrorKind::UnknownName(name.to_owned())))
    }

    /// Adds an operation.
    pub fn emit(&mut self, operation: Operation) -> Result<(), ParseError> {
        let place = Place {
            line: self.line,
            column: 1,
        };
        self.parser.position(place)?;
        self.comparison = None;
        self.parser.program.operations.push(operation);
        self.parser.program.lines.push(self.line);
        Ok(())
    }

    /// Adds a comparison that a branch behind it may join.
    pub fn emit_comparison(&mut self, operation: Operation) -> Result<(), ParseError> {
        self.emit(operation)?;
        self.comparison = self.parser.program.operations.len().checked_sub(1);
        Ok(())
    }

    /// Returns a slot for a value that no register holds.
    pub fn temporary(&mut self, place: Place) -> Result<Slot, ParseError> {
        if let Some(slot) = self.temporaries.get(self.used_temporaries) {
            self.used_temporaries += 1;
            return Ok(*slot);
        }
        let slot = self.reserve(1, place)?;
        self.temporaries.push(slot);
        self.used_temporaries += 1;
        Ok(slot)
    }

    /// Adds a branch to a label, with a guard if there is one.
    pub fn branch(&mut self, label: &'a str, place: Place, guard: Option<(Slot, bool)>) -> Result<(), ParseError> {
        let joined = guard.and_then(|(predicate, expected)| self.join_comparison(predicate, expected));
        let operation = match (joined, guard) {
            (Some((index, operation)), _) => {
                self.label_uses.push(LabelUse {
                    operation: index,
                    label,
                    place,
                });
                if let Some(to) = self.parser.program.operations.get_mut(index) {
                    *to = operation;
                }
                self.comparison = None;
                return Ok(());
            }
            (None, Some((predicate, true))) => Operation::BranchIf { predicate, target: 0 },
            (None, Some((predicate, false))) => Operation::BranchIfNot { predicate, target: 0 },
            (None, None) => Operation::Branch { target: 0 },
        };
        self.emit(operation)?;
        self.label_uses.push(LabelUse {
            operation: self.parser.program.operations.len() - 1,
            label,
            place,
        });
        Ok(())
    }

    /// Returns the last comparison joined with a branch on its predicate.
    fn join_comparison(&self, predicate: Slot, expected: bool) -> Option<(usize, Operation)> {
        let index = self.comparison?;
        let target = 0;
        let joined = match *self.parser.program.operations.get(index)? {
            Operation::Binary { function, to, a, b } if to == predicate => Operation::CompareBranch {
                function,
                to,
                a,
                b,
                target,
                expected,
            },
            Operation::BinaryConstant { function, to, a, b } if to == predicate => Operation::CompareConstantBranch {
                function,
                to,
                a,
                b,
                target,
                expected,
            },
            _ => return None,
        };
        Some((index, joined))
    }

    /// Adds a branch over the operations of a guarded instruction, and returns its index.
    pub fn begin_guard(&mut self, (predicate, expected): (Slot, bool)) -> Result<usize, ParseError> {
        self.emit(if expected {
            Operation::BranchIfNot { predicate, target: 0 }
        } else {
            Operation::BranchIf { predicate, target: 0 }
        })?;
        Ok(self.parser.program.operations.len() - 1)
    }

    /// Sets the target of the branch of a guard to the next operation.
    pub fn end_guard(&mut self, branch: usize, place: Place) -> Result<(), ParseError> {
        let next = self.parser.position(place)?;
        self.comparison = None;
        self.set_target(branch, next);
        Ok(())
    }

    /// Adds a branch through a list of targets.
    pub fn branch_indexed(&mut self, index: Slot, list: &'a str, place: Place) -> Result<(), ParseError> {
        self.emit(Operation::BranchIndexed { index, table: 0 })?;
        self.list_uses.push(LabelUse {
            operation: self.parser.program.operations.len() - 1,
            label: list,
            place,
        });
        Ok(())
    }

    fn set_target(&mut self, operation: usize, position: u32) {
        match self.parser.program.operations.get_mut(operation) {
            Some(
                Operation::Branch { target }
                | Operation::BranchIf { target, .. }
                | Operation::BranchIfNot { target, .. }
                | Operation::CompareBranch { target, .. }
                | Operation::CompareConstantBranch { target, .. },
            ) => *target = position,
            Some(Operation::BranchIndexed { table, .. }) => *table = position,
            _ => {}
        }
    }

    fn find_label(&self, name: &str, place: Place) -> Result<u32, ParseError> {
        let found = self.labels.get(name).copied();
        found.ok_or_else(|| place.error(ParseErrorKind::UnknownName(name.to_owned())))
    }

    fn resolve_labels(&mut self) -> Result<(), ParseError> {
        for label_use in std::mem::take(&mut self.label_uses) {
            let target = self.find_label(label_use.label, label_use.place)?;
            self.set_target(label_use.operation, target);
        }
        let mut tables = HashMap::new();
        for list in std::mem::take(&mut self.target_lists) {
            let targets = list.labels.iter().map(|(label, place)| self.find_label(label, *place));
            let targets = targets.collect::<Result<Vec<_>, _>>()?;
            if let Some(table) = self.parser.program.tables.get_mut(list.table) {
                *table = targets;
            }
            tables.insert(list.name, list.table as u32);
        }
        for list_use in std::mem::take(&mut self.list_uses) {
            let unknown = || {
                list_use
                    .place
                    .error(ParseErrorKind::UnknownName(list_use.label.to_owned()))
            };
            let table = tables.get(list_use.label).copied().ok_or_else(unknown)?;
            self.set_target(list_use.operation, table);
        }
        Ok(())
    }
}
