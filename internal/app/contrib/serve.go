package contrib

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/streamsvm/streamsvm/internal/app/admit"
	"github.com/streamsvm/streamsvm/predictor"
)

// Serve returns the routes that answer requests for predictions; nil without
// contrib/serve.
var Serve func(p *Predictions) map[string]http.HandlerFunc

// Predictions is what the command predict provides for answering requests.
type Predictions struct {
	Ready    *atomic.Bool // there is a model
	Limits   *admit.Limits
	MaxBody  int64 // bytes of a request
	MaxRows  int   // of a request; 0 is the default
	Requests *atomic.Uint64
	// Pin returns a Scorer that is pinned to the current version.
	Pin func() (*predictor.Scorer, error)
	// Score scores a batch with a pinned Scorer. explain is the number of contributions
	// that the request asks for.
	Score func(ctx context.Context, s *predictor.Scorer, b *predictor.Batch, explain int)
	// Name returns the name of the model.
	Name func(v *predictor.Version) string
}
