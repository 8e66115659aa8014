{{/*
The address where culvertd serves its metrics; empty: nowhere. With monitoring it is the node's own
address, which the kubelet puts into NODE_ADDRESS, and not every address that the node has.
*/}}
{{- define "culvert.metricsAddress" -}}
{{- if .Values.node.metrics.address -}}
{{- .Values.node.metrics.address -}}
{{- else if .Values.monitoring.enabled -}}
[$(NODE_ADDRESS)]:9810
{{- end -}}
{{- end -}}
