//! The permits of uploads and of files that are sent. Each stands for a descriptor.

use crate::bodies::ProcessBounds;
use crate::refusal::Refusal;
use crate::request::Request;
use web::pace::PLACE_TIMEOUT;
use web::shares::{Permit, Shares};

/// Acquires a permit for a file that is sent; 503 if none becomes free in time.
pub async fn download_place(request: &Request) -> Result<Permit, Refusal> {
    acquire_permit(request, |bodies| &bodies.downloads).await
}

/// Acquires a permit for an upload; 503 if none becomes free in time.
pub(crate) async fn upload_place(request: &Request) -> Result<Permit, Refusal> {
    acquire_permit(request, |bodies| &bodies.uploads).await
}

async fn acquire_permit(request: &Request, shares: fn(&ProcessBounds) -> &Shares) -> Result<Permit, Refusal> {
    let shares = shares(&request.app.bodies);
    shares.acquire(&request.holder(), 1, PLACE_TIMEOUT).await.ok_or_else(Refusal::overloaded)
}
