//! Tests that the records of all schedules replay to the same decisions.

use std::path::Path;
use std::time::Duration;

use toolgate::record::{Backtest, Candidate, RecordFilter, RecordStats, Recorder};

use super::rules::{Broken, ensure};
use crate::fixtures::component;

/// Every call of a life is recorded.
pub fn check(recorder: &Recorder) -> Result<(), Broken> {
    let flushed = recorder.flush(Duration::from_secs(60));
    let RecordStats { dropped, failed, withheld, .. } = recorder.stats();
    ensure(flushed && dropped + failed + withheld == 0, || format!("calls are not recorded: {:?}", recorder.stats()))
}

/// All records of all lives come out as they were.
pub fn replay(folder: &Path, calls: u64) {
    let mut replayed = 0;
    for entry in std::fs::read_dir(folder).expect("there are records") {
        let dir = entry.expect("the folder can be read").path();
        let options = component().options().clone();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let test = Backtest {
            dirs: vec![dir],
            candidate: Candidate::default(),
            filter: RecordFilter::default(),
            options,
            threads,
        };
        let report = test.run(&|_| {}).expect("the component starts");
        assert!(report.is_sound() && report.same == report.records, "{report:#?}");
        replayed += report.records;
    }
    // Those that were made to see whether all is well again are not counted among the calls.
    assert!(replayed >= calls, "{replayed} calls are recorded, and {calls} were made");
}
