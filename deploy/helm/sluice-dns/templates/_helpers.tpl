{{- define "sluice-dns.labels" -}}
app.kubernetes.io/name: sluice-dns
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sluice-dns.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* Not empty where every node has a pod. */ -}}
{{- define "sluice-dns.everywhere" -}}
{{- if eq .Values.kind "DaemonSet" -}}true{{- end -}}
{{- end -}}

{{- define "sluice-dns.maxUnavailable" -}}
{{- $usual := ternary "10%" "1" (eq (include "sluice-dns.everywhere" .) "true") -}}
{{- .Values.maxUnavailable | default $usual -}}
{{- end -}}

{{- /* kubeadm's. */ -}}
{{- define "sluice-dns.corefile" -}}
{{- if .Values.corefile -}}
{{ .Values.corefile }}
{{- else -}}
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes {{ .Values.clusterDomain }} in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
{{ end -}}
{{- end -}}
