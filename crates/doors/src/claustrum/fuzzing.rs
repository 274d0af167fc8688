//! Entry points for fuzz targets: everything here is a pure function of a stranger's bytes.
//!
//! They return what was produced so that a target can check it; they never check by themselves.

use super::Secret;
use super::errors::{push_error, push_result};
use super::params::{
    ExtractParams, GitParams, KillAndWaitParams, KillParams, PathParams, ReattachParams, SpawnParams, StdinParams,
};
use super::request::{Asked, Gate, ask};
use super::{base64, lines};

/// The token that [`replies`] demands, for seeds that want to get past it.
pub const TOKEN: &str = "tok";

/// Takes `bytes` as all that a client sends. Gives the replies to lines that are refused, and for
/// every call a reply whose result is its params.
pub fn replies(bytes: &[u8]) -> Vec<u8> {
    let token = Secret::new(TOKEN.as_bytes().to_vec());
    let gate = Gate { token: &token, shutdown_needs_auth: true };
    let mut out = Vec::new();
    // A line that is too long ends the connection; what came before it was answered.
    lines::each_line(bytes, |line| match ask(line, &gate) {
        Asked::Call(call) => push_result(&mut out, &call.id, |out| out.extend_from_slice(call.params)),
        Asked::Refuse(refusal) => push_error(&mut out, &refusal.id, &refusal.error),
    })
    .ok();
    out
}

/// Reads `bytes` as the params of every method; gives how many would take them.
pub fn params(bytes: &[u8]) -> usize {
    let taken = [
        PathParams::decode(bytes).is_ok(),
        ExtractParams::decode(bytes).is_ok(),
        GitParams::decode(bytes).is_ok(),
        SpawnParams::decode(bytes).is_ok(),
        StdinParams::decode(bytes).is_ok_and(|params| base64::decode(params.data.as_bytes()).is_some()),
        KillParams::decode(bytes).is_ok(),
        KillAndWaitParams::decode(bytes).is_ok(),
        ReattachParams::decode(bytes).is_ok(),
    ];
    taken.iter().filter(|taken| **taken).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_token_opens() {
        let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"git.info","params":{{}},"auth":"{TOKEN}"}}"#);
        assert_eq!(replies(line.as_bytes()), b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
        assert_eq!(params(b"{}"), 8);
        assert_eq!(params(b"[]"), 0);
    }

    proptest! {
        #[test]
        fn every_line_gets_one_reply_that_is_json(
            lines in proptest::collection::vec(r#"[\[\]{}:,"\\u0-9a-f\. ]{1,30}"#, 0..10),
        ) {
            let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
            let out = replies(lines.join("\n").as_bytes());
            let replies: Vec<&[u8]> = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
            prop_assert_eq!(replies.len(), lines.len());
            for reply in replies {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(reply).is_ok());
            }
        }
    }
}
