package uevent

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	kernelAdd = "add@/devices/pci0000:00/0000:00:02.0/0000:01:10.0/net/eth2\x00ACTION=add\x00" +
		"DEVPATH=/devices/pci0000:00/0000:00:02.0/0000:01:10.0/net/eth2\x00SUBSYSTEM=net\x00INTERFACE=eth2\x00IFINDEX=9\x00SEQNUM=2101\x00"
	kernelBind = "bind@/devices/pci0000:00/0000:00:02.0/0000:01:10.0\x00ACTION=bind\x00" +
		"DEVPATH=/devices/pci0000:00/0000:00:02.0/0000:01:10.0\x00SUBSYSTEM=pci\x00DRIVER=igbvf\x00SEQNUM=2103\x00"
)

// udevMessage is what udevd sends for the properties.
func udevMessage(properties string) []byte {
	b := []byte(udevPrefix)
	b = binary.BigEndian.AppendUint32(b, udevMagic)
	b = binary.NativeEndian.AppendUint32(b, 40)
	b = binary.NativeEndian.AppendUint32(b, 40)
	b = binary.NativeEndian.AppendUint32(b, uint32(len(properties)))
	b = append(b, make([]byte, 16)...)
	return append(b, properties...)
}

func TestParse(t *testing.T) {
	const path = "/devices/pci0000:00/0000:00:02.0/0000:01:10.0"
	for _, tt := range []struct {
		name string
		in   []byte
		want Event
		err  string
	}{
		{"a netdevice comes", []byte(kernelAdd), Event{Action: "add", Path: path + "/net/eth2", Subsystem: "net", Interface: "eth2", Index: 9}, ""},
		{"a driver binds", []byte(kernelBind), Event{Action: "bind", Path: path, Subsystem: "pci"}, ""},
		{"udev is done", udevMessage("ACTION=add\x00SUBSYSTEM=net\x00INTERFACE=enp1s0v0\x00IFINDEX=9\x00"),
			Event{Action: "add", Subsystem: "net", Interface: "enp1s0v0", Index: 9, FromUdev: true}, ""},
		{"nothing", nil, Event{}, "does not start"},
		{"no head", []byte("ACTION=add\x00"), Event{}, "does not start"},
		{"another magic", append([]byte(udevPrefix), make([]byte, 32)...), Event{}, "magic"},
		{"cut", udevMessage("ACTION=add\x00")[:44], Event{}, "has its properties"},
	} {
		got, err := Parse(tt.in)
		if diff := cmp.Diff(tt.want, got); diff != "" && tt.err == "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		}
	}
}

// A call of Next ends with its own context, and not with that of an earlier call.
func TestNextEndsWithTheContext(t *testing.T) {
	c, err := Listen()
	if err != nil {
		t.Skip(err) // a sandbox without netlink
	}
	defer c.Close()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		var err error
		for err == nil { // events of other devices may arrive
			_, err = c.Next(ctx)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}
