package claims

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

const cloudInit = "cloud-init"

// scanCloudConfig reads the commands of bootcmd, which cloud-init runs at each boot. It runs those of
// runcmd only at the first boot of an instance.
func (s *scanner) scanCloudConfig(src *source, text []byte) {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return
	}
	src.functions = newFunctions()
	commands := childOf(doc.Content[0], "bootcmd")
	if commands == nil || commands.Kind != yaml.SequenceNode {
		return
	}
	for _, c := range commands.Content {
		s.scanCloudCommand(src, c)
	}
	s.scanUncalled(src)
}

// scanCloudCommand reads a command: a text of shell, or a list of words.
func (s *scanner) scanCloudCommand(src *source, c *yaml.Node) {
	switch c.Kind {
	case yaml.ScalarNode:
		lines := joinValues(joinLines([]byte(c.Value), "#"))
		first := c.Line - 1
		if c.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			first = c.Line
		}
		for i := range lines {
			lines[i].number += first
		}
		s.scanLines(src, lines)
	case yaml.SequenceNode:
		words := scalarValues(c)
		if len(words) > 0 {
			s.scanCommand(src, textLine{c.Line, strings.Join(words, " ")}, command{words: words}, "")
		}
	}
}
