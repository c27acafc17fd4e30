package bicep

import (
	"strings"
	"testing"
)

func TestValuesAreReadAsTheyAreWritten(t *testing.T) {
	f, err := Parse("x.bicep", `// a comment, with 'quotes'
@allowed(['a', 'b'])
param size string = 'a'
@secure()
param secret string
var port = 8080
var more = [{ name: 'X', value: 'y' }]
resource app 'Microsoft.App/containerApps@2026-01-01' = if (size == 'a') {
  name: '${size}-it\'s ${empty(secret) ? 'none' : 'some'}'
  properties: {
    list: [1, 2
      -3]
    ports: [{ port: port }]
    env: empty(secret) ? [] : concat(more, [
      { name: 'Z', value: other!.outputs.id }
    ])
    query: '''
one
two
'''
  }
}
resource old 'Microsoft.App/containerApps@2026-01-01' existing = { name: 'old' }
module m 'modules/m.bicep' = { name: 'm', params: { a: app.id } }
output id string = app.properties.list[0]
`)
	if err != nil {
		t.Fatal(err)
	}
	apps := f.Resources("microsoft.app/containerapps")
	if len(apps) != 1 || apps[0].Version != "2026-01-01" || apps[0].Symbol != "app" {
		t.Fatalf("resources are %+v", apps)
	}
	body := apps[0].Body
	for path, want := range map[string]string{
		"name":                    "${size}-it's ${empty(secret) ? 'none' : 'some'}",
		"properties list 2":       "-3",
		"properties ports 0 port": "8080",
		"properties env 0 name":   "X",
		"properties env 1 value":  "other.outputs.id",
		"properties query":        "one\ntwo\n",
		"properties nothing":      "",
	} {
		if got := f.Text(body, strings.Fields(path)...); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if m := f.Symbol("m"); m == nil || !m.Module || f.Text(m.Body, "params", "a") != "app.id" {
		t.Errorf("the module is %+v", m)
	}
	if _, ok := f.Parameters["secret"]; !ok || f.Parameters["size"].Text != "a" {
		t.Errorf("parameters are %v", f.Parameters)
	}
}

func TestWhatIsNotKnownIsAnErrorWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"var a = 'x\n":                  "line 1: a string has no end",
		"var a = 1\nimport 'x'\n":       `x.bicep:2: a statement that begins with "import"`,
		"var a = {\n  b: ]\n}\n":        `x.bicep:2: "]" where an expression should be`,
		"var a = [\n  1\n":              `the file ends where "]" should be`,
		"/* a\n":                        "line 1: a comment has no end",
		"resource a 'b@1' = {\n c d\n}": `where ":" should be`,
	} {
		if _, err := Parse("x.bicep", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
