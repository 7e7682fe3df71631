{{- define "listener.name" -}}
{{- /* The API refuses names of this prefix in deployments, so that no agent can name the listener's objects. */ -}}
{{- $name := .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- if or (eq $name "pierhead") (hasPrefix "pierhead-" $name) }}{{ $name }}{{ else }}pierhead-{{ $name }}{{ end -}}
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

{{- define "gateway.selector" -}}
app.kubernetes.io/name: pierhead-agent-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- /*
Whether this release has the gateway. Addresses of an installation must not change by an upgrade, so auto keeps what the installation has.
*/ -}}
{{- define "gateway.isOn" -}}
{{- $enabled := .Values.gateway.enabled -}}
{{- if ne (toString $enabled) "auto" -}}
{{- if $enabled }}yes{{ end -}}
{{- else if not .Release.IsUpgrade }}yes{{- else -}}
{{- if lookup "v1" "Service" .Release.Namespace (printf "%s-gateway" (include "listener.name" .)) }}yes{{ end -}}
{{- end -}}
{{- end -}}

{{- /* Where callers reach agents. Without a public address, the gateway has one inside the cluster. */ -}}
{{- define "listener.agentsUrl" -}}
{{- if or .Values.agents.url (not (include "gateway.isOn" .)) }}{{ .Values.agents.url }}{{ else -}}
http://{{ include "listener.name" . }}-gateway.{{ .Release.Namespace }}.svc/d/{slug}
{{- end -}}
{{- end -}}

{{- /*
Whether only the gateway reaches agents. An upgrade that installs the gateway must not close agents to pods that call them directly,
and later upgrades keep the NetworkPolicy if it exists.
*/ -}}
{{- define "gateway.closesAgents" -}}
{{- $enabled := .Values.gateway.networkPolicy.enabled -}}
{{- if ne (toString $enabled) "auto" -}}
{{- if $enabled }}yes{{ end -}}
{{- else if not .Release.IsUpgrade }}yes{{- else -}}
{{- $name := printf "%s-gateway-agents" (include "listener.name" .) -}}
{{- $found := "" -}}
{{- range .Values.namespaces }}{{ if lookup "networking.k8s.io/v1" "NetworkPolicy" . $name }}{{ $found = "yes" }}{{ end }}{{ end -}}
{{- $found -}}
{{- end -}}
{{- end -}}

{{- define "listener.namespaces" -}}
{{- if not .Values.namespaces }}{{ fail "namespaces is needed: the namespaces of agents, such as {agents}" }}{{ end -}}
{{- if has .Release.Namespace .Values.namespaces -}}
{{- fail (printf "namespaces must not contain %s, the namespace of the listener: agents there could act as the listener" .Release.Namespace) -}}
{{- end -}}
{{- join "," .Values.namespaces -}}
{{- end -}}

{{- /* The strictest Pod Security Standard that admits what the operator allows. */ -}}
{{- define "listener.podSecurity" -}}
{{- with .Values.agents -}}
{{- if .allowPrivileged }}privileged{{ else if or .allowRoot .allowNetworkVolumes }}baseline{{ else }}restricted{{ end -}}
{{- end -}}
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

{{- /*
A host as a peer of a NetworkPolicy: an address, or pods with this name (empty: all) in the namespace of a Service. The address of any
other host is known to DNS only.
*/ -}}
{{- define "listener.peer" -}}
{{- $name := regexReplaceAll ":[0-9]+$" (first .) "" -}}
{{- if regexMatch "^[0-9.]+$" $name -}}
- ipBlock: { cidr: {{ $name }}/32 }
{{- else if regexMatch "^[^.]+\\.[^.]+\\.svc(\\.cluster\\.local)?$" $name -}}
- namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: {{ index (splitList "." $name) 1 }} } }
{{- with last . }}
  podSelector: { matchLabels: { app.kubernetes.io/name: {{ . }} } }
{{- end }}
{{- end -}}
{{- end -}}

{{- /* Values that an upgrade reuses from a chart without the registry do not mention it. */ -}}
{{- define "registry.isOn" -}}
{{- if (.Values.registry).enabled }}yes{{ end -}}
{{- end -}}

{{- define "registry.name" -}}
{{ include "listener.name" . }}-registry
{{- end -}}

{{- define "registry.selector" -}}
app.kubernetes.io/name: pierhead-registry
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "registry.labels" -}}
{{ include "registry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{- define "registry.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- /* Derived from the password for pushes, which it does not reveal. */ -}}
{{- define "registry.pullPassword" -}}
{{ printf "pull %s" .Values.registry.password | sha256sum }}
{{- end -}}

{{- /* A docker config.json with a repository's host, a user and a password. */ -}}
{{- define "registry.credential" -}}
{{- $host := splitList "/" (index . 0) | first -}}
{{ dict "auths" (dict $host (dict "username" (index . 1) "password" (index . 2) "auth" (printf "%s:%s" (index . 1) (index . 2) | b64enc))) | toJson }}
{{- end -}}

{{- /* The two registries of one volume: builds push to the first one, and nodes pull from the second one. */ -}}
{{- define "registry.config" -}}
{{- range $task, $port := dict "push" 5000 "pull" 5001 -}}
{{ $task }}.yml: |
  version: 0.1
  log: { level: warn, accesslog: { disabled: true } }
  storage:
    filesystem: { rootdirectory: /var/lib/registry }
    delete: { enabled: {{ eq $task "push" }} }
    maintenance:
      uploadpurging: { enabled: {{ eq $task "push" }}, age: 24h, interval: 24h, dryrun: false }
      readonly: { enabled: {{ eq $task "pull" }} }
  auth:
    htpasswd: { realm: pierhead, path: /etc/registry-passwords/{{ $task }} }
  http: { addr: ":{{ $port }}" }
{{ end -}}
{{- end -}}

{{- /* Repository to which builds push: the operator's, or the one of this chart; empty: this listener takes images only. */ -}}
{{- define "builds.registry" -}}
{{- if not (include "registry.isOn" .) -}}
{{ .Values.builds.registry }}
{{- else if .Values.builds.registry -}}
{{- fail "builds.registry and registry.enabled exclude each other: builds push to one registry" -}}
{{- else -}}
{{ include "registry.name" . }}.{{ .Release.Namespace }}.svc:5000/agents
{{- end -}}
{{- end -}}

{{- /* The name by which nodes pull from this chart's registry. */ -}}
{{- define "builds.pullRegistry" -}}
{{ .Values.registry.pullHost | default (printf "localhost:%d" (int .Values.registry.nodePort)) }}/agents
{{- end -}}

{{- define "builds.registrySecret" -}}
{{- if and (include "registry.isOn" .) (not .Values.builds.registrySecret) -}}
{{ include "registry.name" . }}-push
{{- else -}}
{{ .Values.builds.registrySecret }}
{{- end -}}
{{- end -}}

{{- define "agents.pullSecrets" -}}
{{- $secrets := .Values.agents.imagePullSecrets -}}
{{- if include "registry.isOn" . }}{{ $secrets = append $secrets (printf "%s-pull" (include "registry.name" .)) }}{{ end -}}
{{- join "," $secrets -}}
{{- end -}}
