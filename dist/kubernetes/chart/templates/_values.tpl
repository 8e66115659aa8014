{{/*
Sets each value that is absent to the default of values.yaml, to which files/values.yaml is a link.
An upgrade with --reuse-values has the values of the earlier chart only, and null removes a value.
Each template calls this first.
*/}}
{{- define "culvert.fillValues" -}}
{{- include "culvert.fillSection" (dict "values" .Values "defaults" (.Files.Get "files/values.yaml" | fromYaml)) -}}
{{- end -}}

{{/*
Sets the values that are absent from one section. Other maps, such as labels, are one value each.
*/}}
{{- define "culvert.fillSection" -}}
{{- $values := .values -}}
{{- range $name, $default := .defaults -}}
{{- $value := get $values $name -}}
{{- if or (not (hasKey $values $name)) (kindIs "invalid" $value) -}}
{{- $_ := set $values $name $default -}}
{{- else if has $name (list "image" "node" "devicePlugin" "controller" "metrics" "monitoring" "networkPolicies") -}}
{{- include "culvert.fillSection" (dict "values" $value "defaults" $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}
