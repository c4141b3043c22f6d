// The commands that doclock sends, as its tests have written them to files, and
// their evaluation.
import fs from 'node:fs';
import path from 'node:path';
import { EJSON } from 'bson';
import { matches } from './filters.js';
import { project } from './projections.js';
import { Raised } from './raised.js';
import * as stages from './stages.js';
import * as updates from './updates.js';
import { isObject } from './values.js';

// read lists all commands: {table, tag, tags (the known ones), kind, command}.
export function read(directory) {
  const files = fs.readdirSync(directory).map((name) => path.join(directory, name)).sort();
  const named = files.map((file) => [path.basename(file, '.json').split('.'), EJSON.parse(fs.readFileSync(file, 'utf8'), { relaxed: false })]);
  return named.flatMap(([[table, tag], kinds]) => {
    const tags = named.filter(([[other]]) => other === table).map(([[, t]]) => t);
    return Object.entries(kinds).map(([kind, command]) => ({ table, tag, tags, kind, command }));
  });
}

// at is a command for the document with this _id, at a known time.
export function at(command, id, now) {
  const bound = replaced(command, now);
  for (const filter of filters(bound)) filter._id = isObject(filter._id) ? { $in: [id] } : id;
  return bound;
}

// replaced replaces $$NOW by the time, and $currentDate, which would use the
// server's clock, by a $set of it.
function replaced(v, now) {
  if (v === '$$NOW') return now;
  if (Array.isArray(v)) return v.map((x) => replaced(x, now));
  if (!isObject(v)) return v;
  if (v.$currentDate) {
    const { $currentDate, ...rest } = v;
    return { ...replaced(rest, now), $set: { ...replaced(rest.$set ?? {}, now), ...Object.fromEntries(Object.keys($currentDate).map((path) => [path, now])) } };
  }
  return Object.fromEntries(Object.entries(v).map(([name, x]) => [name, replaced(x, now)]));
}

const filters = (c) => (c.updates ?? c.deletes)?.map((s) => s.q) ?? [c.query ?? c.filter];

// evaluate returns the command's result: {doc, matched, image} without doc if
// the document was deleted, or {error}.
export function evaluate(command, before, scope) {
  try {
    return outcome(command, before, { ...scope, vars: {} });
  } catch (error) {
    if (!(error instanceof Raised)) throw error;
    return { doc: before, error };
  }
}

function outcome(c, before, scope) {
  if (c.find) {
    const matched = matches(before, c.filter);
    return { doc: before, matched: Number(matched), image: matched ? project(before, c.projection, scope) : undefined };
  }
  if (c.findAndModify) {
    if (!matches(before, c.query)) return { doc: before, matched: 0 };
    const doc = c.remove ? undefined : updated(before, c.update, c.arrayFilters, scope);
    return { doc, matched: 1, image: project(c.new ? doc : before, c.fields, scope) };
  }
  if (!c.updates && !c.deletes) throw new Error(`the evaluator doesn't know the command ${Object.keys(c)[0]}`);
  let doc = before;
  let matched = 0;
  for (const statement of c.updates ?? c.deletes) {
    if (!doc || !matches(doc, statement.q)) continue;
    matched++;
    doc = c.deletes ? undefined : updated(doc, statement.u, statement.arrayFilters, scope);
  }
  return { doc, matched };
}

const updated = (doc, update, arrayFilters, scope) =>
  Array.isArray(update) ? stages.run(doc, update, scope) : updates.apply(doc, update, arrayFilters);
