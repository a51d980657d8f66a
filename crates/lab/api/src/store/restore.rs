//! Loads the objects of an earlier run.

use serde_json::Value;

use super::dependents::Dependents;
use super::expiry::Expiry;
use super::writer::{Chore, Writer};
use super::{Change, custom, namespaces};
use crate::history::{Event, Misplaced};

impl Writer {
    pub(super) fn restore(&mut self, objects: Vec<Value>, revision: u64) -> Result<(), Misplaced> {
        let definitions = objects
            .iter()
            .filter(|it| it["kind"] == "CustomResourceDefinition");
        definitions.for_each(|it| custom::serve(&self.history, it));
        let registry = self.history.registry();
        let objects = objects.into_iter().map(|mut object| {
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
            if let Some(resource) = registry.of_kind(&version, &kind) {
                // An earlier version may have stored another form; it read what it stored.
                let _ = resource.schema.decode(&mut object);
                namespaces::adopt(resource, &mut object);
            }
            object
        });
        let restored = self.history.refill(objects.collect(), revision)?;
        self.dependents = Dependents::default();
        self.expiry = Expiry::default();
        self.chores.clear();
        self.unwritten.clear();
        for object in restored {
            let event = Event::of(object.clone(), None);
            self.follow(&event, &Change::of(&event));
            // The follow-up work that the earlier run did not finish.
            let (resource, key) = (object.resource.clone(), object.key.clone());
            let value = object.value();
            if !value["metadata"]["ownerReferences"].is_null() {
                self.chores
                    .push_back(Chore::Collect(resource.clone(), key.clone()));
            }
            if !value["metadata"]["deletionTimestamp"].is_null() {
                if custom::is_definition(&resource) {
                    let objects = self.objects_of(&key.name);
                    self.chores.extend(objects);
                }
                self.chores.push_back(Chore::Settle(resource, key));
            }
        }
        self.make_system_namespaces();
        Ok(())
    }
}
