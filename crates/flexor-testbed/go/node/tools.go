//go:build tools

// Package tools names the programs of a real node that the testbed builds, so that go.mod and go.sum cover them.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-proxy"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
