// Classic updates, as far as the commands use them.
import * as numbers from './numbers.js';
import { matches, holds } from './filters.js';
import { isIndex, ofFilter } from './paths.js';
import { Raised } from './raised.js';
import { compare, copy, equal, field, isNumber, isObject, typeOf } from './values.js';

export function apply(before, update, arrayFilters = []) {
  const doc = copy(before);
  const chosen = chooser(arrayFilters);
  for (const [operator, fields] of Object.entries(update)) {
    if (!operators[operator]) throw new Error(`the evaluator doesn't know ${operator} in an update`);
    for (const [path, operand] of Object.entries(fields)) {
      for (const place of places(doc, path.split('.'), manners[operator] ?? {}, chosen)) operators[operator](place, operand);
    }
  }
  return doc;
}

// $unset and $pull make no documents on the way to a place, and only $unset
// accepts an impossible path.
const manners = { $unset: { creates: false, raises: false }, $pull: { creates: false } };

// A place is the end of a path: a name in a document, or an index of an array.
class Place {
  constructor(holder, name) { Object.assign(this, { holder, name }); }
  get value() { return Array.isArray(this.holder) ? this.holder[Number(this.name)] : field(this.holder, this.name); }
  set value(v) { this.holder[this.name] = v; }
  remove() {
    if (Array.isArray(this.holder)) this.holder[this.name] = null;
    else delete this.holder[this.name];
  }
}

function places(holder, [name, ...rest], manner, chosen) {
  const { creates = true, raises = true } = manner;
  const identifier = /^\$\[(\w*)\]$/.exec(name)?.[1];
  if (identifier !== undefined) {
    if (!Array.isArray(holder)) throw new Raised(2, 'The path must exist in the document in order to apply array updates');
    return chosen(holder, identifier).flatMap((i) => places(holder, [String(i), ...rest], manner, chosen));
  }
  if (Array.isArray(holder) && !isIndex(name)) {
    if (!raises) return [];
    throw new Raised(28, `Cannot create field '${name}' in an array`);
  }
  const place = new Place(holder, name);
  if (rest.length === 0) return [place];
  if (place.value === undefined) {
    if (!creates) return [];
    place.value = {};
  }
  if (!isObject(place.value) && !Array.isArray(place.value)) {
    if (!raises) return [];
    throw new Raised(28, `Cannot create field '${rest[0]}' in element {${name}: ${typeOf(place.value)}}`);
  }
  return places(place.value, rest, manner, chosen);
}

// chooser finds the indexes that an array filter names. MongoDB merges all
// operators of an update into one tree, and matches each element once, before it
// changes anything in it (UpdateArrayNode::apply).
function chooser(filters) {
  const known = new Map(); // by array and identifier
  return (array, identifier) => {
    const found = known.get(array) ?? {};
    known.set(array, found);
    found[identifier] ??= [...array.keys()].filter((i) => isChosen(array[i], identifier, filters));
    return found[identifier];
  };
}

function isChosen(element, identifier, filters) {
  const filter = filters.find((f) => Object.keys(f)[0].split('.')[0] === identifier);
  return !filter || Object.entries(filter).every(([path, x]) => holds(ofFilter(element, path.split('.').slice(1)), x));
}

const operators = {
  $set(place, v) { place.value = copy(v); },
  $unset(place) { if (place.value !== undefined) place.remove(); },
  $max(place, v) { if (place.value === undefined || compare(v, place.value) > 0) place.value = v; },
  $inc(place, v) {
    if (place.value !== undefined && !isNumber(place.value)) throw new Raised(14, `Cannot apply $inc to a ${typeOf(place.value)}`);
    place.value = place.value === undefined ? v : numbers.add(place.value, v);
  },
  $push(place, { $each, $slice }) {
    const list = place.value ?? [];
    if (place.value === null || !Array.isArray(list)) throw new Raised(2, `The field must be an array but is of type ${typeOf(place.value)}`);
    place.value = list.concat($each).slice($slice ? Number($slice.toString()) : 0);
  },
  $pull(place, v) {
    if (place.value === undefined) return;
    if (!Array.isArray(place.value)) throw new Raised(2, 'Cannot apply $pull to a non-array value');
    place.value = place.value.filter((x) => !(isObject(v) ? isObject(x) && matches(x, v) : equal(x, v)));
  },
};
