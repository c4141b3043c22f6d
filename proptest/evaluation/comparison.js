// The differences between two evaluations of one command.
import { EJSON } from 'bson';
import { isObject } from './values.js';

const text = (v) => (v === undefined ? 'missing' : EJSON.stringify({ v }, { relaxed: false }));

function sorted(v) {
  if (Array.isArray(v)) return v.map(sorted);
  if (!isObject(v)) return v;
  return Object.fromEntries(Object.keys(v).sort().map((name) => [name, sorted(v[name])]));
}

const same = (a, b) => text(a) === text(b);
const sameButForOrder = (a, b) => text(sorted(a)) === text(sorted(b));

// compare returns the first difference, in a word, or nothing. For errors it
// compares whether there is one, and the codes if asked to.
export function compare(expected, found, { codes = false, order = true } = {}) {
  const equal = order ? same : sameButForOrder;
  if (expected.error && !found.error) return 'raises nothing';
  if (!expected.error && found.error) return `raises ${found.error.code ?? ''} ${found.error.message.slice(0, 80)}`;
  if (codes && expected.error && expected.error.code !== found.error.code) return `raises ${found.error.code} and not ${expected.error.code}`;
  if (!equal(expected.doc, found.doc)) return sameButForOrder(expected.doc, found.doc) ? 'document: order of fields' : 'document';
  if (expected.error) return undefined;
  if (!equal(expected.image, found.image)) return sameButForOrder(expected.image, found.image) ? 'image: order of fields' : 'image';
  if (found.matched !== undefined && expected.matched !== found.matched) return 'number of documents matched';
  return undefined;
}

// first is the first difference of two values: a path, and the values there.
export function first(a, b, path = []) {
  const inner = isObject(a) && isObject(b) || Array.isArray(a) && Array.isArray(b);
  const name = inner && [...Object.keys(a), ...Object.keys(b)].find((key) => !same(a[key], b[key]));
  if (name) return first(a[name], b[name], [...path, name]);
  return `at ${path.join('.') || 'the top'}: ${text(a)}, and not ${text(b)}`;
}
