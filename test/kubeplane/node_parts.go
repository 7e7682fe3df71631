//go:build node

package main

import (
	"context"

	"github.com/spf13/cobra"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The parts of a real node, for `npm run test:cluster` only.
func init() {
	parts["kubelet"] = func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }
	parts["kube-proxy"] = proxy.NewProxyCommand
}
