// The CRDs of the Prometheus operator, by which tests judge the objects of the chart. It has no program.
module github.com/culvert-net/culvert/test/tools/prometheus-operator

go 1.24.0

require github.com/prometheus-operator/prometheus-operator v0.79.2
