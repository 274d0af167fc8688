//! Every setting there is: its name, how a layer changes it, how it is shown.
//!
//! Invariant: what is shown can be typed back. A key that stands in the table is read, applied and shown; tests hold
//! the three together.

use std::path::PathBuf;

use super::Settings;
use super::Shape;
use super::file::Layer;
use super::file::line_at;
use crate::paths;
use crate::text;

/// Every setting but the agents', in the order `config show` prints them.
pub(super) const KEYS: [(&str, Shape); 95] = [
    ("doors.claustrum.enabled", Shape::Bare),
    ("doors.claustrum.listen", Shape::List),
    ("doors.claustrum.reported_version", Shape::Text),
    ("doors.claustrum.shutdown_needs_auth", Shape::Bare),
    ("doors.claustrum.reattach", Shape::Text),
    ("doors.codecast.enabled", Shape::Bare),
    ("doors.codecast.listen", Shape::List),
    ("doors.codecast.reported_version", Shape::Text),
    ("doors.codecast.tls_cert", Shape::Text),
    ("doors.codecast.tls_key", Shape::Text),
    ("doors.codecast.tokens_file", Shape::Text),
    ("doors.codecast.mode", Shape::Text),
    ("doors.zeroclaw.enabled", Shape::Bare),
    ("doors.zeroclaw.listen", Shape::List),
    ("doors.zeroclaw.reported_version", Shape::Text),
    ("doors.zeroclaw.session_limit", Shape::Bare),
    ("doors.zeroclaw.approval_wait", Shape::Text),
    ("doors.zeroclaw.wss_enabled", Shape::Bare),
    ("doors.zeroclaw.wss_bind", Shape::Text),
    ("doors.zeroclaw.wss_port", Shape::Bare),
    ("doors.zeroclaw.wss_cert", Shape::Text),
    ("doors.zeroclaw.wss_key", Shape::Text),
    ("doors.zeroclaw.wss_token_file", Shape::Text),
    ("doors.zeroclaw.wss_proxy_users", Shape::List),
    ("doors.sudo-proxy.enabled", Shape::Bare),
    ("doors.sudo-proxy.listen", Shape::List),
    ("doors.sudo-proxy.reported_version", Shape::Text),
    ("doors.sudo-proxy.unattended_eligible", Shape::Bare),
    ("doors.sudo-proxy.keep_user_for_root", Shape::Bare),
    ("doors.sudo-proxy.in_flight", Shape::Bare),
    ("doors.sudo-proxy.approval_wait", Shape::Text),
    ("doors.sudo-proxy.exec_timeout", Shape::Text),
    ("doors.sudo-proxy.output", Shape::Text),
    ("doors.mcp.enabled", Shape::Bare),
    ("doors.mcp.listen", Shape::Text),
    ("sessions.queue", Shape::Bare),
    ("sessions.warm", Shape::Bare),
    ("sessions.idle", Shape::Text),
    ("sessions.turn_limit", Shape::Text),
    ("sessions.stop_grace", Shape::Text),
    ("sessions.line_limit", Shape::Text),
    ("sessions.prompt_limit", Shape::Text),
    ("sessions.keep_archived", Shape::Text),
    ("sessions.approval_wait", Shape::Text),
    ("sessions.mesh", Shape::Text),
    ("approvals.strict", Shape::Bare),
    ("approvals.wait", Shape::Text),
    ("approvals.max_pending", Shape::Bare),
    ("approvals.keep", Shape::Bare),
    ("approvals.lockout.attempts", Shape::Bare),
    ("approvals.lockout.wait", Shape::Text),
    ("approvals.lockout.longest", Shape::Text),
    ("approvals.notify.desktop", Shape::Bare),
    ("approvals.notify.bell", Shape::Bare),
    ("approvals.notify.webhook", Shape::Text),
    ("approvals.notify.secret_file", Shape::Text),
    ("approvals.notify.on", Shape::List),
    ("mesh.broker", Shape::Bare),
    ("mesh.daemons", Shape::Bare),
    ("broker.rate_per_s", Shape::Bare),
    ("broker.burst", Shape::Bare),
    ("broker.capacity", Shape::Bare),
    ("broker.dedupe_days", Shape::Bare),
    ("broker.retention_days", Shape::Bare),
    ("broker.log_size", Shape::Text),
    ("broker.audit_records", Shape::Bare),
    ("broker.audit_days", Shape::Bare),
    ("broker.file_size", Shape::Text),
    ("broker.state_entries", Shape::Bare),
    ("broker.state_size", Shape::Text),
    ("broker.tasks", Shape::Bare),
    ("broker.allow_v1_hello", Shape::Bare),
    ("broker.ping", Shape::Text),
    ("broker.silence", Shape::Text),
    ("broker.lease", Shape::Text),
    ("broker.concurrency", Shape::Text),
    ("guard.setting", Shape::Text),
    ("guard.grant", Shape::List),
    ("guard.hide", Shape::List),
    ("guard.read_only", Shape::List),
    ("guard.programs", Shape::Text),
    ("journal.dir", Shape::Text),
    ("journal.quota", Shape::Text),
    ("journal.per_process_quota", Shape::Text),
    ("journal.on_full", Shape::Text),
    ("journal.floor", Shape::Text),
    ("journal.keep_count", Shape::Bare),
    ("journal.keep_age", Shape::Text),
    ("journal.keep_bytes", Shape::Text),
    ("journal.age_delay", Shape::Text),
    ("limits.connections", Shape::Bare),
    ("limits.reconnect", Shape::Text),
    ("limits.start", Shape::Text),
    ("limits.shutdown", Shape::Text),
    ("limits.log", Shape::Text),
];

impl Settings {
    /// Lays one layer over what is there and remembers where it came from. `text` is the layer's own, for the lines of
    /// agents; without one they are known by the origin alone.
    pub(super) fn apply(&mut self, layer: Layer, origin: &str, text: Option<&str>) {
        let origins = &mut self.origins;
        macro_rules! take {
            ($key:literal, $from:expr, $into:expr) => {
                if let Some(value) = $from {
                    $into = value.into();
                    origins.insert($key.to_owned(), origin.to_owned());
                }
            };
        }
        let path = |text: String| paths::expand(&text);
        let all = |list: super::values::OneOrMany| list.0.into_iter().map(path).collect::<Vec<PathBuf>>();

        let from = layer.doors.claustrum;
        let into = &mut self.claustrum;
        take!("doors.claustrum.enabled", from.enabled, into.enabled);
        take!("doors.claustrum.listen", from.listen.map(all), into.listen);
        take!("doors.claustrum.reported_version", from.reported_version, into.reported_version);
        take!("doors.claustrum.shutdown_needs_auth", from.shutdown_needs_auth, into.shutdown_needs_auth);
        take!("doors.claustrum.reattach", from.reattach, into.reattach);

        let from = layer.doors.codecast;
        let into = &mut self.codecast;
        take!("doors.codecast.enabled", from.enabled, into.enabled);
        take!("doors.codecast.listen", from.listen.map(|list| list.0), into.listen);
        take!("doors.codecast.reported_version", from.reported_version, into.reported_version);
        take!("doors.codecast.tls_cert", from.tls_cert.map(path), into.tls_cert);
        take!("doors.codecast.tls_key", from.tls_key.map(path), into.tls_key);
        take!("doors.codecast.tokens_file", from.tokens_file.map(path), into.tokens_file);
        take!("doors.codecast.mode", from.mode, into.mode);

        let from = layer.doors.zeroclaw;
        let into = &mut self.zeroclaw;
        take!("doors.zeroclaw.enabled", from.enabled, into.enabled);
        take!("doors.zeroclaw.listen", from.listen.map(all), into.listen);
        take!("doors.zeroclaw.reported_version", from.reported_version, into.reported_version);
        take!("doors.zeroclaw.session_limit", from.session_limit, into.session_limit);
        take!("doors.zeroclaw.approval_wait", from.approval_wait.map(|time| time.0), into.approval_wait);
        take!("doors.zeroclaw.wss_enabled", from.wss_enabled, into.wss.enabled);
        take!("doors.zeroclaw.wss_bind", from.wss_bind.map(|host| host.0), into.wss.bind);
        take!("doors.zeroclaw.wss_port", from.wss_port, into.wss.port);
        take!("doors.zeroclaw.wss_cert", from.wss_cert.map(path), into.wss.cert);
        take!("doors.zeroclaw.wss_key", from.wss_key.map(path), into.wss.key);
        take!("doors.zeroclaw.wss_token_file", from.wss_token_file.map(path), into.wss.token_file);
        take!("doors.zeroclaw.wss_proxy_users", from.wss_proxy_users.map(|users| users.0), into.wss.proxy_users);

        let from = layer.doors.sudo_proxy;
        let into = &mut self.sudo_proxy;
        take!("doors.sudo-proxy.enabled", from.enabled, into.enabled);
        take!("doors.sudo-proxy.listen", from.listen.map(all), into.listen);
        take!("doors.sudo-proxy.reported_version", from.reported_version, into.reported_version);
        take!("doors.sudo-proxy.unattended_eligible", from.unattended_eligible, into.unattended_eligible);
        take!("doors.sudo-proxy.keep_user_for_root", from.keep_user_for_root, into.keep_user_for_root);
        take!("doors.sudo-proxy.in_flight", from.in_flight, into.in_flight);
        take!("doors.sudo-proxy.approval_wait", from.approval_wait.map(|time| time.0), into.approval_wait);
        take!("doors.sudo-proxy.exec_timeout", from.exec_timeout.map(|time| time.0), into.exec_timeout);
        take!("doors.sudo-proxy.output", from.output.map(|size| size.0), into.output);

        let from = layer.doors.mcp;
        let into = &mut self.mcp;
        take!("doors.mcp.enabled", from.enabled, into.enabled);
        take!("doors.mcp.listen", from.listen.map(|address| address.0), into.listen);

        let from = layer.sessions;
        let into = &mut self.sessions;
        take!("sessions.queue", from.queue, into.queue);
        take!("sessions.warm", from.warm, into.warm);
        take!("sessions.idle", from.idle.map(|time| time.0), into.idle);
        take!("sessions.turn_limit", from.turn_limit.map(|time| time.0), into.turn_limit);
        take!("sessions.stop_grace", from.stop_grace.map(|time| time.0), into.stop_grace);
        take!("sessions.line_limit", from.line_limit.map(|size| size.0), into.line_limit);
        take!("sessions.prompt_limit", from.prompt_limit.map(|size| size.0), into.prompt_limit);
        take!("sessions.keep_archived", from.keep_archived.map(|time| time.0), into.keep_archived);
        take!("sessions.approval_wait", from.approval_wait.map(|time| time.0), into.approval_wait);
        take!("sessions.mesh", from.mesh.map(|policy| policy.0), into.mesh);

        let from = layer.approvals;
        let into = &mut self.approvals;
        take!("approvals.strict", from.strict, into.strict);
        take!("approvals.wait", from.wait.map(|time| time.0), into.wait);
        take!("approvals.max_pending", from.max_pending, into.max_pending);
        take!("approvals.keep", from.keep, into.keep);
        take!("approvals.lockout.attempts", from.lockout.attempts, into.lockout.attempts);
        take!("approvals.lockout.wait", from.lockout.wait.map(|time| time.0), into.lockout.wait);
        take!("approvals.lockout.longest", from.lockout.longest.map(|time| time.0), into.lockout.longest);
        take!("approvals.notify.desktop", from.notify.desktop, into.notify.desktop);
        take!("approvals.notify.bell", from.notify.bell, into.notify.bell);
        take!("approvals.notify.webhook", from.notify.webhook, into.notify.webhook);
        take!("approvals.notify.secret_file", from.notify.secret_file.map(path), into.notify.secret_file);
        take!("approvals.notify.on", from.notify.on, into.notify.on);
        for (position, entry) in from.rules.into_iter().enumerate() {
            let origin = match text {
                Some(text) => format!("{origin}:{}", line_at(text, entry.span().start)),
                None => origin.to_owned(),
            };
            into.rules.push(entry.into_inner().settings(position + 1, origin));
        }

        let from = layer.mesh;
        let into = &mut self.mesh;
        take!("mesh.broker", from.broker, into.broker);
        take!("mesh.daemons", from.daemons, into.daemons);

        let from = layer.broker;
        let into = &mut self.broker;
        take!("broker.rate_per_s", from.rate_per_s, into.rate_per_s);
        take!("broker.burst", from.burst, into.burst);
        take!("broker.capacity", from.capacity, into.capacity);
        take!("broker.dedupe_days", from.dedupe_days, into.dedupe_days);
        take!("broker.retention_days", from.retention_days, into.retention_days);
        take!("broker.log_size", from.log_size.map(|size| size.0), into.log_size);
        take!("broker.audit_records", from.audit_records, into.audit_records);
        take!("broker.audit_days", from.audit_days, into.audit_days);
        take!("broker.file_size", from.file_size.map(|size| size.0), into.file_size);
        take!("broker.state_entries", from.state_entries, into.state_entries);
        take!("broker.state_size", from.state_size.map(|size| size.0), into.state_size);
        take!("broker.tasks", from.tasks, into.tasks);
        take!("broker.allow_v1_hello", from.allow_v1_hello, into.allow_v1_hello);
        take!("broker.ping", from.ping.map(|time| time.0), into.ping);
        take!("broker.silence", from.silence.map(|time| time.0), into.silence);
        take!("broker.lease", from.lease.map(|time| time.0), into.lease);
        take!("broker.concurrency", from.concurrency, into.concurrency);

        let from = layer.guard;
        let into = &mut self.guard;
        take!("guard.setting", from.setting, into.setting);
        take!("guard.grant", from.grant.map(super::guard::grants), into.grant);
        take!("guard.hide", from.hide.map(all), into.hide);
        take!("guard.read_only", from.read_only.map(all), into.read_only);
        take!("guard.programs", from.programs, into.programs);

        let from = layer.journal;
        let into = &mut self.journal;
        take!("journal.dir", from.dir.map(path), into.dir);
        take!("journal.quota", from.quota.map(|size| size.0), into.quota);
        take!("journal.per_process_quota", from.per_process_quota.map(|size| Some(size.0)), into.per_process_quota);
        take!("journal.on_full", from.on_full, into.on_full);
        take!("journal.floor", from.floor.map(|size| size.0), into.floor);
        take!("journal.keep_count", from.keep_count, into.keep_count);
        take!("journal.keep_age", from.keep_age.map(|time| time.0), into.keep_age);
        take!("journal.keep_bytes", from.keep_bytes.map(|size| Some(size.0)), into.keep_bytes);
        take!("journal.age_delay", from.age_delay.map(|time| time.0), into.age_delay);

        let from = layer.limits;
        let into = &mut self.limits;
        take!("limits.connections", from.connections, into.connections);
        take!("limits.reconnect", from.reconnect.map(|time| time.0), into.reconnect);
        take!("limits.start", from.start.map(|time| time.0), into.start);
        take!("limits.shutdown", from.shutdown.map(|time| time.0), into.shutdown);
        take!("limits.log", from.log.map(|size| size.0), into.log);

        for (alias, entry) in layer.agents {
            let origin = match text {
                Some(text) => format!("{origin}:{}", line_at(text, entry.span().start)),
                None => origin.to_owned(),
            };
            for key in self.agents.entry(alias.clone()).or_default().apply(entry.get_ref()) {
                self.origins.insert(format!("agents.{alias}.{key}"), origin.clone());
            }
            self.origins.insert(format!("agents.{alias}"), origin);
        }
    }

    /// A setting's value in the form that can be typed back.
    pub(super) fn value(&self, key: &str) -> String {
        let (claustrum, codecast, zeroclaw) = (&self.claustrum, &self.codecast, &self.zeroclaw);
        let (wss, sudo_proxy, approvals) = (&zeroclaw.wss, &self.sudo_proxy, &self.approvals);
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let all = |list: &[PathBuf]| list.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(",");
        match key {
            "doors.claustrum.enabled" => claustrum.enabled.to_string(),
            "doors.claustrum.listen" => all(&claustrum.listen),
            "doors.claustrum.reported_version" => claustrum.reported_version.clone().unwrap_or_default(),
            "doors.claustrum.shutdown_needs_auth" => claustrum.shutdown_needs_auth.to_string(),
            "doors.claustrum.reattach" => claustrum.reattach.name().to_owned(),
            "doors.codecast.enabled" => codecast.enabled.to_string(),
            "doors.codecast.listen" => codecast.listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
            "doors.codecast.reported_version" => codecast.reported_version.clone(),
            "doors.codecast.tls_cert" => path(&codecast.tls_cert),
            "doors.codecast.tls_key" => path(&codecast.tls_key),
            "doors.codecast.tokens_file" => path(&codecast.tokens_file),
            "doors.codecast.mode" => codecast.mode.name().to_owned(),
            "doors.zeroclaw.enabled" => zeroclaw.enabled.to_string(),
            "doors.zeroclaw.listen" => all(&zeroclaw.listen),
            "doors.zeroclaw.reported_version" => zeroclaw.reported_version.clone(),
            "doors.zeroclaw.session_limit" => zeroclaw.session_limit.to_string(),
            "doors.zeroclaw.approval_wait" => text::duration(zeroclaw.approval_wait),
            "doors.zeroclaw.wss_enabled" => wss.enabled.to_string(),
            "doors.zeroclaw.wss_bind" => wss.bind.to_string(),
            "doors.zeroclaw.wss_port" => wss.port.to_string(),
            "doors.zeroclaw.wss_cert" => path(&wss.cert),
            "doors.zeroclaw.wss_key" => path(&wss.key),
            "doors.zeroclaw.wss_token_file" => path(&wss.token_file),
            "doors.zeroclaw.wss_proxy_users" => {
                wss.proxy_users.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            "doors.sudo-proxy.enabled" => sudo_proxy.enabled.to_string(),
            "doors.sudo-proxy.listen" => all(&sudo_proxy.listen),
            "doors.sudo-proxy.reported_version" => sudo_proxy.reported_version.clone(),
            "doors.sudo-proxy.unattended_eligible" => sudo_proxy.unattended_eligible.to_string(),
            "doors.sudo-proxy.keep_user_for_root" => sudo_proxy.keep_user_for_root.to_string(),
            "doors.sudo-proxy.in_flight" => sudo_proxy.in_flight.to_string(),
            "doors.sudo-proxy.approval_wait" => text::duration(sudo_proxy.approval_wait),
            "doors.sudo-proxy.exec_timeout" => text::duration(sudo_proxy.exec_timeout),
            "doors.sudo-proxy.output" => text::size(sudo_proxy.output),
            "doors.mcp.enabled" => self.mcp.enabled.to_string(),
            "doors.mcp.listen" => self.mcp.listen.to_string(),
            "sessions.queue" => self.sessions.queue.to_string(),
            "sessions.warm" => self.sessions.warm.to_string(),
            "sessions.idle" => text::duration(self.sessions.idle),
            "sessions.turn_limit" => text::duration(self.sessions.turn_limit),
            "sessions.stop_grace" => text::duration(self.sessions.stop_grace),
            "sessions.line_limit" => text::size(self.sessions.line_limit),
            "sessions.prompt_limit" => text::size(self.sessions.prompt_limit),
            "sessions.keep_archived" => text::duration(self.sessions.keep_archived),
            "sessions.approval_wait" => text::duration(self.sessions.approval_wait),
            "sessions.mesh" => self.sessions.mesh.word().to_owned(),
            "approvals.strict" => approvals.strict.to_string(),
            "approvals.wait" => text::duration(approvals.wait),
            "approvals.max_pending" => approvals.max_pending.to_string(),
            "approvals.keep" => approvals.keep.to_string(),
            "approvals.lockout.attempts" => approvals.lockout.attempts.to_string(),
            "approvals.lockout.wait" => text::duration(approvals.lockout.wait),
            "approvals.lockout.longest" => text::duration(approvals.lockout.longest),
            "approvals.notify.desktop" => approvals.notify.desktop.to_string(),
            "approvals.notify.bell" => approvals.notify.bell.to_string(),
            "approvals.notify.webhook" => approvals.notify.webhook.clone().unwrap_or_default(),
            "approvals.notify.secret_file" => path(&approvals.notify.secret_file),
            "approvals.notify.on" => approvals.notify.on.iter().map(|on| on.name()).collect::<Vec<_>>().join(","),
            "mesh.broker" => self.mesh.broker.to_string(),
            "mesh.daemons" => self.mesh.daemons.to_string(),
            "broker.rate_per_s" => self.broker.rate_per_s.to_string(),
            "broker.burst" => self.broker.burst.to_string(),
            "broker.capacity" => self.broker.capacity.to_string(),
            "broker.dedupe_days" => self.broker.dedupe_days.to_string(),
            "broker.retention_days" => self.broker.retention_days.to_string(),
            "broker.log_size" => text::size(self.broker.log_size),
            "broker.audit_records" => self.broker.audit_records.to_string(),
            "broker.audit_days" => self.broker.audit_days.to_string(),
            "broker.file_size" => text::size(self.broker.file_size),
            "broker.state_entries" => self.broker.state_entries.to_string(),
            "broker.state_size" => text::size(self.broker.state_size),
            "broker.tasks" => self.broker.tasks.to_string(),
            "broker.allow_v1_hello" => self.broker.allow_v1_hello.to_string(),
            "broker.ping" => text::duration(self.broker.ping),
            "broker.silence" => text::duration(self.broker.silence),
            "broker.lease" => text::duration(self.broker.lease),
            "broker.concurrency" => super::mesh::concurrency_name(self.broker.concurrency).to_owned(),
            "guard.setting" => self.guard.setting.name().to_owned(),
            "guard.grant" => self.guard.grant.join(","),
            "guard.hide" => all(&self.guard.hide),
            "guard.read_only" => all(&self.guard.read_only),
            "guard.programs" => self.guard.programs.name().to_owned(),
            "journal.dir" => path(&self.journal.dir),
            "journal.quota" => text::size(self.journal.quota),
            "journal.per_process_quota" => text::size(self.journal.per_process_quota()),
            "journal.on_full" => self.journal.on_full.name().to_owned(),
            "journal.floor" => self.journal.floor.map_or_else(|| "auto".to_owned(), text::size),
            "journal.keep_count" => self.journal.keep_count.to_string(),
            "journal.keep_age" => text::duration(self.journal.keep_age),
            "journal.keep_bytes" => text::size(self.journal.keep_bytes()),
            "journal.age_delay" => text::duration(self.journal.age_delay),
            "limits.connections" => self.limits.connections.to_string(),
            "limits.reconnect" => text::duration(self.limits.reconnect),
            "limits.start" => text::duration(self.limits.start),
            "limits.shutdown" => text::duration(self.limits.shutdown),
            "limits.log" => text::size(self.limits.log),
            _ => String::new(),
        }
    }
}
