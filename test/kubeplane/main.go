// One program for the parts of a Kubernetes control plane that the tests run: `kubeplane PART --flags`.
// One link instead of four saves a third of the disk; each part still runs as a process of its own, because feature
// gates, flags and signal handlers belong to a process.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	var command *cobra.Command
	part := os.Args[1]
	os.Args = os.Args[1:]
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	default:
		usage()
	}
	os.Exit(cli.Run(command))
}

func usage() {
	os.Stderr.WriteString("usage: kubeplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler FLAGS\n")
	os.Exit(2)
}
