//go:build tools

// Package tools names the kwok controller that the testbed builds, so that go.mod and go.sum cover it.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
