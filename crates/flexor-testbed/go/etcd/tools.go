//go:build tools

// Package tools names the etcd server that the testbed builds, so that go.mod and go.sum cover it.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
