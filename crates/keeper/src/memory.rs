//! How much freed memory a process keeps for itself.
//!
//! A house waits most of the time: what a busy moment needed is given back after it. It changes nothing but that.

use crate::sys;

/// For a process of few threads that is to stay small: its threads share one heap, and large pieces go back at once.
/// Early, before there are threads.
pub fn stay_small() {
    sys::keep_memory_small();
}

/// Lets go of the pages of our own program's code, most of which only the start needed. They stay in the system's cache and
/// come back one by one where they are needed again: for a process that has settled and will wait.
pub fn let_code_go() {
    let name = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (from, to) in code(&maps, &name.to_string_lossy()) {
        sys::let_code_go(from, to);
    }
}

/// Where the code of a program is: what is mapped of its file, private, executable and never written to.
fn code(maps: &str, name: &str) -> Vec<(usize, usize)> {
    let one = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let named = rest.split_once('/').is_some_and(|(_, path)| name.strip_prefix('/') == Some(path));
        let (from, to) = range.split_once('-').filter(|_| named && rest.starts_with("r-xp "))?;
        Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
    };
    maps.lines().filter_map(one).collect()
}

/// Gives what is free back to the system, which takes a fraction of a millisecond: for a quiet moment.
pub fn give_back() {
    sys::give_back_memory();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_code_of_the_program_itself_is_found() {
        let maps = "\
55d0c8a00000-55d0c8b00000 r--p 00000000 fd:01 42 /usr/bin/hostel
55d0c8b00000-55d0c9f00000 r-xp 00100000 fd:01 42 /usr/bin/hostel
55d0c9f00000-55d0ca000000 rw-p 01500000 fd:01 42 /usr/bin/hostel
7f0000000000-7f0000100000 r-xp 00000000 fd:01 43 /usr/lib/libc.so.6
7f0000200000-7f0000300000 r-xp 00000000 00:00 0
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";
        assert_eq!(code(maps, "/usr/bin/hostel"), [(0x55d0_c8b0_0000, 0x55d0_c9f0_0000)]);
        assert_eq!(code(maps, "/usr/bin/other"), []);
        assert_eq!(code("", ""), []);
    }

    #[test]
    fn code_that_was_let_go_runs_on() {
        for _ in 0..3 {
            let_code_go();
            assert_eq!((1..=100_u32).map(|number| format!("{number}").len() as u32).sum::<u32>(), 192);
        }
    }
}
