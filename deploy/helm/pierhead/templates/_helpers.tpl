{{- define "pierhead.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "pierhead.labels" -}}
app.kubernetes.io/name: pierhead
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "pierhead.selector" -}}
app.kubernetes.io/name: pierhead
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pierhead.namespaces" -}}
{{- join "," (.Values.namespaces | default (list .Release.Namespace)) -}}
{{- end -}}

{{- define "pierhead.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "pierhead.container" -}}
image: {{ include "pierhead.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
envFrom:
  - secretRef: { name: {{ .Values.existingSecret }} }
env:
  - { name: PIERHEAD_MODE, value: {{ .Values.mode | quote }} }
  - { name: PIERHEAD_PUBLIC_URL, value: {{ .Values.publicUrl | quote }} }
  - { name: PIERHEAD_COMPUTE, value: none }
  - { name: PIERHEAD_DATA_DIR, value: /var/lib/pierhead }
  - { name: PIERHEAD_LOG_LEVEL, value: {{ .Values.logLevel | quote }} }
  - { name: HOST, value: "0.0.0.0" }
  - { name: PORT, value: "8124" }
  {{- with .Values.objectStorage }}
  {{- if .bucket }}
  - { name: PIERHEAD_S3_BUCKET, value: {{ .bucket | quote }} }
  - { name: PIERHEAD_S3_REGION, value: {{ .region | quote }} }
  - { name: PIERHEAD_S3_PREFIX, value: {{ .prefix | quote }} }
  - { name: PIERHEAD_BACKUP_HOURS, value: {{ .backupHours | default 0 | quote }} }
  - { name: PIERHEAD_BACKUPS_KEPT, value: {{ .backupsKept | default 14 | quote }} }
  {{- with .endpoint }}
  - { name: PIERHEAD_S3_ENDPOINT, value: {{ . | quote }} }
  {{- end }}
  {{- end }}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumeMounts:
  - { name: data, mountPath: /var/lib/pierhead }
  - { name: tmp, mountPath: /tmp }
{{- end -}}

{{- define "pierhead.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile: { type: RuntimeDefault }
{{- end -}}
