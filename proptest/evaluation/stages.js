// The stages of a pipeline update.
import { evaluate } from './expressions.js';
import { field, isObject } from './values.js';

export function run(doc, stages, scope) {
  return stages.reduce((before, stage) => {
    const [[name, fields]] = Object.entries(stage);
    if (name !== '$set' && name !== '$addFields') throw new Error(`the evaluator doesn't know the stage ${name}`);
    return set(before, tree(fields), { ...scope, root: before });
  }, doc);
}

// tree of dotted paths: {"a.b": e} is {a: {fields: {b: {e}}}}.
function tree(fields) {
  const root = { fields: {} };
  for (const [path, e] of Object.entries(fields)) {
    let node = root;
    for (const name of path.split('.')) node = (node.fields ??= {})[name] ??= {};
    node.e = e;
  }
  return root;
}

// set goes into each element of an array, and replaces any other value by a
// document.
function set(v, node, scope) {
  if (!node.fields) return evaluate(node.e, scope);
  if (Array.isArray(v)) return v.map((x) => set(x, node, scope));
  const doc = isObject(v) ? { ...v } : {};
  for (const [name, child] of Object.entries(node.fields)) {
    const value = set(field(doc, name), child, scope);
    if (value === undefined) delete doc[name];
    else doc[name] = value;
  }
  return doc;
}
