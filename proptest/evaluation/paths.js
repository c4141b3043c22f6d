// Dotted paths, in the two ways in which MongoDB follows them.
import { field, isObject } from './values.js';

// ofExpression is "$a.b.c" in an expression: it goes through arrays, and leaves
// out missing values.
export function ofExpression(v, names) {
  if (names.length === 0) return v;
  if (Array.isArray(v)) return v.filter(isObject).map((x) => ofExpression(x, names)).filter((x) => x !== undefined);
  return isObject(v) ? ofExpression(field(v, names[0]), names.slice(1)) : undefined;
}

// ofFilter lists all values that {"a.b.c": …} in a filter reads: through
// arrays, and by index.
export function ofFilter(v, names) {
  if (names.length === 0) return [v];
  const [name, ...rest] = names;
  if (isObject(v)) return ofFilter(field(v, name), rest);
  if (!Array.isArray(v)) return [undefined];
  const element = isIndex(name) && Number(name) < v.length ? ofFilter(v[Number(name)], rest) : [];
  return element.concat(v.filter(isObject).flatMap((x) => ofFilter(x, names)));
}

export const isIndex = (name) => /^(0|[1-9]\d*)$/.test(name);
