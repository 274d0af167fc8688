//! The file that `hooks init` writes.

/// Every hook and every key, in comments: nothing runs until somebody takes one out of them.
pub(super) const DEFAULT: &str = r#"# Which hooks of this mesh may run, and with what. Without a section a hook does not run.
# A hook is an executable file beside this one, `on-dm` or `on-dm.sh`, that nobody else can write to. It gets
# one JSON object on its standard input. After a change: `claudemesh daemon reload`.
# `claudemesh daemon hooks check` says which would run, and why one would not.

# [on-message]                  # every message for this host
# [on-dm]                       # direct messages
# [on-mention]                  # messages with @<this host's name>
# [on-topic-alerts]             # posts to #alerts; a dot needs quotes: ["on-topic-a.b"]
# [on-file-share]               # files that were shared with this host
# [on-disconnect]               # the connection to the broker is gone
# [on-reconnect]                # and back
# [on-startup]                  # the daemon is up
# [pre-send]                    # before anything is sent: may refuse it or change it

# What a section may say, with what is built in:
#
# enabled = true
# timeout_s = 30                # then the hook and all it started are ended
# output_size_limit = 65536     # what is kept of what it prints
# redact_payload = []           # what it is not told: ["body.password", "meta.api_key"]
# allow_reply = true            # {"reply":"text"} on its standard output is sent back
# capability_token_scope = []   # "reply:event", "dm:send:sender", "topic:alerts:post": only for the event at hand
# network_policy = "deny"       # or "allow"
# fs_policy = "readonly"        # "rw", "sandbox": only programs and libraries can be read
# killpg_on_timeout = true
# audit = true                  # a line in daemon.log for each run
# sandbox = "none"              # "bubblewrap": under bwrap, if that is installed
"#;
