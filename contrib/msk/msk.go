// Package msk authenticates at Amazon MSK.
package msk

import (
	"context"
	"time"

	"github.com/aws/aws-msk-iam-sasl-signer-go/signer"
	"golang.org/x/oauth2"

	"github.com/streamsvm/streamsvm/internal/reach"
)

// Tokens is the source of tokens in a region: requests signed with whatever credentials
// the environment has for AWS.
type Tokens string

// Token implements oauth2.TokenSource.
func (region Tokens) Token() (*oauth2.Token, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	token, expires, err := signer.GenerateAuthToken(ctx, string(region))
	if err != nil {
		return nil, &reach.TokenError{Reason: "AWS gives no credentials: " + err.Error(), Remedy: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the role of the pod or machine", Err: err}
	}
	return &oauth2.Token{AccessToken: token, Expiry: time.UnixMilli(expires)}, nil
}
