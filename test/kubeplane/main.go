// One program for the parts of Kubernetes that the tests run: `kubeplane PART --flags`.
// One link instead of four saves a third of the disk; each part still runs as a process of its own, because feature
// gates, flags and signal handlers belong to a process. The parts of a node need the build tag `node`.
package main

import (
	"os"
	"slices"
	"strings"

	"maps"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var parts = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	part := os.Args[1]
	os.Args = os.Args[1:]
	if part == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := parts[part]
	if !known {
		usage()
	}
	os.Exit(cli.Run(command()))
}

func usage() {
	names := slices.Sorted(maps.Keys(parts))
	os.Stderr.WriteString("usage: kubeplane etcd|" + strings.Join(names, "|") + " FLAGS\n")
	os.Exit(2)
}
