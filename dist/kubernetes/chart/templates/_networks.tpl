{{/*
The arguments by which culvertd and culvert-controller decide which networks pods may use and which
every pod gets. Both programs get the same. docs/design/0017-namespace-isolation.md says why there is no third value.
*/}}
{{- define "culvert.networkArgs" -}}
{{- $isolation := toString .Values.node.namespaceIsolation -}}
{{- if eq $isolation "auto" -}}
{{- fail (printf "node.namespaceIsolation is %q: set it to true (pods may use networks of their own namespace, of node.globalNamespaces, and those that admit them; culvert doctor --kubeconfig FILE lists the pods that this refuses) or to false (pods may use networks of every namespace)" $isolation) -}}
{{- end -}}
- --global-namespaces={{ join "," .Values.node.globalNamespaces }}
- --namespace-isolation={{ $isolation }}
- --default-networks={{ join "," .Values.node.defaultNetworks }}
- --system-namespaces={{ join "," (include "culvert.systemNamespaces" . | fromJsonArray) }}
{{- end -}}

{{/*
The namespaces whose pods get no defaultNetworks: Culvert's own is always one.
*/}}
{{- define "culvert.systemNamespaces" -}}
{{- append .Values.node.systemNamespaces .Release.Namespace | uniq | toJson -}}
{{- end -}}
