// Command kubernetes holds every program of a single-node cluster, kubectl included. It is called
// through links with the programs' names, so that ps shows each under its own name.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func serve(command *cobra.Command) { os.Exit(cli.Run(command)) }

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		serve(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		serve(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		serve(scheduler.NewSchedulerCommand())
	case "kube-proxy":
		serve(proxy.NewProxyCommand())
	case "kubelet":
		serve(kubelet.NewKubeletCommand(context.Background()))
	case "coredns":
		coremain.Run()
	case "kubectl":
		kubectlutil.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()))
	default:
		fmt.Fprintf(os.Stderr, "kubernetes: no program is called %s\n", name)
		os.Exit(2)
	}
}
