package verdicts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// silent are the calls that can fail, and send nothing: their error is of an argument,
// or what is known already.
var silent = []string{
	"New", "Lease.Err", "WantError.Unwrap", "Entry.MarshalJSON", "Entry.UnmarshalJSON", "Lock.MarshalJSON", "Option.ApplyLocker", "AcquireOption.ApplyAcquire", "LockOf",
}

// Each public call that can fail has a row, or sends nothing.
func TestEveryCallHasARow(t *testing.T) {
	var rows []string
	for _, calls := range [][]call{acquires, ofTickets, underLeases, functions, byOperators} {
		for _, c := range calls {
			rows = append(rows, c.name)
		}
	}
	seen := 0
	for _, dir := range []string{"../..", "../../multilock", "../../writelock", "../../admin"} {
		for _, call := range failing(t, dir) {
			seen++
			_, method, isMethod := strings.Cut(call, ".")
			named := func(row string) bool { return row == call || isMethod && row == method }
			if !slices.ContainsFunc(rows, named) && !slices.Contains(silent, call) {
				t.Errorf("%s: %s can fail, and has no row; the rows are %q", dir, call, rows)
			}
		}
	}
	if seen < 30 {
		t.Errorf("the packages have only %d calls that can fail", seen)
	}
}

// failing are the exported functions and methods of a package whose results have an
// error in them.
func failing(t *testing.T, dir string) (calls []string) {
	ours := func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }
	packages, err := parser.ParseDir(token.NewFileSet(), dir, ours, parser.SkipObjectResolution) //nolint:staticcheck // no build tags here
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		ast.Inspect(p, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				call := n.Name.Name
				if n.Recv != nil {
					call = receiver(n.Recv.List[0].Type) + "." + call
				}
				if public(call) && fails(n.Type) {
					calls = append(calls, call)
				}
				return false
			case *ast.TypeSpec:
				methods, isInterface := n.Type.(*ast.InterfaceType)
				if !isInterface {
					return false
				}
				for _, m := range methods.Methods.List {
					f, isMethod := m.Type.(*ast.FuncType)
					if call := n.Name.Name; isMethod && public(call+"."+m.Names[0].Name) && fails(f) {
						calls = append(calls, call+"."+m.Names[0].Name)
					}
				}
				return false
			}
			return true
		})
	}
	return calls
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	if pointer, is := e.(*ast.StarExpr); is {
		e = pointer.X
	}
	if name, is := e.(*ast.Ident); is {
		return name.Name
	}
	return ""
}

func public(call string) bool {
	return !slices.ContainsFunc(strings.Split(call, "."), func(name string) bool { return !ast.IsExported(name) })
}

func fails(f *ast.FuncType) (has bool) {
	if f.Results == nil {
		return false
	}
	ast.Inspect(f.Results, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && name.Name == "error" {
			has = true
		}
		return true
	})
	return has
}
