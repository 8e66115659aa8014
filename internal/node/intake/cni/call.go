package cni

import (
	"encoding/json"
	"fmt"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/network/netconf"
)

// Call is one CNI call. NewCall parses its texts where the call enters, and all that serves the call
// takes the Call.
type Call struct {
	api.CNIRequest
	args   Arguments
	config config.Config
	// wrong is why the configuration cannot be read.
	wrong error
}

// NewCall returns the call of a request, whose CNI_ARGS are a. A text that cannot be read is an error
// only of the commands that need it: DEL does not.
func NewCall(r api.CNIRequest, a Arguments) Call {
	c := Call{CNIRequest: r, args: a}
	if (c.Command == cmdAdd || c.Command == cmdCheck) && netconf.CheckSize(len(c.Config)) != nil {
		return c // requestOf refuses it
	}
	c.config, c.wrong = configOf(c.Config)
	return c
}

// configOf reads the configuration of a call.
func configOf(text []byte) (config.Config, error) {
	c, err := config.Parse(text)
	if err != nil && !json.Valid(text) {
		return config.Config{}, fmt.Errorf("%w: %w", errUndecodable, err)
	}
	return c, err
}
