package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json"

	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
)

// store is the account that is asked.
type store struct {
	client *azcosmos.Client
	items  *azcosmos.ContainerClient // inventory: an item and its receipts share a partition
	nonce  string
}

// container is where the probes' items are: in it several of them share a partition.
const container = "inventory"

// keep is how long an item of a probe lives, in seconds, if nobody deletes it (F3).
const keep = 300

func openStore(o cosmos.Options, nonce string) (*store, error) {
	options := &azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: o.Transport, Telemetry: policy.TelemetryOptions{ApplicationID: o.ApplicationID},
	}}
	s := &store{nonce: nonce}
	var err error
	if o.Credential != nil {
		s.client, err = azcosmos.NewClient(o.Endpoint, o.Credential, options)
	} else {
		var key azcosmos.KeyCredential
		if key, err = azcosmos.NewKeyCredential(o.Key); err == nil {
			s.client, err = azcosmos.NewClientWithKey(o.Endpoint, key, options)
		}
	}
	if err == nil {
		s.items, err = s.client.NewContainer(o.Database, container)
	}
	return s, err
}

// item is an item of a probe.
type item struct {
	ID    string `json:"id"`
	SKU   string `json:"sku"`
	Value int    `json:"number"`
	TTL   int    `json:"ttl"`
	Stamp int64  `json:"_ts,omitzero"`
}

// partition is the key of one probe's items, and what is known of their session: a
// read without it may see the past, which is no rule that is broken.
type partition struct {
	*store
	sku string
	key azcosmos.PartitionKey

	mu    sync.Mutex
	token *string
}

// wrote notes the session of a write.
func (p *partition) wrote(token *string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && token != nil {
		p.token = token
	}
}

// partition is of one probe, and nobody else's (F2). remove takes away what is in it.
func (s *store) partition(probe string, ids ...string) (p *partition, remove func(context.Context)) {
	sku := "preflight." + s.nonce + "." + probe
	p = &partition{store: s, sku: sku, key: azcosmos.NewPartitionKeyString(sku)}
	return p, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		for _, id := range ids {
			_, _ = s.items.DeleteItem(ctx, p.key, id, nil) // it expires otherwise
		}
	}
}

func (p *partition) body(id string, value, ttl int) []byte {
	text, err := json.Marshal(item{ID: id, SKU: p.sku, Value: value, TTL: ttl})
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

func (p *partition) create(ctx context.Context, id string, value int) (azcosmos.ItemResponse, error) {
	answer, err := p.items.CreateItem(ctx, p.key, p.body(id, value, keep), nil)
	p.wrote(answer.SessionToken, err)
	return answer, err
}

func (p *partition) replace(ctx context.Context, id string, value int, unchanged azcore.ETag) (azcosmos.ItemResponse, error) {
	o := &azcosmos.ItemOptions{}
	if unchanged != "" {
		o.IfMatchEtag = &unchanged
	}
	answer, err := p.items.ReplaceItem(ctx, p.key, id, p.body(id, value, keep), o)
	p.wrote(answer.SessionToken, err)
	return answer, err
}

// read reads an item, in the session of the last write or in the one that is given.
func (p *partition) read(ctx context.Context, id string, session *string) (item, azcosmos.ItemResponse, error) {
	answer, err := p.items.ReadItem(ctx, p.key, id, &azcosmos.ItemOptions{SessionToken: cmp.Or(session, p.token)})
	var found item
	if err == nil {
		err = json.Unmarshal(answer.Value, &found)
	}
	return found, answer, err
}

// status is that of an answer, also of one that is an error; 0 with the error if
// there was none.
func status(answer azcosmos.ItemResponse, err error) (int, error) {
	if refused, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return refused.StatusCode, nil
	}
	if err != nil || answer.RawResponse == nil {
		return 0, errors.Join(err, errors.New("no answer"))
	}
	return answer.RawResponse.StatusCode, nil
}

// batch sends a batch and tells the status of each operation.
func (p *partition) batch(ctx context.Context, fill func(*azcosmos.TransactionalBatch)) ([]int32, error) {
	b := p.items.NewTransactionalBatch(p.key)
	fill(&b)
	answer, err := p.items.ExecuteTransactionalBatch(ctx, b, nil)
	p.wrote(optional(answer.SessionToken), err)
	if err != nil {
		return nil, err
	}
	var all []int32
	for _, r := range answer.OperationResults {
		all = append(all, r.StatusCode)
	}
	return all, nil
}

// refusedBatch looks at what a refused batch has left.
func (p *partition) refusedBatch(ctx context.Context, fill func(*azcosmos.TransactionalBatch), want int32) (string, bool, error) {
	results, err := p.batch(ctx, fill)
	if err != nil {
		return "", false, err
	}
	_, answer, err := p.read(ctx, "receipt", nil)
	receipt, err := status(answer, err)
	if err != nil {
		return "", false, err
	}
	stands, _, err := p.read(ctx, "item", nil)
	if err != nil {
		return "", false, err
	}
	refused := len(results) == 2 && results[0] == http.StatusFailedDependency && results[1] == want
	return fmt.Sprintf("operations %v; afterwards the receipt is %d, the item's value %d", results, receipt, stands.Value),
		refused && receipt == http.StatusNotFound && stands.Value == 2, nil
}

var storeProbes = []probe[*store]{
	{
		"batch-if-match", "a receipt and its effect are written together, on the condition that the item has not changed",
		"a batch: create a receipt, and replace an item under the ETag that it had before",
		"operations [424 412], no receipt, the item as it was",
		func(ctx context.Context, s *store) (string, bool, error) {
			p, remove := s.partition("batch-if-match", "item", "receipt")
			defer remove(ctx)
			first, err := p.create(ctx, "item", 1)
			if err != nil {
				return "", false, err
			}
			if _, err := p.replace(ctx, "item", 2, ""); err != nil {
				return "", false, err
			}
			return p.refusedBatch(ctx, func(b *azcosmos.TransactionalBatch) {
				b.CreateItem(p.body("receipt", 1, keep), nil)
				b.ReplaceItem("item", p.body("item", 3, keep), &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &first.ETag})
			}, http.StatusPreconditionFailed)
		},
	},
	{
		"batch-rollback", "a batch that is refused leaves nothing",
		"a batch: create a receipt, and create an item that exists",
		"operations [424 409], no receipt, the item as it was",
		func(ctx context.Context, s *store) (string, bool, error) {
			p, remove := s.partition("batch-rollback", "item", "receipt")
			defer remove(ctx)
			if _, err := p.create(ctx, "item", 2); err != nil {
				return "", false, err
			}
			return p.refusedBatch(ctx, func(b *azcosmos.TransactionalBatch) {
				b.CreateItem(p.body("receipt", 1, keep), nil)
				b.CreateItem(p.body("item", 3, keep), nil)
			}, http.StatusConflict)
		},
	},
	{
		"racing-creates", "of many who create one key at once, one does: a claim is a lock",
		"8 creates of one id, at once", "one 201, seven 409", racingCreates,
	},
	{
		"if-match", "who replaces what has changed meanwhile is refused, and every write has an ETag of its own",
		"two replacements of an item under one ETag, and a write of another item beside it",
		"200 with another ETag, then 412; the other write changes no ETag", ifMatch,
	},
	{
		"conditional-patch", "a transition is one patch, on the condition that nothing has changed",
		"two patches of an item under one ETag, and one whose own condition does not hold", "200, then 412 and 412, and the first one's value", conditionalPatch,
	},
	{
		"ttl", "what says how long it lives is gone after that, and its key is free",
		"two items that live for 2 s; after 5 s the one is read and the other created again", "404 and 201", expiry,
	},
	{
		"session", "who has a write's session token reads that write, at whatever replica",
		"two writes, each read with its token", "a token with each, another the second time, and each read sees its write", session,
	},
	{
		"clock", "Date and _ts are one clock, so that their difference is an age",
		"an item, replaced after 3 s and read 2 s later", "Date with every answer; _ts rises by 3 s or a little more; Date less _ts is 2 s, give or take 5", clock,
	},
}

func racingCreates(ctx context.Context, s *store) (string, bool, error) {
	p, remove := s.partition("racing-creates", "item")
	defer remove(ctx)
	const racers = 8
	var all sync.WaitGroup
	var statuses [racers]int
	var errs [racers]error
	start := make(chan struct{})
	for i := range racers {
		all.Go(func() {
			<-start
			answer, err := p.create(ctx, "item", i)
			statuses[i], errs[i] = status(answer, err)
		})
	}
	close(start)
	all.Wait()
	slices.Sort(statuses[:])
	one := statuses[0] == http.StatusCreated && statuses[1] == http.StatusConflict && statuses[racers-1] == http.StatusConflict
	return fmt.Sprint(statuses), one, errors.Join(errs[:]...)
}

func ifMatch(ctx context.Context, s *store) (string, bool, error) {
	p, remove := s.partition("if-match", "item", "sibling")
	defer remove(ctx)
	first, err := p.create(ctx, "item", 1)
	if err != nil {
		return "", false, err
	}
	second, err := p.replace(ctx, "item", 2, first.ETag)
	if err != nil {
		return "", false, err
	}
	answer, err := p.replace(ctx, "item", 3, first.ETag)
	stale, err := status(answer, err)
	if err != nil {
		return "", false, err
	}
	if _, err := p.create(ctx, "sibling", 1); err != nil {
		return "", false, err
	}
	_, now, err := p.read(ctx, "item", nil)
	return fmt.Sprintf("another ETag: %t; then %d; unchanged by its neighbour: %t", first.ETag != second.ETag, stale, now.ETag == second.ETag),
		first.ETag != second.ETag && stale == http.StatusPreconditionFailed && now.ETag == second.ETag, err
}

func conditionalPatch(ctx context.Context, s *store) (string, bool, error) {
	p, remove := s.partition("conditional-patch", "item")
	defer remove(ctx)
	first, err := p.create(ctx, "item", 1)
	if err != nil {
		return "", false, err
	}
	patch := func(value int, condition string) (int, error) {
		var operations azcosmos.PatchOperations
		operations.AppendSet("/number", value)
		if condition != "" {
			operations.SetCondition(condition)
			answer, err := p.items.PatchItem(ctx, p.key, "item", operations, nil)
			p.wrote(answer.SessionToken, err)
			return status(answer, err)
		}
		answer, err := p.items.PatchItem(ctx, p.key, "item", operations, &azcosmos.ItemOptions{IfMatchEtag: &first.ETag})
		p.wrote(answer.SessionToken, err)
		return status(answer, err)
	}
	done, err1 := patch(2, "")
	stale, err2 := patch(3, "")
	untrue, err3 := patch(4, "FROM c WHERE c.number = 99")
	stands, _, err4 := p.read(ctx, "item", nil)
	return fmt.Sprintf("%d, then %d and %d; the value is %d", done, stale, untrue, stands.Value),
		done == http.StatusOK && stale == http.StatusPreconditionFailed && untrue == http.StatusPreconditionFailed && stands.Value == 2,
		errors.Join(err1, err2, err3, err4)
}

func expiry(ctx context.Context, s *store) (string, bool, error) {
	p, remove := s.partition("ttl", "item", "other")
	defer remove(ctx)
	for _, id := range []string{"item", "other"} {
		answer, err := p.items.CreateItem(ctx, p.key, p.body(id, 1, 2), nil)
		if p.wrote(answer.SessionToken, err); err != nil {
			return "", false, err
		}
	}
	if err := message.Pause(ctx, 5*time.Second); err != nil {
		return "", false, err
	}
	_, answer, err := p.read(ctx, "item", nil)
	gone, err1 := status(answer, err)
	answer, err = p.create(ctx, "other", 2)
	free, err2 := status(answer, err)
	return fmt.Sprintf("%d and %d", gone, free), gone == http.StatusNotFound && free == http.StatusCreated, errors.Join(err1, err2)
}

func session(ctx context.Context, s *store) (string, bool, error) {
	p, remove := s.partition("session", "item")
	defer remove(ctx)
	first, err := p.create(ctx, "item", 1)
	if err != nil || first.SessionToken == nil {
		return "no session token with the write", false, err
	}
	one, _, err := p.read(ctx, "item", first.SessionToken)
	if missing, _ := status(azcosmos.ItemResponse{}, err); err != nil && missing != http.StatusNotFound {
		return "", false, err
	}
	second, err := p.replace(ctx, "item", 2, "")
	if err != nil || second.SessionToken == nil {
		return "no session token with the second write", false, err
	}
	two, _, err := p.read(ctx, "item", second.SessionToken)
	if missing, _ := status(azcosmos.ItemResponse{}, err); err != nil && missing != http.StatusNotFound {
		return "", false, err
	}
	risen := *first.SessionToken != *second.SessionToken
	return fmt.Sprintf("values %d and %d; another token: %t", one.Value, two.Value, risen), one.Value == 1 && two.Value == 2 && risen, nil
}

// clockSkew is what gateway and replica may differ by, and what an answer takes.
const clockSkew = 5 * time.Second

func clock(ctx context.Context, s *store) (string, bool, error) {
	p, remove := s.partition("clock", "item")
	defer remove(ctx)
	if _, err := p.create(ctx, "item", 1); err != nil {
		return "", false, err
	}
	first, _, err := p.read(ctx, "item", nil)
	if err == nil {
		err = message.Pause(ctx, 3*time.Second)
	}
	if err == nil {
		_, err = p.replace(ctx, "item", 2, "")
	}
	if err == nil {
		err = message.Pause(ctx, 2*time.Second)
	}
	if err != nil {
		return "", false, err
	}
	second, answer, err := p.read(ctx, "item", nil)
	if err != nil {
		return "", false, err
	}
	date, unreadable := http.ParseTime(answer.RawResponse.Header.Get("Date"))
	if unreadable != nil || second.Stamp == 0 {
		return fmt.Sprintf("Date %q, _ts %d", answer.RawResponse.Header.Get("Date"), second.Stamp), false, nil
	}
	age := date.Sub(time.Unix(second.Stamp, 0))
	rose := time.Duration(second.Stamp-first.Stamp) * time.Second
	return fmt.Sprintf("_ts rose by %v; Date less _ts is %v", rose, age),
		rose >= 2*time.Second && rose < 3*time.Second+clockSkew && age > 2*time.Second-clockSkew && age < 2*time.Second+clockSkew, nil
}

// optional is nil for a token that there is none of.
func optional(token string) *string {
	if token == "" {
		return nil
	}
	return &token
}
