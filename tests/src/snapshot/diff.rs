//! A line diff for people: removed lines with `-`, added lines with `+`, and two lines of context.

const CONTEXT: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Both,
    Old,
    New,
}

/// The lines in which two texts differ.
pub(super) fn lines(old: &str, new: &str) -> String {
    let steps = steps(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let changed: Vec<usize> =
        steps.iter().enumerate().filter(|(_, step)| step.0 != Side::Both).map(|(at, _)| at).collect();
    let near = |at: usize| changed.iter().any(|change| change.abs_diff(at) <= CONTEXT);
    let mut text = String::new();
    let mut skipped = false;
    for (at, (side, line)) in steps.iter().enumerate() {
        if !near(at) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            text.push_str("  ...\n");
        }
        let mark = match side {
            Side::Both => ' ',
            Side::Old => '-',
            Side::New => '+',
        };
        text.push_str(&format!("{mark} {line}\n"));
    }
    if changed.is_empty() {
        text.push_str("(only the line ends at the end of the file)\n");
    }
    text
}

/// Both texts as one list, by a longest common subsequence. Snapshots are short enough for a quadratic table.
fn steps<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(Side, &'a str)> {
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut steps = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            steps.push((Side::Both, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            steps.push((Side::Old, old[i]));
            i += 1;
        } else {
            steps.push((Side::New, new[j]));
            j += 1;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn changed_lines_are_shown_with_their_neighbours() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
        assert_eq!(lines(old, new), "  ...\n  3\n  4\n- 5\n+ five\n  6\n  7\n  8\n+ 9\n");
    }

    #[test]
    fn equal_lines_are_said_to_be_equal() {
        assert_eq!(lines("1\n", "1"), "(only the line ends at the end of the file)\n");
    }
}
