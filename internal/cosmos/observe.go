package cosmos

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/go-json-experiment/json"
)

// Observed is what an account and its database are set up to.
type Observed struct {
	Differences []error                  // from the table of containers
	Expires     map[string]time.Duration // default time to live by container; negative: as each item says; none: never
	Session     bool                     // consistency is Session or stronger
	Consistency string
	ManyWriters bool // writes in several regions
}

// Observe reads what stands, and changes nothing.
func (d *Database) Observe(ctx context.Context) (Observed, error) {
	o := Observed{Expires: map[string]time.Duration{}}
	for _, want := range Table() {
		found, ttl, err := d.differences(ctx, want)
		if err != nil {
			return Observed{}, err
		}
		if ttl != nil {
			o.Expires[want.ID] = time.Duration(*ttl) * time.Second
		}
		o.Differences = append(o.Differences, found...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	o.Consistency, o.ManyWriters = d.account.Policy.Level, d.account.Several
	o.Session = slices.Contains([]string{"Strong", "BoundedStaleness", "Session"}, o.Consistency)
	return o, nil
}

// account is what a discovery tells of the account, as far as it is of interest.
type account struct {
	Policy struct {
		Level string `json:"defaultConsistencyLevel"`
	} `json:"userConsistencyPolicy"`
	Several bool `json:"enableMultipleWriteLocations"`
}

// sawAccount remembers what a discovery was told. What cannot be read the SDK will
// complain of.
func (d *Database) sawAccount(response *http.Response) {
	if response.StatusCode != http.StatusOK {
		return
	}
	var found account
	text, err := runtime.Payload(response) // which can be read again
	if err != nil || json.Unmarshal(text, &found) != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.account = found
}
