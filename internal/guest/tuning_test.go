package guest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/culvert-net/culvert/internal/vf"
)

// domain is a definition with these elements.
func domain(elements string) []byte {
	return []byte("<domain><name>a</name><uuid>6695eb01-f6a4-8304-79aa-97f2502e193f</uuid>" + elements + "</domain>")
}

const tunedGuest = `
  <memory unit='GiB'>4</memory>
  <memtune><hard_limit unit='M'>6144</hard_limit></memtune>
  <memoryBacking><hugepages><page size='1' unit='G' nodeset='0'/><page size='2048'/></hugepages></memoryBacking>
  <vcpu placement='static' cpuset='4-7,^5'>3</vcpu>
  <cputune>
    <vcpupin vcpu='1' cpuset='9'/>
    <vcpupin vcpu='7' cpuset='10'/>
    <emulatorpin cpuset='0'/>
  </cputune>
  <numatune><memory mode='strict' nodeset='1'/></numatune>
  <devices>
    <iommu model='intel'/>
    <interface type='bridge'><mac address='52:54:00:aa:00:01'/><model type='virtio'/><driver name='vhost' queues='3'/></interface>
    <interface type='network'><mac address='52:54:00:aa:00:02'/><model type='virtio-non-transitional'/><alias name='net1'/></interface>
    <interface type='bridge'><model type='e1000e'/></interface>
    <interface type='user'><model type='virtio'/></interface>
    <interface type='hostdev'><source><address type='pci' bus='0x01' slot='0x10' function='0x2'/></source></interface>
  </devices>`

func TestParseTuning(t *testing.T) {
	for name, c := range map[string]struct {
		elements string
		want     Tuning
	}{
		"nothing said": {"", Tuning{VCPUs: 1, Pins: map[int][]int{}}},
		"everything": {tunedGuest, Tuning{
			VCPUs: 3, Memory: 4 << 30, HardLimit: 6 << 30, HugePages: []uint64{1 << 30, 2 << 20}, VIOMMU: true,
			Pins: map[int][]int{0: {4, 6, 7}, 1: {9}, 2: {4, 6, 7}}, Nodes: []int{1},
			VirtIO: []VirtIO{{"52:54:00:aa:00:01", 3}, {"net1", 1}},
		}},
		"huge pages of the default size": {"<memory>2097152</memory><memoryBacking><hugepages/></memoryBacking>", Tuning{VCPUs: 1, Memory: 2 << 30, HugePages: []uint64{0}, Pins: map[int][]int{}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTuning(domain(c.elements))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Tuning{}, "Definition", "Slots", "Windows")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.Name != "a" {
				t.Errorf("the guest is called %q", got.Name)
			}
		})
	}
}

func TestParseTuningRefuses(t *testing.T) {
	for elements, want := range map[string]string{
		"<vcpu>none</vcpu>":                                                      `<vcpu> "none": want a number from 1 to 8192`,
		"<vcpu>0</vcpu>":                                                         `<vcpu> "0"`,
		"<vcpu>9000</vcpu>":                                                      `<vcpu> "9000"`,
		"<memory unit='GiBi'>1</memory>":                                         `<memory> "1", unit "GiBi": want an amount of memory such as 4, unit GiB`,
		"<memory unit='TiB'>9999999</memory>":                                    `<memory> "9999999"`,
		"<memory unit='T'>18446744073709551615</memory>":                         `<memory> "18446744073709551615"`,
		"<memtune><hard_limit>-1</hard_limit></memtune>":                         `<hard_limit> "-1"`,
		"<vcpu cpuset='3-1'>1</vcpu>":                                            `cpuset of <vcpu>: "3-1": want numbers and ranges below 16384 such as 0-3,^2,8`,
		"<cputune><vcpupin vcpu='a' cpuset='1'/></cputune>":                      `vcpu "a" of <vcpupin>: want a number`,
		"<cputune><vcpupin vcpu='0' cpuset='0-99999'/></cputune>":                `cpuset of <vcpupin vcpu='0'>: "0-99999"`,
		"<numatune><memory nodeset='0,x'/></numatune>":                           `nodeset of <numatune>: "0,x"`,
		"<memoryBacking><hugepages><page size='x'/></hugepages></memoryBacking>": `<page> of <hugepages> "x"`,
	} {
		_, err := ParseTuning(domain(elements))
		if !errors.Is(err, vf.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the definition of guest a") {
			t.Errorf("%s: %v, want %s", elements, err, want)
		}
	}
	if _, err := ParseTuning([]byte("<domain>")); !errors.Is(err, vf.ErrInvalid) {
		t.Error(err)
	}
}

// A number of queues that cannot be read keeps no other device from being read.
func TestParseTuningReadsOtherDevices(t *testing.T) {
	for _, queues := range []string{"0", "many", "-1", "9000"} {
		got, err := ParseTuning(domain("<devices><interface type='bridge'><model type='virtio'/><driver queues='" + queues + "'/></interface>" +
			"<interface type='bridge'><model type='virtio'/><driver queues='2'/><alias name='net2'/></interface></devices>"))
		if diff := cmp.Diff([]VirtIO{{"", 0}, {"net2", 2}}, got.VirtIO); diff != "" || err != nil {
			t.Errorf("%s: %v -want +got:\n%s", queues, err, diff)
		}
	}
}

func TestTakesVF(t *testing.T) {
	host := func(n int) string {
		return fmt.Sprintf("<hostdev mode='subsystem' type='pci'><source><address bus='%d' slot='0' function='0'/></source><alias name='ua-culvert-net%[1]d'/></hostdev>", n)
	}
	var many strings.Builder
	for n := 1; n <= 240; n++ {
		many.WriteString(host(n))
	}
	const memory = "<memory unit='GiB'>8</memory>"
	limit := func(gib int) string {
		return fmt.Sprintf("%s<memtune><hard_limit unit='GiB'>%d</hard_limit></memtune>", memory, gib)
	}
	for name, c := range map[string]struct{ elements, device, want string }{
		"nothing is limited":              {memory, "net1", ""},
		"as many as there may be":         {"<devices>" + many.String() + "</devices>", "net240", ""},
		"one more":                        {"<devices>" + many.String() + "</devices>", "net241", "<devices> of guest a passes 240 PCI devices: invalid with one more: machine q35 has room for 240 beside the guest's own: take one out of the definition"},
		"enough may be locked":            {limit(8), "net1", ""},
		"too little":                      {limit(7), "net1", "<hard_limit> of guest a is 7168 MiB: invalid with 1 PCI devices, for which VFIO locks 8192 MiB, so that QEMU would end with \"cannot allocate memory\": take it out, and libvirt chooses, or make it 9216 MiB"},
		"two, which lock the same":        {limit(8) + "<devices>" + host(1) + "</devices>", "net2", ""},
		"two, with an IOMMU in the guest": {limit(8) + "<devices><iommu model='intel'/>" + host(1) + "</devices>", "net2", "or make it 17408 MiB"},
		"the same again, with such a one": {limit(8) + "<devices><iommu model='intel'/>" + host(1) + "</devices>", "net1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ParseTuning(domain(c.elements))
			if err != nil {
				t.Fatal(err)
			}
			err = g.TakesVF(c.device)
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, vf.ErrInvalid) || !strings.HasSuffix(err.Error(), c.want)) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func FuzzParseTuning(f *testing.F) {
	f.Add(read(f, "db1.xml"))
	f.Add(domain(tunedGuest))
	f.Add([]byte(strings.Replace(string(domain(tunedGuest)), "queues='3'", "queues='many'", 1)))
	f.Add(domain("<vcpu cpuset='1-4,^3'>2</vcpu><memory unit='bytes'>1</memory>"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseTuning(text)
		if err != nil {
			if !errors.Is(err, vf.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if got.VCPUs < 1 || got.VCPUs > maxVCPUs || got.Memory > 1<<60 {
			t.Fatalf("read as %+v", got)
		}
		for n, cpus := range got.Pins {
			if n < 0 || n >= got.VCPUs || len(cpus) == 0 || cpus[len(cpus)-1] >= maxCPU {
				t.Fatalf("vCPU %d of %d on %v", n, got.VCPUs, cpus)
			}
		}
	})
}
