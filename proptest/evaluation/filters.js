// Filters, as far as the commands use them.
import * as numbers from './numbers.js';
import { ofFilter } from './paths.js';
import { compare, equal, isNullish, isNumber, isObject, rank, typeOf } from './values.js';

export function matches(doc, filter) {
  return Object.entries(filter).every(([path, condition]) => {
    if (path === '$and') return condition.every((f) => matches(doc, f));
    return holds(ofFilter(doc, path.split('.')), condition);
  });
}

// holds reports whether one of the values at a path, or of the elements of
// those that are arrays, meets the condition.
export function holds(values, condition) {
  const some = (test) => values.some((v) => test(v) || (Array.isArray(v) && v.some(test)));
  if (!isObject(condition) || !Object.keys(condition)[0]?.startsWith('$')) return some((v) => equals(v, condition));
  return Object.entries(condition).every(([operator, operand]) => {
    switch (operator) {
      case '$eq': return some((v) => equals(v, operand));
      case '$in': return operand.some((x) => holds(values, x));
      case '$not': return !holds(values, operand);
      case '$gte': return some((v) => atLeast(v, operand));
      case '$exists': return values.some((v) => v !== undefined) === operand;
      case '$elemMatch': return values.some((v) => Array.isArray(v) && v.some((x) => elementMatches(x, operand)));
      default: throw new Error(`the evaluator doesn't know ${operator} in a filter`);
    }
  });
}

const equals = (v, x) => (x === null ? isNullish(v) : v !== undefined && equal(v, x));

// An element that is an array is matched like a document whose fields are its
// indexes.
const elementMatches = (x, filter) => (isObject(x) || Array.isArray(x)) && matches(Array.isArray(x) ? { ...x } : x, filter);

// atLeast compares within a type only, and NaN only with NaN.
function atLeast(v, bound) {
  if (v === undefined || rank[typeOf(v)] !== rank[typeOf(bound)]) return false;
  if (isNumber(v) && Number.isNaN(numbers.exact(v)) !== Number.isNaN(numbers.exact(bound))) return false;
  return compare(v, bound) >= 0;
}
