package main

import (
	"strings"
	"testing"
)

// TestAWSToken: a request signed with credentials of the environment is the
// token, for the region of the brokers, and no key is told.
func TestAWSToken(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-for-anybody-1234")
	o := &kafkaFlags{brokers: []string{"b-1.demo.abc.c2.kafka.eu-central-1.amazonaws.com:9098"}}
	m, err := o.aws(nil)
	if err != nil || m.Name() != "OAUTHBEARER" {
		t.Fatal(m, err)
	}
	_, first, err := m.Start(t.Context())
	if err != nil || !strings.HasPrefix(string(first), "n,,\x01auth=Bearer ") || len(first) < 300 || strings.Contains(string(first), "not-for-anybody") {
		t.Errorf("%q, %v", first, err)
	}
	if _, again, err := m.Start(t.Context()); err != nil || string(again) != string(first) {
		t.Errorf("a token that is valid is made again: %v", err)
	}
}
