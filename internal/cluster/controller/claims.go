package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/culvert-net/culvert/internal/excerpt"
	vfclaim "github.com/culvert-net/culvert/internal/network/claim"
)

// claims refuses ResourceClaims, ResourceClaimTemplates and DeviceClasses whose configuration for Culvert's
// VFs no node could read. Nodes read it by the same parser.
type claims struct{}

// deviceConfigs is the part of the three kinds that is read (k8s.io/api/resource/v1). Each has its list of
// configurations in another place.
type deviceConfigs struct {
	Spec struct {
		Config  []deviceConfig `json:"config"` // of a DeviceClass
		Devices configList     `json:"devices"`
		Spec    struct {       // of a ResourceClaimTemplate
			Devices configList `json:"devices"`
		} `json:"spec"`
	} `json:"spec"`
}

type configList struct {
	Config []deviceConfig `json:"config"`
}

type deviceConfig struct {
	Opaque struct {
		Driver     string          `json:"driver"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"opaque"`
}

// Handle is admission.Handler.
func (claims) Handle(_ context.Context, req admission.Request) admission.Response {
	var o deviceConfigs
	if err := json.Unmarshal(req.Object.Raw, &o); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the configurations: %w", err))
	}
	var wrong []string
	for _, list := range []struct {
		place   string
		configs []deviceConfig
	}{{"spec.config", o.Spec.Config}, {"spec.devices.config", o.Spec.Devices.Config}, {"spec.spec.devices.config", o.Spec.Spec.Devices.Config}} {
		for i, c := range list.configs {
			if c.Opaque.Driver != vfclaim.Driver {
				continue
			}
			if _, err := vfclaim.Parse(c.Opaque.Parameters); err != nil {
				wrong = append(wrong, fmt.Sprintf("%s[%d].opaque.parameters: %s", list.place, i, excerpt.Error(err)))
			}
		}
	}
	if len(wrong) > 0 {
		return admission.Denied(strings.Join(wrong, "; "))
	}
	return admission.Allowed("")
}
