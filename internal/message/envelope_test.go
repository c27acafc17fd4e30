package message

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzOneReadingIsTwo: what is read at once is what envelope and data say that are
// read one after the other, and those accept nothing that is not read at once.
func FuzzOneReadingIsTwo(f *testing.F) {
	at := time.Unix(0, 0)
	good, err := Task{ExecutionID: "82f3", Run: 1, Type: "a", Payload: jsontext.Value(`{"b":1}`), Deadline: at, NotAfter: at}.Message("82f3", at)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(good.Body), `{}`, `{"data":{}}`,
		`{"specversion":"1.0","id":"1","source":"a","type":"TaskRequested","data":null}`,
		`{"specversion":"1.0","id":"1","source":"a","type":"TaskRequested","data":{"run":1,"x":[1]},"y":{"z":1}}`,
		`{"specversion":"1.0","id":"1","source":"a","type":"TaskRequested","data":{"run":1,"run":2}}`,
		`{"specversion":"1.0","id":"1","source":"a","type":"TaskRequested","data":[1]}`,
		`{"specversion":"1.0","id":"1","source":"a","type":"TaskRequested","data":{"payload":9007199254740993}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		once, ok := openAs[Task](body, TypeTask)
		var twice Task
		eventType, data, err := open(body)
		if err == nil {
			err = openData(eventType, data, &twice)
		}
		if ok != (err == nil && eventType == TypeTask) || ok && !reflect.DeepEqual(once, twice) {
			t.Fatalf("%s\nat once: %+v, %t\nin two:  %+v, %s, %v", body, once, ok, twice, eventType, err)
		}
	})
}
