use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What a file of these bytes names.
fn names(bytes: &[u8]) -> Option<ElfNames> {
    names_in(&|offset, length| {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        bytes[start..bytes.len().min(start.saturating_add(length))].to_vec()
    })
}

/// A file with one loaded segment that holds all of it, a loader and a dynamic section.
fn binary(is_64: bool, loader: &[u8], dynamic: &[(u64, &str)]) -> Vec<u8> {
    let (width, header, entry) = if is_64 { (8, 64, 56) } else { (4, 52, 32) };
    const ADDRESS: u64 = 0x1_0000;
    let put = |bytes: &mut Vec<u8>, value: u64, width: usize| bytes.extend(&value.to_le_bytes()[..width]);
    let mut texts = vec![0];
    let mut table = Vec::new();
    for (tag, text) in dynamic {
        put(&mut table, *tag, width);
        put(&mut table, texts.len() as u64, width);
        texts.extend(text.as_bytes());
        texts.push(0);
    }
    let loader_at = (header + 3 * entry) as u64;
    let texts_at = loader_at + loader.len() as u64;
    let table_at = texts_at + texts.len() as u64;
    put(&mut table, DT_STRTAB, width);
    put(&mut table, ADDRESS + texts_at, width);
    put(&mut table, DT_NULL, width);
    put(&mut table, 0, width);
    let mut bytes = [MAGIC, &[if is_64 { 2 } else { 1 }, 1, 1]].concat();
    bytes.resize(16, 0);
    put(&mut bytes, 0x003e_0003, 4);
    put(&mut bytes, 1, 4);
    for value in [0, header as u64, 0] {
        put(&mut bytes, value, width);
    }
    put(&mut bytes, 0, 4);
    for value in [header as u64, entry as u64, 3, 0, 0, 0] {
        put(&mut bytes, value, 2);
    }
    assert_eq!(bytes.len(), header);
    let size = table_at + table.len() as u64;
    for (kind, offset, size) in
        [(PT_LOAD, 0, size), (PT_INTERP, loader_at, loader.len() as u64), (PT_DYNAMIC, table_at, table.len() as u64)]
    {
        let fields: [(u64, usize); 8] = match is_64 {
            true => [(kind, 4), (0, 4), (offset, 8), (ADDRESS + offset, 8), (0, 8), (size, 8), (size, 8), (0, 8)],
            false => [(kind, 4), (offset, 4), (ADDRESS + offset, 4), (0, 4), (size, 4), (size, 4), (0, 4), (0, 4)],
        };
        for (value, width) in fields {
            put(&mut bytes, value, width);
        }
    }
    [bytes, loader.to_vec(), texts, table].concat()
}

fn texts(list: &[&str]) -> Vec<Vec<u8>> {
    list.iter().map(|text| text.as_bytes().to_vec()).collect()
}

#[test]
fn loaders_and_library_directories_are_found_in_both_widths() {
    for is_64 in [true, false] {
        let named = names(&binary(
            is_64,
            b"/lib/ld.so\0",
            &[
                (DT_NEEDED, "libc.so.6"),
                (DT_NEEDED, "/x/liby.so"),
                (DT_RPATH, "/a:$ORIGIN/b:"),
                (DT_AUDIT, "./audit.so"),
            ],
        ));
        let expected = texts(&["/x/liby.so", "/a", "$ORIGIN/b", "", "./audit.so"]);
        assert_eq!(named, Some(ElfNames { loader: Some(b"/lib/ld.so".to_vec()), libraries: expected }));
        let named = names(&binary(is_64, b"ld.so\0\0", &[(DT_RPATH, "/a"), (DT_RUNPATH, "/b")]));
        assert_eq!(named, Some(ElfNames { loader: Some(b"ld.so".to_vec()), libraries: texts(&["/b"]) }));
    }
}

#[test]
fn what_the_kernel_would_not_start_names_nothing() {
    for loader in [&b""[..], b"\0", b"/lib/ld.so", &[b'x'; 5000]] {
        assert_eq!(names(&binary(true, loader, &[])), None, "{loader:?}");
    }
    let whole = binary(true, b"/lib/ld.so\0", &[(DT_RUNPATH, "/b")]);
    let with = |offset: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[offset] = byte;
        names(&bytes)
    };
    for (offset, byte, what) in
        [(0, 0, "magic"), (4, 3, "width"), (5, 2, "byte order"), (54, 55, "entry"), (57, 0xff, "count")]
    {
        assert_eq!(with(offset, byte), None, "{what}");
    }
    assert_eq!(names(b"#!/bin/sh\n"), None);
    assert_eq!(names(b""), None);
    // A list of directories without an end.
    let endless = [binary(true, b"/l\0", &[(DT_RUNPATH, &"x".repeat(MAX_TEXT_BYTES))])].concat();
    assert_eq!(names(&endless).unwrap().libraries, texts(&[]));
}

#[test]
fn programs_of_the_system_are_understood() {
    let named = names_of(&File::open("/bin/sh").unwrap());
    // Where the shell is a static program it has no loader.
    let loader = named.expect("an ELF file").loader;
    assert!(
        loader
            .is_none_or(|loader| loader.starts_with(b"/") && Path::new(std::str::from_utf8(&loader).unwrap()).exists())
    );
}

#[test]
fn library_directories_lead_somewhere() {
    for (text, expected) in [
        ("/opt/lib", "/opt/lib"),
        ("$ORIGIN", "/home/me/bin"),
        ("${ORIGIN}/../lib/", "/home/me/bin/../lib"),
        ("", "/"),
        (".", "/"),
        ("lib", "/lib"),
        ("/opt/$LIB/x", "/opt"),
        ("/opt/x${PLATFORM}/y", "/opt"),
        ("/$ORIGIN/x", "/"),
        ("$ORIGIN.libs/x", "/home/me/bin.libs/x"),
        ("$ORIGIN$LIB/x", "/"),
    ] {
        assert_eq!(library_path(text.as_bytes(), Path::new("/home/me/bin")), Path::new(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        names(&bytes);
        names(&[MAGIC, &[2, 1], &bytes].concat());
        names(&[MAGIC, &[1, 1], &bytes].concat());
    }

    #[test]
    fn no_change_of_a_binary_makes_it_panic(
        is_64 in any::<bool>(),
        changes in proptest::collection::btree_map(0usize..600, any::<u8>(), 0..24),
        length in 0usize..600,
    ) {
        let changes: BTreeMap<usize, u8> = changes;
        let mut bytes = binary(is_64, b"/lib/ld.so\0", &[(DT_RUNPATH, "/a:/b"), (DT_NEEDED, "/c/libd.so")]);
        for (offset, byte) in changes {
            if let Some(place) = bytes.get_mut(offset) {
                *place = byte;
            }
        }
        names(&bytes);
        bytes.truncate(length);
        if let Some(named) = names(&bytes) {
            prop_assert!(named.loader.is_none_or(|loader| loader.len() < MAX_LOADER_BYTES));
            prop_assert!(named.libraries.iter().all(|text| text.len() < MAX_TEXT_BYTES));
        }
    }
}
