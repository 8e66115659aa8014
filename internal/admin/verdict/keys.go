package verdict

import (
	"slices"
	"strings"

	"github.com/culvert-net/culvert/internal/admin/migrate"
)

// The keys of objects of Kubernetes 1.34. A key that is none of them and near one is a mistake.
var (
	objectKeys   = []string{"apiVersion", "kind", "metadata", "spec", "status", "data", "binaryData", "immutable", "template", "items"}
	metadataKeys = []string{
		"name", "generateName", "namespace", "labels", "annotations", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields", "selfLink", "clusterName",
	}
	podSpecKeys = []string{
		"activeDeadlineSeconds", "affinity", "automountServiceAccountToken", "containers", "dnsConfig", "dnsPolicy", "enableServiceLinks", "ephemeralContainers",
		"hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "hostname", "hostnameOverride", "imagePullSecrets", "initContainers", "nodeName", "nodeSelector",
		"os", "overhead", "preemptionPolicy", "priority", "priorityClassName", "readinessGates", "resourceClaims", "resources", "restartPolicy", "runtimeClassName",
		"schedulerName", "schedulingGates", "securityContext", "serviceAccount", "serviceAccountName", "setHostnameAsFQDN", "shareProcessNamespace", "subdomain",
		"terminationGracePeriodSeconds", "tolerations", "topologySpreadConstraints", "volumes", "workloadRef",
	}
	containerKeys = []string{
		"args", "command", "env", "envFrom", "image", "imagePullPolicy", "lifecycle", "livenessProbe", "name", "ports", "readinessProbe", "resizePolicy", "resources",
		"restartPolicy", "restartPolicyRules", "securityContext", "startupProbe", "stdin", "stdinOnce", "terminationMessagePath", "terminationMessagePolicy", "tty",
		"volumeDevices", "volumeMounts", "workingDir",
	}
	resourceKeys = []string{"limits", "requests", "claims"}
)

// specKeys has the keys of spec, for kinds whose keys are all known.
var specKeys = map[string][]string{
	kindNetwork: {"config"},
	kindDeployment: {
		"minReadySeconds", "paused", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit", "selector", "strategy", "template",
	},
	kindDaemonSet: {"minReadySeconds", "revisionHistoryLimit", "selector", "template", "updateStrategy"},
	"ReplicaSet":  {"minReadySeconds", "replicas", "selector", "template"},
	"StatefulSet": {
		"minReadySeconds", "ordinals", "persistentVolumeClaimRetentionPolicy", "podManagementPolicy", "replicas", "revisionHistoryLimit", "selector", "serviceName",
		"template", "updateStrategy", "volumeClaimTemplates",
	},
	"Job": {
		"activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completionMode", "completions", "managedBy", "manualSelector", "maxFailedIndexes", "parallelism",
		"podFailurePolicy", "podReplacementPolicy", "selector", "successPolicy", "suspend", "template", "ttlSecondsAfterFinished",
	},
	kindCronJob: {
		"concurrencyPolicy", "failedJobsHistoryLimit", "jobTemplate", "schedule", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "suspend", "timeZone",
	},
	migrate.KindNetwork:    operatorKeys(migrate.KindNetwork),
	migrate.KindIBNetwork:  operatorKeys(migrate.KindIBNetwork),
	migrate.KindOVSNetwork: operatorKeys(migrate.KindOVSNetwork),
	migrate.KindPolicy:     operatorKeys(migrate.KindPolicy),
	migrate.KindPoolConfig: operatorKeys(migrate.KindPoolConfig),
	migrate.KindOperator:   operatorKeys(migrate.KindOperator),
}

// operatorKeys returns the keys of spec of a kind of the operator.
func operatorKeys(kind string) (out []string) {
	for _, f := range migrate.Fields() {
		if key, _, _ := strings.Cut(f.Path, "."); f.Kind == kind && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}
