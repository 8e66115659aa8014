// Package support packs the files by which other people find a fault on a host. Named parts with a
// function that reads each go in, and one archive comes out. Its first file lists the parts, also
// those that could not be read. Pack replaces secrets in the texts. The CLI calls it (culvert support).
package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/culvert-net/culvert/internal/excerpt"
	"github.com/culvert-net/culvert/internal/screen"
)

// Part is one file of the archive.
type Part struct {
	Name string
	// About says in one line what the file has.
	About string
	Read  func(context.Context) ([]byte, error)
}

// Bounds of one part: how long reading it may take, and how many bytes of it are kept. Pack keeps the
// last lines of a longer text, since logs end with the newest line.
const (
	readBound = time.Minute
	mostBytes = 16 << 20
)

// Packed describes a file of the archive, or says why it is not in it.
type Packed struct {
	Name    string `json:"name"`
	About   string `json:"about"`
	Bytes   int    `json:"bytes"`
	Secrets int    `json:"secrets,omitempty"` // texts that were taken out
	Cut     int    `json:"cut,omitempty"`     // bytes at the beginning that were left out
	Error   string `json:"error,omitempty"`
}

// Pack reads the parts, one after the other, and writes the archive, a tar file compressed by gzip, in
// a folder of that name. It calls done after each part. A part that cannot be read is listed with the
// reason. Errors are those of out, and the end of ctx.
func Pack(ctx context.Context, out io.Writer, folder string, now time.Time, parts []Part, done func(Packed)) error {
	var list []Packed
	contents := map[string][]byte{}
	for _, p := range parts {
		content, packed := readPart(ctx, p)
		if err := ctx.Err(); err != nil {
			return err
		}
		contents[p.Name], list = content, append(list, packed)
		done(packed)
	}
	zip := gzip.NewWriter(out)
	archive := tar.NewWriter(zip)
	write := func(name string, content []byte) error {
		if err := archive.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o600, Size: int64(len(content)), ModTime: now}); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	err := write("README.txt", describeArchive(folder, now, list))
	for _, p := range list {
		if err == nil && p.Error == "" {
			err = write(p.Name, contents[p.Name])
		}
	}
	return errors.Join(err, archive.Close(), zip.Close())
}

// readPart reads a part within its bounds and takes the secrets out.
func readPart(ctx context.Context, p Part) ([]byte, Packed) {
	packed := Packed{Name: p.Name, About: p.About}
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	content, err := p.Read(ctx)
	if err != nil {
		packed.Error = excerpt.Error(err)
		return nil, packed
	}
	if more := len(content) - mostBytes; more > 0 {
		more += bytes.IndexByte(content[more:], '\n') + 1 // lines stay whole
		content, packed.Cut = content[more:], more
	}
	content, packed.Secrets = redactSecrets(content)
	packed.Bytes = len(content)
	return content, packed
}

// removed stands in the archive for a secret.
const removed = "(removed)"

// A secret is a kind of text that grants access. The first group of its pattern stays. A content
// without its word, in small letters, has none, which is fast to find out.
type secret struct {
	word    string
	pattern *regexp.Regexp
}

// secrets are private keys, the values of keys and headers that are named for them, and the passwords
// of URLs.
var secrets = []secret{
	{"private key-----", regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)},
	{"bearer ", regexp.MustCompile(`(?i)(bearer +)[A-Za-z0-9+/=._~-]{8,}`)},
	{"basic ", regexp.MustCompile(`(?i)(basic +)[A-Za-z0-9+/=._~-]{8,}`)},
	{"token", namedValue("token")},
	{"password", namedValue("password")},
	{"passwd", namedValue("passwd")},
	{"client-key-data", namedValue("client-key-data")},
	{"secret", namedValue("secret")},
	{"apikey", namedValue("apikey")},
	{"api-key", namedValue("api-key")},
	{"://", regexp.MustCompile(`([a-z]+://[^\s/:@]+:)[^\s/@]+@`)},
}

// namedValue matches the value of a key in YAML, JSON, a flag or an assignment.
func namedValue(key string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(` + key + `"?\s*[:=]\s*"?)[^\s",}]+`)
}

// redactSecrets replaces secrets, and counts them.
func redactSecrets(content []byte) (out []byte, n int) {
	small := bytes.ToLower(content)
	for _, s := range secrets {
		if bytes.Contains(small, []byte(s.word)) {
			n += len(s.pattern.FindAllIndex(content, -1))
			content = s.pattern.ReplaceAll(content, []byte("${1}"+removed))
		}
	}
	return content, n
}

// describeArchive is the text of README.txt.
func describeArchive(folder string, now time.Time, list []Packed) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s, made by culvert support at %s.\n\n", folder, now.UTC().Format(time.RFC3339))
	b.WriteString("It has no packets, no kubeconfig and no environment. Texts that grant access are replaced by " + removed + ".\nIt does have names of hosts, pods and guests, and MAC and IP addresses: read it before you pass it on.\n\n")
	for _, p := range list {
		b.WriteString(p.String() + "\n")
	}
	return b.Bytes()
}

// String describes the file in one line.
func (p Packed) String() string {
	if p.Error != "" {
		return fmt.Sprintf("%-14s not here: %s", p.Name, p.Error)
	}
	var notes []string
	if p.Secrets > 0 {
		notes = append(notes, screen.Plural(p.Secrets, "text")+" removed")
	}
	if p.Cut > 0 {
		notes = append(notes, fmt.Sprintf("the first %d bytes left out", p.Cut))
	}
	s := fmt.Sprintf("%-14s %8d bytes  %s", p.Name, p.Bytes, p.About)
	if len(notes) > 0 {
		s += " (" + strings.Join(notes, ", ") + ")"
	}
	return s
}
