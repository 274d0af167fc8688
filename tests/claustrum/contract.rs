//! The claustrum contract, from data files: the lines of `tests/claustrum/data` over the real socket.

use hostel_tests::contract::claustrum::{Claustrum, LANGUAGE};
use hostel_tests::contract::script::Script;
use hostel_tests::contract_tests;
use hostel_tests::house::Program;

fn start(_script: &Script, _variant: &str) -> Claustrum {
    Claustrum::start(Program::Hostel)
}

contract_tests! {
    LANGUAGE, start;
    authentication,
    errors,
    files_extract_tar,
    files_list,
    files_read,
    files_stat,
    files_validate,
    git_info,
    git_list_branches,
    git_status,
    git_worktree_create,
    git_worktree_remove,
    ids,
    kill,
    kill_and_wait,
    params,
    precedence,
    reattach,
    server,
    spawn,
    stdin,
    transport,
}
