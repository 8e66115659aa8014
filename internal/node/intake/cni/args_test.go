package cni

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/culvert-net/culvert/internal/api"
	"github.com/culvert-net/culvert/internal/network/config"
	"github.com/culvert-net/culvert/internal/node/attach"
	"github.com/culvert-net/culvert/internal/vf"
)

func requestFor(c config.Config) attach.Request {
	req, err := buildRequest(Call{CNIRequest: api.CNIRequest{ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x"}, config: c})
	if err != nil {
		return attach.Request{}
	}
	return req
}

func TestArguments(t *testing.T) {
	for in, want := range map[string]string{
		"": "container c1 mac= ip=",
		"IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=a;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u;X=y": "pod default/a mac= ip=",
		"K8S_POD_NAME=a;":                       "pod a mac= ip=",
		"MAC=02:00:00:00:00:01;IP=10.0.0.5":     "container c1 mac=02:00:00:00:00:01 ip=10.0.0.5",
		"Foo=bar":                               "invalid environment variable CNI_ARGS: unknown key Foo; known are " + strings.Join(argumentKeys, ", ") + " (IgnoreUnknown=1 lets it pass)",
		"K8S_POD_NAM=bar":                       "invalid environment variable CNI_ARGS: unknown key K8S_POD_NAM: did you mean K8S_POD_NAME? (IgnoreUnknown=1 lets it pass)",
		"IgnoreUnknown":                         `invalid environment variable CNI_ARGS: "IgnoreUnknown": want KEY=value pairs with ';' between them`,
		"IgnoreUnknown=maybe":                   `invalid environment variable CNI_ARGS: IgnoreUnknown: "maybe": want 1 or 0`,
		"IgnoreUnknown=0;Foo=bar":               "invalid environment variable CNI_ARGS: unknown key Foo; known are " + strings.Join(argumentKeys, ", ") + " (IgnoreUnknown=1 lets it pass)",
		"IgnoreUnknown=;IgnoreUnknown=True;x=y": "container c1 mac= ip=",
		"Foo\n=bar":                             `invalid environment variable CNI_ARGS: unknown key "Foo\n"; known are ` + strings.Join(argumentKeys, ", ") + " (IgnoreUnknown=1 lets it pass)",
		"IgnoreUnknown=1;MAC=ff:00:00:00:00:01": `invalid environment variable CNI_ARGS: MAC: MAC address "ff:00:00:00:00:01": want a unicast address: not zero, and the first byte even`,
	} {
		a := ParseArguments(in)
		mac := vf.MAC{}
		if a.mac != nil {
			mac = *a.mac
		}
		got := fmt.Sprintf("%s mac=%s ip=%s", a.ownerOf("c1", "net1"), mac, a.ip)
		if a.Err != nil {
			got = a.Err.Error()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	for _, tc := range []struct {
		containerID, ifName, netns string
		ok                         bool
	}{
		{"c1", "net1", "/run/netns/x", true},
		{"3f2a-9c_4.1", "a23456789012345", "/run/netns/x", true},
		{"c1", "net1", "", false},
		{"", "net1", "/n", false},
		{"-c1", "net1", "/n", false},
		{"c/1", "net1", "/n", false},
		{"c1\n", "net1", "/n", false},
		{"c1", "", "/n", false},
		{"c1", ".", "/n", false},
		{"c1", "..", "/n", false},
		{"c1", "a/b", "/n", false},
		{"c1", "a:b", "/n", false},
		{"c1", "a b", "/n", false},
		{"c1", "a234567890123456", "/n", false},
		{"c1", "net1", "relative", false},
		{"c1", "net1", "/a\x00b", false},
	} {
		r := api.CNIRequest{ContainerID: tc.containerID, IfName: tc.ifName, Netns: tc.netns}
		err := errors.Join(checkAttachment(r), checkSandbox(r))
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, errEnvironment) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

// ADD needs the name of an attachment and the path of its sandbox. DEL needs the name alone, since
// the sandbox may be gone. The error names the variable and its value.
func TestNamesOfAnAttachment(t *testing.T) {
	const (
		container = `invalid environment variable CNI_CONTAINERID "a/b": want a letter or digit, then letters, digits, '_', '.' and '-', at most 253`
		device    = `invalid environment variable CNI_IFNAME "all": want an interface name of 1 to 15 bytes, without '/', ':', '%' and blanks`
		sandbox   = `invalid environment variable CNI_NETNS "/run/../x": want the path of a network namespace, e.g. /run/netns/pod`
	)
	for _, tc := range []struct {
		r        api.CNIRequest
		add, del string
	}{
		{api.CNIRequest{ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x"}, "<nil>", "<nil>"},
		{api.CNIRequest{ContainerID: "c1", IfName: "net1", Netns: "/run/../x"}, sandbox, "<nil>"},
		{api.CNIRequest{ContainerID: "c1", IfName: "all", Netns: "/run/netns/x"}, device, device},
		{api.CNIRequest{ContainerID: "a/b", IfName: "all", Netns: "/run/../x"}, container + "\n" + sandbox, container},
	} {
		if got := fmt.Sprint(Valid(tc.r)); got != tc.add {
			t.Errorf("ADD of %+v\n got %s\nwant %s", tc.r, got, tc.add)
		}
		if got := fmt.Sprint(ValidNames(tc.r)); got != tc.del {
			t.Errorf("DEL of %+v\n got %s\nwant %s", tc.r, got, tc.del)
		}
	}
}

// The lease keeps the UID of the pod, so that a later pod of its name is not taken for it.
func TestRequestHasThePodsUID(t *testing.T) {
	_, req, err := requestOf(callOf(api.CNIRequest{
		ContainerID: "c1", IfName: "net1", Netns: "/run/netns/x", Args: "K8S_POD_NAMESPACE=d;K8S_POD_NAME=p;K8S_POD_UID=u1",
		Config: []byte(`{"cniVersion":"1.0.0","name":"n","type":"culvert"}`),
	}))
	if err != nil || req.PodUID != "u1" || req.Owner.UID != "c1" {
		t.Errorf("pod %q of owner %+v, %v", req.PodUID, req.Owner, err)
	}
}

// Arguments are added behind those that are there, so that the last of a key counts.
func TestAddArguments(t *testing.T) {
	for _, tc := range []struct{ text, more, want string }{
		{"", "", ""}, {"", "IP=a", "IP=a"}, {"MAC=x", "", "MAC=x"}, {"IP=a;MAC=x", "IP=b", "IP=a;MAC=x;IP=b"},
	} {
		if got := AddArguments(tc.text, tc.more); got != tc.want {
			t.Errorf("%q and %q: %q, want %q", tc.text, tc.more, got, tc.want)
		}
	}
}
