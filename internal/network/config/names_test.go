package config

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for s, want := range map[string]struct{ isName, isIfName bool }{
		"net1":                   {true, true},
		"3f2a-9c_4.1":            {true, true},
		"a23456789012345":        {true, true},
		"a234567890123456":       {true, false},
		strings.Repeat("a", 253): {true, false},
		strings.Repeat("a", 254): {false, false},
		"all":                    {true, false},
		"default":                {true, false},
		"é":                      {false, true},
		"-c1":                    {false, true},
		"":                       {false, false},
		".":                      {false, false},
		"..":                     {false, false},
		"a/b":                    {false, false},
		"a:b":                    {false, false},
		"a b":                    {false, false},
		"net%d":                  {false, false},
		"c1\n":                   {false, false},
		"a\xff":                  {false, false},
	} {
		if got := IsName(s); got != want.isName {
			t.Errorf("%q is a name: %t", s, got)
		}
		if got := IsIfName(s); got != want.isIfName {
			t.Errorf("%q is the name of an interface: %t", s, got)
		}
	}
}
