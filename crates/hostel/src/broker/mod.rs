//! The embedded broker: its process, its files, and the verbs that start and stop it.
//!
//! Invariant: one broker per house, its own process, which survives the daemon. It listens on loopback; anything beyond
//! that is TLS or is refused. A broker is up if its lock is held and its port answers.
//!
//! What a broker does is in `hostel_broker`.

pub(crate) mod cli;
pub(crate) mod place;

mod address;
mod down;
mod health;
mod serve;
mod status;
mod up;

use std::process::ExitCode;

use hostel_doors::tls::Identity;
use hostel_mesh::link::dial::key_digest;
use hostel_wire::invite::CertPin;

use crate::commands::Context;
use crate::error::CommandError;
use crate::mesh;
use crate::mesh::Desk;
use crate::mesh::failure::Failure;
use crate::mesh::host::Host;
use cli::Broker;
use cli::BrokerAction;
use place::Place;

pub(crate) use down::stop;
pub(crate) use health::running;
pub(crate) use up::Asked;
pub(crate) use up::start;

/// The broker's certificate for other machines, made if it is missing, and its digest as invites carry it.
fn identity(place: &Place) -> Result<(Identity, [u8; 32]), Failure> {
    let (certificate, key) = place.certificate();
    let identity = Identity::load_or_make(&certificate, &key)
        .map_err(|error| Failure::daemon(1, "certificate", error.to_string()))?;
    let digest = hostel_wire::encoding::unhex_array(&identity.fingerprint().replace(':', "").to_lowercase());
    match digest {
        Some(digest) => Ok((identity, digest)),
        None => Err(Failure::internal("the certificate has no digest")),
    }
}

/// The broker's certificate as invites name it, with the key that stays when it is renewed.
pub(crate) fn certificate(place: &Place) -> Result<CertPin, Failure> {
    let (identity, cert) = identity(place)?;
    Ok(CertPin { cert, key: identity.last().and_then(key_digest) })
}

/// `hostel broker`.
pub(crate) fn run(context: &Context<'_>, arguments: &Broker) -> Result<ExitCode, CommandError> {
    let host = Host::of_environment(context.ui).map_err(CommandError::from)?;
    let desk = Desk { ui: context.ui, home: context.home.clone(), host, mesh: None, called: "hostel" };
    match serve(&desk, arguments) {
        Ok(code) => Ok(code),
        Err(failure) => mesh::answer_failure(context.ui, failure),
    }
}

/// Runs a verb, under whichever name.
pub(crate) fn serve(desk: &Desk<'_>, arguments: &Broker) -> Result<ExitCode, Failure> {
    match &arguments.action {
        BrokerAction::Up(arguments) => up::run(desk, arguments),
        BrokerAction::Down => mesh::wait(down::run(desk)),
        BrokerAction::Status => mesh::wait(status::run(desk)),
    }
}
