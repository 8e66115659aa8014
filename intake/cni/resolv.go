package cni

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/culvert-net/culvert/ipam"
	"github.com/culvert-net/culvert/vf"
)

// resolver is the DNS of a result: the network's dns section, else that of
// ipam, else the file that ipam.resolvConf names.
func (c Config) resolver() (ipam.DNS, error) {
	switch {
	case !c.DNS.IsZero():
		return c.DNS, nil
	case !c.IPAM.DNS.IsZero() || c.IPAM.ResolvConf == "":
		return c.IPAM.DNS, nil
	}
	f, err := os.Open(c.IPAM.ResolvConf)
	if err != nil {
		return ipam.DNS{}, fmt.Errorf("ipam.resolvConf: %w: %w", vf.ErrInvalid, err)
	}
	defer f.Close()
	return readResolvConf(f)
}

// readResolvConf reads the form of resolv.conf(5), at most 64 KiB of it.
func readResolvConf(r io.Reader) (ipam.DNS, error) {
	var d ipam.DNS
	lines := bufio.NewScanner(io.LimitReader(r, 64<<10))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "nameserver":
			d.Nameservers = append(d.Nameservers, words[1])
		case "domain":
			d.Domain = words[1]
		case "search":
			d.Search = words[1:]
		case "options":
			d.Options = append(d.Options, words[1:]...)
		}
	}
	return d, lines.Err()
}
