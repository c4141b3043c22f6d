// Projections that include fields, and compute some.
import { evaluate } from './expressions.js';
import { isNumber, isObject } from './values.js';

export function project(doc, fields, scope) {
  if (!fields || !doc) return doc;
  const included = {};
  const computed = [];
  for (const [path, value] of Object.entries(fields)) {
    if (isNumber(value)) include(included, path.split('.'));
    else computed.push([path, value]);
  }
  const image = part(doc, included);
  for (const [name, e] of computed) {
    const v = evaluate(e, { ...scope, root: doc });
    if (v === undefined) delete image[name];
    else image[name] = v;
  }
  return image;
}

function include(node, [name, ...rest]) {
  if (rest.length === 0) node[name] = true;
  else include((node[name] ??= {}), rest);
}

function part(v, node) {
  if (Array.isArray(v)) return v.filter((x) => isObject(x) || Array.isArray(x)).map((x) => part(x, node));
  const kept = Object.entries(v).filter(([name, x]) => node[name] === true || (node[name] && (isObject(x) || Array.isArray(x))));
  return Object.fromEntries(kept.map(([name, x]) => [name, node[name] === true ? x : part(x, node[name])]));
}
