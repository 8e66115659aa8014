package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/culvert-net/culvert/tools/linked"
)

const (
	source = "https://github.com/culvert-net/culvert"
	sums   = "SHA256SUMS"
)

type object = map[string]any

// writeKrew writes the manifest of the kubectl plugin for krew. The URL is the publisher's.
func (r release) writeKrew(context.Context) error {
	if r.URL == "" {
		return nil
	}
	var platforms []object
	for _, arch := range r.Archs {
		sum, err := sumFile(filepath.Join(r.dir, r.archiveName(arch)))
		if err != nil {
			return err
		}
		folder := strings.TrimSuffix(r.archiveName(arch), ".tar.gz")
		platforms = append(platforms, object{
			"selector": object{"matchLabels": object{"os": "linux", "arch": arch}},
			"uri":      strings.TrimSuffix(r.URL, "/") + "/" + r.archiveName(arch), "sha256": sum, "bin": "culvert",
			"files": []object{{"from": folder + "/culvert", "to": "."}, {"from": folder + "/LICENSE", "to": "."}},
		})
	}
	body, err := yaml.Marshal(object{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin", "metadata": object{"name": "culvert"},
		"spec": object{
			"version": r.Version, "homepage": source, "platforms": platforms,
			"shortDescription": "Show the SR-IOV VFs of a cluster and their owners",
			"description":      "Shows the nodes of a cluster with their SR-IOV Virtual Functions (VFs), who has\neach one, and its problems. Culvert must run on the cluster.\n",
		},
	})
	if err != nil {
		return err
	}
	return r.write("krew.yaml", body)
}

// writeSBOM lists all modules that the programs link, in SPDX 2.3.
func (r release) writeSBOM(ctx context.Context) error {
	var programs []string
	for _, arch := range r.Archs {
		programs = append(programs, r.programsFor(arch)...)
	}
	modules, err := linked.Modules(programs)
	if err != nil {
		return err
	}
	cache, err := linked.FindCache(ctx, r.Top)
	if err != nil {
		return err
	}
	const own = "SPDXRef-culvert"
	packages := []object{describePackage(own, source, r.Version, "Apache-2.0", "")}
	relations := []object{{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own}}
	for i, m := range modules {
		texts, err := cache.Licences(m)
		if err != nil {
			return err
		}
		id := fmt.Sprintf("SPDXRef-module-%d", i+1)
		packages = append(packages, describePackage(id, m.Path, m.Version, linked.NameLicence(texts), "pkg:golang/"+m.Path+"@"+m.Version))
		relations = append(relations, object{"spdxElementId": own, "relationshipType": "STATIC_LINK", "relatedSpdxElement": id})
	}
	return r.writeJSON("culvert-"+r.Version+".spdx.json", object{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "culvert-" + r.Version,
		"documentNamespace": source + "/spdx/" + r.Version + "/" + r.commit,
		"creationInfo":      object{"created": r.when.Format(time.RFC3339), "creators": []string{"Tool: culvert-tools-release"}},
		"packages":          packages, "relationships": relations,
	})
}

// describePackage returns a package of SPDX. A purl (package-url.org) names it for scanners.
func describePackage(id, name, version, licence, purl string) object {
	p := object{
		"SPDXID": id, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
		"licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION",
	}
	if purl != "" {
		p["externalRefs"] = []object{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}}
	}
	return p
}

// writeProvenance says of which commit, and by which command, the files were made: a statement of
// in-toto with the predicate of SLSA 1.0. The signature of the checksums covers it.
func (r release) writeProvenance(context.Context) error {
	files, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var subjects []object
	for _, f := range files {
		sum, err := sumFile(filepath.Join(r.dir, f.Name()))
		if err != nil {
			return err
		}
		subjects = append(subjects, object{"name": f.Name(), "digest": object{"sha256": sum}})
	}
	return r.writeJSON("provenance.json", object{
		"_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":            source + "/blob/main/docs/release.md",
				"externalParameters":   object{"version": r.Version, "image": r.imageName(), "url": r.URL, "architectures": r.Archs, "vulnerabilities": r.VulnDB},
				"resolvedDependencies": []object{{"uri": "git+" + source, "digest": object{"gitCommit": r.commit}}},
			},
			"runDetails": object{"builder": object{"id": source + "/tree/main/tools/release"}},
		},
	})
}

// writeJSON writes a value with its keys in order.
func (r release) writeJSON(name string, value any) error {
	body, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return err
	}
	return r.write(name, append(body, '\n'))
}

// writeSums writes the checksums of all files, and has ssh-keygen sign them.
func (r release) writeSums(ctx context.Context) error {
	files, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var list []byte
	for _, f := range files {
		sum, err := sumFile(filepath.Join(r.dir, f.Name()))
		if err != nil {
			return err
		}
		list = fmt.Appendf(list, "%s  %s\n", sum, f.Name())
	}
	if err := r.write(sums, list); err != nil || r.Key == "" {
		return err
	}
	out, err := exec.CommandContext(ctx, "ssh-keygen", "-Y", "sign", "-n", "file", "-f", r.Key, filepath.Join(r.dir, sums)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ssh-keygen: %w\n%s", err, out)
	}
	return nil
}

func sumFile(file string) (string, error) {
	body, err := os.ReadFile(file)
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:]), err
}
