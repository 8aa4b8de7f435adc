{{/*
Names and labels.  Kubernetes takes names of 63 characters for most objects, and of 52 for a StatefulSet; CloudNativePG takes 50 for a
Cluster.  The longest additions are -database and -apiservices-disable.
*/}}
{{- define "kube-reports.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "kube-reports.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "kube-reports.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "kube-reports.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "kube-reports.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kube-reports.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is needed where serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Labels by which an object's pods are found: (list root component). */}}
{{- define "kube-reports.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "kube-reports.name" $root | quote }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 | quote }}
{{- end }}

{{/* The same and those that only describe: (list root component). */}}
{{- define "kube-reports.labels" -}}
{{- $root := index . 0 -}}
{{ include "kube-reports.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | quote }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata of an object in the release's namespace, or of none: (dict "root" . "name" .. "component" .. "cluster" bool "annotations" map). */}}
{{- define "kube-reports.metadata" -}}
name: {{ .name | quote }}
{{- if not .cluster }}
namespace: {{ default .root.Release.Namespace .namespace | quote }}
{{- end }}
labels:
  {{- include "kube-reports.labels" (list .root .component) | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* An image: (list root image). */}}
{{- define "kube-reports.image" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- $name := $image.repository -}}
{{- if $image.registry }}{{ $name = printf "%s/%s" $image.registry $name }}{{ end -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else -}}
{{ $name }}:{{ default $root.Chart.AppVersion $image.tag }}
{{- end -}}
{{- end }}

{{/* A number as it was written: the numbers of a values file are floating-point numbers, which Go prints as 1e+06. */}}
{{- define "kube-reports.text" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ toString . }}{{ end -}}
{{- end }}

{{/* Durations of flags (90s, 1m30s) in whole seconds. */}}
{{- define "kube-reports.seconds" -}}
{{- $total := 0 -}}
{{- range regexFindAll "[0-9]+(h|m|s)" . -1 -}}
{{- $number := regexFind "[0-9]+" . | int -}}
{{- if hasSuffix "h" . }}{{ $total = add $total (mul $number 3600) }}{{ else if hasSuffix "m" . }}{{ $total = add $total (mul $number 60) }}{{ else }}{{ $total = add $total $number }}{{ end -}}
{{- end -}}
{{ $total }}
{{- end }}

{{/*
GROUP/VERSION of each APIService that is wanted now, that is wanted when apiServices.enabled is true, that leads to this release in the
cluster, and that is not wanted now, one to a line.  What leads here may be what earlier values named; helm template reads no cluster.
*/}}
{{- define "kube-reports.enabledGroups" -}}
{{- if .Values.apiServices.enabled }}{{ include "kube-reports.servedGroups" . }}{{ end -}}
{{- end }}

{{- define "kube-reports.servedGroups" -}}
{{- $groups := .Values.apiServices.additionalGroups -}}
{{- range $group, $enabled := .Values.apiServices.groups }}{{ if $enabled }}{{ $groups = append $groups $group }}{{ end }}{{ end -}}
{{- $groups | uniq | sortAlpha | join "\n" -}}
{{- end }}

{{- define "kube-reports.leadingGroups" -}}
{{- $service := dict "namespace" .Release.Namespace "name" (include "kube-reports.fullname" .) -}}
{{- $groups := list -}}
{{- range (lookup "apiregistration.k8s.io/v1" "APIService" "" "").items -}}
{{- if eq (pick (default dict .spec.service) "namespace" "name" | toJson) ($service | toJson) -}}
{{- $groups = append $groups (printf "%s/%s" .spec.group .spec.version) -}}
{{- end -}}
{{- end -}}
{{- $groups | join "\n" -}}
{{- end }}

{{- define "kube-reports.disabledGroups" -}}
{{- $enabled := splitList "\n" (include "kube-reports.enabledGroups" .) -}}
{{- $known := concat (keys .Values.apiServices.groups) .Values.apiServices.additionalGroups -}}
{{- $groups := list -}}
{{- range concat $known (splitList "\n" (include "kube-reports.leadingGroups" .)) | compact | uniq | sortAlpha -}}
{{- if not (has . $enabled) }}{{ $groups = append $groups . }}{{ end -}}
{{- end -}}
{{- $groups | join "\n" -}}
{{- end }}

{{/* The name of an APIService: v1alpha2.wgpolicyk8s.io of wgpolicyk8s.io/v1alpha2. */}}
{{- define "kube-reports.apiService" -}}
{{- $parts := splitList "/" . -}}
{{ index $parts 1 }}.{{ index $parts 0 }}
{{- end }}

{{- define "kube-reports.certificateSecret" -}}
{{- if eq .Values.certificate.source "secret" -}}
{{ required "certificate.secretName is needed where certificate.source is secret" .Values.certificate.secretName }}
{{- else -}}
{{ default (printf "%s-tls" (include "kube-reports.fullname" .)) .Values.certificate.secretName }}
{{- end -}}
{{- end }}
