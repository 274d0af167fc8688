//! The file that is written where there is none.

/// Every key, with what is built in. A test makes sure that it says the truth.
pub(super) const DEFAULT: &str = r#"# Settings of this mesh's daemon. What is commented out is what is built in.
# It is read when the daemon starts, and again by `claudemesh daemon reload`.

[daemon]
# mesh = "lab"                  # refuse to serve another mesh with this file
# display_name = "worker-3"
# log_level = "info"            # error, warn, info, debug
# log_max_bytes = "100MB"       # daemon.log and the one before it
# log_max_age_days = 14

[ipc]
# tcp_enabled = true            # HTTP on loopback beside the socket
# http_port = 0                 # 0: a free one, written to http.port
# http_bind = "127.0.0.1"       # anything else needs http_external_auth
# http_external_auth = ""       # a file with the token of those who come from elsewhere
# uds_mode = "0600"
# public_health_check = false   # /v1/health without a token
# allowed_origins = []
# max_body_bytes = 1048576
# max_inflight = 64
# max_sse = 32
# rate_per_s = 100
# rate_burst = 1000

[broker]
# urls = []                     # instead of those config.json names
# ack_timeout_s = 30
# ping_s = 30                   # how often a sign of life is asked for
# silence_s = 75                # after so long without one the connection is made again
# ca_file = ""                  # authorities (PEM), for brokers whose certificate the invite did not name

[outbox]
# max_queue_size = 10000
# max_age_hours = 168           # never longer than the broker remembers ids; without it, as long as that allows
# max_bytes = "5GB"             # at least 64MB: that much the database may need for itself
# fsync_mode = "strict"         # what was accepted is always on the disk; "batched" is answered with a warning

[inbox]
# retention_days = 30           # 0: for ever
# fts_enabled = true            # search is always on; `false` is answered with a warning
# max_bytes = "5GB"

[reconnect]
# initial_backoff_ms = 500
# max_backoff_ms = 30000
# backoff_multiplier = 2.0
# jitter_pct = 25

[hooks]
# enabled = true
# concurrency = 8
# default_timeout_s = 30
# stdin_limit = 262144

[crypto]
# key_grace_period_days = 7     # what was sealed for a key before its rotation can be opened for so long; 1 to 30
# max_archived_keys = 8         # as many earlier keys are kept at most; 1 to 256

[clone]
# policy = "refuse"             # or "warn", "allow": what to do when the key is found on another machine

[disk]
# reserved_bytes = "1GB"        # what the outbox may fill; at least 64MB

[features]
# require = []
# optional = []

[metrics]
# prometheus_enabled = true
# otel_endpoint = ""            # where numbers are sent (OTLP over HTTP), if this program was built with `otel`
# otel_interval_s = 15

[capabilities]
# Parts of the surface that are off unless switched on.
# state = false                 # /v1/state: values all members share
# memory = false
# vector = false
# graph = false
# tasks = false                 # /v1/task: tasks, each claimed by one member
# scheduling = false
# mcp_host = false
# skill_share = false
"#;
