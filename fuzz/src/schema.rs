//! Schemas that refer to, contradict and repeat themselves, as real ones do.

use libfuzzer_sys::arbitrary::{Result, Unstructured};

/// A schema, as JSON.
pub fn draw(dice: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    if depth == 0 {
        return word(dice, &["{}", "true", "false", r#"{"type":"string"}"#, r#"{"type":"null"}"#, "1"]);
    }
    let members = (0..dice.int_in_range(0..=5)?).map(|_| member(dice, depth - 1)).collect::<Result<Vec<_>>>()?;
    Ok(format!("{{{}}}", members.join(",")))
}

fn member(dice: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    let key = *dice.choose(&KEYS)?;
    let value = match key {
        "type" => word(dice, &TYPES)?,
        "properties" | "$defs" => {
            format!("{{{}}}", several(dice, |dice| Ok(format!("{}:{}", word(dice, &NAMES)?, draw(dice, depth)?)))?)
        }
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => format!("[{}]", several(dice, |dice| draw(dice, depth))?),
        "enum" | "required" => format!("[{}]", several(dice, |dice| word(dice, &VALUES))?),
        "items" | "not" | "additionalProperties" => draw(dice, depth)?,
        "$ref" => word(dice, &REFERENCES)?,
        _ => word(dice, &VALUES)?,
    };
    Ok(format!("{key:?}:{value}"))
}

/// Up to three, with commas between them.
fn several(
    dice: &mut Unstructured<'_>,
    mut one: impl FnMut(&mut Unstructured<'_>) -> Result<String>,
) -> Result<String> {
    Ok((0..dice.int_in_range(0..=3)?).map(|_| one(dice)).collect::<Result<Vec<_>>>()?.join(","))
}

fn word(dice: &mut Unstructured<'_>, pool: &[&str]) -> Result<String> {
    Ok(dice.choose(pool)?.to_string())
}

const KEYS: [&str; 20] = [
    "type",
    "properties",
    "items",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$defs",
    "enum",
    "const",
    "required",
    "not",
    "prefixItems",
    "additionalProperties",
    "description",
    "minimum",
    "format",
    "nullable",
    "default",
    "propertyOrdering",
];
const TYPES: [&str; 8] =
    [r#""object""#, r#""string""#, r#""array""#, r#""integer""#, r#""boolean""#, r#"["integer","null"]"#, "[]", "7"];
const NAMES: [&str; 5] = [r#""a""#, r#""b""#, r#""input""#, r#""$ref""#, r#""properties""#];
const VALUES: [&str; 9] = [r#""a""#, r#""b""#, r#""""#, "1", "1.50", "null", "true", "{}", "[1]"];
const REFERENCES: [&str; 8] = [
    r##""#""##,
    r##""#/$defs/a""##,
    r##""#/$defs/b""##,
    r##""#/properties/a""##,
    r##""#/properties/b/items""##,
    r##""#/anyOf/0""##,
    r##""#/allOf/1/properties/a""##,
    r#""elsewhere""#,
];
