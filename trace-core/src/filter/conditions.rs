//! The conditions of tests: numbers as ranges, names as lists or expressions.

use super::error::{FilterError, FilterErrorKind};
use super::number::NumberTest;
use super::syntax::{Comparison, Condition, Test, TypedText, Value};
use regex::{Regex, RegexBuilder};

pub(super) fn operator(t: &Test, operator: &'static str, why: &'static str) -> FilterError {
    let left = t.left.text.clone();
    FilterError::new(FilterErrorKind::Operator { operator, left, why }, t.left.span.clone())
}

pub(super) fn unexpected_operand(t: &Test) -> FilterError {
    FilterError::new(
        FilterErrorKind::UnexpectedOperand(t.left.text.clone()),
        t.left.span.clone(),
    )
}

pub(super) fn kind_error(t: &Test, wants: &'static str, span: std::ops::Range<usize>) -> FilterError {
    let left = t.left.text.clone();
    FilterError::new(FilterErrorKind::Kind { left, wants }, span)
}

/// Returns the ranges of a numeric test. `name` returns the numbers of a name.
pub(super) fn numbers(
    t: &Test,
    time: bool,
    name: &dyn Fn(&TypedText) -> Result<u64, FilterError>,
) -> Result<NumberTest, FilterError> {
    let value = |v: &Value| match v {
        Value::Number { time: true, span, .. } if !time => {
            Err(kind_error(t, "a number without a unit of time", span.clone()))
        }
        Value::Number { value, .. } => Ok(*value),
        Value::Name(n) => name(n),
    };
    let (ranges, not) = match &t.condition {
        // For a field, whether the event has it; with a mask, whether the bits are set.
        Condition::Bare => match t.mask {
            None => (vec![(0, u64::MAX)], false),
            Some(_) => (vec![(0, 0)], true),
        },
        Condition::Compare(order, v) => {
            let v = value(v)?;
            match order {
                Comparison::Equal => (vec![(v, v)], false),
                Comparison::Differs => (vec![(v, v)], true),
                Comparison::Less => (v.checked_sub(1).map(|l| (0, l)).into_iter().collect(), false),
                Comparison::AtMost => (vec![(0, v)], false),
                Comparison::More => (v.checked_add(1).map(|f| (f, u64::MAX)).into_iter().collect(), false),
                Comparison::AtLeast => (vec![(v, u64::MAX)], false),
            }
        }
        Condition::Match { not, .. } => {
            let sign = if *not { "!~" } else { "=~" };
            return Err(operator(t, sign, "it is a number, not a name"));
        }
        Condition::Within {
            not,
            first,
            end,
            inclusive,
            span,
        } => {
            let first = first.as_ref().map(value).transpose()?.unwrap_or(0);
            let end = end.as_ref().map(value).transpose()?;
            if end.is_some_and(|e| e < first) {
                return Err(FilterError::new(FilterErrorKind::ReversedRange, span.clone()));
            }
            let last = match end {
                None => Some(u64::MAX),
                Some(e) if *inclusive => Some(e),
                Some(e) => e.checked_sub(1),
            };
            let range = last.filter(|l| *l >= first).map(|l| (first, l));
            (range.into_iter().collect(), *not)
        }
        Condition::Target(_) => return Err(unexpected_operand(t)),
        Condition::Among { not, values } => {
            let all = values
                .iter()
                .map(|v| value(v).map(|v| (v, v)))
                .collect::<Result<_, _>>()?;
            (all, *not)
        }
    };
    Ok(NumberTest::new(t.mask, ranges, not))
}

/// The condition of a name test.
pub(super) enum Names<'a> {
    Any,
    Exact(Vec<&'a TypedText>, bool),
    Matching(Regex, bool),
}

pub(super) fn names(t: &Test) -> Result<Names<'_>, FilterError> {
    match &t.condition {
        Condition::Bare => Ok(Names::Any),
        Condition::Compare(order @ (Comparison::Equal | Comparison::Differs), v) => {
            let values = typed_values(t, std::slice::from_ref(v))?;
            Ok(Names::Exact(values, *order == Comparison::Differs))
        }
        Condition::Compare(order, _) => Err(operator(
            t,
            order.sign(),
            "names can only be compared with =, !=, =~, !~ \
            and in",
        )),
        Condition::Within { .. } => Err(operator(t, "in", "names have no range; a list is written {A, B}")),
        Condition::Target(_) => Err(unexpected_operand(t)),
        Condition::Among { not, values } => Ok(Names::Exact(typed_values(t, values)?, *not)),
        Condition::Match { not, pattern } => {
            let regex = RegexBuilder::new(&pattern.text)
                .case_insensitive(true)
                .size_limit(1 << 20)
                .dfa_size_limit(1 << 20)
                .nest_limit(64)
                .build()
                .map_err(|e| FilterError::new(FilterErrorKind::Regex(regex_message(&e)), pattern.span.clone()))?;
            Ok(Names::Matching(regex, *not))
        }
    }
}

fn typed_values<'a>(t: &Test, values: &'a [Value]) -> Result<Vec<&'a TypedText>, FilterError> {
    let name = |v: &'a Value| match v {
        Value::Name(n) => Ok(n),
        Value::Number { span, .. } => Err(kind_error(t, "a name", span.clone())),
    };
    values.iter().map(name).collect()
}

/// Returns the last line of the library's message: the other lines draw the expression.
fn regex_message(e: &regex::Error) -> String {
    let message = e.to_string();
    let last = message.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
