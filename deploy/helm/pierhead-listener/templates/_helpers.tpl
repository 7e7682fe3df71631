{{- define "listener.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "listener.labels" -}}
app.kubernetes.io/name: pierhead-listener
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "listener.selector" -}}
app.kubernetes.io/name: pierhead-listener
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "listener.namespaces" -}}
{{- join "," (.Values.namespaces | default (list .Release.Namespace)) -}}
{{- end -}}

{{- define "listener.secret" -}}
{{- .Values.existingSecret | default (printf "%s-key" (include "listener.name" .)) -}}
{{- end -}}

{{- define "listener.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}
