// Command kubectl is upstream's, of the version that the go.mod file names: the library has had this entry since 1.20.
package main

import (
	"flag"
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	command := cmd.NewDefaultKubectlCommand()
	// Upstream's main has the flags of the log, in another way in each version.
	var log flag.FlagSet
	klog.InitFlags(&log)
	command.PersistentFlags().AddGoFlag(log.Lookup("v"))
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}
