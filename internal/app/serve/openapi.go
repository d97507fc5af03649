package serve

import _ "embed"

// OpenAPI describes all that predict answers over HTTP.
//
//go:embed openapi.json
var OpenAPI []byte
