// BSON values: their types, their order, and their truth. A missing field is
// undefined.
import { Long } from 'bson';
import * as numbers from './numbers.js';

const ofClass = {
  Long: 'long', Int32: 'int', Double: 'double', Decimal128: 'decimal', Binary: 'binData', Timestamp: 'timestamp',
  MinKey: 'minKey', MaxKey: 'maxKey', BSONRegExp: 'regex', ObjectId: 'objectId',
};

export function typeOf(v) {
  if (v === undefined) return 'missing';
  if (v === null) return 'null';
  if (Array.isArray(v)) return 'array';
  if (v instanceof Date) return 'date';
  if (typeof v !== 'object') return typeof v === 'boolean' ? 'bool' : typeof v;
  return v._bsontype ? ofClass[v._bsontype] : 'object';
}

export const isObject = (v) => typeOf(v) === 'object';
export const isNullish = (v) => v === undefined || v === null;
export const isNumber = (v) => rank[typeOf(v)] === rank.int;

// rank is the order between types, after canonicalizeBSONType.
export const rank = {
  minKey: -1, missing: 0, null: 5, int: 10, long: 10, double: 10, decimal: 10, string: 15, object: 20, array: 25,
  binData: 30, objectId: 35, bool: 40, date: 45, timestamp: 47, regex: 50, maxKey: 127,
};

const sign = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const bytes = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b));

let caseMatters = true;
const folded = (text) => (caseMatters ? text : text.toLowerCase());

// ignoringCase evaluates with a collation that ignores case.
export function ignoringCase(evaluation) {
  caseMatters = false;
  try {
    return evaluation();
  } finally {
    caseMatters = true;
  }
}

// compare orders any two values, as expressions, $max and $elemMatch do.
export function compare(a, b) {
  const [type, other] = [typeOf(a), typeOf(b)];
  if (rank[type] !== rank[other]) return sign(rank[type], rank[other]);
  switch (type) {
    case 'int': case 'long': case 'double': case 'decimal': return numbers.compare(a, b);
    case 'string': return bytes(folded(a), folded(b));
    case 'bool': return sign(a, b);
    case 'date': return sign(a.getTime(), b.getTime());
    case 'binData': return sign(a.position, b.position) || sign(a.sub_type, b.sub_type) || bytes(a.value(), b.value());
    case 'objectId': return bytes(a.id, b.id);
    case 'timestamp': return Long.fromBits(a.low, a.high, true).compare(Long.fromBits(b.low, b.high, true));
    case 'regex': return bytes(a.pattern, b.pattern) || bytes(a.options, b.options);
    case 'array': return compareAll(a, b, compare);
    case 'object': return compareAll(Object.entries(a), Object.entries(b), compareFields);
    default: return 0;
  }
}

function compareAll(a, b, one) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) {
    const order = one(a[i], b[i]);
    if (order) return order;
  }
  return sign(a.length, b.length);
}

function compareFields([name, a], [other, b]) {
  return sign(rank[typeOf(a)], rank[typeOf(b)]) || bytes(name, other) || compare(a, b);
}

export const equal = (a, b) => compare(a, b) === 0;

export function isTrue(v) {
  if (isNullish(v) || v === false) return false;
  return !isNumber(v) || !numbers.isZero(v);
}

// field reads a document's own field: names like "constructor" must not be
// JavaScript's.
export const field = (doc, name) => (Object.hasOwn(doc, name) ? doc[name] : undefined);

// copy copies documents and arrays; all other values are never changed.
export function copy(v) {
  if (Array.isArray(v)) return v.map(copy);
  if (!isObject(v)) return v;
  return Object.fromEntries(Object.entries(v).map(([name, value]) => [name, copy(value)]));
}
