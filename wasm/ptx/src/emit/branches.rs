//! Branches to the instruction behind them: the text leaves them out. Empty blocks and branches at the end of a block
//! have them.
//!
//! NVIDIA's assembler in version 13 crashes on functions of several empty conditions, if it makes code to be linked.

use std::collections::HashSet;

/// Removes branches that lead to the next instruction.
pub(crate) fn remove_empty_branches(text: &str) -> String {
    // From the end on, so that a branch in front of removed ones is removed too.
    let mut next_labels: HashSet<&str> = HashSet::new();
    let mut kept: Vec<&str> = Vec::new();
    for line in text.lines().rev() {
        if let Some(label) = line.strip_prefix('$').and_then(|l| l.strip_suffix(':')) {
            next_labels.insert(label);
        } else if branch_target(line).is_some_and(|target| next_labels.contains(target)) {
            continue;
        } else {
            next_labels.clear();
        }
        kept.push(line);
    }
    let mut out = String::with_capacity(text.len());
    for line in kept.iter().rev() {
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Returns the label of a branch without its first character, or `None` for other lines.
fn branch_target(line: &str) -> Option<&str> {
    let branch = match line.strip_prefix('@') {
        Some(guarded) => guarded.split_once(' ')?.1,
        None => line,
    };
    branch.strip_prefix("bra $")?.strip_suffix(';')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_to_the_next_instruction_are_removed() {
        let text = "setp.ne.s32 %p0, %r3, 0;\n@!%p0 bra $L2;\n$L2:\n@!%p1 bra $L4;\nbra $L3;\n$L4:\n$L3:\nret;\n";
        assert_eq!(
            remove_empty_branches(text),
            "setp.ne.s32 %p0, %r3, 0;\n$L2:\n$L4:\n$L3:\nret;\n"
        );
    }

    #[test]
    fn other_branches_stay() {
        let text = "$L0:\nbra $L0;\n@%p0 bra $L2;\nmov.b32 %r0, 1;\n$L2:\nbra $L10;\n$L1:\n@%p1 bra $out;\nret;\n";
        assert_eq!(remove_empty_branches(text), text);
        assert_eq!(remove_empty_branches(""), "");
    }
}
