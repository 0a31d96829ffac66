//! The numbers that decide the order of tools. They are few and round, since the values next to them do about as well.

/// How much a word counts in the name of a tool; in its description or the name of its server it counts 1.
pub(super) const NAME: f32 = 4.0;
/// How much a word counts in the name or the description of a parameter.
pub(super) const PARAMETER: f32 = 0.4;
/// How much the length of a text matters, from 0 to 1.
pub(super) const LENGTH: f32 = 0.3;
/// How much a word still counts if it is repeated; with 0 it counts once.
pub(super) const REPETITION: f32 = 0.8;
/// How much another word counts: one that means the same, or that was probably meant.
pub(super) const OTHER: f32 = 0.4;
/// How much a word between quotes counts: it is mostly a value, and no part of the task.
pub(super) const QUOTED: f32 = 0.5;
/// How much a word counts that is in many questions, whatever they are about.
pub(super) const WEAK: f32 = 0.5;
/// How much more a tool counts if the query has all the words of its name.
pub(super) const NAME_COVERAGE: f32 = 0.5;
/// How much the whole query counts, against the sentence that suits a tool best.
pub(super) const WHOLE: f32 = 0.1;
