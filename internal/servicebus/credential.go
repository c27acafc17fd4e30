package servicebus

import (
	"context"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// credential remembers whether it has failed when it was asked last: the SDK
// hands its error on as one of a lost connection.
type credential struct {
	azcore.TokenCredential // nil: a connection string has what it needs
	fails                  atomic.Bool
}

// GetToken is the credential's own.
func (c *credential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := c.TokenCredential.GetToken(ctx, o)
	c.fails.Store(err != nil)
	return token, err
}
