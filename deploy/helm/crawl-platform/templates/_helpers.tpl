{{/* Names and labels */}}
{{- define "crawl.fullname" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* Labels that select the pods of one component: (list $ "cell") */}}
{{- define "crawl.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "crawl.labels" -}}
{{- $root := index . 0 -}}
{{ include "crawl.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "crawl.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What the pods of every role have in common */}}
{{- define "crawl.podSpec" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
enableServiceLinks: false
{{- end }}

{{- define "crawl.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "crawl.container" -}}
image: {{ include "crawl.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "crawl.containerSecurity" . | nindent 2 }}
{{- end }}

{{/* Where a pod runs: (list $ .Values.cells) */}}
{{- define "crawl.placement" -}}
{{- $role := index . 1 -}}
{{- with $role.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $role.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with $role.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- with $role.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* The crawl's home: the shared volume, with what is this pod's own laid over it */}}
{{- define "crawl.homeVolumes" -}}
- name: home
  persistentVolumeClaim: {claimName: {{ include "crawl.homeClaim" . }}}
- name: settings
  configMap: {name: {{ include "crawl.fullname" . }}-settings}
- name: nats-login
  secret:
    secretName: {{ include "crawl.natsSecret" . }}
    items: [{key: nats.json, path: nats.json}]
- name: run
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
- name: logs
  emptyDir: {sizeLimit: 512Mi}
- name: tmp
  emptyDir: {sizeLimit: 4Gi}
{{- end }}

{{- define "crawl.homeMounts" -}}
- {name: home, mountPath: /crawl}
- {name: settings, mountPath: /crawl/crawl.toml, subPath: crawl.toml, readOnly: true}
- {name: run, mountPath: /crawl/run}
- {name: nats-login, mountPath: /crawl/run/nats.json, subPath: nats.json, readOnly: true}
- {name: logs, mountPath: /crawl/logs}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "crawl.homeClaim" -}}
{{ .Values.home.existingClaim | default (printf "%s-home" (include "crawl.fullname" .)) }}
{{- end }}

{{/* Pods that use the exchange start anew when the settings have changed */}}
{{- define "crawl.settingsChecksum" -}}
checksum/settings: {{ include "crawl.settings" . | sha256sum }}
{{- end }}

{{- define "crawl.waitContainer" -}}
- name: wait
  {{- include "crawl.container" . | nindent 2 }}
  command: [python, -m, crawl_platform.fleet, --console, wait, --home, /crawl, --within, "1800"]
  resources: {{ toJson .Values.smallJobs.resources }}
  volumeMounts:
    {{- include "crawl.homeMounts" . | nindent 4 }}
{{- end }}

{{/* Secrets */}}
{{- define "crawl.natsSecret" -}}
{{ .Values.nats.existingSecret | default (printf "%s-nats" (include "crawl.fullname" .)) }}
{{- end }}
{{- define "crawl.postgresSecret" -}}
{{ .Values.dagster.postgres.existingSecret | default (printf "%s-postgres" (include "crawl.fullname" .)) }}
{{- end }}
{{- define "crawl.apiSecret" -}}
{{ .Values.api.existingSecret | default (printf "%s-api" (include "crawl.fullname" .)) }}
{{- end }}

{{- define "crawl.natsUrl" -}}
{{- if .Values.nats.enabled -}}
nats://{{ include "crawl.fullname" . }}-nats.{{ .Release.Namespace }}.svc:4222
{{- else -}}
{{ required "nats.url: where the external NATS is (nats.enabled is false)" .Values.nats.url }}
{{- end }}
{{- end }}

{{/* crawl.toml: the values under `settings`, with what the chart knows better */}}
{{- define "crawl.settings" -}}
{{- $given := deepCopy .Values.settings -}}
{{- $fleet := merge (dict "cells" (int .Values.cells.replicas) "shards" (int .Values.cells.shards) "nats_url" (include "crawl.natsUrl" .)) ($given.fleet | default dict) -}}
{{- toToml (merge (dict "fleet" $fleet) $given) -}}
{{- end }}

{{- define "crawl.dagsterEnv" -}}
- name: CRAWL_DAGSTER_POSTGRES_URL
  valueFrom: {secretKeyRef: {name: {{ include "crawl.postgresSecret" . }}, key: url}}
- name: CRAWL_EXECUTOR_FILE
  value: {{ ternary "/etc/dagster/executor.yaml" "" .Values.dagster.steps.inPods | quote }}
- name: CRAWL_FLEET_STATEFULSET
  value: {{ .Release.Namespace }}/{{ include "crawl.fullname" . }}-cell
{{- end }}

{{- define "crawl.dagsterVolumes" -}}
- name: dagster
  configMap: {name: {{ include "crawl.fullname" . }}-dagster}
- name: dagster-home
  emptyDir: {sizeLimit: 1Gi}
{{- end }}

{{- define "crawl.dagsterMounts" -}}
- {name: dagster-home, mountPath: /dagster}
- {name: dagster, mountPath: /dagster/dagster.yaml, subPath: dagster.yaml, readOnly: true}
- {name: dagster, mountPath: /etc/dagster, readOnly: true}
{{- end }}

{{/* What every pod of a run or a step gets, beside what the launcher adds */}}
{{- define "crawl.runConfig" -}}
container_config:
  env:
    {{- include "crawl.dagsterEnv" . | nindent 4 }}
  security_context:
    {{- include "crawl.containerSecurity" . | nindent 4 }}
  volume_mounts:
    {{- include "crawl.homeMounts" . | nindent 4 }}
    {{- include "crawl.dagsterMounts" . | nindent 4 }}
pod_spec_config:
  {{- include "crawl.podSpec" . | nindent 2 }}
  {{- with .Values.dagster.runs.nodeSelector }}
  node_selector: {{ toJson . }}
  {{- end }}
  {{- with .Values.dagster.runs.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  volumes:
    {{- include "crawl.homeVolumes" . | nindent 4 }}
    {{- include "crawl.dagsterVolumes" . | nindent 4 }}
pod_template_spec_metadata:
  labels:
    {{- include "crawl.selector" (list . "run") | nindent 4 }}
    crawl-platform/exchange: "true"
    crawl-platform/dagster-storage: "true"
job_spec_config:
  ttl_seconds_after_finished: {{ .Values.dagster.runs.ttlSecondsAfterFinished }}
{{- end }}

{{- define "crawl.dagsterConfig" -}}
{{ .Files.Get "files/dagster.yaml" }}
run_launcher:
  module: dagster_k8s
  class: K8sRunLauncher
  config:
    job_namespace: {{ .Release.Namespace }}
    load_incluster_config: true
    service_account_name: {{ include "crawl.fullname" . }}-run
    job_image: {{ include "crawl.image" . | quote }}
    image_pull_policy: {{ .Values.image.pullPolicy }}
    {{- with .Values.image.pullSecrets }}
    image_pull_secrets: {{ toJson . }}
    {{- end }}
    instance_config_map: {{ include "crawl.fullname" . }}-dagster
    dagster_home: /dagster
    fail_pod_on_run_failure: false
    resources: {{ toJson .Values.dagster.runs.resources }}
    run_k8s_config:
      {{- include "crawl.runConfig" . | nindent 6 }}
# On the shared volume: runs write it, the webserver shows it.
compute_logs:
  module: dagster._core.storage.local_compute_log_manager
  class: LocalComputeLogManager
  config: {base_dir: /crawl/dagster/compute_logs}
{{- end }}

{{- define "crawl.executorConfig" -}}
job_namespace: {{ .Release.Namespace }}
load_incluster_config: true
service_account_name: {{ include "crawl.fullname" . }}-run
job_image: {{ include "crawl.image" . | quote }}
image_pull_policy: {{ .Values.image.pullPolicy }}
max_concurrent: {{ .Values.dagster.steps.maxConcurrent }}
step_k8s_config:
  container_config:
    resources: {{ toJson .Values.dagster.steps.resources }}
per_step_k8s_config:
  {{- range $asset, $resources := .Values.dagster.steps.perAsset }}
  {{ $asset }}:
    container_config:
      resources: {{ toJson $resources }}
  {{- end }}
{{- end }}
