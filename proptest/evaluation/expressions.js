// Expressions of the aggregation, after src/mongo/db/pipeline/expression.cpp
// and exec/expression/evaluate_*.cpp, in the strictest reading of the manual:
// all operands of $and, $or and $ifNull and all variables of $let are
// evaluated, needed or not, so that an error of any of them is noticed. $cond
// evaluates its test, and then one branch; with {eager: true} both.
import * as operators from './operators.js';
import { field, isObject, isTrue, typeOf } from './values.js';
import { ofExpression } from './paths.js';
import { Raised } from './raised.js';

// evaluate takes a scope: {root, now, eager, vars}.
export function evaluate(e, scope) {
  if (typeof e === 'string' && e.startsWith('$$')) return variable(e.slice(2).split('.'), scope);
  if (typeof e === 'string' && e.startsWith('$')) return ofExpression(scope.root, e.slice(1).split('.'));
  if (Array.isArray(e)) return e.map((x) => orNull(evaluate(x, scope)));
  if (!isObject(e)) return e;
  const [name] = Object.keys(e);
  if (name?.startsWith('$')) return call(name, e[name], scope);
  return object(e, scope);
}

function object(e, scope) {
  const result = {};
  for (const [name, value] of Object.entries(e)) {
    const v = evaluate(value, scope);
    if (v !== undefined) result[name] = v;
  }
  return result;
}

function variable([name, ...path], scope) {
  switch (name) {
    case 'NOW': return scope.now;
    case 'ROOT': return ofExpression(scope.root, path);
    case 'REMOVE': return undefined;
  }
  if (!Object.hasOwn(scope.vars, name)) throw new Raised(17276, `Use of undefined variable: ${name}`);
  return ofExpression(scope.vars[name], path);
}

const orNull = (v) => (v === undefined ? null : v);
const within = (scope, vars) => ({ ...scope, vars: { ...scope.vars, ...vars } });

function call(name, operand, scope) {
  const special = forms[name];
  if (special) return special(operand, scope);
  const operator = field(operators, name.slice(1));
  if (!operator) throw new Error(`the evaluator doesn't know ${name}`);
  return operator(...(Array.isArray(operand) ? operand : [operand]).map((x) => evaluate(x, scope)));
}

// forms are the operators that don't only use the values of their operands.
const forms = {
  $literal: (e) => e,
  $let({ vars, in: body }, scope) {
    return evaluate(body, within(scope, Object.fromEntries(Object.entries(vars).map(([name, e]) => [name, evaluate(e, scope)]))));
  },
  $cond([test, then, other], scope) {
    const chosen = isTrue(evaluate(test, scope)) ? then : other;
    if (scope.eager) evaluate(chosen === then ? other : then, scope);
    return evaluate(chosen, scope);
  },
  // A regular expression uses no collation.
  $regexMatch({ input, regex }, scope) {
    const text = evaluate(input, scope) ?? null;
    if (text !== null && typeof text !== 'string') throw new Raised(51104, `$regexMatch needs a string, and found: ${typeOf(text)}`);
    return text !== null && new RegExp(regex, 'u').test(text);
  },
  $filter({ input, as = 'this', cond }, scope) {
    return listed('$filter', 28651, evaluate(input, scope), (list) => list.filter((v) => isTrue(evaluate(cond, within(scope, { [as]: v })))));
  },
  $map({ input, as = 'this', in: body }, scope) {
    return listed('$map', 16883, evaluate(input, scope), (list) => list.map((v) => orNull(evaluate(body, within(scope, { [as]: v })))));
  },
};

function listed(name, code, list, then) {
  if (list === undefined || list === null) return null;
  if (!Array.isArray(list)) throw new Raised(code, `input to ${name} must be an array not ${typeOf(list)}`);
  return then(list);
}
