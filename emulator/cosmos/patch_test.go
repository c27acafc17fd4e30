package cosmos_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestAPatchDoesWhatItsOperationsSay(t *testing.T) {
	for name, test := range map[string]struct {
		item, operations string
		want             string // the item afterwards; "" for a refusal
		says             string
	}{
		"set makes a member":           {`"a":1`, `{"op":"set","path":"/b","value":{"z":1}}`, `"a":1,"b":{"z":1}`, ""},
		"set changes a member":         {`"a":1,"b":2`, `{"op":"set","path":"/a","value":"x"}`, `"a":"x","b":2`, ""},
		"set changes an element":       {`"l":[1,2,3]`, `{"op":"set","path":"/l/1","value":9}`, `"l":[1,9,3]`, ""},
		"set beyond the array":         {`"l":[1]`, `{"op":"set","path":"/l/1","value":9}`, "", "beyond the end"},
		"set under nothing":            {``, `{"op":"set","path":"/a/b","value":9}`, "", "does not exist"},
		"set without a value is null":  {`"a":1`, `{"op":"set","path":"/a"}`, `"a":null`, ""},
		"add makes a member":           {``, `{"op":"add","path":"/a","value":1}`, `"a":1`, ""},
		"add changes a member":         {`"a":1`, `{"op":"add","path":"/a","value":2}`, `"a":2`, ""},
		"add inserts an element":       {`"l":[1,2]`, `{"op":"add","path":"/l/0","value":0}`, `"l":[0,1,2]`, ""},
		"add at the end":               {`"l":[1,2]`, `{"op":"add","path":"/l/2","value":3}`, `"l":[1,2,3]`, ""},
		"add with a dash":              {`"l":[1,2]`, `{"op":"add","path":"/l/-","value":3}`, `"l":[1,2,3]`, ""},
		"add beyond the end":           {`"l":[1,2]`, `{"op":"add","path":"/l/3","value":3}`, "", "beyond the end"},
		"add at no index":              {`"l":[1,2]`, `{"op":"add","path":"/l/01","value":3}`, "", "not an index"},
		"add under nothing":            {``, `{"op":"add","path":"/a/b","value":1}`, "", "does not exist"},
		"add under a number":           {`"a":1`, `{"op":"add","path":"/a/b","value":1}`, "", "a number"},
		"replace a member":             {`"a":1`, `{"op":"replace","path":"/a","value":2}`, `"a":2`, ""},
		"replace nothing":              {``, `{"op":"replace","path":"/a","value":2}`, "", "does not exist"},
		"replace an element":           {`"l":[1,2]`, `{"op":"replace","path":"/l/0","value":{}}`, `"l":[{},2]`, ""},
		"remove a member":              {`"a":1,"b":2`, `{"op":"remove","path":"/a"}`, `"b":2`, ""},
		"remove an element":            {`"l":[1,2,3]`, `{"op":"remove","path":"/l/1"}`, `"l":[1,3]`, ""},
		"remove nothing":               {``, `{"op":"remove","path":"/a"}`, "", "does not exist"},
		"remove with a dash":           {`"l":[1]`, `{"op":"remove","path":"/l/-"}`, "", "not an index"},
		"increment a number":           {`"n":5`, `{"op":"incr","path":"/n","value":-7}`, `"n":-2`, ""},
		"increment a fraction":         {`"n":0.5`, `{"op":"incr","path":"/n","value":1}`, `"n":1.5`, ""},
		"increment past doubles":       {`"n":9007199254740993`, `{"op":"incr","path":"/n","value":1}`, `"n":9007199254740994`, ""},
		"increment nothing":            {``, `{"op":"incr","path":"/n","value":3}`, `"n":3`, ""},
		"increment a text":             {`"n":"5"`, `{"op":"incr","path":"/n","value":3}`, "", "cannot be incremented"},
		"increment by a text":          {`"n":5`, `{"op":"incr","path":"/n","value":"3"}`, "", "must be a number"},
		"increment by nothing":         {`"n":5`, `{"op":"incr","path":"/n"}`, "", "must be a number"},
		"move a member":                {`"a":1,"b":{}`, `{"op":"move","from":"/a","path":"/b/c"}`, `"b":{"c":1}`, ""},
		"move into itself":             {`"a":{}`, `{"op":"move","from":"/a","path":"/a/b"}`, "", "into itself"},
		"deep down":                    {`"a":{"b":[{"c":1}]}`, `{"op":"set","path":"/a/b/0/c","value":2}`, `"a":{"b":[{"c":2}]}`, ""},
		"an escaped path":              {``, `{"op":"set","path":"/a~1b~0c","value":1}`, `"a/b~c":1`, ""},
		"one after the other":          {`"l":[]`, `{"op":"add","path":"/l/-","value":1},{"op":"incr","path":"/l/0","value":1}`, `"l":[2]`, ""},
		"all or nothing":               {`"a":1`, `{"op":"set","path":"/a","value":2},{"op":"remove","path":"/b"}`, "", "Operation(2)"},
		"the time to live":             {`"a":1`, `{"op":"set","path":"/ttl","value":60}`, `"a":1,"ttl":60`, ""},
		"an impossible time to live":   {`"a":1`, `{"op":"set","path":"/ttl","value":0}`, "", "ttl"},
		"too deep":                     {`"a":{"a":{"a":{"a":{"a":{}}}}}`, `{"op":"set","path":"/a/a/a/a/a/b","value":` + strings.Repeat("[", 125) + strings.Repeat("]", 125) + `}`, "", "deeper than 128"},
		"the id":                       {``, `{"op":"set","path":"/id","value":"2"}`, "", "cannot be patched"},
		"a system property":            {``, `{"op":"set","path":"/_ts","value":1}`, "", "cannot be patched"},
		"the partition key":            {``, `{"op":"set","path":"/pk","value":"q"}`, "", "partition key"},
		"the partition key, removed":   {``, `{"op":"remove","path":"/pk"}`, "", "partition key"},
		"the root":                     {``, `{"op":"set","path":"/","value":1}`, "", "root"},
		"no path":                      {``, `{"op":"set","value":1}`, "", "no path"},
		"an operation that is not one": {``, `{"op":"test","path":"/a","value":1}`, "", "not one of"},
		"a member that is not one":     {``, `{"op":"set","path":"/a","values":"1"}`, "", "means nothing"},
		"no operations":                {``, ``, "", "no operations"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.container("claims", "/pk")
			head := `{"id":"1","pk":"p"`
			item := head
			if test.item != "" {
				item += "," + test.item
			}
			must2(c.CreateItem(t.Context(), pk("p"), []byte(item+"}"), nil))(t)
			got := w.send(request{
				method: "PATCH", path: docs + "/1", headers: with(nil, "x-ms-documentdb-partitionkey", `["p"]`),
				body: `{"operations":[` + test.operations + `]}`,
			})
			stored := string(must2(c.ReadItem(t.Context(), pk("p"), "1", nil))(t).Value)
			if test.want == "" {
				if got.status != http.StatusBadRequest || !strings.Contains(got.body, test.says) {
					t.Errorf("got %d %s, want 400 with %q", got.status, got.body, test.says)
				}
				if !strings.HasPrefix(stored, item) {
					t.Errorf("the refused patch left %s", stored)
				}
				return
			}
			if got.status != http.StatusOK || got.body != stored || !strings.HasPrefix(stored, head+","+test.want+`,"_rid"`) {
				t.Errorf("got %d %s, want the item with %s", got.status, got.body, test.want)
			}
		})
	}
}

func TestAPatchHasAtMostTenOperations(t *testing.T) { // V6
	w := newWorld(t)
	c := w.container("claims", "/id")
	must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1"}`), nil))(t)
	patch := func(n int) error {
		var p azcosmos.PatchOperations
		for i := range n {
			p.AppendSet(fmt.Sprint("/a", i), i)
		}
		_, err := c.PatchItem(t.Context(), pk("1"), "1", p, nil)
		return err
	}
	if err := patch(10); err != nil {
		t.Error(err)
	}
	wantStatus(t, patch(11), http.StatusBadRequest)
}

func TestAPatchIsConditional(t *testing.T) { // V1
	for condition, want := range map[string]int{
		"from c where c.stock >= 5":                          0,
		"FROM c WHERE c.stock = 5 AND c._ts > 0":             0,
		"from item where item.id = '1'":                      0,
		"from c":                                             0,
		"from c where c.stock > 5":                           412,
		"from c where c.missing = 5":                         412,
		"from c where NOT (c.missing = 5)":                   412, // undefined is not true
		"from c where c.stock":                               412,
		"from c where IS_DEFINED(c.missing)":                 412,
		"where c.stock = 5":                                  400,
		"select * from c":                                    400,
		"from c where c.stock =":                             400,
		"from c where d.stock = 5":                           400,
		"from c where c.stock = @p":                          400,
		"from c where c.stock = 5 order by c.stock":          400,
		"from c join x in c.l where x = 1":                   400,
		"from c where c.stock = (select value 1 from c)":     400,
		"from c where FULLTEXTCONTAINS(c.text, 'something')": 400,
	} {
		w := newWorld(t)
		c := w.container("claims", "/id")
		must2(c.CreateItem(t.Context(), pk("1"), []byte(`{"id":"1","stock":5}`), nil))(t)
		var p azcosmos.PatchOperations
		p.SetCondition(condition)
		p.AppendIncrement("/stock", -1)
		_, err := c.PatchItem(t.Context(), pk("1"), "1", p, nil)
		if status(err) != want {
			t.Errorf("%s: %v, want %d", condition, err, want)
		}
		if want == 412 && substatus(err) != "1110" {
			t.Errorf("%s: substatus %q", condition, substatus(err))
		}
		left := map[bool]float64{true: 4, false: 5}[want == 0]
		if got := decode(t, must2(c.ReadItem(t.Context(), pk("1"), "1", nil))(t).Value)["stock"]; got != left {
			t.Errorf("%s: stock %v, want %v", condition, got, left)
		}
	}
}
