//! Chance, all of it from one seed: the story's own numbers, and what the kernel would give to the code under test.
//!
//! Invariant: on a thread that was given a seed, keys, nonces, jitter, the order of hash maps and the order in which
//! `select!` looks at its branches are the same in every run. Other threads get the kernel's numbers.
//!
//! It must never be linked into anything but this test: what it gives for keys can be foretold.

use std::cell::Cell;
use std::sync::Once;

/// Numbers in a row that a seed decides (splitmix64).
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995_1234_5678)
    }

    pub fn next(&mut self) -> u64 {
        mix(&mut self.0)
    }

    /// Below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From `least` up to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.index(from.len());
        &from[index]
    }

    /// Small numbers often, large ones sometimes: each power of two is as likely as the next.
    pub fn steep(&mut self, powers: u64) -> u64 {
        let power = self.below(powers);
        1 + self.below(1 << power)
    }
}

fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut out = *state;
    out = (out ^ (out >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    out = (out ^ (out >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    out ^ (out >> 31)
}

thread_local! {
    /// Where this thread's numbers stand; 0: it has no seed.
    static KERNEL: Cell<u64> = const { Cell::new(0) };
    /// Something on this thread has panicked, if only a task.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Runs something on a thread of its own whose kernel gives the numbers of this seed. A task that panics there counts
/// as if all had.
pub fn seeded<T: Send>(seed: u64, work: impl FnOnce() -> T + Send) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICKED.set(true);
            usual(panic);
        }));
    });
    let done = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(format!("seed {seed}"));
        let thread = thread.spawn_scoped(scope, move || {
            KERNEL.set(seed.wrapping_mul(2).wrapping_add(1).max(1));
            let done = work();
            assert!(!PANICKED.get(), "a task panicked");
            done
        });
        thread.unwrap().join()
    });
    match done {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Stands before libc's function of this name: the standard library and the `getrandom` crate both call it.
///
/// # Safety
/// As libc's: `buffer` has room for `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut libc::c_void, length: libc::size_t, flags: libc::c_uint) -> libc::ssize_t {
    let mut state = KERNEL.get();
    if state == 0 {
        // SAFETY: the caller's buffer goes to the kernel as it came.
        let got = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return libc::ssize_t::try_from(got).unwrap_or(-1);
    }
    for place in 0..length {
        let byte = mix(&mut state).to_le_bytes()[3];
        // SAFETY: `place` is below `length`, and so within the caller's buffer.
        unsafe { buffer.cast::<u8>().add(place).write(byte) };
    }
    KERNEL.set(state.max(1));
    libc::ssize_t::try_from(length).unwrap_or(-1)
}
