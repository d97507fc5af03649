package serve

import (
	"encoding/json"
	"errors"
	"net/http"
)

// AnswerJSON answers with v encoded as JSON.
func AnswerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// Refuse answers with an error.
func Refuse(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
}

// RefuseUnread is Refuse for a request whose body has not been read to the end. It
// closes the connection instead of waiting for the rest.
func RefuseUnread(w http.ResponseWriter, code int, err error) {
	w.Header().Set("Connection", "close")
	Refuse(w, code, err)
}

// ErrNotReady is the error for a request that comes too early or too late.
var ErrNotReady = errors.New("there is no model yet, or the service is stopping")
