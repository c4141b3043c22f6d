// The operators of expressions that compute a value from values, by name.
import { Long } from 'bson';
import * as numbers from './numbers.js';
import { Raised } from './raised.js';
import { compare, equal, isNullish, isNumber, isObject, isTrue, rank, typeOf } from './values.js';

export const and = (...values) => values.every(isTrue);
export const or = (...values) => values.some(isTrue);
export const not = (v) => !isTrue(v);
export const eq = (a, b) => equal(a, b);
export const ne = (a, b) => !equal(a, b);
export const gt = (a, b) => compare(a, b) > 0;
export const gte = (a, b) => compare(a, b) >= 0;
export const lt = (a, b) => compare(a, b) < 0;
export const lte = (a, b) => compare(a, b) <= 0;
export const type = (v) => typeOf(v);
export const isArray = (v) => Array.isArray(v);
export const ifNull = (...values) => values.find((v) => !isNullish(v)) ?? values.at(-1);

function array(v, code, operator) {
  if (!Array.isArray(v)) throw new Raised(code, `${operator} needs an array, and found: ${typeOf(v)}`);
  return v;
}

function document(v, code, operator) {
  if (!isObject(v)) throw new Raised(code, `${operator} needs an object, and found: ${typeOf(v)}`);
  return v;
}

const isIn = (v, list) => array(list, 40081, '$in').some((x) => equal(v, x));
export { isIn as in }; // which is a word of JavaScript
export const setIsSubset = (a, b) =>
  array(a, 17046, '$setIsSubset').every((x) => array(b, 17042, '$setIsSubset').some((y) => equal(x, y)));
export const allElementsTrue = (list) => array(list, 17040, '$allElementsTrue').every(isTrue);

export function arrayElemAt(list, index) {
  if (isNullish(list)) return null;
  const i = Number(index.toString());
  return array(list, 28689, '$arrayElemAt').at(i);
}

export const concatArrays = (...lists) =>
  lists.some(isNullish) ? null : lists.flatMap((list) => array(list, 28664, '$concatArrays'));

export function slice(list, count) {
  if (isNullish(list)) return null;
  const n = Number(count.toString());
  return n < 0 ? array(list, 28724, '$slice').slice(n) : array(list, 28724, '$slice').slice(0, n);
}

export const mergeObjects = (...docs) =>
  Object.assign({}, ...docs.filter((doc) => !isNullish(doc)).map((doc) => document(doc, 40400, '$mergeObjects')));

export const objectToArray = (doc) =>
  isNullish(doc) ? null : Object.entries(document(doc, 40390, '$objectToArray')).map(([k, v]) => ({ k, v }));

export const arrayToObject = (list) =>
  isNullish(list) ? null : Object.fromEntries(array(list, 40386, '$arrayToObject').map(({ k, v }) => [k, v]));

// max ignores null.
export const max = (...values) =>
  values.filter((v) => !isNullish(v)).reduce((most, v) => (most === null || compare(v, most) > 0 ? v : most), null);

export function add(...values) {
  if (values.some(isNullish)) return null;
  const wrong = values.find((v) => !isNumber(v) && !(v instanceof Date));
  if (wrong !== undefined) throw new Raised(14, `$add only supports numeric or date types, not ${typeOf(wrong)}`);
  const date = values.find((v) => v instanceof Date);
  const sum = values.filter(isNumber).reduce(numbers.add);
  return date ? new Date(date.getTime() + Number(numbers.toLong(sum).toString())) : sum;
}

export function toLong(v) {
  if (isNullish(v)) return null;
  if (v instanceof Date) return Long.fromNumber(v.getTime());
  if (typeof v === 'boolean') return Long.fromNumber(v ? 1 : 0);
  if (rank[typeOf(v)] !== rank.long) throw new Raised(241, `Unsupported conversion from ${typeOf(v)} to long`);
  return numbers.toLong(v);
}
