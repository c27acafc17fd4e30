package cosmos

import (
	"context"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"oneeffect/internal/claim"
	"oneeffect/internal/message"
)

// ClaimStore keeps one document for each claim. Its partition key is its id, so
// that a create decides who was first.
type ClaimStore struct{ d *Database }

var _ claim.Store = (*ClaimStore)(nil)

// Record opens the conversation about one claim.
func (s *ClaimStore) Record(id string) claim.Record {
	return &claimRecord{d: s.d, id: id, key: azcosmos.NewPartitionKeyString(id)}
}

// ErrNoClock: answers have no Date. No lease could ever be seen to end there, so a
// process that relies on leases must not start (K4).
var ErrNoClock = errors.New("the store shows no clock")

// CheckClock reads a claim that nobody has and looks whether the answer tells the
// store's time. Any other error says that there was no answer to look at.
func (s *ClaimStore) CheckClock(ctx context.Context) error {
	const nobody = "startup.check"
	o := operation{name: "look at the store's clock"}
	err := s.d.onItems(ctx, &o, containerClaims, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		_, err := items.ReadItem(ctx, azcosmos.NewPartitionKeyString(nobody), nobody, nil)
		return err
	})
	switch {
	case err != nil && !errors.Is(err, message.ErrNotFound):
		return err
	case !o.dated:
		return fmt.Errorf("%w: an answer of the account has no Date header: a gateway or proxy on the way removes it, let it pass", ErrNoClock)
	}
	return nil
}

type claimRecord struct {
	d       *Database
	id      string
	key     azcosmos.PartitionKey
	session string // of the last answer, "" before it
}

func (r *claimRecord) Read(ctx context.Context) (claim.Stored, error) {
	var stored claim.Stored
	err := r.do(ctx, operation{name: "read claim"}, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := items.ReadItem(ctx, r.key, r.id, &azcosmos.ItemOptions{SessionToken: sessionOption(r.session)})
		if err != nil {
			return err
		}
		stored, err = storedClaim(answer)
		return err
	})
	return stored, err
}

func storedClaim(answer azcosmos.ItemResponse) (claim.Stored, error) {
	stored := claim.Stored{ETag: claim.ETag(answer.ETag)}
	if err := decode(answer.Value, &stored.Claim, &stored.Claim.Unknown); err != nil {
		return claim.Stored{}, err
	}
	var err error
	if stored.Age, err = age(answer.RawResponse.Header, answer.Value); err != nil {
		return claim.Stored{}, err
	}
	return stored, nil
}

func (r *claimRecord) Create(ctx context.Context, c claim.Claim) (claim.ETag, error) {
	return r.write(ctx, operation{name: "create claim", write: true, create: true}, c, func(ctx context.Context, items *azcosmos.ContainerClient, document []byte) (azcosmos.ItemResponse, error) {
		return items.CreateItem(ctx, r.key, document, nil)
	})
}

func (r *claimRecord) Replace(ctx context.Context, c claim.Claim, unchanged claim.ETag) (claim.ETag, error) {
	condition, err := ifMatch(string(unchanged))
	if err != nil {
		return "", fmt.Errorf("replace claim %s: %w", r.id, err)
	}
	return r.write(ctx, operation{name: "replace claim", write: true}, c, func(ctx context.Context, items *azcosmos.ContainerClient, document []byte) (azcosmos.ItemResponse, error) {
		return items.ReplaceItem(ctx, r.key, r.id, document, &azcosmos.ItemOptions{IfMatchEtag: condition})
	})
}

// write sends one version of the claim and returns its ETag.
func (r *claimRecord) write(ctx context.Context, o operation, c claim.Claim, send func(context.Context, *azcosmos.ContainerClient, []byte) (azcosmos.ItemResponse, error)) (claim.ETag, error) {
	document, err := encode(c)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", o.name, r.id, err)
	}
	var etag claim.ETag
	err = r.do(ctx, o, func(ctx context.Context, items *azcosmos.ContainerClient) error {
		answer, err := send(ctx, items, document)
		etag = claim.ETag(answer.ETag)
		return versioned(answer.ETag, err)
	})
	if err != nil {
		return "", err
	}
	return etag, nil
}

func (r *claimRecord) do(ctx context.Context, o operation, send func(context.Context, *azcosmos.ContainerClient) error) error {
	o.id, o.session = r.id, r.session
	err := r.d.onItems(ctx, &o, containerClaims, send)
	r.session = o.session
	return err
}

// sessionOption is a token as the SDK takes it.
func sessionOption(token string) *string {
	if token == "" {
		return nil
	}
	return &token
}

// ifMatch is the condition of a write. An empty one would be no condition, and
// the write would overwrite whatever stands.
func ifMatch(unchanged string) (*azcore.ETag, error) {
	if unchanged == "" {
		return nil, fmt.Errorf("%w: no version to compare with", message.ErrRefused)
	}
	etag := azcore.ETag(unchanged)
	return &etag, nil
}
