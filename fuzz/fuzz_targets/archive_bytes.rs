//! Arbitrary bytes as an archive: refused or unpacked, and nothing outside the destination.
#![no_main]

use hostel_fuzz::sandbox::{LIMITS, Sandbox};
use hostel_fuzz::tarball;
use hostel_house::workspace::archive::{unpack, unpack_plain};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // The first byte says how the rest is meant; gzip files begin with 0x1f, which is the first case.
    let (how, rest) = match bytes.split_first() {
        Some((first, _)) if *first == 0x1f => (0, bytes),
        Some((first, rest)) => (first % 4, rest),
        None => return,
    };
    let planted = how == 2;
    let sandbox = Sandbox::get();
    sandbox.fresh(planted);
    let destination = sandbox.destination();
    let outcome = match how {
        0 => unpack(rest, &destination, &LIMITS),
        1 => unpack_plain(rest, &destination, &LIMITS),
        how => {
            let mut sealed = rest.to_vec();
            tarball::seal_all(&mut sealed);
            match how {
                2 => unpack_plain(&sealed, &destination, &LIMITS),
                _ => unpack(&tarball::gzip(&sealed)[..], &destination, &LIMITS),
            }
        }
    };
    sandbox.check(&outcome, planted);
});
