//! `hostel doctor`.
use std::process::ExitCode;
use super::Context;
use crate::error::CommandError;
pub(super) async fn run(_context: &Context<'_>) -> Result<ExitCode, CommandError> {
    Ok(ExitCode::SUCCESS)
}
