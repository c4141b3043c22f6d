// mingo is an independent evaluator. It has JavaScript's values only: ids
// become strings, numbers doubles.
import { aggregate, Query, updateOne } from 'mingo';
import { isObject, typeOf } from './values.js';

const known = new Set(['missing', 'null', 'bool', 'string', 'date', 'array', 'object', 'int', 'long', 'double', 'binData']);

// canTake reports whether a document can be expressed in mingo's values.
export function canTake(v) {
  if (Array.isArray(v)) return v.every(canTake);
  if (isObject(v)) return Object.values(v).every(canTake);
  const type = typeOf(v);
  return known.has(type) && !(type === 'double' && !Number.isSafeInteger(Math.trunc(v.value))) && !(type === 'long' && !Number.isSafeInteger(v.toNumber()));
}

// translate converts a value to mingo's.
export function translate(v) {
  if (Array.isArray(v)) return v.map(translate);
  if (isObject(v)) return Object.fromEntries(Object.entries(v).filter(([, x]) => x !== undefined).map(([name, x]) => [name, translate(x)]));
  if (typeOf(v) === 'binData') return `id ${Buffer.from(v.value()).toString('hex')}`;
  return v?._bsontype ? Number(v.toString()) : v;
}

// evaluate answers as commands.evaluate does, in mingo's values. mingo leaves
// removed fields in the document as undefined.
export function evaluate(command, document) {
  const { doc, image, ...rest } = outcome(command, document);
  return { doc: translate(doc), image: translate(image), ...rest };
}

function outcome(command, document) {
  const c = translate(command);
  let doc = translate(document);
  try {
    if (c.find) {
      const matched = new Query(c.filter).test(doc);
      return { doc, matched: Number(matched), image: matched ? project(doc, c.projection) : undefined };
    }
    let matched = 0;
    let image;
    for (const statement of c.updates ?? c.deletes ?? [{ q: c.query, u: c.update, arrayFilters: c.arrayFilters }]) {
      if (!doc || !new Query(statement.q).test(doc)) continue;
      matched++;
      const before = doc;
      doc = c.deletes || c.remove ? undefined : updated(before, statement);
      if (c.findAndModify) image = project(c.new ? doc : before, c.fields);
    }
    return { doc, matched, image };
  } catch (error) {
    return { error, doc };
  }
}

const project = (doc, fields) => (fields ? aggregate([doc], [{ $project: fields }])[0] : doc);

function updated(doc, { q, u, arrayFilters = [] }) {
  const docs = [structuredClone(doc)];
  if (Array.isArray(u)) return aggregate(docs, u)[0];
  updateOne(docs, q, u, { arrayFilters, cloneMode: 'deep' });
  return docs[0];
}
