//! Sends spans to a collector over HTTP, as the `OTEL_*` variables say.

use std::env;
use std::time::Duration;

use opentelemetry::global;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::warn;

/// Sends spans while it exists; dropping it sends the rest.
pub struct ExportGuard(SdkTracerProvider);

/// Starts sending spans if the environment asks for it, with an endpoint in `OTEL_EXPORTER_OTLP_ENDPOINT` or
/// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or with `OTEL_TRACES_EXPORTER=otlp`. The other `OTEL_*` variables apply.
///
/// Do not call it inside an async runtime, because the exporter opens its connections outside of one.
pub fn start() -> Option<ExportGuard> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = set("OTEL_EXPORTER_OTLP_ENDPOINT").or_else(|| set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"));
    let wanted = match set("OTEL_TRACES_EXPORTER").as_deref() {
        Some("otlp") => true,
        Some("none") => false,
        Some(other) => {
            warn!(
                "OTEL_TRACES_EXPORTER is {other:?}, but only \"otlp\" and \"none\" are supported, so no spans are sent"
            );
            false
        }
        None => endpoint.is_some(),
    };
    if !wanted || set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return None;
    }
    for name in ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] {
        if let Some(other) = set(name).filter(|value| value != "http/protobuf") {
            warn!("{name} is {other:?}, which is not supported; spans are sent as \"http/protobuf\"");
        }
    }
    // The exporter's HTTP client uses the process-wide default provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter = match SpanExporter::builder().with_http().build() {
        Ok(exporter) => exporter,
        Err(error) => {
            warn!("no spans are sent: {error}");
            return None;
        }
    };
    let named = set("OTEL_SERVICE_NAME").is_some()
        || set("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|attributes| attributes.contains("service.name="));
    let resource = match named {
        true => Resource::builder(),
        false => Resource::builder().with_service_name("toolgate"),
    };
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build()).build();
    global::set_tracer_provider(provider.clone());
    Some(ExportGuard(provider))
}

impl Drop for ExportGuard {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(LAST_WORDS) {
            warn!("the last spans could not be sent: {error}");
        }
    }
}

/// How long to wait for the collector at the end.
const LAST_WORDS: Duration = Duration::from_secs(5);
