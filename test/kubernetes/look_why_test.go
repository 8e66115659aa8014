//go:build kubernetes

package kubernetes

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// culvert why names what pods of a real cluster wait for: the scheduler's, the kubelet's and culvertd's
// own words are in the answers.
func TestWhyPodsWait(t *testing.T) {
	networks(t)
	apply(t, stuckPod("many", `annotations: {k8s.v1.cni.cncf.io/networks: first}`, `, resources: {limits: {`+intel+`: 64}}`, toolsImage)+
		stuckPod("typo", "", `, resources: {limits: {`+intel+`x: 1}}`, toolsImage)+
		stuckPod("lost", `annotations: {k8s.v1.cni.cncf.io/networks: frist}`, "", toolsImage)+
		stuckPod("image", "", "", "localhost/none:1")+
		pod("runs", "worker01", "first"))
	for name, want := range map[string]string{
		"many":  `pod default/many waits since .*! NodeStates: no node has 64 VFs of ` + intel + ` free.*worker01: \d+ of 7 VFs free.*worker02`,
		"typo":  `! NodeStates: no node has a pool ` + intel + `x: did you mean ` + intel + `\?`,
		"lost":  `pod default/lost waits .*there is no NetworkAttachmentDefinition default/frist`,
		"image": `pod default/image waits .*! kubelet: container c: (ErrImageNeverPull|ErrImagePull|ImagePullBackOff)`,
		"runs":  `pod default/runs runs since .*, on node worker01 Culvert finds nothing wrong with it.`,
	} {
		eventually(t, "culvert why pod/"+name, func() error {
			out, err := exec.CommandContext(t.Context(), top+"/build/bin/culvert", "why", "pod/"+name, "--kubeconfig", k8s.Kubeconfig).CombinedOutput()
			said := strings.Join(strings.Fields(string(out)), " ") // without the breaks of lines
			if err == nil && !regexp.MustCompile(want).MatchString(said) {
				err = fmt.Errorf("%s does not match", want)
			}
			if err != nil {
				return fmt.Errorf("%w:\n%s", err, out)
			}
			return nil
		})
	}
}

const toolsImage = "docker.io/centos/tools:latest"

// stuckPod is a pod with one container.
func stuckPod(name, metadata, more, image string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, %s}
spec:
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  containers: [{name: c, image: %q, imagePullPolicy: Never, command: [sleep, infinity]%s}]
`, name, metadata, image, more)
}
