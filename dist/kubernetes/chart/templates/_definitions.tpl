{{/*
Whether the release has the CRD of NetworkAttachmentDefinitions: "true" or "false". With
auto it has the CRD unless another owner, such as Multus, brought one to the cluster: that
one is used as it is. A chart that is rendered without a cluster has the CRD.
*/}}
{{- define "culvert.ownDefinitions" -}}
{{- $wanted := toString .Values.networkAttachmentDefinitions -}}
{{- if ne $wanted "auto" -}}
{{- $wanted -}}
{{- else -}}
{{- $own := true -}}
{{- with lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "network-attachment-definitions.k8s.cni.cncf.io" -}}
{{- $of := default dict .metadata.annotations -}}
{{- $own = and (eq (index $of "meta.helm.sh/release-name" | default "") $.Release.Name) (eq (index $of "meta.helm.sh/release-namespace" | default "") $.Release.Namespace) -}}
{{- end -}}
{{- $own -}}
{{- end -}}
{{- end -}}
