//! Weather forecasts that are invented from the name of the city.

use std::fmt;

use serde::Serialize;
use serde_json::{Value, json};

/// The weather for the coming days.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Forecast {
    city: String,
    unit: &'static str,
    days: Vec<Day>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Day {
    /// 1 is tomorrow.
    day: u8,
    sky: &'static str,
    low: i8,
    high: i8,
    rain_percent: u8,
}

/// Invents the forecast for a city; the same city, in upper or lower case, always gets the same one.
pub(super) fn of(city: String, days: i64) -> Result<Forecast, String> {
    if city.trim().is_empty() {
        return Err("\"city\" is empty".to_owned());
    }
    let days = u8::try_from(days).ok().filter(|days| (1..=14).contains(days));
    let days = days.ok_or("\"days\" must be from 1 to 14")?;
    let climate = hash(city.trim().to_lowercase().bytes());
    // Cities have different climates; the days of one city differ only a little.
    let mild = (climate % 25) as i8;
    let day = |day: u8| {
        // The day comes first, so that all bytes after it mix it into the hash.
        let luck = hash(std::iter::once(day).chain(climate.to_le_bytes()));
        let (sky, rain) = SKIES[(luck % 5) as usize];
        let low = mild + (luck >> 8 & 3) as i8;
        Day { day, sky, low, high: low + 5 + (luck >> 16 & 7) as i8, rain_percent: rain + (luck >> 24 & 7) as u8 }
    };
    Ok(Forecast { days: (1..=days).map(day).collect(), city, unit: "celsius" })
}

/// Returns the JSON Schema of a forecast.
pub(super) fn schema() -> Value {
    let day = json!({
        "type": "object",
        "properties": {
            "day": {"type": "integer", "description": "1 is tomorrow"},
            "sky": {"type": "string", "enum": SKIES.map(|(sky, _)| sky)},
            "low": {"type": "integer"},
            "high": {"type": "integer"},
            "rain_percent": {"type": "integer", "minimum": 0, "maximum": 100},
        },
        "required": ["day", "sky", "low", "high", "rain_percent"],
    });
    json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "const": "celsius"},
            "days": {"type": "array", "items": day},
        },
        "required": ["city", "unit", "days"],
    })
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "The weather in {}:", self.city)?;
        self.days.iter().try_for_each(|Day { day, sky, low, high, rain_percent }| {
            write!(f, "\nday {day}: {sky}, {low} to {high} °C, {rain_percent} % chance of rain")
        })
    }
}

/// Hashes with FNV-1a, which never changes, unlike the hashers of the standard library.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Skies, and the lowest chance of rain for each.
const SKIES: [(&str, u8); 5] = [("sunny", 0), ("fair", 5), ("cloudy", 20), ("showers", 55), ("rain", 85)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_city_has_the_same_weather_however_it_is_written_and_whenever_it_is_asked() {
        let days = |city: &str, days| of(city.to_owned(), days).unwrap().days;
        assert_eq!(days("Zürich", 14), days(" ZÜRICH ", 14));
        assert_eq!(days("Zürich", 3), days("Zürich", 14)[..3]);
        assert_ne!(days("Zürich", 14), days("Bern", 14));
    }

    #[test]
    fn days_out_of_range_are_refused() {
        for days in [i64::MIN, 0, 15, 257, i64::MAX] {
            assert!(of("Bern".to_owned(), days).is_err(), "{days}");
        }
    }
}
