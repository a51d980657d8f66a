//! A CPU profile of the process: which code ran when the profiling timer of the kernel went off.

use std::time::Duration;

use pprof::protos::Message;
use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use tokio::time::sleep;

/// Samples in a second of CPU time, as in Go.
const FREQUENCY: i32 = 100;

/// Code whose stack must not be walked: the walk itself may be interrupted there, and has no
/// tables for the pages of the kernel.
const NOT_WALKED: [&str; 2] = ["libgcc", "vdso"];

/// Takes samples for this time; the profile in the format of `go tool pprof`. A caller who goes
/// away ends it. What runs without the CPU, as any wait, is not in it.
pub(super) async fn record(time: Duration) -> Result<Vec<u8>, String> {
    let guard = ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        .blocklist(&NOT_WALKED)
        .build()
        .map_err(|error| format!("start the profiler: {error}"))?;
    sleep(time).await;
    // Names are looked up in the program's file; others are not to wait for that.
    let finishing = tokio::task::spawn_blocking(move || finish(&guard));
    finishing.await.map_err(|error| error.to_string())?
}

fn finish(guard: &ProfilerGuard<'_>) -> Result<Vec<u8>, String> {
    let report = guard.report().build();
    let profile = report.and_then(|it| it.pprof());
    let profile = profile.map_err(|error| format!("read the profiler: {error}"))?;
    Ok(profile.encode_to_vec())
}
