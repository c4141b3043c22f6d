package docs_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Each exported name of the packages that users import has a comment.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, dir := range []string{".", "admin", "integrations/gocron", "locktest", "multilock", "otel", "relations", "writelock"} {
		names, err := filepath.Glob("../" + dir + "/*.go")
		must(t, err)
		set := token.NewFileSet()
		var files []*ast.File
		for _, name := range names {
			if !strings.HasSuffix(name, "_test.go") {
				file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
				must(t, err)
				files = append(files, file)
			}
		}
		pkg, err := doc.NewFromFiles(set, files, "github.com/doclock/doclock/"+dir)
		must(t, err)
		has := func(comment string, names ...string) {
			if comment == "" {
				t.Errorf("%s: %v has no comment", dir, names)
			}
		}
		has(pkg.Doc, pkg.Name)
		values, funcs := append(pkg.Consts, pkg.Vars...), pkg.Funcs
		for _, of := range pkg.Types {
			has(of.Doc, of.Name)
			values, funcs = append(append(values, of.Consts...), of.Vars...), append(append(funcs, of.Funcs...), of.Methods...)
		}
		for _, value := range values {
			has(value.Doc, value.Names...)
		}
		for _, of := range funcs {
			has(of.Doc, of.Name)
		}
	}
}
