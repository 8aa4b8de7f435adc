{{/*
How the proxies and the setup reach the database.  Parameters that are not secret are in a connection string; those of a Secret are
in the environment of libpq or in a connection service file.
*/}}
{{- define "kube-reports.databaseName" -}}
{{ include "kube-reports.fullname" . }}-database
{{- end }}

{{/* The Secret of the passwords that the chart makes. */}}
{{- define "kube-reports.passwordSecret" -}}
{{ include "kube-reports.fullname" . }}-database-proxy
{{- end }}

{{/*
The password of a Secret that the chart makes, in base64: (list root secret).  The password of an existing Secret is kept; a new one
is made once for all templates.
*/}}
{{- define "kube-reports.password" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $made := get $root.Values "madePasswords" | default dict -}}
{{- if not (hasKey $made $name) -}}
{{- $password := randAlphaNum 32 | b64enc -}}
{{- with lookup "v1" "Secret" $root.Release.Namespace $name }}{{ $password = index .data "password" | default $password }}{{ end -}}
{{- $_ := set $made $name $password -}}
{{- $_ := set $root.Values "madePasswords" $made -}}
{{- end -}}
{{- get $made $name -}}
{{- end }}

{{/*
An annotation that changes with the password, so that an upgrade replaces proxies that have an older password.  If the chart makes
the Secret, it is a hash of the password.  For a Secret of the user it is a hash of the Secret's version, because the password may be
guessable.
*/}}
{{- define "kube-reports.passwordVersion" -}}
{{- $database := .Values.database -}}
{{- if ne $database.type "external" -}}
checksum/password: {{ include "kube-reports.password" (list . (include "kube-reports.passwordSecret" .)) | sha256sum | quote }}
{{- else if $database.secret.name -}}
{{- with lookup "v1" "Secret" .Release.Namespace $database.secret.name -}}
checksum/password: {{ printf "%s-%s" .metadata.uid .metadata.resourceVersion | sha256sum | quote }}
{{- end }}
{{- end }}
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

{{/* The parameters that are not secret, as JSON: (list root more); more overrides the others. */}}
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

{{/* libpq accepts a key file that belongs to root and that the group may read. */}}
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

{{/* Refuses values of the database that do not fit together. */}}
{{- define "kube-reports.checkDatabase" -}}
{{- $database := .Values.database -}}
{{- $roles := $database.setup.roles -}}
{{- if not $database.leaveExisting -}}
{{- $made := list -}}
{{- if ne $database.type "bundled" }}{{ $made = append $made (list "bundled" "apps/v1" "StatefulSet") }}{{ end -}}
{{- if and (ne $database.type "cloudnative-pg") (.Capabilities.APIVersions.Has "postgresql.cnpg.io/v1") -}}
{{- $made = append $made (list "cloudnative-pg" "postgresql.cnpg.io/v1" "Cluster") -}}
{{- end -}}
{{- range $made -}}
{{- if lookup (index . 1) (index . 2) $.Release.Namespace (include "kube-reports.databaseName" $) -}}
{{- fail (printf "the release has a database of database.type %s, whose reports would not move to one of type %s: move them as docs/install.md says, then set database.leaveExisting=true" (index . 0) $database.type) -}}
{{- end -}}
{{- end -}}
{{- end -}}
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
