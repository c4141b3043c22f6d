// Known differences, which are no disagreement about the protocol. Each belongs
// to one evaluation, with its condition and its reason.
import * as numbers from './numbers.js';
import { isNullish, isNumber, isObject, typeOf } from './values.js';

const lockOf = (doc) => (isObject(doc.lock) ? doc.lock : {});
const elements = (doc) => (isObject(lockOf(doc).tags) ? Object.values(doc.lock.tags).filter(Array.isArray).flat() : []);
const entries = (doc) => elements(doc).filter(isObject);

const differences = [
  {
    of: 'server',
    why: 'DocumentDB: a field that is computed in an image has the place of the document\'s field of that name, and not the last',
    when: ({ doc, difference }) => difference === 'image: order of fields' && ('__doclockNow' in doc || '__doclockDoc' in doc),
  },
  {
    of: 'server',
    why: 'DocumentDB: $max keeps a NaN, which is below all numbers',
    when: ({ kind, doc }) => kind === 'write, classic' && entries(doc).some((e) => isNumber(e.n) && Number.isNaN(numbers.exact(e.n))),
  },
  {
    of: 'mingo',
    why: 'two operators of one update may not write to two fields of the element that an array filter names',
    when: ({ kind, found }) => kind === 'write and release to a remainder, classic' && found.error?.message.includes('would create a conflict'),
  },
  {
    of: 'mingo',
    why: '$toLong takes what JavaScript takes for a safe integer',
    when: ({ found }) => found.error?.message.includes('to long'),
  },
  {
    of: 'mingo',
    why: 'a guarded write or release doesn\'t raise where it finds a value of a wrong type',
    when: ({ kind, expected, found }) => /^(write|release)/.test(kind) && expected.error && !found.error,
  },
  {
    of: 'mingo',
    why: 'a path into an array is followed in another way, and nested arrays are flattened',
    when: ({ doc }) => Array.isArray(doc.lock) || elements(doc).some(Array.isArray),
  },
  {
    of: 'mingo',
    why: 'a field that is missing or null is not below all numbers',
    when: ({ doc }) => isNullish(lockOf(doc).v) || isNullish(lockOf(doc).fence) || entries(doc).some((e) => isNullish(e.seq)),
  },
  {
    of: 'mingo',
    why: 'an empty text is false, as in JavaScript',
    when: ({ doc }) => entries(doc).some((e) => e.fence === ''),
  },
  {
    of: 'mingo',
    why: 'values of different types have no order',
    when: ({ doc }) => entries(doc).some((e) => typeOf(e.expires) !== 'date' || !isNumber(e.seq) || (e.n !== undefined && !isNumber(e.n))) || !isNumber(lockOf(doc).fence) || !isNumber(lockOf(doc).v),
  },
];

// known is the reason why an evaluation may differ in this case, if there is
// one.
export const known = (evaluation, example) => differences.find((d) => d.of === evaluation && d.when(example))?.why;
