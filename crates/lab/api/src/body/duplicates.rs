//! Fields that a JSON body gives twice, of which the last one counts.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The paths of fields that are given more than once: `spec.containers[0].name`. None when the body is no JSON object.
pub(crate) fn duplicates(body: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let scan = Scan {
        path: String::new(),
        found: &mut found,
    };
    // The decoder refuses a body that cannot be read.
    let _ = scan.deserialize(&mut serde_json::Deserializer::from_slice(body));
    found.retain(|it| !it.starts_with('['));
    found
}

/// One value of the body.
struct Scan<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Scan<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Scan<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let path = match self.path.as_str() {
                "" => name.clone(),
                outer => format!("{outer}.{name}"),
            };
            if !names.insert(name) {
                self.found.push(path.clone());
            }
            let found = &mut *self.found;
            map.next_value_seed(Scan { path, found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            let path = format!("{}[{index}]", self.path);
            let found = &mut *self.found;
            if items.next_element_seed(Scan { path, found })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
