//! The files of volumes made from other objects: ConfigMap, Secret, downward API and projected (`pkg/volume/configmap` and
//! its neighbours). Errors are in kubelet's words.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume,
    VolumeProjection,
};
use serde_json::Value;

use super::files::{File, Files};
use crate::pods::Read;
use crate::pods::fields::Own;

/// The permissions of files whose volume names none.
const MODE: i32 = 0o644;

/// What files are made from.
pub(super) struct Sources<'a> {
    pub(super) own: &'a Own<'a>,
    pub(super) objects: &'a dyn Read,
    /// The token for a projection of the volume.
    pub(super) token: &'a dyn Fn(&ServiceAccountTokenProjection) -> Result<String, String>,
}

/// A ConfigMap or Secret.
struct Keyed<'a> {
    kind: &'static str,
    name: &'a str,
    optional: bool,
    items: &'a [KeyToPath],
    mode: i32,
}

impl Sources<'_> {
    /// The files of a volume; `None` for a volume of another kind.
    pub(super) fn files(&self, volume: &Volume) -> Option<Result<Files, String>> {
        if let Some(it) = &volume.config_map {
            return Some(self.keyed(&Keyed {
                kind: "ConfigMap",
                name: &it.name,
                optional: it.optional == Some(true),
                items: it.items.as_deref().unwrap_or_default(),
                mode: it.default_mode.unwrap_or(MODE),
            }));
        }
        if let Some(it) = &volume.secret {
            return Some(self.keyed(&Keyed {
                kind: "Secret",
                name: it.secret_name.as_deref().unwrap_or_default(),
                optional: it.optional == Some(true),
                items: it.items.as_deref().unwrap_or_default(),
                mode: it.default_mode.unwrap_or(MODE),
            }));
        }
        if let Some(it) = &volume.downward_api {
            let items = it.items.as_deref().unwrap_or_default();
            return Some(self.downward(items, it.default_mode.unwrap_or(MODE)));
        }
        volume.projected.as_ref().map(|it| self.projected(it))
    }

    fn keyed(&self, wanted: &Keyed<'_>) -> Result<Files, String> {
        let namespace = self.own.namespace();
        let object = found(
            self.objects,
            namespace,
            wanted.kind,
            wanted.name,
            wanted.optional,
        )?;
        let Some(object) = object else {
            return Ok(Files::new());
        };
        let data = data(wanted.kind, &object);
        let file = |bytes: &Vec<u8>, mode: Option<i32>| File {
            bytes: bytes.clone(),
            mode: mode.unwrap_or(wanted.mode).cast_unsigned() & 0o777,
        };
        if wanted.items.is_empty() {
            let files = data.iter();
            return Ok(files
                .map(|(key, it)| (key.clone(), file(it, None)))
                .collect());
        }
        let mut files = Files::new();
        for item in wanted.items {
            match data.get(&item.key) {
                Some(bytes) => {
                    files.insert(relative(&item.path)?, file(bytes, item.mode));
                }
                None if wanted.optional => {}
                None => {
                    let kind = if wanted.kind == "Secret" {
                        "secret"
                    } else {
                        "config"
                    };
                    return Err(format!("references non-existent {kind} key: {}", item.key));
                }
            }
        }
        Ok(files)
    }

    fn downward(&self, items: &[DownwardAPIVolumeFile], mode: i32) -> Result<Files, String> {
        let mut files = Files::new();
        for item in items {
            let (field, resource) = (&item.field_ref, &item.resource_field_ref);
            let value = self.own.selected(field.as_ref(), resource.as_ref(), "");
            let file = File {
                bytes: value.transpose()?.unwrap_or_default().into_bytes(),
                mode: item.mode.unwrap_or(mode).cast_unsigned() & 0o777,
            };
            files.insert(relative(&item.path)?, file);
        }
        Ok(files)
    }

    /// All sources are tried; the error names each that failed.
    fn projected(&self, volume: &ProjectedVolumeSource) -> Result<Files, String> {
        let mode = volume.default_mode.unwrap_or(MODE);
        let mut files = Files::new();
        let mut errors = Vec::new();
        for source in volume.sources.iter().flatten() {
            match self.projection(source, mode) {
                Ok(more) => files.extend(more),
                Err(error) => errors.push(error),
            }
        }
        match errors.as_slice() {
            [] => Ok(files),
            [one] => Err(one.clone()),
            many => Err(format!("[{}]", many.join(", "))),
        }
    }

    fn projection(&self, source: &VolumeProjection, mode: i32) -> Result<Files, String> {
        if let Some(it) = &source.config_map {
            return self.keyed(&Keyed {
                kind: "ConfigMap",
                name: &it.name,
                optional: it.optional == Some(true),
                items: it.items.as_deref().unwrap_or_default(),
                mode,
            });
        }
        if let Some(it) = &source.secret {
            return self.keyed(&Keyed {
                kind: "Secret",
                name: &it.name,
                optional: it.optional == Some(true),
                items: it.items.as_deref().unwrap_or_default(),
                mode,
            });
        }
        if let Some(it) = &source.downward_api {
            return self.downward(it.items.as_deref().unwrap_or_default(), mode);
        }
        let Some(it) = &source.service_account_token else {
            return Ok(Files::new());
        };
        let file = File {
            bytes: (self.token)(it)?.into_bytes(),
            mode: mode.cast_unsigned() & 0o777,
        };
        Ok([(relative(&it.path)?, file)].into())
    }
}

/// A ConfigMap or Secret; `None` when it is missing and optional.
///
/// # Errors
///
/// kubelet's error for a required object that is missing.
pub(in crate::pods) fn found(
    objects: &dyn Read,
    namespace: &str,
    kind: &str,
    name: &str,
    optional: bool,
) -> Result<Option<Arc<Value>>, String> {
    match objects.get(kind, namespace, name) {
        None if !optional => Err(format!("{} {name:?} not found", kind.to_lowercase())),
        found => Ok(found),
    }
}

/// The values of a ConfigMap or Secret.
pub(in crate::pods) fn data(kind: &str, object: &Value) -> BTreeMap<String, Vec<u8>> {
    let entries = |field: &str| {
        let map = object[field].as_object().into_iter().flatten();
        map.map(|(key, it)| (key.clone(), it.as_str().unwrap_or_default().to_owned()))
            .collect::<Vec<_>>()
    };
    // Admission refused what is no Base64.
    let decoded = |(key, text): (String, String)| {
        let bytes = BASE64_STANDARD.decode(text).unwrap_or_default();
        (key, bytes)
    };
    if kind == "Secret" {
        return entries("data").into_iter().map(decoded).collect();
    }
    let texts = entries("data").into_iter();
    let texts = texts.map(|(key, text)| (key, text.into_bytes()));
    texts
        .chain(entries("binaryData").into_iter().map(decoded))
        .collect()
}

/// Refuses paths that lead out of the volume; the API refuses them, too.
fn relative(path: &str) -> Result<String, String> {
    let is_wrong = path.is_empty()
        || path.starts_with('/')
        || path.split('/').any(|it| it == ".." || it.is_empty())
        || path.starts_with("..");
    if is_wrong {
        return Err(format!("invalid path: {path:?}"));
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    struct Objects;

    impl Read for Objects {
        fn get(&self, kind: &str, _: &str, name: &str) -> Option<Arc<Value>> {
            let object = match (kind, name) {
                ("ConfigMap", "conf") => {
                    json!({"data": {"a": "one", "b": "two"}, "binaryData": {"c": "AAE="}})
                }
                ("Secret", "key") => json!({"data": {"password": "c2VjcmV0"}}),
                _ => return None,
            };
            Some(Arc::new(object))
        }

        fn list(&self, _: &str) -> Vec<Arc<Value>> {
            Vec::new()
        }

        fn token(&self, _: &Pod, _: Option<&str>, _: i64) -> Result<String, String> {
            unreachable!("the volume asks")
        }
    }

    /// Path, permissions and text of each file; or the error.
    #[track_caller]
    fn check(volume: &Value, expected: &str) {
        let mut whole = json!({"name": "v"});
        whole
            .as_object_mut()
            .unwrap()
            .extend(volume.as_object().unwrap().clone());
        let pod = json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "c"}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let own = Own {
            pod: &pod,
            addresses: None,
            node_addresses: None,
        };
        let token = |it: &ServiceAccountTokenProjection| match it.audience.as_deref() {
            None => Ok("a token".to_owned()),
            Some(_) => Err("failed to fetch token: no".to_owned()),
        };
        let sources = Sources {
            own: &own,
            objects: &Objects,
            token: &token,
        };
        let volume: Volume = serde_json::from_value(whole).unwrap();
        let found = match sources.files(&volume) {
            None => "no files".to_owned(),
            Some(Err(error)) => error,
            Some(Ok(files)) => {
                let all = files.iter().map(|(path, it)| {
                    let text = String::from_utf8_lossy(&it.bytes);
                    format!("{path} {:o} {text:?}", it.mode)
                });
                all.collect::<Vec<_>>().join("; ")
            }
        };
        assert_eq!(found, expected, "{volume:?}");
    }

    #[test]
    fn config_maps_and_secrets_become_files() {
        check(
            &json!({"configMap": {"name": "conf"}}),
            r#"a 644 "one"; b 644 "two"; c 644 "\0\u{1}""#,
        );
        let items = json!([{"key": "a", "path": "x/y", "mode": 0o400}]);
        check(
            &json!({"configMap": {"name": "conf", "items": items, "defaultMode": 0o600}}),
            r#"x/y 400 "one""#,
        );
        check(
            &json!({"configMap": {"name": "none"}}),
            r#"configmap "none" not found"#,
        );
        check(
            &json!({"configMap": {"name": "none", "optional": true}}),
            "",
        );
        let missing = json!([{"key": "z", "path": "z"}]);
        check(
            &json!({"configMap": {"name": "conf", "items": missing}}),
            "references non-existent config key: z",
        );
        check(
            &json!({"configMap": {"name": "conf", "items": missing, "optional": true}}),
            "",
        );
        check(
            &json!({"secret": {"secretName": "key", "defaultMode": 0o400}}),
            r#"password 400 "secret""#,
        );
        check(
            &json!({"secret": {"secretName": "none"}}),
            r#"secret "none" not found"#,
        );
        check(
            &json!({"secret": {"secretName": "key", "items": missing}}),
            "references non-existent secret key: z",
        );
        let out = json!([{"key": "a", "path": "../x"}]);
        check(
            &json!({"configMap": {"name": "conf", "items": out}}),
            r#"invalid path: "../x""#,
        );
        check(&json!({"emptyDir": {}}), "no files");
    }

    #[test]
    fn projections_are_one_volume() {
        let labels =
            json!({"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]});
        check(&json!({"downwardAPI": labels}), r#"labels 644 "app=\"x\"""#);
        let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}});
        let sources = json!([token, {"secret": {"name": "key"}}, {"downwardAPI": labels}]);
        check(
            &json!({"projected": {"sources": sources, "defaultMode": 0o440}}),
            r#"labels 440 "app=\"x\""; password 440 "secret"; token 440 "a token""#,
        );
        let other = json!({"serviceAccountToken": {"path": "token", "audience": "vault"}});
        check(
            &json!({"projected": {"sources": [other]}}),
            "failed to fetch token: no",
        );
        let sources = json!([other, {"configMap": {"name": "none"}}]);
        check(
            &json!({"projected": {"sources": sources}}),
            r#"[failed to fetch token: no, configmap "none" not found]"#,
        );
    }
}
