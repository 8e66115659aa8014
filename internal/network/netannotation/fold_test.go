package netannotation

import "testing"

// The keys of an annotation count in any case. An element that is no object stays as its author
// wrote it, and a text that is no list stays whole: the refusal quotes it.
func TestFoldAnnotation(t *testing.T) {
	for text, want := range map[string]string{
		`[{"NAME":"a","Mac":"x","other":{"NAME":1}}]`:               `[{"mac":"x","name":"a","other":{"NAME":1}}]`,
		`[{"name":"a","Name":"b"},{"NAME":"c"}]`:                    `[{"name":"b"},{"name":"c"}]`,
		`[{"BANDWIDTH":{"IngressRate":1},"ips":[{"NAME":1}]}]`:      `[{"bandwidth":{"ingressRate":1},"ips":[{"NAME":1}]}]`,
		`[{"portmappings":[{"HOSTPORT":1,"hostport":2},"x",null]}]`: `[{"portMappings":[{"hostPort":2},"x",null]}]`,
		`["NAME",7,null,[{"NAME":"a"}]]`:                            `["NAME",7,null,[{"NAME":"a"}]]`,
		`[{"NAME":"a"},{"NAME":}]`:                                  `[{"NAME":"a"},{"NAME":}]`,
		`[{"NAME":"a"}] [{"NAME":"b"}]`:                             `[{"NAME":"a"}] [{"NAME":"b"}]`,
		`{"NAME":"a"}`:                                              `{"NAME":"a"}`,
		`[{"PortMappings":{"HostPort":1},"BandWidth":[{"A":1}]}]`:   `[{"bandwidth":[{"A":1}],"portMappings":{"HostPort":1}}]`,
		`null`: `null`,
		``:     ``,
	} {
		if got := string(foldAnnotation(text)); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// An object that cannot be read stays whole, since a part of its keys would ask for another network
// than its author wants.
func TestFoldKeepsWhatItCannotRead(t *testing.T) {
	breaks := map[string]func([]byte) []byte{"mac": func([]byte) []byte { return []byte("{") }}
	for text, want := range map[string]string{
		`{"NAME":"a","MAC":}`:      `{"NAME":"a","MAC":}`,
		`{"NAME":"a",7:1}`:         `{"NAME":"a",7:1}`,
		`{"NAME":"a","MAC":"x"}`:   `{"NAME":"a","MAC":"x"}`, // the change breaks it
		`{"NAME":"a","ips":[]}`:    `{"ips":[],"name":"a"}`,
		`[{"NAME":"a","MAC":"x"}]`: `[{"NAME":"a","MAC":"x"}]`,
		`"NAME"`:                   `"NAME"`,
	} {
		if got := string(foldKeys([]byte(text), elementKeys, breaks)); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
	const list = `[{"NAME":"a"}, {"NAME":"b"}]`
	if got := string(eachOf([]byte(list), breaks["mac"])); got != list {
		t.Errorf("a list that its change breaks: %s", got)
	}
}
