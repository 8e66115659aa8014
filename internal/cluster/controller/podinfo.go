package controller

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Names of network-resources-injector (pkg/types/types.go), which programs in pods look for: the
// files labels and annotations of the pod, the pages that a container requests, and the variable by
// which a container finds its own files of pages.
const (
	podInfoVolume         = "podnetinfo"
	podInfoPath           = "/etc/podnetinfo"
	containerNameVariable = "CONTAINER_NAME"
)

// hugePages are the sizes of huge pages that have files, with the beginning of a file's name.
var hugePages = []struct {
	resource corev1.ResourceName
	file     string
}{{"hugepages-1Gi", "hugepages_1G"}, {"hugepages-2Mi", "hugepages_2M"}}

// mountPodInfo returns the JSON patch that mounts the volume podInfoVolume into the pod's
// containers. A volume of that name that is there stays as it is, and so does a container that
// mounts something else there, above or below: a runtime cannot make a folder in a read-only mount.
func (n *needs) mountPodInfo(pod *corev1.Pod) (patch []jsonpatch.Operation) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == podInfoVolume })
	if i >= 0 && pod.Spec.Volumes[i].DownwardAPI == nil {
		n.warn("the pod has no %s of its networks: its volume %s is another one", podInfoPath, podInfoVolume)
		return nil
	}
	items := []corev1.DownwardAPIVolumeFile{fieldFile("labels"), fieldFile("annotations")}
	for at, c := range pod.Spec.Containers {
		if hidesPodInfo(c) {
			continue
		}
		pages := pageFiles(c)
		items = append(items, pages...)
		container := fmt.Sprintf("/spec/containers/%d/", at)
		isMounted := slices.ContainsFunc(c.VolumeMounts, isPodInfo)
		if !isMounted {
			patch = append(patch, appendOperation(container+"volumeMounts", len(c.VolumeMounts), corev1.VolumeMount{Name: podInfoVolume, MountPath: podInfoPath, ReadOnly: true}))
		}
		hasName := slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == containerNameVariable })
		if len(pages) > 0 && !hasName {
			patch = append(patch, appendOperation(container+"env", len(c.Env), corev1.EnvVar{Name: containerNameVariable, Value: c.Name}))
		}
	}
	if i < 0 && len(patch) > 0 {
		source := corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}
		patch = append(patch, appendOperation("/spec/volumes", len(pod.Spec.Volumes), corev1.Volume{Name: podInfoVolume, VolumeSource: source}))
	}
	return patch
}

func isPodInfo(m corev1.VolumeMount) bool {
	return m.Name == podInfoVolume && path.Clean(m.MountPath) == podInfoPath
}

// hidesPodInfo reports whether a container has a mount or a device of its own at podInfoPath, above or
// below.
func hidesPodInfo(c corev1.Container) bool {
	const own = podInfoPath + "/"
	meets := func(at string) bool {
		at = strings.TrimSuffix(path.Clean(at), "/") + "/"
		longer, shorter := at, own
		if len(own) > len(at) {
			longer, shorter = own, at
		}
		return strings.HasPrefix(longer, shorter)
	}
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return !isPodInfo(m) && meets(m.MountPath) }) ||
		slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return meets(d.DevicePath) })
}

// fieldFile returns the file of a field of the pod's metadata.
func fieldFile(field string) corev1.DownwardAPIVolumeFile {
	return corev1.DownwardAPIVolumeFile{Path: field, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata." + field}}
}

// pageFiles returns the files of the huge pages that a container requests, in MiB.
func pageFiles(c corev1.Container) (out []corev1.DownwardAPIVolumeFile) {
	for _, kind := range []struct {
		list         corev1.ResourceList
		field, ended string
	}{{c.Resources.Requests, "requests.", "_request_"}, {c.Resources.Limits, "limits.", "_limit_"}} {
		for _, p := range hugePages {
			if q := kind.list[p.resource]; !q.IsZero() {
				out = append(out, corev1.DownwardAPIVolumeFile{Path: p.file + kind.ended + c.Name, ResourceFieldRef: &corev1.ResourceFieldSelector{
					ContainerName: c.Name, Resource: kind.field + string(p.resource), Divisor: resource.MustParse("1Mi"),
				}})
			}
		}
	}
	return out
}

// appendOperation returns the operation that appends a value to a list which has count values.
func appendOperation(path string, count int, value any) jsonpatch.Operation {
	if count == 0 {
		return jsonpatch.NewOperation("add", path, []any{value})
	}
	return jsonpatch.NewOperation("add", path+"/-", value)
}
