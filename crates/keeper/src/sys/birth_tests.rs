//! Programs that start and programs that cannot, with the keeper's memory shared and copied.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use super::*;

type Way = fn(Program, &ChildEnds<'_>) -> io::Result<(u32, Birth)>;

fn copying(program: Program, ends: &ChildEnds<'_>) -> io::Result<(u32, Birth)> {
    let (birth, mut args) = prepare(program, ends)?;
    // SAFETY: the steps of the child call nothing of the C library.
    let pid = unsafe { fork_copying(&mut args, &birth.plan) }?;
    Ok((pid, birth))
}

fn program(path: &CStr, argv: &[&CStr], cwd: &CStr) -> Program {
    Program {
        path: path.into(),
        argv: argv.iter().copied().map(CString::from).collect(),
        env: vec![c"WORD=green".into()],
        cwd: cwd.into(),
        umask: 0o27,
        nofile: 64,
        own_session: false,
        limit_tag: 0,
        pin: None,
        execute: None,
    }
}

/// What a program printed, what the failure pipe said, and how it ended.
fn run(way: Way, program: Program) -> (String, Vec<u8>, ExitStatus) {
    let null = std::fs::File::open("/dev/null").unwrap();
    let (mut output, child_output) = io::pipe().unwrap();
    let (mut failure, child_failure) = io::pipe().unwrap();
    let ends = ChildEnds {
        stdin: null.as_fd(),
        stdout: child_output.as_fd(),
        stderr: child_output.as_fd(),
        failure: child_failure.as_fd(),
        cgroup: None,
    };
    let (pid, birth) = way(program, &ends).unwrap();
    drop((child_output, child_failure));
    let mut said = Vec::new();
    failure.read_to_end(&mut said).unwrap();
    drop(birth);
    let mut printed = String::new();
    output.read_to_string(&mut printed).unwrap();
    let mut status = 0;
    // SAFETY: waits for our own child.
    assert_eq!(unsafe { libc::waitpid(pid as i32, &raw mut status, 0) }, pid as i32);
    (printed, said, ExitStatus::from_raw(status))
}

const WAYS: [Way; 2] = [start, copying];

#[test]
fn a_program_gets_what_it_was_given() {
    for way in WAYS {
        let script = c"echo $WORD; pwd; umask; ulimit -n; trap; cat; exit 3";
        let (printed, said, status) = run(way, program(c"/bin/sh", &[c"sh", c"-c", script], c"/usr"));
        assert_eq!((printed.as_str(), said.as_slice()), ("green\n/usr\n0027\n64\n", &[][..]));
        assert_eq!(status.code(), Some(3));
    }
}

#[test]
fn what_cannot_be_started_says_where_and_why() {
    let told = |stage: Stage, errno: i32| [stage.to_wire().to_le_bytes(), errno.to_le_bytes()].concat();
    for way in WAYS {
        let (_, said, status) = run(way, program(c"/no/such/program", &[c"x"], c"/"));
        assert_eq!((said, status.code()), (told(Stage::Exec, libc::ENOENT), Some(127)));
        let (_, said, _) = run(way, program(c"/bin/true", &[c"x"], c"/no/such/folder"));
        assert_eq!(said, told(Stage::Chdir, libc::ENOENT));
        let pin = Some(Pin { dev: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 });
        let (_, said, _) = run(way, Program { pin, ..program(c"/bin/true", &[c"x"], c"/") });
        assert_eq!(said, told(Stage::Changed, 0));
    }
}

/// The file that was opened runs, not the one that has its name by now; its descriptor is gone then.
#[test]
fn an_open_file_is_executed_whatever_became_of_its_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tool");
    for way in WAYS {
        std::fs::copy("/bin/ls", &path).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "#!/bin/sh\necho swapped\n").unwrap();
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let pin = Some(Pin { dev: 1, inode: 2, size: 3, mtime_ns: 4, ctime_ns: 5 });
        let execute = Some((file.into(), Execute::Program));
        let given = Program { pin, execute, ..program(&name, &[c"ls", c"/proc/self/fd"], c"/") };
        let (printed, said, status) = run(way, given);
        // The three streams, and the folder that is being read.
        assert_eq!((printed.as_str(), said.as_slice(), status.code()), ("0\n1\n2\n3\n", &[][..], Some(0)));
    }
}

/// A file that somebody began to write to after it was looked at is not executed; before that nobody can write.
#[test]
fn a_leased_program_is_executed_while_its_lease_is_intact() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tool");
    std::fs::copy("/bin/true", &path).unwrap();
    let write = || {
        use std::os::unix::fs::OpenOptionsExt as _;
        std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&path).unwrap_err().raw_os_error()
    };
    let changed = [Stage::Changed.to_wire().to_le_bytes(), 0i32.to_le_bytes()].concat();
    for way in WAYS {
        let given = |is_leased: bool| {
            let file = std::fs::File::open(&path).unwrap();
            if is_leased {
                crate::lease::take(&file).unwrap();
            }
            Program { execute: Some((file.into(), Execute::Leased)), ..program(c"/shown/only", &[c"true"], c"/") }
        };
        let (_, said, status) = run(way, given(true));
        assert_eq!((said.as_slice(), status.code()), (&[][..], Some(0)));
        let broken = given(true);
        assert_eq!(write(), Some(libc::EWOULDBLOCK));
        assert_eq!(run(way, broken).1, changed);
        assert_eq!(run(way, given(false)).1, changed);
    }
}

#[test]
fn a_script_is_executed_by_descriptor_only_if_its_interpreter_may_open_it() {
    let file = || {
        let memory = rustix::fs::memfd_create("script", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        std::fs::write(format!("/proc/self/fd/{}", memory.as_raw_fd()), "#!/bin/sh\necho $0 $1\n").unwrap();
        memory
    };
    for way in WAYS {
        let given = |execute| Program {
            execute: Some((file(), execute)),
            ..program(c"/no/such/file", &[c"script", c"word"], c"/")
        };
        let (printed, said, status) = run(way, given(Execute::Script));
        assert_eq!((printed.as_str(), said.as_slice(), status.code()), ("/dev/fd/4 word\n", &[][..], Some(0)));
        let (printed, said, _) = run(way, given(Execute::Program));
        let refused = [Stage::Exec.to_wire().to_le_bytes(), libc::ENOENT.to_le_bytes()].concat();
        assert_eq!((printed.as_str(), said), ("", refused));
    }
}

/// The memory of a start is used again at once, while the process before it may still be on its way out.
#[test]
fn many_failures_in_a_row_end_by_themselves() {
    for turn in 0..2000 {
        let (_, said, status) = run(start, program(c"/no/such/program", &[c"x"], c"/"));
        assert_eq!((said.len(), status.code(), status.signal()), (8, Some(127), None), "turn {turn}");
    }
}

#[test]
fn starts_from_many_threads_do_not_disturb_each_other() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for turn in 0..200 {
                    let word = CString::new(format!("{thread}-{turn}")).unwrap();
                    let (printed, said, status) = run(start, program(c"/bin/echo", &[c"echo", &word], c"/"));
                    assert_eq!((printed, said.len()), (format!("{thread}-{turn}\n"), 0));
                    assert!(status.success());
                    let error = std::fs::File::open("/no/such/file").unwrap_err();
                    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
                }
            });
        }
    });
}
