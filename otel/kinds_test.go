package otel_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/doclock/doclock"
	"go.opentelemetry.io/otel/attribute"
)

var encoder = attribute.DefaultEncoder()

// kinds are the kinds of events in package doclock's source. A kind that is added
// there without a story here fails a test.
func kinds(t *testing.T) (all []doclock.EventKind) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "EventKind" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, doclock.EventKind(text))
		}
		return true
	})
	if len(all) == 0 {
		t.Fatal("../event.go has no kinds")
	}
	return all
}
