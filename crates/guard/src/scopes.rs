//! The second layer: signals, abstract sockets and tracing only among the processes of one guard, resource limits of
//! nobody else, and no way to gain privileges.
//!
//! A Landlock domain cannot be left. It has no file system rules on purpose: a domain with such rules forbids every mount,
//! and with that the sandboxes of agents that may make user namespaces.

use std::io;

use hostel_keeper::syscall_filter::SyscallFilter;
use landlock::{ABI, Access as _, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, RulesetStatus, Scope};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Capabilities that a guarded root user keeps: what installing software and changing users takes, and nothing by which
/// the view can be left (mounts, tracing, devices, modules, file handles).
const ROOT_KEEPS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETFCAP);

/// Puts this process into a domain of its own.
pub(crate) fn enter() -> Result<(), String> {
    let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let scoped = rules
        .scope(Scope::from_all(ABI::V6))
        .and_then(Ruleset::create)
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(|error| reason(&error.to_string()))?;
    match scoped.ruleset {
        RulesetStatus::FullyEnforced if scoped.no_new_privs => keep_to_own_limits(),
        _ => Err("the kernel enforces only a part of it".to_owned()),
    }
}

/// Landlock has no scope for resource limits.
fn keep_to_own_limits() -> Result<(), String> {
    let filtered = SyscallFilter::own_limits().and_then(|filter| filter.install());
    filtered.map_err(|error| format!("resource limits of other processes cannot be protected: {error}"))
}

/// Says what is missing in a kernel that refused.
fn reason(error: &str) -> String {
    let abi = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let disabled = !abi.is_empty() && !abi.split(',').any(|module| module.trim() == "landlock");
    let hint = if disabled { "; add `landlock` to the kernel parameter `lsm=`" } else { "" };
    format!("Landlock cannot scope signals and sockets (Linux 6.12 can): {error}{hint}")
}

/// Gives up every capability; a root user keeps those that ordinary administration takes.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    let kept = match rustix::process::geteuid().is_root() {
        true => rustix::thread::capabilities(None)?.permitted & ROOT_KEEPS,
        false => CapabilitySet::empty(),
    };
    // A program that root executes gets what the bounding set allows, so it shrinks first.
    if !kept.is_empty() {
        let each = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
        for capability in each.filter(|capability| !ROOT_KEEPS.contains(*capability)) {
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                // A capability that this kernel does not know.
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}
