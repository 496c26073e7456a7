package tidy

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
)

// A compiler may fuse x*y + z into one rounding, across statements and inlined calls, and
// does so on some architectures only. An explicit conversion of the product forbids it.
//
// products follows unconverted products of floats through local variables, arguments and
// results to the sums they meet. Those that reach a sum through memory or a function value
// are not followed; scripts/fusion.sh looks for the instructions themselves.
type products struct {
	params  map[types.Object]bool  // parameters of declared functions
	vars    map[types.Object]value // what variables may hold
	results map[result]value       // what functions may return: products, and their parameters
	adds    map[types.Object]bool  // parameters that their function adds to something
	changed bool
	found   []string
}

// A value is what an expression may be: parameters as they were passed, and nil for a
// product that was not converted.
type value map[types.Object]bool

// A result is the i-th that a function returns.
type result struct {
	f types.Object
	i int
}

// checkProducts finds products of floats that meet a sum or difference without an explicit
// conversion, and any product or quotient of complex numbers.
func checkProducts(packages []*typed) []string {
	c := &products{params: map[types.Object]bool{}, vars: map[types.Object]value{}, results: map[result]value{}, adds: map[types.Object]bool{}}
	for c.changed = true; c.changed; {
		c.changed, c.found = false, nil
		for _, p := range packages {
			c.walk(p)
		}
	}
	slices.Sort(c.found)
	return slices.Compact(c.found)
}

func (c *products) walk(p *typed) {
	for _, f := range p.files {
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
				c.returns(p, d)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				c.binary(p, n)
			case *ast.AssignStmt:
				c.assignment(p, n)
			case *ast.IncDecStmt:
				c.sum(p, n, n.X)
			case *ast.ValueSpec:
				c.assign(p, exprs(n.Names), n.Values)
			case *ast.CallExpr:
				c.call(p, n)
			}
			return true
		})
	}
}

func exprs(names []*ast.Ident) []ast.Expr {
	x := make([]ast.Expr, len(names))
	for i, name := range names {
		x[i] = name
	}
	return x
}

func (c *products) binary(p *typed, n *ast.BinaryExpr) {
	switch n.Op {
	case token.ADD, token.SUB:
		if holds(p, n, types.IsFloat) {
			c.sum(p, n, n.X, n.Y)
		}
	case token.MUL, token.QUO:
		if holds(p, n, types.IsComplex) {
			c.found = append(c.found, p.find(n.Pos(), "a complex %s adds products that cannot be converted", n.Op))
		}
	}
}

func (c *products) assignment(p *typed, n *ast.AssignStmt) {
	switch n.Tok {
	case token.ADD_ASSIGN, token.SUB_ASSIGN:
		c.sum(p, n, n.Lhs[0], n.Rhs[0])
	case token.MUL_ASSIGN:
		if holds(p, n.Lhs[0], types.IsFloat) {
			c.store(p, n.Lhs[0], value{nil: true})
		}
	case token.ASSIGN, token.DEFINE:
		c.assign(p, n.Lhs, n.Rhs)
	}
}

// sum is a sum of operands: those that are products are found.
func (c *products) sum(p *typed, at ast.Node, operands ...ast.Expr) {
	for _, x := range operands {
		c.meets(p, at, c.value(p, x), types.ExprString(x)+" is a product that meets a sum")
	}
}

// meets is what happens when a value becomes an operand of a sum.
func (c *products) meets(p *typed, at ast.Node, v value, what string) {
	for o := range v { // sorted below, in checkProducts
		if o == nil {
			c.found = append(c.found, p.find(at.Pos(), "%s: convert it explicitly", what))
		} else {
			c.changed = c.changed || !c.adds[o]
			c.adds[o] = true
		}
	}
}

// call is a call of a declared function: arguments that it adds are operands of a sum.
func (c *products) call(p *typed, n *ast.CallExpr) {
	f, ok := p.callee(n).(*types.Func)
	if !ok {
		return
	}
	for i, x := range n.Args {
		if param := parameter(f, i); param != nil && c.adds[param] {
			c.meets(p, n, c.value(p, x), types.ExprString(x)+" is a product that "+f.Name()+" adds")
		}
	}
}

func parameter(f *types.Func, i int) types.Object {
	if params := f.Signature().Params(); i < params.Len() {
		return params.At(i)
	}
	return nil
}

// returns notes the parameters of a function, and what it returns.
func (c *products) returns(p *typed, d *ast.FuncDecl) {
	f := p.info.Defs[d.Name].(*types.Func)
	for i := range f.Signature().Params().Len() {
		c.params[f.Signature().Params().At(i)] = true
	}
	results := f.Signature().Results()
	for i := range results.Len() {
		grow(&c.changed, c.results, result{f, i}, c.vars[results.At(i)])
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			for i := range results.Len() {
				grow(&c.changed, c.results, result{f, i}, c.part(p, n.Results, results.Len(), i))
			}
		}
		return true
	})
}

func (c *products) assign(p *typed, lhs, rhs []ast.Expr) {
	for i, x := range lhs {
		c.store(p, x, c.part(p, rhs, len(lhs), i))
	}
}

// part is the i-th of n values given by as many expressions, or by one call.
func (c *products) part(p *typed, x []ast.Expr, n, i int) value {
	if len(x) == n {
		return c.value(p, x[i])
	}
	if len(x) == 1 {
		if call, ok := x[0].(*ast.CallExpr); ok {
			return c.returned(p, call, i)
		}
	}
	return nil
}

func (c *products) store(p *typed, x ast.Expr, v value) {
	if id, ok := x.(*ast.Ident); ok && id.Name != "_" {
		grow(&c.changed, c.vars, p.object(id), v)
	}
}

// grow adds v to what is known at k.
func grow[K comparable](changed *bool, known map[K]value, k K, v value) {
	if len(v) > 0 && known[k] == nil {
		known[k] = value{}
	}
	for o := range v { // order reaches nothing: a set is joined to a set
		*changed = *changed || !known[k][o]
		known[k][o] = true
	}
}

// value is what an expression may be.
func (c *products) value(p *typed, x ast.Expr) value {
	switch x := x.(type) {
	case *ast.ParenExpr:
		return c.value(p, x.X)
	case *ast.UnaryExpr:
		if x.Op == token.SUB || x.Op == token.ADD {
			return c.value(p, x.X)
		}
	case *ast.BinaryExpr:
		if x.Op == token.MUL && holds(p, x, types.IsFloat) {
			return value{nil: true}
		}
	case *ast.Ident:
		o := p.object(x)
		if c.params[o] {
			grow(new(bool), c.vars, o, value{o: true})
		}
		return c.vars[o]
	case *ast.CallExpr:
		return c.returned(p, x, 0)
	}
	return nil
}

// returned is what the i-th result of a call may be.
func (c *products) returned(p *typed, call *ast.CallExpr, i int) value {
	f, ok := p.callee(call).(*types.Func)
	if !ok {
		return nil
	}
	v := value{}
	for o := range c.results[result{f, i}] { // order reaches nothing: a set is made
		if o == nil {
			v[nil] = true
			continue
		}
		for j, x := range call.Args {
			if parameter(f, j) == o {
				grow(new(bool), map[int]value{0: v}, 0, c.value(p, x))
			}
		}
	}
	return v
}
