// Package chart tests Culvert's Helm chart and its Kustomize base by the programs that people run:
// helm, kubectl and a real API server without nodes. The tests have the build tag lab.
package chart
