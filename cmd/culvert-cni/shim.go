package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/rpc"
)

const (
	// maxConfig bounds the configuration on standard input, in bytes; in base64 it fits into
	// one request.
	maxConfig = 512 << 10
	// patience is the time that culvertd may take for its answer. Runtimes wait at least as
	// long. When a runtime kills the shim, culvertd notices that and undoes the request.
	patience = 2 * time.Minute
)

// shim is one invocation.
type shim struct {
	command, containerID, netns, ifName, args, path string
	socket                                          string
	stdin                                           io.Reader
	stdout                                          io.Writer
	environ                                         []string // the shim's own
}

// runShim serves the invocation and returns the exit status.
func (s shim) runShim() int {
	config, err := io.ReadAll(io.LimitReader(s.stdin, maxConfig+1))
	if err != nil {
		return s.printError(nil, api.CNIIOFailure, "read the network configuration from standard input: "+err.Error(), "")
	}
	if len(config) > maxConfig {
		return s.printError(nil, api.CNIIOFailure, fmt.Sprintf("the network configuration on standard input is longer than %d bytes", maxConfig), "make it shorter")
	}
	switch s.command {
	case "VERSION":
		return s.printJSON(api.CNIVersion{CNIVersion: api.CNIVersionOf(config), SupportedVersions: api.CNIVersions()}, 0)
	case "":
		return s.printError(config, api.CNIInvalidEnvironment, "CNI_COMMAND is not set", "a container runtime sets it; culvert-cni --help says more")
	}
	return s.forwardCall(config)
}

func (s shim) forwardCall(config []byte) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req := api.CNIRequest{
		Command: s.command, ContainerID: s.containerID, Netns: s.netns, IfName: s.ifName, Args: s.args, Path: s.path, Config: config,
	}
	var resp api.CNIResponse
	err := rpc.Converse(ctx, s.socket, api.MethodCNI, req, &resp, s.answerDaemon)
	switch {
	case err == nil:
		if _, err := s.stdout.Write(resp.Stdout); err != nil {
			return 1
		}
		return resp.Exit
	case errors.Is(err, rpc.ErrNoDaemon):
		code := api.CNITryAgainLater
		if s.command == "STATUS" {
			code = api.CNIUnavailable
		}
		return s.printError(config, code, "culvertd does not answer on "+s.socket, "systemctl status culvertd, or in a cluster kubectl -n culvert-system get pods")
	case errors.Is(err, context.DeadlineExceeded):
		return s.printError(config, api.CNITryAgainLater, err.Error(), "culvert events says what culvertd is doing")
	}
	var e *api.Error
	if errors.As(err, &e) {
		return s.printError(config, api.CNIInternal, e.Message, e.Details)
	}
	return s.printError(config, api.CNIInternal, err.Error(), "")
}

// printError prints the specification's error object for the configuration's
// version.
func (s shim) printError(config []byte, code uint, msg, details string) int {
	return s.printJSON(api.CNIError{CNIVersion: api.CNIVersionOf(config), Code: code, Msg: msg, Details: details}, 1)
}

func (s shim) printJSON(v any, exit int) int {
	raw, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return 1
	}
	if _, err := s.stdout.Write(append(raw, '\n')); err != nil {
		return 1
	}
	return exit
}

func (s shim) printHelp() int {
	text := `culvert-cni is Culvert's CNI plugin. Container runtimes run it; culvertd does the work.

A network for it (NetworkAttachmentDefinition, or a file in /etc/cni/net.d):
  {"cniVersion": "1.1.0", "name": "net", "type": "culvert", "pool": "intel.com/fast",
   "ipam": {"type": "host-local", "subnet": "172.16.91.0/24"}}

CNI versions: ` + strings.Join(api.CNIVersions(), ", ") + `
Socket of culvertd: ` + s.socket + ` (CULVERT_SOCKET names another)
By hand: culvert status, culvert vf list, culvert events
`
	if _, err := io.WriteString(s.stdout, text); err != nil {
		return 1
	}
	return 0
}
