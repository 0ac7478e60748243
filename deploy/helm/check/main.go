// Reads manifests as the API server of Kubernetes does: a field that it does not know, that is there twice or that is of another type
// is an error. Standard input: documents of YAML. Prints the kinds that it has read.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

func check() error {
	manifests, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	if err := monitoring.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, options)
	for number, manifest := range bytes.Split(append([]byte("\n"), manifests...), []byte("\n---\n")) {
		if len(bytes.TrimSpace(manifest)) == 0 {
			continue
		}
		_, kind, err := decoder.Decode(manifest, nil, nil)
		if err != nil {
			return fmt.Errorf("manifest %d: %w\n%s", number, err, manifest)
		}
		fmt.Println(kind.Kind)
	}
	return nil
}

func main() {
	if err := check(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
