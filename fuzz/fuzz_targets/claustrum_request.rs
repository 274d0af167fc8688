//! Whatever a claustrum client sends, each line is a call or is answered with one well-formed line.
#![no_main]

use hostel_doors::claustrum::Secret;
use hostel_doors::claustrum::errors::{RpcError, push_error, push_result};
use hostel_doors::claustrum::gojson::Malformed;
use hostel_doors::claustrum::lines::each_line;
use hostel_doors::claustrum::params::{
    ExtractParams, GitParams, KillAndWaitParams, KillParams, PathParams, ReattachParams, SpawnParams, StdinParams,
};
use hostel_doors::claustrum::request::{Asked, Call, Gate, Method, ask, parse};
use hostel_fuzz::json::assert_line;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let token = Secret::new(b"tok".to_vec());
    for shutdown_needs_auth in [true, false] {
        let gate = Gate { token: &token, shutdown_needs_auth };
        // A line that is too long ends the connection; those before it were answered.
        let _ = each_line(bytes, |line| {
            let mut reply = Vec::new();
            match ask(line, &gate) {
                Asked::Call(call) => {
                    assert!(parse(line).is_ok());
                    match decode(&call) {
                        Ok(()) => push_result(&mut reply, &call.id, |out| out.extend_from_slice(b"{}")),
                        Err(Malformed) => push_error(&mut reply, &call.id, &RpcError::invalid_params()),
                    }
                }
                Asked::Refuse(refusal) => push_error(&mut reply, &refusal.id, &refusal.error),
            }
            assert_line(&reply);
        });
    }
});

fn decode(call: &Call<'_>) -> Result<(), Malformed> {
    let params = call.params;
    match call.method {
        Method::ServerPing | Method::ServerVersion | Method::ServerCapabilities | Method::ServerShutdown => Ok(()),
        Method::FilesList | Method::FilesValidate | Method::FilesStat | Method::FilesRead => {
            PathParams::decode(params).map(drop)
        }
        Method::FilesExtractTar => ExtractParams::decode(params).map(drop),
        Method::GitInfo
        | Method::GitStatus
        | Method::GitListBranches
        | Method::GitWorktreeCreate
        | Method::GitWorktreeRemove => GitParams::decode(params).map(drop),
        Method::ProcessSpawn => SpawnParams::decode(params).map(drop),
        Method::ProcessStdin => StdinParams::decode(params).map(drop),
        Method::ProcessKill => KillParams::decode(params).map(drop),
        Method::ProcessKillAndWait => KillAndWaitParams::decode(params).map(drop),
        Method::ProcessReattach => ReattachParams::decode(params).map(drop),
    }
}
