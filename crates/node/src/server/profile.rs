//! CPU profiles of the process: samples of the stack at each tick of the kernel's profiling timer.

use std::time::Duration;

use pprof::protos::Message;
use pprof::{ProfilerGuard, ProfilerGuardBuilder};
use tokio::time::sleep;

/// Samples per second of CPU time, as in Go.
const FREQUENCY: i32 = 100;

/// Libraries in which the sampler must not walk the stack: libgcc does the walk itself and may be
/// interrupted in it, and the vdso has no unwind tables.
const NOT_WALKED: [&str; 2] = ["libgcc", "vdso"];

/// Takes samples for this time and returns the profile in the format of `go tool pprof`. Ends when
/// the client disconnects. Waiting threads take no CPU time and are not in the profile.
pub(super) async fn record(time: Duration) -> Result<Vec<u8>, String> {
    let guard = ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        .blocklist(&NOT_WALKED)
        .build()
        .map_err(|error| format!("start the profiler: {error}"))?;
    sleep(time).await;
    // Symbols are read from the program's file, which must not delay other requests.
    let finishing = tokio::task::spawn_blocking(move || finish(&guard));
    finishing.await.map_err(|error| error.to_string())?
}

fn finish(guard: &ProfilerGuard<'_>) -> Result<Vec<u8>, String> {
    let report = guard.report().build();
    let profile = report.and_then(|it| it.pprof());
    let profile = profile.map_err(|error| format!("read the profiler: {error}"))?;
    Ok(profile.encode_to_vec())
}
