{{/*
How the proxies and the setup reach the database.  What is not secret is a connection string; what a Secret holds is the environment
that libpq reads, or a connection service file.
*/}}
{{- define "kube-reports.databaseName" -}}
{{ include "kube-reports.fullname" . }}-database
{{- end }}

{{/* The Secret of the passwords that the chart makes. */}}
{{- define "kube-reports.passwordSecret" -}}
{{ include "kube-reports.fullname" . }}-database-proxy
{{- end }}

{{- define "kube-reports.databaseTls" -}}
{{- if eq .Values.database.type "external" -}}
{{ .Values.database.tls.secretName }}
{{- else if eq .Values.database.type "cloudnative-pg" -}}
{{ include "kube-reports.databaseName" . }}-ca
{{- else -}}
{{ include "kube-reports.databaseName" . }}-tls
{{- end -}}
{{- end }}

{{/* A connection string of a map of libpq's parameters. */}}
{{- define "kube-reports.connection" -}}
{{- $words := list -}}
{{- range $name, $value := . -}}
{{- $words = append $words (printf "%s='%s'" $name (include "kube-reports.text" $value | replace "\\" "\\\\" | replace "'" "\\'")) -}}
{{- end -}}
{{- join " " $words -}}
{{- end }}

{{/* The parameters that are not secret, as JSON: (list root more), where more are those that win. */}}
{{- define "kube-reports.parameters" -}}
{{- $root := index . 0 -}}
{{- $database := $root.Values.database -}}
{{- $own := dict -}}
{{- $directory := "/etc/kube-reports/database" -}}
{{- if eq $database.type "external" -}}
{{- if $database.serviceFile.secretName -}}
{{- $_ := set $own "service" "kube-reports" -}}
{{- else if not (and $database.secret.name (hasKey $database.secret.keys "dbname")) -}}
{{- $_ := set $own "dbname" $database.name -}}
{{- end -}}
{{- if $database.tls.secretName -}}
{{- with $database.tls.ca }}{{ $_ := set $own "sslrootcert" (printf "%s/%s" $directory .) }}{{ $_ := set $own "sslmode" "verify-full" }}{{ end -}}
{{- with $database.tls.certificate }}{{ $_ := set $own "sslcert" (printf "%s/%s" $directory .) }}{{ end -}}
{{- with $database.tls.key }}{{ $_ := set $own "sslkey" (printf "%s/%s" $directory .) }}{{ end -}}
{{- end -}}
{{- else -}}
{{- $host := include "kube-reports.databaseName" $root -}}
{{- if eq $database.type "cloudnative-pg" }}{{ $host = printf "%s-rw" $host }}{{ end -}}
{{- $own = dict "host" (printf "%s.%s.svc" $host $root.Release.Namespace) "port" "5432" "dbname" $database.name "sslmode" "verify-full" "sslrootcert" (printf "%s/ca.crt" $directory) -}}
{{- end -}}
{{- mergeOverwrite $own $database.parameters (index . 1) | toJson -}}
{{- end }}

{{/* Environment of libpq out of a Secret: (dict "name" secret "keys" map). */}}
{{- define "kube-reports.secretEnvironment" -}}
{{- $variables := dict "host" "PGHOST" "hostaddr" "PGHOSTADDR" "port" "PGPORT" "dbname" "PGDATABASE" "user" "PGUSER" "password" "PGPASSWORD" "sslmode" "PGSSLMODE" "options" "PGOPTIONS" "target_session_attrs" "PGTARGETSESSIONATTRS" "channel_binding" "PGCHANNELBINDING" -}}
{{- range $parameter, $key := .keys }}
{{- if $key }}
- name: {{ get $variables $parameter | quote }}
  valueFrom:
    secretKeyRef:
      name: {{ $.name | quote }}
      key: {{ $key | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* Environment of the proxies. */}}
{{- define "kube-reports.databaseEnvironment" -}}
{{- if ne .Values.database.type "external" }}
{{- include "kube-reports.secretEnvironment" (dict "name" (include "kube-reports.passwordSecret" .) "keys" (dict "user" "username" "password" "password")) }}
{{- else }}
{{- if .Values.database.secret.name }}
{{- include "kube-reports.secretEnvironment" (dict "name" .Values.database.secret.name "keys" .Values.database.secret.keys) }}
{{- end }}
{{- if .Values.database.serviceFile.secretName }}
- name: PGSERVICEFILE
  value: {{ printf "/etc/kube-reports/database-service/%s" .Values.database.serviceFile.key | quote }}
{{- end }}
{{- end }}
{{- end }}

{{- define "kube-reports.databaseMounts" -}}
{{- if include "kube-reports.databaseTls" . }}
- name: database-tls
  mountPath: /etc/kube-reports/database
  readOnly: true
{{- end }}
{{- if and (eq .Values.database.type "external") .Values.database.serviceFile.secretName }}
- name: database-service
  mountPath: /etc/kube-reports/database-service
  readOnly: true
{{- end }}
{{- end }}

{{/* libpq takes a key that belongs to root and may be read by the group. */}}
{{- define "kube-reports.databaseVolumes" -}}
{{- with include "kube-reports.databaseTls" . }}
- name: database-tls
  secret:
    secretName: {{ . | quote }}
    defaultMode: 0440
    {{- if ne $.Values.database.type "external" }}
    items:
      - key: ca.crt
        path: ca.crt
    {{- end }}
{{- end }}
{{- if and (eq .Values.database.type "external") .Values.database.serviceFile.secretName }}
- name: database-service
  secret:
    secretName: {{ .Values.database.serviceFile.secretName | quote }}
    defaultMode: 0440
{{- end }}
{{- end }}

{{/* What the values of the database must have. */}}
{{- define "kube-reports.checkDatabase" -}}
{{- $database := .Values.database -}}
{{- $roles := $database.setup.roles -}}
{{- $names := list -}}
{{- range list $roles.owner $roles.proxy $roles.reader $roles.admin }}{{ with . }}{{ $names = append $names . }}{{ end }}{{ end -}}
{{- if and $database.setup.enabled (ne (len $names) (len (uniq $names))) -}}
{{- fail "database.setup.roles must be different roles: what one may do, another may not" -}}
{{- end -}}
{{- if eq $database.type "external" -}}
{{- if not (or $database.parameters.host $database.parameters.hostaddr $database.parameters.service $database.secret.name $database.serviceFile.secretName) -}}
{{- fail "database.type is external: say where it is, by database.parameters.host, database.secret.name or database.serviceFile.secretName" -}}
{{- end -}}
{{- if and $database.setup.enabled (not (or $database.setup.secret.name $database.setup.parameters.user)) -}}
{{- fail "database.setup needs a role that may make the extension: give database.setup.secret.name, or run files/database.sql yourself and set database.setup.enabled=false" -}}
{{- end -}}
{{- end -}}
{{- end }}
