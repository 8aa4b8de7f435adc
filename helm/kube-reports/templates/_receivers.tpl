{{/*
The programs beside the proxy to which senders of other clusters connect: grpc and evidence.  Each has a part of the values with its
name.
*/}}
{{- define "kube-reports.ingests" -}}
{{- if or .Values.receiver.enabled .Values.grpc.enabled .Values.evidence.enabled }}true{{ else }}false{{ end -}}
{{- end }}

{{/* Whether files of evidence go to a volume of the release. */}}
{{- define "kube-reports.evidenceVolume" -}}
{{- if not .Values.evidence.store }}true{{ end -}}
{{- end }}

{{/* The names by which senders reach a part: (list root part). */}}
{{- define "kube-reports.senderNames" -}}
{{- $root := index . 0 -}}
{{- $name := printf "%s-%s" (include "kube-reports.fullname" $root) (index . 1) -}}
{{- concat (list (printf "%s.%s.svc" $name $root.Release.Namespace) (printf "%s.%s" $name $root.Release.Namespace)) (index $root.Values (index . 1)).dnsNames | toJson -}}
{{- end }}

{{/* The uid of the cluster: kube-reports-grpc needs it as a flag. */}}
{{- define "kube-reports.clusterId" -}}
{{- if .Values.cluster.id -}}
{{ .Values.cluster.id }}
{{- else -}}
{{- with lookup "v1" "Namespace" "" "kube-system" -}}
{{ .metadata.uid }}
{{- else -}}
{{ fail "grpc.enabled needs cluster.id, the uid of the namespace kube-system: helm does not read it from the cluster here" }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Flags of each program, as JSON. */}}
{{- define "kube-reports.grpcFlags" -}}
{{- $flags := dict "port" 6445 "cluster-id" (include "kube-reports.clusterId" .) -}}
{{- if .Values.receiver.clientCA.secretName }}{{ $_ := set $flags "client-ca-file" (printf "/etc/kube-reports/senders/%s" .Values.receiver.clientCA.key) }}{{ end -}}
{{- toJson $flags -}}
{{- end }}

{{- define "kube-reports.evidenceFlags" -}}
{{- $flags := dict "secure-port" 8443 "store" "file:///var/lib/kube-reports-evidence" "reader-downloads" .Values.evidence.readerDownloads -}}
{{- if .Values.receiver.clientCA.secretName }}{{ $_ := set $flags "client-ca-file" (printf "/etc/kube-reports/senders/%s" .Values.receiver.clientCA.key) }}{{ end -}}
{{- with .Values.evidence.store }}{{ $_ := set $flags "store" . }}{{ end -}}
{{- if hasPrefix "s3://" .Values.evidence.store -}}
{{- $_ := set $flags "s3-endpoint" (required "evidence.s3.endpoint is needed for a store at s3://" .Values.evidence.s3.endpoint) -}}
{{- $_ := set $flags "s3-region" .Values.evidence.s3.region -}}
{{- $_ := set $flags "s3-credentials-file" (printf "/etc/kube-reports/s3/%s" .Values.evidence.s3.credentials.key) -}}
{{- if not .Values.evidence.s3.credentials.secretName }}{{ fail "evidence.s3.credentials.secretName is needed for a store at s3://: a Secret with ACCESS_KEY_ID:SECRET" }}{{ end -}}
{{- end -}}
{{- with .Values.evidence.storeTls -}}
{{- if .secretName -}}
{{- with .ca }}{{ $_ := set $flags "store-ca-file" (printf "/etc/kube-reports/store/%s" .) }}{{ end -}}
{{- if .certificate -}}
{{- $_ := set $flags "store-client-cert-file" (printf "/etc/kube-reports/store/%s" .certificate) -}}
{{- $_ := set $flags "store-client-key-file" (printf "/etc/kube-reports/store/%s" .key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $flags -}}
{{- end }}
