package cosmos_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	emulator "oneeffect/emulator/cosmos"
	"oneeffect/internal/cosmos"
	"oneeffect/internal/message"
)

// token is a credential that the emulator takes: its third part is the key where
// a real one has a signature.
type token struct{}

func (token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	part := base64.RawURLEncoding.EncodeToString
	until := time.Now().Add(time.Hour)
	return azcore.AccessToken{
		Token: part([]byte(`{"typ":"JWT","alg":"RS256"}`)) + "." +
			part(fmt.Appendf(nil, `{"nbf":%d,"exp":%d}`, time.Now().Unix(), until.Unix())) + "." +
			part([]byte(emulator.EmulatorKey)),
		ExpiresOn: until,
	}, nil
}

func TestSetupMakesWhatIsMissingAndMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAccount(t)
		for range 2 {
			if err := w.db.Setup(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range map[string]struct {
			key string
			ttl int32
		}{
			"claims":     {"/id", -1},
			"executions": {"/executionId", 90 * 24 * 60 * 60},
			"inventory":  {"/sku", -1},
			"webhooks":   {"/resource", -1},
		} {
			answer, err := w.sdk(id).Read(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			p := answer.ContainerProperties
			if got := p.PartitionKeyDefinition.Paths; len(got) != 1 || got[0] != want.key {
				t.Errorf("container %s has partition key %v, want %s", id, got, want.key)
			}
			if p.DefaultTimeToLive == nil || *p.DefaultTimeToLive != want.ttl {
				t.Errorf("container %s has default TTL %v, want %d", id, p.DefaultTimeToLive, want.ttl)
			}
		}
	})
}

func TestAClaimExpiresByItsOwnTTL(t *testing.T) { // C3: while the claim exists
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		record := w.db.Claims().Record("82f3")
		if _, err := record.Create(t.Context(), sample("82f3")); err != nil {
			t.Fatal(err)
		}
		w.hub.Jump(30*24*time.Hour - time.Minute)
		if _, err := record.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.hub.Jump(2 * time.Minute)
		_, err := record.Read(t.Context())
		wantError(t, err, message.ErrNotFound)
	})
}

func TestSetupSaysEveryDifferenceAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		claims := w.sdk("claims")
		if _, err := claims.Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.sdk("inventory").Replace(t.Context(), azcosmos.ContainerProperties{
			ID: "inventory", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/sku"}, Version: 2},
		}, nil); err != nil {
			t.Fatal(err)
		}
		w.createContainer(azcosmos.ContainerProperties{
			ID: "claims", PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/owner"}, Version: 2},
			DefaultTimeToLive: new(int32(60)),
		})
		err := w.db.Setup(t.Context())
		if !errors.Is(err, cosmos.ErrDiffers) {
			t.Fatalf("got %v, want ErrDiffers", err)
		}
		for _, want := range []string{
			"container claims: partition key is /owner, it must be /id",
			"container claims: default TTL is 60 seconds, it must be on, for each item as it says (-1)",
			"container claims: indexing is consistent, of /* without none, it must be consistent, of none without /*",
			"container inventory: default TTL is off, it must be on",
			"container inventory: indexing is",
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no word of %q in\n%v", want, err)
			}
		}
		if strings.Contains(err.Error(), "executions") || strings.Contains(err.Error(), "webhooks") {
			t.Errorf("a container that is as it must be is named in\n%v", err)
		}
		answer, err := w.sdk("claims").Read(t.Context(), nil)
		if err != nil || *answer.ContainerProperties.DefaultTimeToLive != 60 {
			t.Errorf("Setup changed what existed: %v", err)
		}
	})
}

func (w *world) createContainer(p azcosmos.ContainerProperties) {
	w.t.Helper()
	database, err := w.raw().NewDatabase(cosmos.DefaultDatabase)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := database.CreateContainer(w.t.Context(), p, nil); err != nil {
		w.t.Fatal(err)
	}
}

func TestWithACredentialSetupOnlyCompares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newAccount(t)
		db := w.open(func(o *cosmos.Options) { o.Key, o.Credential = "", token{} })
		defer db.Close()
		err := db.Setup(t.Context())
		if !errors.Is(err, cosmos.ErrDiffers) {
			t.Fatalf("got %v, want ErrDiffers", err)
		}
		for _, id := range []string{"claims", "executions", "inventory", "webhooks"} {
			if !strings.Contains(err.Error(), "container "+id+": is missing") {
				t.Errorf("no word of container %s in\n%v", id, err)
			}
		}
		operations, _ := w.wire.requests()
		for _, r := range operations {
			if r.Method != http.MethodGet {
				t.Errorf("%s %s was sent, want reads alone", r.Method, r.URL)
			}
		}
		if err := w.db.Setup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.Setup(t.Context()); err != nil {
			t.Errorf("the database is as it must be, and still: %v", err)
		}
		record := db.Claims().Record("82f3")
		if _, err := record.Create(t.Context(), sample("82f3")); err != nil {
			t.Errorf("a credential does not carry an operation: %v", err)
		}
	})
}

func TestAMissingContainerIsNotAMissingRecord(t *testing.T) { // C9: nothing may be taken for "none stands" that is not
	synctest.Test(t, func(t *testing.T) {
		w := newAccount(t)
		_, err := w.db.Claims().Record("82f3").Create(t.Context(), sample("82f3"))
		wantError(t, err, message.ErrRefused)
		if !strings.Contains(err.Error(), "create it") {
			t.Errorf("%v does not say what to do", err)
		}
		e, entry := sampleExecution("e1")
		_, err = w.db.Executions().Create(t.Context(), e, entry)
		wantError(t, err, message.ErrRefused)
	})
}
