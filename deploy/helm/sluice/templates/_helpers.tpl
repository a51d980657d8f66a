{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-sluice" .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.labels" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- /* Not empty in the modes whose rules the programs of iptables write. */ -}}
{{- define "sluice.iptables" -}}
{{- if has .Values.config.mode (list "iptables" "ipvs") -}}true{{- end -}}
{{- end -}}

{{- /* Not empty in the mode that loads eBPF programs. */ -}}
{{- define "sluice.ebpf" -}}
{{- if eq .Values.config.mode "ebpf" -}}true{{- end -}}
{{- end -}}

{{- /* Not empty where the agent answers DNS. */ -}}
{{- define "sluice.dns" -}}
{{- if .Values.dns.enabled -}}
true
{{- end -}}
{{- end -}}

{{- define "sluice.dnsArgs" -}}
{{- if include "sluice.dns" . -}}
- --dns
{{- with .Values.dns }}
{{- if .addresses }}
- --dns-address={{ join "," .addresses }}
{{- end }}
{{- if .clusterIPs }}
- --dns-cluster-ip={{ join "," .clusterIPs }}
{{- end }}
{{- if .service }}
- --dns-service={{ .service }}
{{- end }}
{{- if .domain }}
- --dns-domain={{ .domain }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "sluice.capabilities" -}}
{{- $all := list "NET_ADMIN" -}}
{{- if include "sluice.iptables" . -}}{{- $all = append $all "NET_RAW" -}}{{- end -}}
{{- if include "sluice.ebpf" . -}}{{- $all = concat $all (list "BPF" "PERFMON") -}}{{- end -}}
{{- if include "sluice.dns" . -}}{{- $all = append $all "NET_BIND_SERVICE" -}}{{- end -}}
[{{ join ", " $all }}]
{{- end -}}

{{- define "sluice.image" -}}
{{- $ours := ternary "sluice-iptables" "sluice" (eq (include "sluice.iptables" .) "true") -}}
{{- $repository := .Values.image.repository | default $ours -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "sluice.config" -}}
{{ toYaml .Values.config }}
{{- end -}}

{{- /* That of healthzBindAddress, else kube-proxy's. */ -}}
{{- define "sluice.healthPort" -}}
{{- $address := .Values.config.healthzBindAddress | default "" -}}
{{- regexFind ":[0-9]+$" $address | trimPrefix ":" | default "10256" -}}
{{- end -}}

{{- define "sluice.env" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- with .Values.apiServer }}
{{- if .host }}
- name: KUBERNETES_SERVICE_HOST
  value: {{ .host | quote }}
- name: KUBERNETES_SERVICE_PORT
  value: {{ .port | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* A probe of the health server; the argument is its path. */ -}}
{{- define "sluice.probe" -}}
httpGet:
  path: {{ . }}
  port: healthz
{{- end -}}

{{- define "sluice.lockMount" -}}
{{- if include "sluice.iptables" . -}}
- name: xtables-lock
  mountPath: /run/xtables.lock
{{- end -}}
{{- end -}}
