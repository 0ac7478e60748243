//! Opens the system under test that the options of a phase name.

use client::{Address, StoreUrl};

use crate::options::PhaseOptions;
use crate::peer;
use crate::phase::access::access;
use crate::phase::store;
use crate::program::Program;
use crate::target::{
    AdapterTarget, AdapterUrl, NoopTarget, RedisTarget, Target, TargetRow, check_frame, targets_expected,
};
use crate::trouble::Trouble;
use crate::workload::{Config, Properties};

/// Opens the target that the options name, for as long as `then` takes.
pub(crate) fn with_target<T>(
    options: &PhaseOptions,
    properties: &Properties,
    config: &Config,
    program: &Program<'_>,
    then: &mut dyn FnMut(&dyn Target) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let access = access(options, properties)?;
    match options.target.as_str() {
        "embedded" => then(&store::open(&options.store, program)?.target),
        "noop://" => {
            let bytes = config.record_bytes() / u64::from(config.field_count);
            then(&NoopTarget::start(config.field_count, bytes as usize, access.timeout, access.connections)?)
        }
        url => {
            // The text may hold a password, so it is not shown.
            let bad = |bad: client::BadAddress| Trouble::Usage(format!("--target: {bad}"));
            if let Some(place) = url.strip_prefix("noop://") {
                let place: Address = place.parse().map_err(bad)?;
                return then(&NoopTarget::at(place, access.timeout, access.connections));
            }
            if let Ok(url) = url.parse::<AdapterUrl>() {
                check_frame(config).map_err(Trouble::Usage)?;
                let command = peer::adapter(&url)?;
                return then(&AdapterTarget::start(url, command, access)?);
            }
            if url.contains("://") && TargetRow::of(url).is_none() {
                return Err(Trouble::Usage(format!("--target: {}", targets_expected())));
            }
            let url = url.strip_prefix("valkey://").unwrap_or(url);
            let store: StoreUrl = url.parse().map_err(bad)?;
            then(&RedisTarget::connect(options.tls.towards(&store), access)?)
        }
    }
}
