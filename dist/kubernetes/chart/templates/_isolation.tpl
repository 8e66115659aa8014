{{/*
Whether pods may use networks of their own namespace only: "true" or "false". With auto,
the DaemonSet in the cluster is the record: an upgrade keeps what it has, an install
without one turns isolation on. A chart that is rendered without a cluster cannot tell
the two apart, and does not turn it on. docs/design/0017-namespace-isolation.md says why.
*/}}
{{- define "culvert.isolation" -}}
{{- $wanted := toString .Values.node.namespaceIsolation -}}
{{- if not (has $wanted (list "auto" "true" "false")) -}}
{{- fail (printf "node.namespaceIsolation is %q: want auto, true or false" $wanted) -}}
{{- end -}}
{{- if ne $wanted "auto" -}}
{{- $wanted -}}
{{- else if not (lookup "v1" "Namespace" "" "kube-system") -}}
false
{{- else -}}
{{- $on := true -}}
{{- with lookup "apps/v1" "DaemonSet" .Release.Namespace "culvertd" -}}
{{- $on = false -}}
{{- range .spec.template.spec.containers -}}
{{- if has "--namespace-isolation" (default list .args) -}}{{- $on = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $on -}}
{{- end -}}
{{- end -}}
