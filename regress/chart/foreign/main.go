// Command foreign reads Kubernetes objects, one JSON document a line, into the types of the operators that they are
// for. It prints what these types do not know: a field of another name, a value of another type.  The last line has the
// counts.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	strict "sigs.k8s.io/json"
)

var types = map[string]func() any{
	"cert-manager.io/v1 Certificate":          func() any { return new(certmanager.Certificate) },
	"cert-manager.io/v1 Issuer":               func() any { return new(certmanager.Issuer) },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return new(monitoring.PrometheusRule) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
}

func check(document []byte) error {
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(document, &head); err != nil {
		return err
	}
	kind := head.APIVersion + " " + head.Kind
	create, found := types[kind]
	if !found {
		return fmt.Errorf("no type for %s", kind)
	}
	unknown, err := strict.UnmarshalStrict(document, create())
	if err = errors.Join(append(unknown, err)...); err != nil {
		return fmt.Errorf("%s %s: %w", kind, head.Name, err)
	}
	return nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	read, failed := 0, 0
	for ; lines.Scan(); read++ {
		if err := check(lines.Bytes()); err != nil {
			fmt.Println(err)
			failed++
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Println(err)
		failed++
	}
	fmt.Printf("%d objects, %d failed\n", read, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
