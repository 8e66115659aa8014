package claims

import (
	"path"
	"regexp"
	"strings"
)

// knownOutput matches commands on a path whose output is known, and the path: dirname, readlink or
// realpath, and cd with pwd.
var knownOutput = regexp.MustCompile("(?:\\$\\(|`)\\s*(?:(dirname)|(?:readlink|realpath)(?:\\s+-\\w+)*|(cd))(?:\\s+(?:--|-P))?\\s+[\"']?(/[^\\s\"'$()*?`]*)[\"']?\\s*" +
	"(?:(?:&?>\\s*/dev/null\\s*)?(?:2>&1\\s*)?(?:&&|;)\\s*pwd(?:\\s+-P)?\\s*)?[)`]")

// maxNested is how many commands whose output is known may be within one another.
const maxNested = 4

// readPaths replaces commands whose output is a path that is known without the host. The links of sysfs
// and /proc are not: they depend on the devices.
func readPaths(text string) string {
	for range maxNested {
		was := text
		if !strings.ContainsAny(text, "`") && !strings.Contains(text, "$(") {
			return text
		}
		text = knownOutput.ReplaceAllStringFunc(text, func(command string) string {
			m := knownOutput.FindStringSubmatch(command)
			isPwd := strings.Contains(command, "pwd")
			switch file := m[3]; {
			case m[1] != "" && !isPwd:
				return path.Dir(file)
			case m[2] != "" && isPwd:
				return path.Clean(file)
			case m[1]+m[2] == "" && !isPwd && !strings.HasPrefix(file, "/sys/") && !strings.HasPrefix(file, "/proc/"):
				return path.Clean(file)
			}
			return command
		})
		if text == was {
			return text
		}
	}
	return text
}
