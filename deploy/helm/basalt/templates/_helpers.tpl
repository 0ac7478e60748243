{{- define "basalt.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "basalt.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "basalt.labels" -}}
{{ include "basalt.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "basalt.headless" -}}
{{ include "basalt.name" . }}-headless
{{- end }}

{{- define "basalt.secret" -}}
{{ .Values.existingSecret | default (include "basalt.name" .) }}
{{- end }}

{{- define "basalt.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The domain of the pods' own names. */}}
{{- define "basalt.domain" -}}
{{ include "basalt.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{- /* Peer addresses of all pods, separated by commas. */}}
{{- define "basalt.peers" -}}
{{- $peers := list }}
{{- range $n := until (int .Values.nodes) }}
{{- $peers = append $peers (printf "%s-%d.%s:17000" (include "basalt.name" $) $n (include "basalt.domain" $)) }}
{{- end }}
{{- join "," $peers }}
{{- end }}

{{- /* A setting as text: YAML takes `yes` for true, and has large numbers with an exponent. */}}
{{- define "basalt.value" -}}
{{- if kindIs "bool" . }}{{ ternary "yes" "no" . }}{{ else if kindIs "string" . }}{{ . }}{{ else }}{{ toJson . }}{{ end }}
{{- end }}

{{- /* What is behind `basalt ctl`, within a pod: words of a list. */}}
{{- define "basalt.ctl" -}}
{{- if .Values.tls.enabled }}
{{- /* The certificate is for names, and this is the pod itself. */ -}}
- "--node"
- "rediss://127.0.0.1:7443"
- "--tls-insecure"
{{- if eq .Values.tls.authClients "yes" }}
- "--tls-cert"
- "/tls/tls.crt"
- "--tls-key"
- "/tls/tls.key"
{{- end }}
{{- else -}}
- "--node"
- "127.0.0.1:7000"
{{- end }}
{{- end }}
