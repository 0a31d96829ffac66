//! Keys that only TARSy's file has: its sections for masks and summaries.

use super::super::super::field::{ConfigField, FieldError, ReadContext};
use super::super::super::model::{Masking, ServerSummarizer};
use super::super::super::section::{ConfigKey, KeyForm, read_keys, schema};
use super::super::masking::read_custom;
use super::super::results::MAX_TOKENS;
use super::draft::ServerDraft;

/// Reads `data_masking`.
pub(super) fn read_data_masking(
    draft: &mut ServerDraft,
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<(), FieldError> {
    let mut rules = DataMasking { enabled: true, masking: Masking::default() };
    context.read_strictly(|context| read_keys(DATA_MASKING, &mut rules, field, context));
    if rules.enabled {
        draft.server.masking = rules.masking;
    }
    Ok(())
}

/// Reads `summarization`.
pub(super) fn read_summarization(
    draft: &mut ServerDraft,
    field: &ConfigField<'_>,
    context: &mut ReadContext,
) -> Result<(), FieldError> {
    read_keys(SUMMARIZATION, draft, field, context);
    Ok(())
}

struct DataMasking {
    enabled: bool,
    masking: Masking,
}

type DataMaskingKey = ConfigKey<DataMasking>;

const DATA_MASKING: &[DataMaskingKey] = &[
    DataMaskingKey::hidden("enabled", KeyForm::Flag(|rules, flag| rules.enabled = flag)),
    DataMaskingKey::hidden("pattern_groups", KeyForm::Texts(|rules, texts| rules.masking.groups = texts)),
    DataMaskingKey::hidden("patterns", KeyForm::Texts(|rules, texts| rules.masking.patterns = texts)),
    DataMaskingKey::hidden(
        "custom_patterns",
        KeyForm::Custom(schema::text, |rules, field, context| read_custom(&mut rules.masking, field, context)),
    ),
];

type SummarizationKey = ConfigKey<ServerDraft>;

const SUMMARIZATION: &[SummarizationKey] = &[
    SummarizationKey::hidden(
        "enabled",
        KeyForm::Flag(|draft, flag| {
            if !flag {
                draft.server.summarizer = ServerSummarizer::Off;
            }
        }),
    ),
    SummarizationKey::hidden(
        "size_threshold_tokens",
        KeyForm::Number(1, MAX_TOKENS, |draft, number| draft.server.summarize_above_tokens = Some(number as u64)),
    ),
    // The summarizer decides how long its summary is.
    SummarizationKey::hidden("summary_max_token_limit", KeyForm::Number(1, MAX_TOKENS, |_, _| ())),
];
